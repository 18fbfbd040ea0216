"""What a run wants done now: `plan(run)` gives every effect that should be under way.

Whoever acts starts the effects that are new and cancels those that are gone. That is all there is to
recovery: a successor folds the journal, asks for the plan, and begins what it says; effects are
idempotent, so what the predecessor had half done is found and finished.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainstate.core import policy
from trainstate.core.effects import (
    Close,
    DeleteCheckpoint,
    Effect,
    Place,
    Publish,
    SetUp,
    StartGang,
    Stop,
    Train,
    Wake,
)
from trainstate.core.model import Attempt, PlacementStatus, Run, RunStatus, WorkerStatus

_STOPPING = (RunStatus.RESTARTING, RunStatus.RESIZING, RunStatus.SHUTTING_DOWN)


def plan(run: Run) -> tuple[Effect, ...]:
    """The effects of a run in its state; none for one that has ended or has not begun."""
    if run.status.is_terminal:
        return ()
    attempt = run.attempt
    if attempt is not None and not attempt.status.is_terminal:
        return (*_of_attempt(run, attempt), *_checkpoints(run, attempt))
    deletions = tuple(_deletions(run))
    if run.status is RunStatus.SHUTTING_DOWN:
        # An abort waits for no storage: what is not to be kept is then left there.
        aborted = run.next_status is RunStatus.ABORTED
        return (Close(),) if aborted or not deletions else deletions
    if run.status in _STOPPING:
        return (*deletions, Wake(run.restart_time_ns))
    return deletions


def _of_attempt(run: Run, attempt: Attempt) -> Iterator[Effect]:
    if run.status in _STOPPING:
        yield Stop(attempt.attempt_id)
    elif run.status in (RunStatus.RUNNING, RunStatus.PREEMPTING):
        yield from _conversations(attempt)
    else:
        yield from _starting(run, attempt)


def _conversations(attempt: Attempt) -> Iterator[Effect]:
    for worker in attempt.workers.values():
        if worker.status is WorkerStatus.RUNNING:
            yield Train(attempt.attempt_id, worker.rank, worker.generation)


def _starting(run: Run, attempt: Attempt) -> Iterator[Effect]:
    for placement in run.placements.values():
        ours = placement.attempt_id == attempt.attempt_id
        if ours and placement.status is PlacementStatus.REQUESTED:
            yield Place(attempt.attempt_id, placement.name)
    if any(one.status is WorkerStatus.SCHEDULING for one in attempt.workers.values()):
        yield StartGang(attempt.attempt_id)
    elif attempt.workers:
        yield SetUp(attempt.attempt_id)


def _checkpoints(run: Run, attempt: Attempt) -> Iterator[Effect]:
    complete = policy.complete(attempt)
    if complete is not None:
        yield Publish(attempt.attempt_id, complete.report_index)
    yield from _deletions(run)


def _deletions(run: Run) -> Iterator[Effect]:
    for checkpoint in policy.surplus(run):
        yield DeleteCheckpoint(checkpoint.index)
