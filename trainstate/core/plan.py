"""What a run wants done now: `plan(run)` gives every effect that should be under way.

Whoever acts starts the effects that are new and cancels those that are gone. That is all there is to
recovery: a successor folds the journal, asks for the plan, and begins what it says; effects are
idempotent, so what the predecessor had half done is found and finished.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainstate.core import policy
from trainstate.core.deciding import ANEW, STOPPING, TRAINING, open_attempt
from trainstate.core.effects import (
    Close,
    DeleteCheckpoint,
    Effect,
    Place,
    Publish,
    Release,
    SetUp,
    StartGang,
    Stop,
    Train,
    Wake,
    Watch,
)
from trainstate.core.model import (
    Attempt,
    ReplicaGroup,
    ReplicaGroupStatus,
    Run,
    RunStatus,
    Worker,
    WorkerStatus,
)


def plan(run: Run) -> tuple[Effect, ...]:
    """The effects of a run in its state; none for one that has ended or has not begun."""
    if run.status.is_terminal or not run.status:
        return ()
    attempt = open_attempt(run)
    if attempt is not None:
        return (*_of_attempt(run, attempt), *_checkpoints(run, attempt))
    if run.status is RunStatus.SHUTTING_DOWN:
        return _last(run)
    deletions = tuple(_deletions(run))
    if run.status in ANEW:
        stale = policy.stale_placements(run)
        return (*deletions, Release(tuple(stale)) if stale else Wake(run.restart_time_ns))
    return (*deletions, Place(asked=len(run.placements))) if run.placements else deletions


def _last(run: Run) -> tuple[Effect, ...]:
    """An abort waits for no storage: what is not to be kept is then left there."""
    if run.placements:
        return (Release(tuple(run.placements)),)
    deletions = tuple(_deletions(run))
    aborted = run.next_status is RunStatus.ABORTED
    return (Close(),) if aborted or not deletions else deletions


def _of_attempt(run: Run, attempt: Attempt) -> Iterator[Effect]:
    if run.status in STOPPING:
        yield Stop(attempt.attempt_id)
    elif not attempt.workers:
        yield Place(attempt.attempt_id, len(run.placements))
    else:
        yield Watch(attempt.attempt_id)
        yield from _training(run, attempt) if run.status in TRAINING else _starting(attempt)


def _starting(attempt: Attempt, group: ReplicaGroup | None = None) -> Iterator[Effect]:
    """Of the attempt, or of a replica group that is being replaced."""
    which = (None, 0) if group is None else (group.group, group.generation)
    gang = attempt.gang(which[0])
    if any(one.status is WorkerStatus.SCHEDULING for one in gang):
        yield StartGang(attempt.attempt_id, *which)
    else:
        yield SetUp(attempt.attempt_id, *which)


def _training(run: Run, attempt: Attempt) -> Iterator[Effect]:
    for worker in attempt.workers.values():
        if worker.status is WorkerStatus.RUNNING and _is_of_training(attempt, worker):
            yield Train(attempt.attempt_id, worker.rank, worker.generation)
    for group in attempt.groups.values():
        if group.status is ReplicaGroupStatus.REPLACING:
            yield from _starting(attempt, group)
        elif group.status is ReplicaGroupStatus.FAILED and run.status is RunStatus.RUNNING:
            yield Wake(group.restart_time_ns)
    lost = policy.lost_extras(run)
    if lost:
        yield Release(tuple(lost))
    if run.status is RunStatus.PREEMPTING:
        yield Wake(policy.preemption_ends_ns(run))
    elif policy.room(run):
        yield Wake(policy.resize_due_ns(run))


def _is_of_training(attempt: Attempt, worker: Worker) -> bool:
    group = attempt.group_of(worker.rank)
    return group is None or attempt.groups[group].status is ReplicaGroupStatus.RUNNING


def _checkpoints(run: Run, attempt: Attempt) -> Iterator[Effect]:
    for group in attempt.sharing:
        complete = policy.complete(attempt, group)
        if complete is not None:
            yield Publish(attempt.attempt_id, complete.report_index, group)
            break  # one after the other: each writes down all there are
    yield from _deletions(run)


def _deletions(run: Run) -> Iterator[Effect]:
    for checkpoint in policy.surplus(run):
        yield DeleteCheckpoint(checkpoint.index)
