"""Whether an event fits the state of its run. Asked once, in `store.append`, before a byte is written.

A guard returns why it refuses, in a few words, or "" if it does not. Most of what is legal is in the
tables of core/transitions.py; the guards add what spans entities:

* a run does not end before its attempts, nor an attempt before its workers;
* one attempt is open at a time, and what belongs to an attempt belongs to the open one;
* an end is not before its start;
* reports, checkpoints and generations count without gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trainstate.core.model import (
    Attempt,
    AttemptStatus,
    PlacementStatus,
    Run,
    RunStatus,
    Status,
    SyncStatus,
    WorkerStatus,
)
from trainstate.core.transitions import TARGETS, allowed
from trainstate.errors import InvalidTransition
from trainstate.v1 import event_pb2 as e

Guard = Callable[[Run, e.Event, str, Any], str]

# What may still be recorded of a run that has ended: clean-up, and what another system says of it.
_AFTER_THE_END = frozenset(
    {
        "run_opened",
        "callback_failed",
        "checkpoint_deleted",
        "placement_released",
        "sync_started",
        "sync_succeeded",
        "sync_failed",
        "sync_skipped",
        "line_imported",
        "foreign_status_observed",
    }
)
# More than any cluster has; it bounds what one event can make a fold build.
WORKERS_MAX = 1_000_000
_BEFORE_THE_CREATION = frozenset({"run_opened", "run_created", "line_imported"})
_ATTEMPT_ENDS = frozenset(int(status) for status in AttemptStatus if status.is_terminal)


def check(run: Run, event: e.Event) -> None:
    """Raises InvalidTransition, naming event, state and run, if `event` does not fit `run`."""
    kind = event.WhichOneof("payload")
    why = "it has no payload this version knows" if kind is None else _refusal(run, event, kind)
    if why:
        raise InvalidTransition(
            f"{kind or 'event'} refused while the run is {run.status.name}: {why}",
            run_id=run.run_id,
            hint=f"trainstate show {run.run_id}",
        )


def _refusal(run: Run, event: e.Event, kind: str) -> str:
    if run.status.is_terminal and kind not in _AFTER_THE_END:
        return f"the run ended as {run.status.name}"
    if not run.status and kind not in _BEFORE_THE_CREATION:
        return "the run is not created"
    guard = _GUARDS.get(kind)
    return guard(run, event, kind, getattr(event, kind)) if guard else ""


def _move(current: Status, target: Status, what: str) -> str:
    if allowed(current, target):
        return ""
    return f"{what} does not go from {current.name} to {target.name}"


def _created(run: Run, event: e.Event, kind: str, created: e.RunCreated) -> str:
    # A run first seen through one of its attempts is created without a name; that comes later.
    if not run.status or not run.name:
        return ""
    return f"the run exists, as {run.name!r}"


def _run_move(run: Run, event: e.Event, kind: str, payload: Any) -> str:
    return _move(run.status, TARGETS[kind], "a run")


def _run_end(run: Run, event: e.Event, kind: str, payload: Any) -> str:
    attempt = run.attempt
    if attempt is not None and not attempt.status.is_terminal:
        return f"attempt {attempt.attempt_id} is still {attempt.status.name}"
    return _end_after_start(event, payload, run.start_time_ns) or _run_move(
        run, event, kind, payload
    )


def _end_after_start(event: e.Event, payload: Any, start_ns: int) -> str:
    end_ns = payload.end_time_ns or event.time_unix_nano
    if end_ns < start_ns:
        return f"its end {end_ns} is before its start {start_ns}"
    return ""


def _attempt_planned(run: Run, event: e.Event, kind: str, planned: e.AttemptPlanned) -> str:
    if not event.attempt_id:
        return "it names no attempt"
    attempt = run.find_attempt(event.attempt_id)
    if attempt is None:
        if run.attempts and not run.attempts[-1].status.is_terminal:
            return f"attempt {run.attempts[-1].attempt_id} is still {run.attempts[-1].status.name}"
    elif not (run.imported and attempt.status == AttemptStatus.PENDING):
        # Only another system plans an attempt again that could not be started (A6.3).
        return f"attempt {event.attempt_id} exists"
    workers, size = planned.num_workers, planned.replica_group_size
    if workers > WORKERS_MAX:
        return f"{workers} workers are more than {WORKERS_MAX}"
    if workers < 0 or size < 0 or (size and workers % size):
        return f"{workers} workers do not make replica groups of {size}"
    return ""


def _open_attempt(run: Run, event: e.Event) -> tuple[Attempt | None, str]:
    attempt = run.attempt
    if attempt is None or attempt.attempt_id != event.attempt_id:
        return None, f"attempt {event.attempt_id!r} is not the run's newest"
    if attempt.status.is_terminal:
        return None, f"attempt {attempt.attempt_id} ended as {attempt.status.name}"
    return attempt, ""


def _attempt_started(run: Run, event: e.Event, kind: str, payload: Any) -> str:
    attempt, why = _open_attempt(run, event)
    return why or _move(_status(attempt), AttemptStatus.RUNNING, "an attempt")


def _attempt_ended(run: Run, event: e.Event, kind: str, ended: e.AttemptEnded) -> str:
    attempt, why = _open_attempt(run, event)
    if attempt is None:
        return why
    alive = [worker.rank for worker in attempt.workers.values() if not worker.status.is_terminal]
    if alive:
        return f"{len(alive)} of its workers are alive, first rank {alive[0]}"
    if ended.status not in _ATTEMPT_ENDS:
        return f"an attempt does not end with status {ended.status}"
    return _end_after_start(event, ended, attempt.start_time_ns) or _move(
        attempt.status, AttemptStatus(ended.status), "an attempt"
    )


def _status(attempt: Attempt | None) -> AttemptStatus:
    return AttemptStatus.UNSPECIFIED if attempt is None else attempt.status


def _worker_scheduled(run: Run, event: e.Event, kind: str, scheduled: e.WorkerScheduled) -> str:
    attempt, why = _open_attempt(run, event)
    if attempt is None:
        return why
    if not 0 <= scheduled.rank < attempt.num_workers:
        return f"rank {scheduled.rank} is outside the attempt's {attempt.num_workers} workers"
    worker = attempt.workers.get(scheduled.rank)
    due = 0 if worker is None else worker.generation + 1
    if scheduled.generation != due:
        return f"rank {scheduled.rank} is due generation {due}, not {scheduled.generation}"
    current = WorkerStatus.UNSPECIFIED if worker is None else worker.status
    return _move(current, WorkerStatus.SCHEDULING, "a worker")


def _worker_move(run: Run, event: e.Event, kind: str, payload: Any) -> str:
    attempt, why = _open_attempt(run, event)
    if attempt is None:
        return why
    worker = attempt.workers.get(payload.rank)
    if worker is None:
        return f"rank {payload.rank} was never scheduled"
    return _move(worker.status, TARGETS[kind], f"worker {payload.rank}")


def _group_move(run: Run, event: e.Event, kind: str, payload: Any) -> str:
    attempt, why = _open_attempt(run, event)
    if attempt is None:
        return why
    group = attempt.groups.get(payload.group)
    if group is None:
        return f"the attempt has no replica group {payload.group}"
    if kind == "replica_group_replacing" and payload.generation != group.generation + 1:
        return f"replica group {payload.group} is due generation {group.generation + 1}"
    return _move(group.status, TARGETS[kind], f"replica group {payload.group}")


def _placement_move(run: Run, event: e.Event, kind: str, payload: Any) -> str:
    placement = run.placements.get(payload.name)
    current = PlacementStatus.UNSPECIFIED if placement is None else placement.status
    return _move(current, TARGETS[kind], f"placement {payload.name!r}")


def _placement_changed(run: Run, event: e.Event, kind: str, changed: e.PlacementChanged) -> str:
    placement = run.placements.get(changed.name)
    if placement is not None and len(changed.node_ids) != len(placement.bundles):
        return f"placement {changed.name!r} has {len(placement.bundles)} bundles"
    return _placement_move(run, event, kind, changed)


def _sync_move(run: Run, event: e.Event, kind: str, payload: Any) -> str:
    sync = run.syncs.get(payload.sync_id)
    current = SyncStatus.UNSPECIFIED if sync is None else sync.status
    if kind == "sync_started" and current.is_terminal:
        current = SyncStatus.UNSPECIFIED
    return _move(current, TARGETS[kind], f"sync {payload.sync_id!r}")


def _report(run: Run, event: e.Event, kind: str, report: e.ReportReceived) -> str:
    attempt, why = _open_attempt(run, event)
    if attempt is None:
        return why
    worker = attempt.workers.get(report.rank)
    if worker is None:
        return f"rank {report.rank} was never scheduled"
    if report.index != worker.reports:
        return f"rank {report.rank} is due report {worker.reports}, not {report.index}"
    return ""


def _checkpoint_committed(run: Run, event: e.Event, kind: str, made: e.CheckpointCommitted) -> str:
    due = run.checkpoints_committed
    return "" if made.index == due else f"checkpoint {due} is due, not {made.index}"


def _checkpoint_deleted(run: Run, event: e.Event, kind: str, gone: e.CheckpointDeleted) -> str:
    return "" if gone.index in run.checkpoints else f"there is no checkpoint {gone.index}"


def _foreign_status(run: Run, event: e.Event, kind: str, seen: e.ForeignStatusObserved) -> str:
    # Any move is let pass, as long as it is to a state there is.
    if seen.status in _FOREIGN_STATUSES.get(seen.entity, ()):
        return ""
    return f"foreign entity {seen.entity} has no status {seen.status}"


_FOREIGN_STATUSES: Mapping[int, frozenset[Status]] = {
    e.FOREIGN_ENTITY_RUN: frozenset(status for status in RunStatus if status),
    e.FOREIGN_ENTITY_ATTEMPT: frozenset(status for status in AttemptStatus if status),
    e.FOREIGN_ENTITY_WORKER: frozenset(status for status in WorkerStatus if status),
}

_GUARDS: Mapping[str, Guard] = {
    "run_created": _created,
    "run_scheduling": _run_move,
    "run_waiting": _run_move,
    "run_running": _run_move,
    "run_preempting": _run_move,
    "run_restarting": _run_move,
    "run_resizing": _run_move,
    "run_shutting_down": _run_move,
    "run_finished": _run_end,
    "run_errored": _run_end,
    "run_aborted": _run_end,
    "attempt_planned": _attempt_planned,
    "attempt_started": _attempt_started,
    "attempt_ended": _attempt_ended,
    "placement_requested": _placement_move,
    "placement_ready": _placement_move,
    "placement_changed": _placement_changed,
    "placement_timed_out": _placement_move,
    "placement_released": _placement_move,
    "worker_scheduled": _worker_scheduled,
    "worker_started": _worker_move,
    "worker_failing": _worker_move,
    "worker_completed": _worker_move,
    "worker_died": _worker_move,
    "replica_group_failed": _group_move,
    "replica_group_replacing": _group_move,
    "replica_group_replaced": _group_move,
    "replica_group_replacement_failed": _group_move,
    "report_received": _report,
    "checkpoint_committed": _checkpoint_committed,
    "checkpoint_deleted": _checkpoint_deleted,
    "sync_started": _sync_move,
    "sync_succeeded": _sync_move,
    "sync_failed": _sync_move,
    "foreign_status_observed": _foreign_status,
}
