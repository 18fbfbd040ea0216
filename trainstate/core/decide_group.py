"""Replica groups: one that fails is replaced on its bundles while the others train on.

Each group holds the whole state of training and is a unit of its own: its workers are killed and
started anew together, with the group's next generation. Several are replaced at once, and one that is
replaced is not touched when another fails again (rows 2-09 to 2-19).
"""

from __future__ import annotations

from collections.abc import Iterator

from trainstate.core import policy
from trainstate.core.decide_end import after_failure
from trainstate.core.deciding import TRAINING, bare, first_line, open_attempt
from trainstate.core.model import (
    Attempt,
    Budget,
    Cause,
    ReplicaGroupStatus,
    Run,
    RunStatus,
    Worker,
    WorkerStatus,
)
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s


def after_worker_failure(
    run: Run, attempt: Attempt, rank: int, cause: Cause, error: s.Error
) -> Iterator[e.Event]:
    """What follows when a worker of training failed: its group is replaced, or all starts again."""
    group = attempt.group_of(rank)
    if group is not None and attempt.groups[group].status is ReplicaGroupStatus.REPLACING:
        yield from replacement_failed(run, attempt, group, error, rank)
        return
    if group is not None and attempt.groups[group].status is not ReplicaGroupStatus.RUNNING:
        return  # a mate failed before it
    budget = policy.charge(run, cause)
    together = budget is not None and _is_together(run, attempt, rank, budget.budget)
    allowed = budget is not None and (together or budget.allows)
    if group is None or budget is None or not allowed or not _is_partial(run, attempt, group):
        yield from after_failure(run, cause, error)
        return
    backoff_s = 0.0 if together else policy.backoff_s(run, budget.used)
    what = f"{cause.name.lower()}: {first_line(error)}"
    failed = e.ReplicaGroupFailed(group=group, cause=int(cause), error=error, backoff_s=backoff_s)  # type: ignore[arg-type]
    yield bare(failed, f"rank {rank} failed of {what}", attempt.attempt_id)
    decided = e.FailureDecided(
        decision=e.FAILURE_DECISION_REPLACE,
        cause=int(cause),  # type: ignore[arg-type]
        backoff_s=backoff_s,
        error=error,
    )
    if not together:
        decided.budget = int(budget.budget)  # type: ignore[assignment]
        decided.used, decided.limit = budget.used, budget.limit
    of = "it went with another" if together else budget.text
    yield bare(decided, f"replaces replica group {group} ({of}) in {backoff_s:g} s after {what}")
    if not backoff_s:
        yield from replace(attempt, group, cause, rank)


def _is_together(run: Run, attempt: Attempt, rank: int, budget: Budget) -> bool:
    """Whether it fails with another group, of one event: its worker was there when that was counted.

    So many groups that go at once count once, and none that was started since goes for nothing.
    """
    use = run.budgets.get(budget)
    group = attempt.group_of(rank)
    others = [one for one in attempt.groups.values() if one.group != group]
    down = any(one.status is not ReplicaGroupStatus.RUNNING for one in others)
    return use is not None and down and attempt.workers[rank].start_time_ns <= use.time_ns


def _is_partial(run: Run, attempt: Attempt, group: int) -> bool:
    """Whether the others can train on without this group (row 2-09), and it can be had again.

    Not when a worker is done already (1-13): its part of the work is over, and no state to heal from.
    """
    others = [one for one in attempt.groups.values() if one.group != group]
    healthy = any(one.status is ReplicaGroupStatus.RUNNING for one in others)
    done = any(one.status is WorkerStatus.COMPLETED for one in attempt.workers.values())
    allowed = policy.max_replacements(run) > 0
    return run.status is RunStatus.RUNNING and healthy and not done and allowed


def replace(
    attempt: Attempt, group: int, cause: Cause, failed: int | None = None
) -> Iterator[e.Event]:
    """The start of a replacement, or what is missing of one that was recorded in part.

    `cause` is what the group failed of; `failed` is a rank that is known to fail, though it may not be
    recorded yet.
    """
    gang = attempt.gang(group)
    found = attempt.groups[group]
    replacing = found.status is ReplicaGroupStatus.REPLACING
    generation = found.generation if replacing else found.generation + 1
    old = [one for one in gang if one.generation < generation]
    for worker in old:
        yield from _stopped(attempt, worker, cause, failed)
    if not replacing:
        begun = e.ReplicaGroupReplacing(group=group, generation=generation)
        yield bare(begun, f"ranks {_ranks(gang)} start anew", attempt.attempt_id)
    first_report = max((one.reports for one in gang), default=0)
    for worker in old:
        scheduled = e.WorkerScheduled(
            rank=worker.rank,
            generation=generation,
            placement=worker.placement,
            bundle=worker.bundle,
            first_report=first_report,
        )
        yield bare(scheduled, attempt=attempt.attempt_id)


def _stopped(
    attempt: Attempt, worker: Worker, cause: Cause, failed: int | None
) -> Iterator[e.Event]:
    alive = worker.status in (WorkerStatus.SCHEDULING, WorkerStatus.RUNNING)
    if alive and worker.rank != failed:
        payload = e.WorkerFailing(rank=worker.rank, cause=int(cause))  # type: ignore[arg-type]
        yield bare(payload, "stopped with its replica group", attempt.attempt_id)


def _ranks(gang: list[Worker]) -> str:
    return ", ".join(str(one.rank) for one in gang)


def replace_due(run: Run, now_ns: int) -> Iterator[e.Event]:
    """Replaces the groups that have waited long enough."""
    attempt = open_attempt(run)
    for group in attempt.groups.values() if attempt is not None else ():
        waited = group.status is ReplicaGroupStatus.FAILED and now_ns >= group.restart_time_ns
        if attempt is None or not waited:
            continue
        if not _is_partial(run, attempt, group.group):  # not any more
            yield from after_failure(run, group.cause, group.error or s.Error())
            return
        yield from replace(attempt, group.group, group.cause)


def is_replacing(attempt: Attempt, group: int, generation: int) -> bool:
    """Whether the replacement of that generation is under way."""
    found = attempt.groups.get(group)
    if found is None or found.generation != generation:
        return False
    return found.status is ReplicaGroupStatus.REPLACING


def replaced(attempt: Attempt, group: int) -> e.Event:
    """That a replacement is ready to train."""
    found = attempt.groups[group]
    payload = e.ReplicaGroupReplaced(group=group, generation=found.generation)
    return bare(payload, f"ranks {_ranks(attempt.gang(group))} train again", attempt.attempt_id)


def replacement_failed(
    run: Run, attempt: Attempt, group: int, error: s.Error, failed: int | None = None
) -> Iterator[e.Event]:
    """Tries a replacement again, up to a number of times; then the whole attempt starts again (2-11).

    `failed` is as in `replace`.
    """
    found = attempt.groups[group]
    tries, limit = found.failed_replacements + 1, policy.max_replacements(run)
    again = tries < limit and run.status in TRAINING
    backoff_s = policy.backoff_s(run, tries) if again else 0.0
    for worker in attempt.gang(group):
        yield from _stopped(attempt, worker, Cause.REPLACEMENT_FAILED, failed)
    payload = e.ReplicaGroupReplacementFailed(
        group=group, generation=found.generation, error=error, backoff_s=backoff_s
    )
    what = f"try {tries} of {limit} to replace replica group {group} failed: {first_line(error)}"
    yield bare(payload, what, attempt.attempt_id)
    if not again:
        yield from after_failure(run, Cause.REPLACEMENT_FAILED, error)
        return
    decided = e.FailureDecided(
        decision=e.FAILURE_DECISION_REPLACE,
        cause=int(Cause.REPLACEMENT_FAILED),  # type: ignore[arg-type]
        used=tries,
        limit=limit,
        backoff_s=backoff_s,
        error=error,
    )
    yield bare(decided, f"tries again in {backoff_s:g} s: {what}")
