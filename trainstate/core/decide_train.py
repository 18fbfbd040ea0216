"""What training brings: reports, checkpoints, and the workers that complete or fail."""

from __future__ import annotations

from collections.abc import Iterator

from trainstate.core import observations as o
from trainstate.core import policy
from trainstate.core.applying import own
from trainstate.core.decide_end import after_failure, failing
from trainstate.core.decide_group import after_worker_failure
from trainstate.core.decide_size import grow, make_way
from trainstate.core.deciding import STARTING, TRAINING, bare, current, current_worker
from trainstate.core.model import (
    Attempt,
    AttemptStatus,
    Cause,
    ReplicaGroupStatus,
    Run,
    RunStatus,
    Worker,
    WorkerStatus,
)
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s


def on_reported(run: Run, reported: o.Reported, now_ns: int) -> Iterator[e.Event]:
    worker = current_worker(run, reported.attempt_id, reported.rank, reported.generation)
    attempt = run.attempt
    if worker is None or attempt is None or worker.status is not WorkerStatus.RUNNING:
        return
    due = worker.reports
    for report in reported.reports:
        if report.index != due or report.rank != worker.rank:
            continue
        wrong = _mismatch(attempt, report) if report.checkpoint else None
        if wrong is not None:
            # It is not recorded: with it the checkpoint would count as complete.
            yield from _failed(run, attempt, report.rank, Cause.WORKER_ERROR, wrong)
            return
        due += 1
        yield bare(report, attempt=reported.attempt_id)


def _mismatch(attempt: Attempt, report: e.ReportReceived) -> s.Error | None:
    """Why a report's checkpoint can never be committed, if so."""
    group = attempt.group_of(report.rank)
    pending = attempt.keeper(group).pending.get(report.index)
    if pending is not None and pending.directory != report.checkpoint:
        text = (
            f"rank {report.rank} put report {report.index} into {report.checkpoint!r},"
            f" another rank into {pending.directory!r}"
        )
        hint = "give report() the same checkpoint_dir_name on every rank, or on none"
        return s.Error(type="ReportMismatch", message=text, hint=hint, ranks=[report.rank])
    for worker in attempt.gang(group):
        if worker.status is WorkerStatus.COMPLETED and worker.reports <= report.index:
            return _left_out(worker, report.index, report.checkpoint)
    return None


def on_completed(run: Run, completed: o.Completed, now_ns: int) -> Iterator[e.Event]:
    worker = current_worker(run, completed.attempt_id, completed.rank, completed.generation)
    attempt = run.attempt
    if worker is None or attempt is None or worker.status is not WorkerStatus.RUNNING:
        return
    if not _trains(attempt, worker):
        return
    payload = e.WorkerCompleted(rank=worker.rank, return_value=completed.return_value)
    why = f"its train function returned after {worker.reports - worker.first_report} reports"
    yield bare(payload, why, attempt.attempt_id)
    if run.status not in TRAINING:
        return
    wrong = one_sided(attempt, worker)
    if wrong is not None:
        yield from after_failure(run, Cause.WORKER_ERROR, wrong)  # who is done is not replaced
    elif completed_all(attempt, worker.rank) and not attempt.has_pending:
        yield finish(attempt)


def _trains(attempt: Attempt, worker: Worker) -> bool:
    """Whether a worker may complete: not before its attempt trains, nor one of a group that failed."""
    group = attempt.group_of(worker.rank)
    if group is not None and attempt.groups[group].status is not ReplicaGroupStatus.RUNNING:
        return False  # it is replaced with its group, whatever it had come to
    return attempt.status is AttemptStatus.RUNNING


def completed_all(attempt: Attempt, rank: int | None = None) -> bool:
    """Whether every worker has completed, that of `rank` taken as if it had."""
    done = (
        one.status is WorkerStatus.COMPLETED or one.rank == rank for one in attempt.workers.values()
    )
    return all(done) and len(attempt.workers) == attempt.num_workers


def finish(attempt: Attempt) -> e.Event:
    """That the run has done what it was to do."""
    ending = e.RunShuttingDown(next=s.RUN_STATUS_FINISHED, cause=s.CAUSE_COMPLETED)
    return bare(ending, f"all {attempt.num_workers} workers completed")


def one_sided(attempt: Attempt, finished: Worker) -> s.Error | None:
    """What is wrong if a worker finished before a report that brought a checkpoint on another rank."""
    pending = attempt.keeper(attempt.group_of(finished.rank)).pending
    left_out = [index for index in pending if index >= finished.reports]
    if not left_out:
        return None
    first = pending[min(left_out)]
    return _left_out(finished, first.report_index, first.directory)


def _left_out(finished: Worker, index: int, directory: str) -> s.Error:
    text = (
        f"rank {finished.rank} finished after {finished.reports} reports, but checkpoint"
        f" {directory!r} of another rank came with its report {index}"
    )
    hint = "call report() equally often on every rank, with checkpoint=None where there is none"
    return s.Error(type="ReportMismatch", message=text, hint=hint, ranks=[finished.rank])


def on_worker_failed(run: Run, failed: o.WorkerFailed, now_ns: int) -> Iterator[e.Event]:
    attempt = current(run, failed.attempt_id)
    worker = current_worker(run, failed.attempt_id, failed.rank, failed.generation)
    if attempt is None or worker is None or worker.status is not WorkerStatus.RUNNING:
        return
    error = own(failed.error)
    error.ranks[:] = error.ranks or [worker.rank]
    yield from _failed(run, attempt, worker.rank, failed.cause, error)


def _failed(
    run: Run, attempt: Attempt, rank: int, cause: Cause, error: s.Error
) -> Iterator[e.Event]:
    yield from failing(attempt, rank, cause, error)
    if run.status is RunStatus.PREEMPTING:
        # Whoever fails while others are taken away is taken to fail of that (A6.2, failure policy).
        cause = Cause.NODE_PREEMPTED
    if run.status in TRAINING or run.status in STARTING:
        yield from after_worker_failure(run, attempt, rank, cause, error)


# --- checkpoints ----------------------------------------------------------------------------------


def on_published(run: Run, published: o.Published, now_ns: int) -> Iterator[e.Event]:
    attempt = current(run, published.attempt_id)
    made = policy.complete(attempt, published.group) if attempt is not None else None
    if attempt is None or made is None or made.report_index != published.report_index:
        return
    for before in run.checkpoints.values():
        if before.directory == made.directory:
            gone = e.CheckpointDeleted(index=before.index)
            yield bare(gone, "its directory is that of a newer one", attempt.attempt_id)
    committed = e.CheckpointCommitted(
        index=run.checkpoints_committed,
        directory=made.directory,
        metrics=made.metrics,
        size_bytes=published.size_bytes,
        report_index=made.report_index,
        group=published.group,
    )
    why = f"every rank reported it, as report {made.report_index}"
    yield bare(committed, why, attempt.attempt_id)
    yield from _after_checkpoint(run, attempt)


def _after_checkpoint(run: Run, attempt: Attempt) -> Iterator[e.Event]:
    """Nothing is lost now by an end, a restart elsewhere, or another size."""
    pending = sum(len(attempt.keeper(group).pending) for group in attempt.sharing)
    if run.status in TRAINING and completed_all(attempt):
        if pending == 1:
            yield finish(attempt)
    elif run.status is RunStatus.PREEMPTING:
        yield from make_way(run, "its state is saved", saved=not attempt.is_waited_for)
    elif run.status is RunStatus.RUNNING:
        yield from grow(run, "its state is saved")


def on_deleted(run: Run, deleted: o.Deleted, now_ns: int) -> Iterator[e.Event]:
    if deleted.index in run.checkpoints:
        why = f"left in storage: {deleted.text}" if deleted.text else "not among those to keep"
        yield bare(e.CheckpointDeleted(index=deleted.index), why)
