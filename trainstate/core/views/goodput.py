"""Goodput: where the time of a run went. A fold over its events; the buckets sum exactly to wall time,
which is from the run's start to its end.

While a run is RUNNING (or PREEMPTING: its workers still train) time is productive. When an attempt then
fails, what it had done since the last committed checkpoint is done again: that time moves to `lost`.
A resize ends its attempt on purpose, and what was not committed by then is done again all the same.

A log that records no checkpoints (Ray's) cannot say what was lost; nothing is guessed, `note` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trainstate.core.evolve import evolve
from trainstate.core.model import Run, RunStatus, initial
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

BUCKETS = ("productive", "scheduling", "waiting", "restarting", "resizing", "stopping", "lost")

_BUCKET: Mapping[RunStatus, str] = {
    RunStatus.INITIALIZING: "scheduling",
    RunStatus.SCHEDULING: "scheduling",
    RunStatus.WAITING: "waiting",
    RunStatus.RUNNING: "productive",
    RunStatus.PREEMPTING: "productive",
    RunStatus.RESTARTING: "restarting",
    RunStatus.RESIZING: "resizing",
    RunStatus.SHUTTING_DOWN: "stopping",
}
_UNKNOWN_LOSS = "this log records no checkpoints: what restarts lost is not known"


@dataclass(frozen=True, slots=True)
class Goodput:
    """Nanoseconds per bucket, in the order of BUCKETS, and their sum."""

    buckets: Mapping[str, int]
    wall_ns: int
    note: str = ""


def goodput(events: Iterable[e.Event], now_ns: int | None = None) -> Goodput:
    """Folds the events of one run, from its first.

    A run that goes on is counted up to `now_ns`, or to its newest event if that is not given.
    """
    clock = _Clock()
    run = initial("")
    for event in events:
        clock.advance(run, _time_of(event))
        evolve(run, event)
        clock.settle(run, event)
    if now_ns is not None:
        clock.advance(run, max(now_ns, run.time_ns))
    unknown = run.imported and not run.checkpoints_committed
    return Goodput(clock.buckets, sum(clock.buckets.values()), _UNKNOWN_LOSS if unknown else "")


def _time_of(event: e.Event) -> int:
    """When it happened: by the clock of what began or ended, if the payload has its reading.

    A line of Ray's log has whole seconds; the starts and ends that it tells of have nanoseconds.
    """
    kind = event.WhichOneof("payload")
    payload = getattr(event, kind) if kind else None
    told_ns: int = getattr(payload, "end_time_ns", 0) or getattr(payload, "start_time_ns", 0)
    return told_ns or event.time_unix_nano


class _Clock:
    """Counts the time between events, and how much of it is not yet safe in a checkpoint."""

    def __init__(self) -> None:
        self.buckets = dict.fromkeys(BUCKETS, 0)
        self._time_ns = 0
        self._uncommitted_ns = 0

    def advance(self, run: Run, time_ns: int) -> None:
        """Counts the time up to `time_ns` to the bucket of the state the run was in."""
        bucket = _BUCKET.get(run.status)
        if bucket is None:  # what is before the creation, or after the end, is nobody's time
            self._time_ns = time_ns
            return
        spent_ns = max(0, time_ns - self._time_ns)
        self._time_ns += spent_ns
        self.buckets[bucket] += spent_ns
        if bucket == "productive":
            self._uncommitted_ns += spent_ns

    def settle(self, run: Run, event: e.Event) -> None:
        """Notes what an event saves or loses of the work since the last checkpoint."""
        kind = event.WhichOneof("payload")
        if kind == "checkpoint_committed" or run.status == RunStatus.FINISHED:
            self._uncommitted_ns = 0
        elif _loses_work(run, event, kind) and not _loss_unknown(run):
            self.buckets["productive"] -= self._uncommitted_ns
            self.buckets["lost"] += self._uncommitted_ns
            self._uncommitted_ns = 0


def _loses_work(run: Run, event: e.Event, kind: str | None) -> bool:
    if run.status.is_terminal:
        return True
    return kind == "attempt_ended" and event.attempt_ended.status != s.ATTEMPT_STATUS_FINISHED


def _loss_unknown(run: Run) -> bool:
    return run.imported and not run.checkpoints_committed
