"""Events for the store's tests."""

from __future__ import annotations

from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

SECOND = 10**9


def created(time_s: int = 1, name: str = "run") -> e.Event:
    return e.Event(time_unix_nano=time_s * SECOND, run_created=e.RunCreated(name=name))


def scheduling(time_s: int = 2) -> e.Event:
    return e.Event(time_unix_nano=time_s * SECOND, run_scheduling=e.RunScheduling(num_workers=1))


def errored(time_s: int = 9, text: str = "boom") -> e.Event:
    return e.Event(time_unix_nano=time_s * SECOND, reason=text, run_errored=e.RunErrored())


def planned(attempt_id: str, time_s: int = 3, workers: int = 1) -> e.Event:
    return e.Event(
        time_unix_nano=time_s * SECOND,
        attempt_id=attempt_id,
        attempt_planned=e.AttemptPlanned(num_workers=workers),
    )


def started(attempt_id: str, rank: int = 0, time_s: int = 4) -> list[e.Event]:
    at = {"time_unix_nano": time_s * SECOND, "attempt_id": attempt_id}
    return [
        e.Event(**at, worker_scheduled=e.WorkerScheduled(rank=rank)),
        e.Event(**at, worker_started=e.WorkerStarted(rank=rank, pid=100 + rank)),
    ]


def report(attempt_id: str, index: int, rank: int = 0, time_s: int = 5) -> e.Event:
    loss = s.ValueEntry(key="loss", value=s.Value(double=1.0 / (index + 1)))
    return e.Event(
        time_unix_nano=time_s * SECOND,
        attempt_id=attempt_id,
        report_received=e.ReportReceived(
            rank=rank, index=index, metrics=s.ValueMap(entries=[loss])
        ),
    )


def skipped(time_s: int = 5) -> e.Event:
    """An event that fits any state of a created run."""
    return e.Event(time_unix_nano=time_s * SECOND, sync_skipped=e.SyncSkipped(source="a"))


def big(size: int, time_s: int = 5) -> e.Event:
    return e.Event(time_unix_nano=time_s * SECOND, sync_skipped=e.SyncSkipped(source="x" * size))
