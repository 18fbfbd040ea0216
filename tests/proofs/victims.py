"""Real processes to be killed: they write, import or export, and report over a pipe what is done.

`python -m tests.proofs.victims` loads everything once and then makes a process for each line of JSON on
its standard input (what, where to report, arguments): a kill costs milliseconds and not an import.
A victim's first line is its process id; when it has ended, its exit status is on standard output. Nobody
sleeps: who kills reads so many lines, and then spins a little, so that kills fall anywhere in the next.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from trainstate_exporters.jsonl import JsonLines

from tests.proofs.lives import chunk
from tests.proofs.volume import Unsynced
from trainstate.errors import Fenced
from trainstate.export import Counters, Limits, Pump
from trainstate.integrations.ray_export import Importer, Rejects, read
from trainstate.journal import Tail, Writer
from trainstate.store import History, Store
from trainstate.v1 import event_pb2 as e

ROOT = Path(__file__).parents[2]
RUNS = ("a", "b", "c")
SEGMENT_BYTES = 1 << 13

Say = Callable[[object], None]


def event_of(run_id: str, run_seq: int) -> e.Event:
    """An event that says of which run it is and at which place."""
    return e.Event(time_unix_nano=run_seq, sync_skipped=e.SyncSkipped(source=f"{run_id} {run_seq}"))


# --- what victims do ------------------------------------------------------------------------------


def write(say: Say, path: str) -> None:
    """Open the store and append to three runs from three threads, for ever."""
    store = Store.open(path, segment_bytes_max=SEGMENT_BYTES)
    threads = [threading.Thread(target=_produce, args=(store, run_id, say)) for run_id in RUNS]
    for thread in threads:
        thread.start()


def _produce(store: Store, run_id: str, say: Say) -> None:
    opened = store.open_run(run_id, "victim", 1)
    run_seq = opened.run_seq
    events = [] if opened.state.status else [e.Event(run_created=e.RunCreated(name=run_id))]
    while True:
        store.append(run_id, opened.incarnation, run_seq, events)
        run_seq += len(events)
        say(f"{run_id} {run_seq}")
        events = [event_of(run_id, run_seq + 1 + n) for n in range(1 + run_seq % 4)]


def write_until_fenced(say: Say, path: str) -> None:
    """Append entries that say their seq, until a newer writer takes over; say what came of it."""
    writer = Writer.open(path, segment_bytes_max=SEGMENT_BYTES, disk=Unsynced())
    # Whoever is never fenced ends one day all the same, and is found out.
    for _ in range(10_000):
        try:
            seq = writer.append(chunk(writer.next_seq))
        except Fenced as error:
            say(f"fenced {error.message}")
            break
        say(f"acknowledged {seq}")
    try:
        writer.append(chunk(99_999_999))
    except Fenced:
        say("fenced again")
    writer.close()


def import_log(say: Say, journal: str, log: str) -> None:
    """Import a log; say how many lines were taken."""
    with (
        Store.open(journal, segment_bytes_max=SEGMENT_BYTES) as store,
        Importer(store, Rejects(Path(journal).with_suffix(".rejects"))) as importer,
    ):
        for number, line in enumerate(read(Path(log)), start=1):
            importer.take(line)
            if number % 5 == 0:
                importer.flush()
            say(number)


def export(say: Say, journal: str, sink: str) -> None:
    """Export a journal in small batches; say how many records were written."""

    def progress(counters: Counters) -> None:
        say(counters.written)

    limits = Limits(records=3)
    with Pump.open(
        History(journal), JsonLines.open(sink), limits=limits, progress=progress
    ) as pump:
        pump.run_once()
    say("done")


def follow(say: Say, path: str) -> None:
    """Tail a journal from its beginning, beside its writer and retention; say each entry."""
    with Tail(path) as tail:
        while True:
            for frame in tail.read(None):
                for at in range(0, len(frame.body), 8):
                    say(int(frame.body[at : at + 8]))


VICTIMS = {one.__name__: one for one in (write, write_until_fenced, import_log, export, follow)}


# --- from outside ----------------------------------------------------------------------------------


class Victim:
    """A process that reports, until it is killed or done."""

    def __init__(self, nursery: Nursery, pipe: Path) -> None:
        self._nursery = nursery
        self._pipe = pipe.open()
        self.pid = int(self._pipe.readline())
        self.killed = False

    def line(self) -> str:
        """What it says next; "" when it has ended."""
        return self._pipe.readline().rstrip("\n")

    def lines(self, count: int) -> list[str]:
        """So many lines, or fewer if it ends before."""
        return [line for _ in range(count) if (line := self.line())]

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def stop(self) -> None:
        """Suspend it; returns when the kernel says that it is."""
        self.send(signal.SIGSTOP)
        stat = Path(f"/proc/{self.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            pass

    def kill(self) -> list[str]:
        """End it, wherever it is, and return what it had still said; `killed` tells whether it lived."""
        with suppress(ProcessLookupError):
            self.send(signal.SIGKILL)
        left = [line.rstrip("\n") for line in self._pipe if line.endswith("\n")]
        status = self.end()
        self.killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert self.killed or status == 0, status
        return left

    def end(self) -> int:
        """Wait until it has ended; its status, as waitpid tells it."""
        self._pipe.close()
        return self._nursery.status()


class Nursery:
    """Makes victims, one at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 0
        self._alive: Victim | None = None
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'exporters'}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.proofs.victims"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, what: Callable[..., None], *args: object) -> Victim:
        """A process that does `what`."""
        assert self._process.stdin is not None
        self._made += 1
        pipe = self._folder / f"victim-{self._made}"
        os.mkfifo(pipe)
        order = {"what": what.__name__, "pipe": str(pipe), "args": args}
        self._process.stdin.write(json.dumps(order, default=str) + "\n")
        self._process.stdin.flush()
        self._alive = Victim(self, pipe)
        return self._alive

    def status(self) -> int:
        """How the victim ended, once it has."""
        assert self._process.stdout is not None
        self._alive = None
        return int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A test that failed may have left its victim alive, and nobody waits for that one for ever.
        if self._alive is not None:
            self._alive.kill()
        self._process.communicate()


def _serve() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if not pid:
            _be_victim(order)
        print(os.waitpid(pid, 0)[1], flush=True)


def _be_victim(order: dict[str, Any]) -> None:
    pipe = os.open(order["pipe"], os.O_WRONLY)

    def say(what: object) -> None:
        # One write of less than PIPE_BUF: lines of threads never mix.
        os.write(pipe, f"{what}\n".encode())

    def fail(args: threading.ExceptHookArgs) -> None:
        threading.__excepthook__(args)
        os._exit(1)

    threading.excepthook = fail
    say(os.getpid())
    VICTIMS[order["what"]](say, *order["args"])
    # Threads of a victim go on for ever; one that has none is done here.
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()
    os._exit(0)


if __name__ == "__main__":
    _serve()
