"""A sink in memory, and journals for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainstate.core.model import Run
from trainstate.errors import SinkRejected
from trainstate.export import Guarantee
from trainstate.store import History, Recorded, Store
from trainstate.testing import event
from trainstate.v1 import event_pb2 as e


@dataclass
class ListSink:
    """Keeps records in a list, and what was asked of it; the mark is the length of the list."""

    held: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    refused: frozenset[str] = frozenset()
    before_write: Callable[[], None] = lambda: None
    name: str = "list"
    target: str = "memory"
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE

    def encode(self, recorded: Recorded, run: Run) -> str | None:
        """Reports only, as `<run>:<index> <status of the run>`."""
        if not recorded.event.HasField("report_received"):
            return None
        return f"{run.run_id}:{recorded.event.report_received.index} {run.status.name}"

    def resume(self, mark: bytes | None) -> bytes:
        self.asked.append("resume")
        del self.held[int(mark or b"0") :]
        return str(len(self.held)).encode()

    def write(self, records: Sequence[str]) -> bytes:
        self.asked.append(f"write {len(records)}")
        self.before_write()
        for record in records:
            if record in self.refused:
                raise SinkRejected(f"{record} is refused")
            self.held.append(record)
        return str(len(self.held)).encode()

    def close(self) -> None:
        self.asked.append("close")


@dataclass
class Script:
    """A stop that counts how often it was asked, does something then, and waits for nothing."""

    steps: dict[int, Callable[[], object]] = field(default_factory=dict)
    stop_at: int = 10**9
    asked: int = 0
    waited_s: list[float] = field(default_factory=list)

    def wait(self, timeout: float, /) -> bool:
        self.asked += 1
        if timeout:
            self.waited_s.append(timeout)
        self.steps.get(self.asked, lambda: None)()
        return self.asked >= self.stop_at


def begin(path: Path, run_id: str = "r") -> None:
    """Makes a journal with one running run: 8 events, no report."""
    bare = [
        event(e.RunCreated(name=run_id)),
        event(e.RunScheduling(num_workers=1)),
        event(e.AttemptPlanned(num_workers=1), "a"),
        event(e.WorkerScheduled(rank=0), "a"),
        event(e.WorkerStarted(rank=0), "a"),
        event(e.AttemptStarted(), "a"),
        event(e.RunRunning()),
    ]
    append(path, bare, run_id)


def report(path: Path, first: int, count: int, run_id: str = "r") -> None:
    """Appends reports, in one frame."""
    indices = range(first, first + count)
    reports = [event(e.ReportReceived(rank=0, index=index), "a") for index in indices]
    append(path, reports, run_id)


def append(path: Path, events: Sequence[e.Event], run_id: str = "r") -> None:
    """Opens the journal, appends, and closes it; one RunOpened and then the events."""
    with Store.open(path, segment_bytes_max=1 << 20) as store:
        opened = store.open_run(run_id, "test", 1)
        store.append(run_id, opened.incarnation, opened.run_seq, events)


def reporting(path: Path, reports: int) -> History:
    """A journal of one running run with that many reports: `RunOpened` + 7, `RunOpened` + reports."""
    begin(path)
    report(path, 0, reports)
    return History(path)


def lines(count: int, first: int = 0, run_id: str = "r") -> list[str]:
    """What a ListSink makes of reports."""
    return [f"{run_id}:{index} RUNNING" for index in range(first, first + count)]
