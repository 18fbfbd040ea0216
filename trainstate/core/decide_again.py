"""What a new controller makes of a decision of its predecessor that was recorded only in part.

An append that is larger than a frame of the journal is split at its events (design section 6), so a
crash may leave the first of them only. An attempt that was being started is started anew; what training
had come to is decided again.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainstate.core.decide_end import after_failure
from trainstate.core.decide_train import completed_all, finish, one_sided
from trainstate.core.deciding import STARTING, TRAINING, open_attempt
from trainstate.core.model import (
    Attempt,
    AttemptStatus,
    Cause,
    PlacementStatus,
    Run,
    Worker,
    WorkerStatus,
)
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s


def half_done(run: Run) -> Iterator[e.Event]:
    """The rest of what was being decided; nothing if all of it is recorded, the usual case."""
    attempt = open_attempt(run)
    if run.status in STARTING:
        if attempt is None or not _starts(run, attempt):
            text = "its controller died while it recorded how far the start had come"
            yield from after_failure(run, Cause.START_FAILED, s.Error(message=text))
    elif run.status in TRAINING and attempt is not None:
        yield from _of_training(run, attempt)


def _starts(run: Run, attempt: Attempt) -> bool:
    """Whether something of the plan is under way that brings all its workers up."""
    if attempt.status is not AttemptStatus.PENDING:
        return False
    placements = [one for one in run.placements.values() if one.attempt_id == attempt.attempt_id]
    if any(one.status is PlacementStatus.REQUESTED for one in placements):
        return True
    statuses = {one.status for one in attempt.workers.values()}
    whole = len(attempt.workers) == attempt.num_workers
    return whole and statuses in ({WorkerStatus.SCHEDULING}, {WorkerStatus.RUNNING})


def _of_training(run: Run, attempt: Attempt) -> Iterator[e.Event]:
    for worker in attempt.workers.values():
        wrong = _wrong(attempt, worker)
        if wrong is not None:
            yield from after_failure(run, worker.cause or Cause.WORKER_ERROR, wrong)
            return
    if completed_all(attempt) and not attempt.pending:
        yield finish(attempt)


def _wrong(attempt: Attempt, worker: Worker) -> s.Error | None:
    if worker.status is WorkerStatus.FAILING:
        return worker.error or s.Error(message="a worker failed", ranks=[worker.rank])
    return one_sided(attempt, worker) if worker.status is WorkerStatus.COMPLETED else None
