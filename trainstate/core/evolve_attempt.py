"""What events do to an attempt and to what it holds: its workers and its replica groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainstate.core.applying import (
    Applier,
    after,
    known,
    later,
    move,
    note,
    observe,
    own,
    own_error,
    target_of,
)
from trainstate.core.model import (
    Attempt,
    AttemptStatus,
    Cause,
    PendingCheckpoint,
    ReplicaGroup,
    ReplicaGroupStatus,
    Run,
    Worker,
    WorkerStatus,
)
from trainstate.v1 import event_pb2 as e


def _attempt_of(run: Run, event: e.Event) -> Attempt:
    """The attempt an event belongs to. One nobody planned is made on the spot, and noted."""
    attempt = run.find_attempt(event.attempt_id)
    if attempt is None:
        note(run, f"attempt {event.attempt_id!r} was never planned")
        attempt = Attempt(event.attempt_id, len(run.attempts) + 1)
        attempt.start_time_ns = event.time_unix_nano
        run.attempts.append(attempt)
    return attempt


def _move_attempt(run: Run, attempt: Attempt, target: AttemptStatus, reason: str) -> None:
    move(run, attempt, target, reason, f"attempt {attempt.attempt_id}")


def _attempt_planned(run: Run, event: e.Event, planned: e.AttemptPlanned) -> None:
    attempt = run.find_attempt(event.attempt_id)
    if attempt is None:
        attempt = Attempt(event.attempt_id, len(run.attempts) + 1)
        run.attempts.append(attempt)
    _move_attempt(run, attempt, AttemptStatus.PENDING, event.reason)
    attempt.num_workers = planned.num_workers
    alike = planned.HasField("resources_per_worker")
    attempt.resources_per_worker = own(planned.resources_per_worker) if alike else None
    attempt.resources = [own(resources) for resources in planned.resources]
    attempt.start_time_ns = planned.start_time_ns or event.time_unix_nano
    attempt.replica_group_size = size = planned.replica_group_size
    groups = planned.num_workers // size if size > 0 else 0
    attempt.groups = {
        group: ReplicaGroup(group, status=ReplicaGroupStatus.RUNNING) for group in range(groups)
    }


def _attempt_started(run: Run, event: e.Event, started: e.AttemptStarted) -> None:
    attempt = _attempt_of(run, event)
    _move_attempt(run, attempt, AttemptStatus.RUNNING, event.reason)
    for group in attempt.groups.values():
        group.visible = run.checkpoints_committed


def _attempt_ended(run: Run, event: e.Event, ended: e.AttemptEnded) -> None:
    attempt = _attempt_of(run, event)
    _move_attempt(run, attempt, known(AttemptStatus, ended.status), event.reason)
    attempt.cause = known(Cause, ended.cause)
    attempt.error = own_error(ended)
    attempt.end_time_ns = ended.end_time_ns or event.time_unix_nano
    for group in attempt.groups.values():
        move(run, group, ReplicaGroupStatus.ENDED, event.reason, f"replica group {group.group}")


def foreign_attempt(run: Run, event: e.Event, observed: e.ForeignStatusObserved) -> None:
    """Another system's word on an attempt, which our tables refused."""
    attempt = _attempt_of(run, event)
    target = known(AttemptStatus, observed.status)
    observe(run, event, attempt, target, f"attempt {attempt.attempt_id}")
    attempt.start_time_ns = observed.start_time_ns or attempt.start_time_ns
    attempt.end_time_ns = observed.end_time_ns


def _worker_of(run: Run, event: e.Event, rank: int) -> Worker:
    attempt = _attempt_of(run, event)
    worker = attempt.workers.get(rank)
    if worker is None:
        worker = attempt.workers[rank] = Worker(rank)
    return worker


def _move_worker(run: Run, worker: Worker, target: WorkerStatus, reason: str) -> None:
    move(run, worker, target, reason, f"worker {worker.rank}")


def _worker_scheduled(run: Run, event: e.Event, scheduled: e.WorkerScheduled) -> None:
    attempt = _attempt_of(run, event)
    before = attempt.workers.get(scheduled.rank)
    worker = Worker(scheduled.rank, scheduled.generation)
    if before is not None:
        worker.status = before.status
        before.end_time_ns = before.end_time_ns or event.time_unix_nano
        before.status = WorkerStatus.DEAD  # its place is taken
        attempt.replaced.append(before)
    _move_worker(run, worker, WorkerStatus.SCHEDULING, event.reason)
    worker.placement = scheduled.placement
    worker.bundle = scheduled.bundle
    worker.reports = worker.first_report = scheduled.first_report
    attempt.workers[scheduled.rank] = worker


def _worker_started(run: Run, event: e.Event, started: e.WorkerStarted) -> None:
    worker = _worker_of(run, event, started.rank)
    _move_worker(run, worker, WorkerStatus.RUNNING, event.reason)
    worker.local_rank = started.local_rank
    worker.node_rank = started.node_rank
    worker.actor_id = started.actor_id
    worker.node_id = started.node_id
    worker.node_ip = started.node_ip
    worker.pid = started.pid
    worker.accelerator_ids = tuple(started.accelerator_ids)
    worker.resources = own(started.resources) if started.HasField("resources") else None
    worker.log_path = started.log_path
    if started.HasField("bundle"):
        worker.bundle = started.bundle
    worker.placement = started.placement or worker.placement
    worker.start_time_ns = event.time_unix_nano


def _worker_failing(run: Run, event: e.Event, failing: e.WorkerFailing) -> None:
    worker = _worker_of(run, event, failing.rank)
    _move_worker(run, worker, WorkerStatus.FAILING, event.reason)
    worker.cause = known(Cause, failing.cause)
    worker.error = own_error(failing)


def _worker_completed(run: Run, event: e.Event, completed: e.WorkerCompleted) -> None:
    worker = _worker_of(run, event, completed.rank)
    _move_worker(run, worker, WorkerStatus.COMPLETED, event.reason)
    worker.cause = Cause.COMPLETED
    worker.end_time_ns = event.time_unix_nano
    if completed.HasField("return_value"):
        run.return_value = own(completed.return_value)


def _worker_died(run: Run, event: e.Event, died: e.WorkerDied) -> None:
    worker = _worker_of(run, event, died.rank)
    _move_worker(run, worker, WorkerStatus.DEAD, event.reason)
    # What made it fail stays its cause: the end of a failing worker adds none.
    worker.cause = known(Cause, died.cause) or worker.cause
    worker.end_time_ns = event.time_unix_nano


def foreign_worker(run: Run, event: e.Event, observed: e.ForeignStatusObserved) -> None:
    """Another system's word on a worker, which our tables refused."""
    worker = _worker_of(run, event, observed.rank)
    observe(run, event, worker, known(WorkerStatus, observed.status), f"worker {worker.rank}")


def _report_received(run: Run, event: e.Event, report: e.ReportReceived) -> None:
    worker = _worker_of(run, event, report.rank)
    worker.reports = after(report.index)
    run.reports += 1
    if report.rank == 0 or not run.last_metrics:
        run.last_metrics = report.metrics.SerializeToString()
    attempt = _attempt_of(run, event)
    group = attempt.group_of(report.rank)
    if report.checkpoint or report.index in _keeper(attempt, group).pending:
        _reported_checkpoint(attempt, group, report)


def _keeper(attempt: Attempt, group: int | None) -> Attempt | ReplicaGroup:
    """What keeps a gang's checkpoints; of a group that nobody planned, the attempt."""
    return attempt if group not in attempt.groups else attempt.keeper(group)


def _reported_checkpoint(attempt: Attempt, group: int | None, report: e.ReportReceived) -> None:
    keeper = _keeper(attempt, group)
    pending = keeper.pending.get(report.index)
    if pending is None:
        ahead = sum(worker.reports > report.index for worker in attempt.gang(group))
        pending = PendingCheckpoint(report.index, report.checkpoint, ranks=ahead)
        keeper.pending[report.index] = pending
    else:
        pending.ranks += 1
    # The metrics of a checkpoint are its lowest rank's, if it reports no earlier than the first part.
    if pending.metrics is None or report.rank == (group or 0) * attempt.replica_group_size:
        pending.metrics = own(report.metrics)


def committed(attempt: Attempt, made: e.CheckpointCommitted) -> None:
    """A checkpoint that workers of this attempt were making is one."""
    keeper = _keeper(attempt, made.group if made.HasField("group") else None)
    keeper.pending.pop(made.report_index, None)
    keeper.committed = after(made.report_index)


def _move_group(run: Run, event: e.Event, payload: Any) -> ReplicaGroup:
    attempt = _attempt_of(run, event)
    group = attempt.groups.setdefault(payload.group, ReplicaGroup(payload.group))
    move(run, group, target_of(event), event.reason, f"replica group {group.group}")
    return group


def _group_failed(run: Run, event: e.Event, failed: e.ReplicaGroupFailed) -> None:
    group = _move_group(run, event, failed)
    group.cause = known(Cause, failed.cause)
    group.error = own_error(failed)
    group.restart_time_ns = later(event.time_unix_nano, failed.backoff_s)


def _group_replacing(run: Run, event: e.Event, replacing: e.ReplicaGroupReplacing) -> None:
    group = _move_group(run, event, replacing)
    group.generation = replacing.generation
    # What not all of its workers had reported never will be; generations are not mixed.
    size = _attempt_of(run, event).replica_group_size
    group.pending = {index: one for index, one in group.pending.items() if one.ranks >= size}


def _group_replaced(run: Run, event: e.Event, replaced: e.ReplicaGroupReplaced) -> None:
    group = _move_group(run, event, replaced)
    group.replacements += 1
    group.failed_replacements = 0
    group.error = None
    group.visible = run.checkpoints_committed


def _replacement_failed(run: Run, event: e.Event, failed: e.ReplicaGroupReplacementFailed) -> None:
    group = _move_group(run, event, failed)
    group.failed_replacements += 1
    group.cause = Cause.REPLACEMENT_FAILED
    group.error = own_error(failed)
    group.restart_time_ns = later(event.time_unix_nano, failed.backoff_s)


APPLIERS: Mapping[str, Applier] = {
    "attempt_planned": _attempt_planned,
    "attempt_started": _attempt_started,
    "attempt_ended": _attempt_ended,
    "worker_scheduled": _worker_scheduled,
    "worker_started": _worker_started,
    "worker_failing": _worker_failing,
    "worker_completed": _worker_completed,
    "worker_died": _worker_died,
    "report_received": _report_received,
    "replica_group_failed": _group_failed,
    "replica_group_replacing": _group_replacing,
    "replica_group_replaced": _group_replaced,
    "replica_group_replacement_failed": _replacement_failed,
}
