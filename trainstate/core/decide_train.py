"""What training brings: reports, checkpoints, and the workers that complete or fail."""

from __future__ import annotations

from collections.abc import Iterator

from trainstate.core import observations as o
from trainstate.core import policy
from trainstate.core.applying import own
from trainstate.core.decide_end import after_failure, failing
from trainstate.core.deciding import STARTING, TRAINING, bare, current, current_worker
from trainstate.core.model import Attempt, Cause, Run, Worker, WorkerStatus
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
            yield from failing(attempt, report.rank, Cause.WORKER_ERROR, wrong)
            if run.status in TRAINING or run.status in STARTING:
                yield from after_failure(run, Cause.WORKER_ERROR, wrong)
            return
        due += 1
        yield bare(report, attempt=reported.attempt_id)


def _mismatch(attempt: Attempt, report: e.ReportReceived) -> s.Error | None:
    """Why a report's checkpoint can never be committed, if so."""
    pending = attempt.pending.get(report.index)
    if pending is not None and pending.directory != report.checkpoint:
        text = (
            f"rank {report.rank} put report {report.index} into {report.checkpoint!r},"
            f" another rank into {pending.directory!r}"
        )
        hint = "give report() the same checkpoint_dir_name on every rank, or on none"
        return s.Error(type="ReportMismatch", message=text, hint=hint, ranks=[report.rank])
    for worker in attempt.workers.values():
        if worker.status is WorkerStatus.COMPLETED and worker.reports <= report.index:
            return _left_out(worker, report.index, report.checkpoint)
    return None


def on_completed(run: Run, completed: o.Completed, now_ns: int) -> Iterator[e.Event]:
    worker = current_worker(run, completed.attempt_id, completed.rank, completed.generation)
    attempt = run.attempt
    if worker is None or attempt is None or worker.status is not WorkerStatus.RUNNING:
        return
    payload = e.WorkerCompleted(rank=worker.rank, return_value=completed.return_value)
    why = f"its train function returned after {worker.reports} reports"
    yield bare(payload, why, attempt.attempt_id)
    if run.status not in TRAINING:
        return
    wrong = one_sided(attempt, worker)
    if wrong is not None:
        yield from after_failure(run, Cause.WORKER_ERROR, wrong)
    elif completed_all(attempt, worker.rank) and not attempt.pending:
        yield finish(attempt)


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
    left_out = [index for index in attempt.pending if index >= finished.reports]
    if not left_out:
        return None
    first = attempt.pending[min(left_out)]
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
    yield from failing(attempt, worker.rank, failed.cause, error)
    if run.status in TRAINING or run.status in STARTING:
        yield from after_failure(run, failed.cause, error)


# --- checkpoints ----------------------------------------------------------------------------------


def on_published(run: Run, published: o.Published, now_ns: int) -> Iterator[e.Event]:
    attempt = current(run, published.attempt_id)
    made = policy.complete(attempt) if attempt is not None else None
    if attempt is None or made is None or made.report_index != published.report_index:
        return
    committed = e.CheckpointCommitted(
        index=run.checkpoints_committed,
        directory=made.directory,
        metrics=made.metrics,
        size_bytes=published.size_bytes,
        report_index=made.report_index,
    )
    why = f"every rank reported it, as report {made.report_index}"
    yield bare(committed, why, attempt.attempt_id)
    if run.status in TRAINING and completed_all(attempt) and len(attempt.pending) == 1:
        yield finish(attempt)


def on_deleted(run: Run, deleted: o.Deleted, now_ns: int) -> Iterator[e.Event]:
    if deleted.index in run.checkpoints:
        why = f"left in storage: {deleted.text}" if deleted.text else "not among those to keep"
        yield bare(e.CheckpointDeleted(index=deleted.index), why)
