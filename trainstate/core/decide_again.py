"""What a new controller makes of a decision of its predecessor that was recorded only in part.

An append that is larger than a frame of the journal is split at its events (design section 6), so a
crash may leave the first of them only. An attempt that was being started is started anew; what training
had come to is decided again.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainstate.core import policy
from trainstate.core.decide_end import after_failure
from trainstate.core.decide_group import after_worker_failure, replace, replacement_failed
from trainstate.core.decide_size import make_way
from trainstate.core.decide_train import completed_all, finish, one_sided
from trainstate.core.deciding import STARTING, TRAINING, open_attempt
from trainstate.core.model import (
    Attempt,
    AttemptStatus,
    Cause,
    ReplicaGroup,
    ReplicaGroupStatus,
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
        if not (_waits(run) if attempt is None else _starts(attempt)):
            text = "its controller died while it recorded how far the start had come"
            yield from after_failure(run, Cause.START_FAILED, s.Error(message=text))
    elif run.status in TRAINING and attempt is not None:
        if attempt.status is AttemptStatus.PENDING:
            yield from make_way(run, "before they trained")
        else:
            yield from _of_training(run, attempt)


def _waits(run: Run) -> bool:
    """Whether all that an elastic run waits for before it plans an attempt is asked for."""
    size = policy.size_of(run.settings)
    return size.is_elastic and any(one.slot == 0 for one in run.placements.values())


def _starts(attempt: Attempt) -> bool:
    """Whether something of the plan is under way that brings all its workers up."""
    if attempt.status is not AttemptStatus.PENDING:
        return False
    if not attempt.workers:
        return True
    statuses = {one.status for one in attempt.workers.values()}
    whole = len(attempt.workers) == attempt.num_workers
    return whole and statuses in ({WorkerStatus.SCHEDULING}, {WorkerStatus.RUNNING})


def _of_training(run: Run, attempt: Attempt) -> Iterator[e.Event]:
    for group in attempt.groups.values():
        if group.status is ReplicaGroupStatus.REPLACING:
            yield from _of_replacement(run, attempt, group)
        elif group.failed_replacements >= policy.max_replacements(run) > 0:
            error = group.error or s.Error(message="its replacements failed")
            yield from after_failure(run, Cause.REPLACEMENT_FAILED, error)
            return
    for worker in attempt.workers.values():
        wrong = _wrong(attempt, worker)
        if wrong is not None:
            done = worker.status is WorkerStatus.COMPLETED
            cause = Cause.WORKER_ERROR if done else worker.cause or Cause.WORKER_ERROR
            yield from after_worker_failure(run, attempt, worker.rank, cause, wrong)
            return
    if completed_all(attempt) and not attempt.has_pending:
        yield finish(attempt)


def _of_replacement(run: Run, attempt: Attempt, group: ReplicaGroup) -> Iterator[e.Event]:
    gang = attempt.gang(group.group)
    new = [one for one in gang if one.generation == group.generation]
    if any(one.status is WorkerStatus.FAILING for one in new):
        text = "its controller died while it recorded that it failed"
        yield from replacement_failed(run, attempt, group.group, s.Error(message=text))
    else:
        yield from replace(attempt, group.group, group.cause)


def _wrong(attempt: Attempt, worker: Worker) -> s.Error | None:
    """What is wrong with a worker, if nothing follows from it yet."""
    group = attempt.group_of(worker.rank)
    if group is not None and attempt.groups[group].status is not ReplicaGroupStatus.RUNNING:
        return None
    if worker.status is WorkerStatus.FAILING:
        return worker.error or s.Error(message="a worker failed", ranks=[worker.rank])
    return one_sided(attempt, worker) if worker.status is WorkerStatus.COMPLETED else None
