"""Parsing, folding and replaying, against parsing Ray's own log of the same history."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from making import beginning, fill, worker
from measuring import Row, absolute, alternate, at_least, timed

from trainstate.core import check, evolve, initial
from trainstate.integrations.ray_export import Importer, Rejects, read
from trainstate.journal import Reader
from trainstate.store import History, Store
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

RAY_LOG = Path("tests/data/event_EXPORT_TRAIN_STATE.ray-2.60.0.log")
_ROUNDS = 7
_MEMORY = """
import sys
from trainstate.store import History
fold = History(sys.argv[1]).fold()
assert len(fold.summaries()) == int(sys.argv[2]), len(fold.summaries())
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def fold_rows(folder: Path, events: int) -> list[Row]:
    """Parse rate, fold rate, replay against Ray's log, one worker among 4,096, memory."""
    with Store.open(folder / "runs") as store:
        fill(store, range(200), 500)
    return [
        _parse(folder / "runs"),
        _fold(folder / "runs"),
        _replay(folder),
        *_one_of_4096(),
        _memory(folder, min(events, 1_000_000)),
    ]


def _parse(journal: Path) -> Row:
    reader = Reader(journal)
    entries = reader.end.next_seq - 1

    def work() -> None:
        for frame in reader.frames():
            e.Batch.FromString(frame.body)

    (seconds,) = alternate(_ROUNDS, lambda: timed(work))
    return absolute(
        "verified parse, frames of ≥ 100 events", entries / seconds, "/s", 3e6, most=False
    )


def _fold(journal: Path) -> Row:
    events = [one.event for one in History(journal).events()]
    lines = RAY_LOG.read_bytes().splitlines() * 20

    def fold() -> None:
        runs = {event.run_id: initial(event.run_id) for event in events}
        for event in events:
            evolve(runs[event.run_id], event)

    ours, theirs = alternate(
        _ROUNDS, lambda: timed(fold), lambda: timed(lambda: [json.loads(line) for line in lines])
    )
    return at_least(
        "fold into run, attempt, worker views",
        len(events) / ours,
        len(lines) / theirs,
        "json.loads of Ray's lines",
        3,
        "/s",
    )


def _replay(folder: Path) -> Row:
    """The same history: real runs of Ray, many times over, as Ray's log and as our journal."""
    copies = folder / "copies.log"
    copies.write_bytes(b"".join(_renamed(number) for number in range(300)))
    with Store.open(folder / "copies") as store, Importer(store, Rejects(folder / "r")) as importer:
        for line in read(copies):
            importer.take(line)
    lines = copies.read_bytes().splitlines()
    journal = History(folder / "copies")
    ours, theirs = alternate(
        _ROUNDS,
        lambda: timed(journal.fold),
        lambda: timed(lambda: [json.loads(line) for line in lines]),
    )
    return at_least(
        f"replay of a history of {len(lines)} Ray lines",
        1 / ours,
        1 / theirs,
        "json.loads of Ray's own log of it",
        5,
        "/s",
    )


def _renamed(number: int) -> bytes:
    """The real log with other run ids."""
    data = RAY_LOG.read_bytes()
    ids = {json.loads(line)["event_data"].get("run_id") for line in data.splitlines()} - {None}
    for old in ids:
        data = data.replace(old.encode(), f"{number:08x}{old[8:]}".encode())
    return data


def _one_of_4096() -> list[Row]:
    run = initial("0" * 32)
    for number, event in enumerate(beginning("1" * 32, 10**9, workers=4096)):
        _stamp(event, number + 1)
        evolve(run, event)
    failing = e.Event(
        attempt_id="1" * 32,
        reason="actor died: the worker process exited with code 1",
        worker_failing=e.WorkerFailing(rank=77, cause=s.CAUSE_WORKER_LOST),
    )
    back = e.Event(attempt_id="1" * 32, worker_scheduled=e.WorkerScheduled(rank=77, generation=1))
    _stamp(failing, run.run_seq + 1)
    started = e.Event(attempt_id="1" * 32, worker_started=worker(77))
    _stamp(started, run.run_seq + 1)
    seconds = []
    for generation in range(1, 201):
        back.worker_scheduled.generation = generation
        for event in (failing, back, started):
            begun = time.perf_counter()
            check(run, event)
            evolve(run, event)
            seconds.append(time.perf_counter() - begun)
    median = sorted(seconds)[len(seconds) // 2]
    return [
        absolute("worker status change, body", failing.ByteSize(), "bytes", 200, most=True),
        absolute("  the same, check and evolve", median * 1e6, "µs", 20, most=True),
        absolute("WorkerStarted, body", started.ByteSize(), "bytes", 450, most=True),
    ]


def _stamp(event: e.Event, run_seq: int) -> None:
    event.run_id = "0" * 32
    event.run_seq = run_seq
    event.incarnation = 1
    event.time_unix_nano = 10**9


def _memory(folder: Path, events: int) -> Row:
    runs = 1000
    with Store.open(folder / "many") as store:
        fill(store, range(runs), max(60, events // runs))
    taken = subprocess.run(
        [sys.executable, "-c", _MEMORY, str(folder / "many"), str(runs)],
        check=True,
        capture_output=True,
        text=True,
    )
    return absolute(
        f"peak memory, fold of {events:,} events of {runs:,} finished runs",
        int(taken.stdout) / 1024,
        "MiB",
        150,
        most=True,
    )
