"""A store that is exported while it is written, recorded down to the sink, and crashed at each change.

The store's archive and all that trainstate.export writes do not go through the journal's `Disk`; while a
life is recorded, their calls of the operating system are led through the recorder.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from trainstate_exporters.jsonl import JsonLines

from tests.proofs.volume import Recorder, State, Unsynced, Volume, write_out
from trainstate.core.views.event_json import event_json
from trainstate.export import Limits, Pump
from trainstate.journal import Writer, is_journal, replace_file, save_snapshot
from trainstate.store import History, Store
from trainstate.v1 import event_pb2 as e

SEGMENT_BYTES = 900
ENDED_KEPT = 2  # so that few runs reach the archive
RUNS = 9
JOURNAL, SINK = "journal", "out.jsonl"


class _Os:
    """The module `os`, with what changes files led through a recorder."""

    def __init__(self, disk: Recorder) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        return self._disk.open(Path(path), flags)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return self._disk.pwrite(fd, bytes(data), offset)

    def fdatasync(self, fd: int) -> None:
        self._disk.fdatasync(fd)

    def ftruncate(self, fd: int, size: int) -> None:
        self._disk.truncate(fd, size)


class _File:
    """What `Path.open` gives the archive."""

    def __init__(self, disk: Recorder, path: Path, mode: str) -> None:
        flags = os.O_CREAT | os.O_TRUNC if mode.startswith("w") else 0
        self._disk = disk
        self._fd = disk.open(path, os.O_RDWR | flags)
        self._at = 0

    def write(self, data: bytes) -> int:
        written = self._disk.pwrite(self._fd, data, self._at)
        self._at += written
        return written

    def truncate(self, size: int) -> None:
        self._disk.truncate(self._fd, size)

    def seek(self, at: int) -> None:
        self._at = at

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            self._disk.close(self._fd)
        self._fd = -1


@contextmanager
def recorded(disk: Recorder) -> Iterator[None]:
    """Lead the store's and the pump's changes through `disk`."""
    seam = _Os(disk)
    really_open = Path.open

    def opened(path: Path, mode: str = "r", *rest: Any, **named: Any) -> Any:
        if path.name == "ended" and mode in ("w+b", "r+b"):
            return _File(disk, path, mode)
        return really_open(path, mode, *rest, **named)

    with (
        mock.patch("trainstate.export.files.os", seam),
        mock.patch("trainstate.export.files.OS", disk),
        mock.patch("trainstate.export.cursor.os", seam),
        mock.patch("trainstate.export.cursor.replace_file", partial(replace_file, disk=disk)),
        mock.patch("trainstate.store.archive.os", seam),
        mock.patch.object(Path, "open", opened),
        mock.patch("trainstate.store.writer.save_snapshot", partial(save_snapshot, disk=disk)),
        few_kept(),
    ):
        yield


@contextmanager
def few_kept() -> Iterator[None]:
    """Let the fold archive early."""
    with mock.patch("trainstate.store.fold.ENDED_KEPT", ENDED_KEPT):
        yield


class Exported(NamedTuple):
    """A life of a store and its export: the changes, and how many events were acknowledged by when."""

    root: Path
    recorder: Recorder
    acks: list[tuple[int, int]]
    events: list[bytes]

    def acked(self, done: int) -> int:
        return max((seq for at, seq in self.acks if at <= done), default=0)


def payloads(number: int) -> list[e.Event]:
    """The events of a run that ends; every third one goes on, so that snapshots hold something."""
    made = [
        e.Event(run_created=e.RunCreated(name=f"run {number}")),
        e.Event(run_scheduling=e.RunScheduling(num_workers=number)),
    ]
    if number % 3:
        made.append(e.Event(reason="boom", run_errored=e.RunErrored()))
    return made


def export(root: Path) -> Counter[str]:
    """Let a pump export the journal up to its end, in small batches."""
    sink = JsonLines.open(str(root / SINK))
    with Pump.open(History(root / JOURNAL), sink, limits=Limits(records=4)) as pump:
        return Counter(written=pump.run_once().written)


def record(root: Path, reopen: Callable[[int], bool] = lambda number: number == 5) -> Exported:
    """Runs that come and end, a pump after every other, segments and snapshots, one clean reopening."""
    root.mkdir(parents=True)
    disk = Recorder(root)
    acks: list[tuple[int, int]] = []
    with recorded(disk):
        store = open_store(root, disk)
        for number in range(RUNS):
            opened = store.open_run(f"r{number}", "test", 1)
            acks.append((len(disk.changes), store.writer.durable_seq))
            store.append(f"r{number}", opened.incarnation, opened.run_seq, payloads(number))
            acks.append((len(disk.changes), store.writer.durable_seq))
            if number % 2:
                export(root)
            if reopen(number):
                store.close()
                store = open_store(root, disk)
        events = [one.event.SerializeToString() for one in store.history.events()]
        store.close()
        export(root)
    return Exported(root, disk, acks, events)


def open_store(root: Path, disk: Unsynced | Recorder) -> Store:
    writer = Writer.open(root / JOURNAL, segment_bytes_max=SEGMENT_BYTES, disk=disk)
    return Store(writer, SEGMENT_BYTES)


def crashes(life: Exported, cuts: int, draw: random.Random) -> Iterator[tuple[int, State]]:
    """Every crash of the life: killed, and power cuts, up to `cuts` at each change."""
    volume = Volume(life.root)
    seen = set()
    for done, change in enumerate(life.recorder.changes, start=1):
        volume.apply(change)
        for state in (volume.killed(), *volume.power_cuts(cuts, draw)):
            key = hash((life.acked(done), frozenset(state.items())))
            if key not in seen:
                seen.add(key)
                yield done, state


def check(life: Exported, done: int, state: State, counts: Counter[str]) -> None:
    """Read, write on, and export: every event once in journal and sink, and the fold is the replay's.

    It is put back where the life was led, because a cursor names its target by its path.
    """
    root = life.root
    shutil.rmtree(root)
    write_out(state, root)
    path = root / JOURNAL
    found = [one.event.SerializeToString() for one in events_of(path)]
    assert life.acked(done) <= len(found)
    assert life.events[: len(found)] == found
    counts["crashes"] += 1
    counts["in flight"] += any(
        b'"in_flight": [' in (data or b"") for name, data in state.items() if ".cursor" in name
    )
    with few_kept():
        store = open_store(root, Unsynced())
        # What the store took up from its snapshot and archive is what a replay of everything makes.
        counts["restored"] += store.history.restored()[0].seq > 0
        assert History(path).fold_until(lambda _: True).summaries() == store.summaries()
        store.open_run("after", "test", 1)
        store.close()
        export(root)
        sent = [json.loads(line) for line in (root / SINK).read_bytes().splitlines()]
        assert [event_json(one) for one in events_of(path)] == sent


def events_of(path: Path) -> list[Any]:
    return list(History(path).events()) if is_journal(path) else []
