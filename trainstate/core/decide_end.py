"""What ends: a worker that fails, an attempt that is tried again or given up, a run.

The end of a run is decided once, by RunShuttingDown: it names what the run will have ended as, and why.
What is observed after it only leads there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainstate.core import observations as o
from trainstate.core import policy
from trainstate.core.deciding import ANEW, STOPPING, bare, current, first_line, open_attempt
from trainstate.core.model import Attempt, AttemptStatus, Cause, Run, RunStatus, WorkerStatus
from trainstate.core.transitions import ATTEMPT, RUN
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

# The end of an attempt, by where its run is going.
_ATTEMPT_END: Mapping[RunStatus, AttemptStatus] = {
    RunStatus.FINISHED: AttemptStatus.FINISHED,
    RunStatus.ABORTED: AttemptStatus.ABORTED,
}


def failing(attempt: Attempt, rank: int, cause: Cause, error: s.Error) -> Iterator[e.Event]:
    """That a worker failed, if it has not ended nor failed before."""
    worker = attempt.workers.get(rank)
    if worker is not None and worker.status in (WorkerStatus.SCHEDULING, WorkerStatus.RUNNING):
        payload = e.WorkerFailing(rank=rank, cause=int(cause), error=error)  # type: ignore[arg-type]
        yield bare(payload, first_line(error), attempt.attempt_id)


def after_failure(run: Run, cause: Cause, error: s.Error, saved: bool = False) -> Iterator[e.Event]:
    """Try again or give up, by the budget of the cause; the reason says which, and what is left.

    `saved`: the same decision commits a checkpoint, so what failed before it no longer counts.
    """
    budget = policy.charge(run, cause, saved) if RunStatus.RESTARTING in RUN[run.status] else None
    decided = e.FailureDecided(
        decision=e.FAILURE_DECISION_RAISE,
        cause=int(cause),  # type: ignore[arg-type]  # the model's enums are the schema's numbers
        error=error,
    )
    what = f"{cause.name.lower()}: {first_line(error)}"
    if budget is None:
        yield bare(decided, f"gives up, nothing allows another try after {what}")
        yield _give_up(cause, error)
        return
    decided.budget = int(budget.budget)  # type: ignore[assignment]
    decided.used, decided.limit = budget.used, budget.limit
    if not budget.allows:
        yield bare(decided, f"gives up, {budget.text} after {what}")
        yield _give_up(cause, error)
        return
    decided.decision = e.FAILURE_DECISION_RETRY
    decided.backoff_s = policy.backoff_s(run, budget.used)
    yield bare(decided, f"tries again ({budget.text}) in {decided.backoff_s:g} s after {what}")
    restarting = e.RunRestarting(cause=int(cause))  # type: ignore[arg-type]
    yield bare(restarting, f"restarts after {what}")


def _give_up(cause: Cause, error: s.Error) -> e.Event:
    ending = e.RunShuttingDown(
        next=s.RUN_STATUS_ERRORED,
        cause=int(cause),  # type: ignore[arg-type]
        error=error,
    )
    return bare(ending, first_line(error))


def on_abort(run: Run, abort: o.Abort, now_ns: int) -> Iterator[e.Event]:
    if RunStatus.SHUTTING_DOWN in RUN[run.status]:
        cause = int(abort.cause)
        ending = e.RunShuttingDown(next=s.RUN_STATUS_ABORTED, cause=cause)  # type: ignore[arg-type]
        yield bare(ending, abort.text)


def on_broke(run: Run, broke: o.Broke, now_ns: int) -> Iterator[e.Event]:
    anew = run.status in ANEW and broke.cause in policy.BUDGET_OF  # what it would come to
    if RunStatus.SHUTTING_DOWN in RUN[run.status] and not anew:
        yield from after_failure(run, broke.cause, broke.error)


def on_cleared(run: Run, cleared: o.Cleared, now_ns: int) -> Iterator[e.Event]:
    attempt = current(run, cleared.attempt_id)
    if attempt is None or run.status not in STOPPING:
        return
    cause = _cause(run)
    failed = sorted(one.rank for one in attempt.workers.values() if one.error is not None)
    others = (
        f"stopped with its attempt, as rank {failed[0]} failed" if failed else run.status_reason
    )
    for worker in attempt.workers.values():
        if not worker.status.is_terminal:
            died = e.WorkerDied(rank=worker.rank, cause=0 if worker.cause else int(cause))  # type: ignore[arg-type]
            why = others if worker.error is None else first_line(worker.error)
            yield bare(died, why, attempt.attempt_id)
    yield bare(_attempt_ended(run, attempt, cause), run.status_reason, attempt.attempt_id)


def _cause(run: Run) -> Cause:
    """Why the open attempt ends (row 0-12): a resize has no failure to name it."""
    return Cause.RESIZE if run.status is RunStatus.RESIZING else run.cause


def _attempt_ended(run: Run, attempt: Attempt, cause: Cause) -> e.AttemptEnded:
    errors = [one.error for _, one in sorted(attempt.workers.items()) if one.error is not None]
    status = _ATTEMPT_END.get(run.next_status, AttemptStatus.ERRORED)
    if run.status is RunStatus.RESIZING:
        status = AttemptStatus.FINISHED
    if status not in ATTEMPT[attempt.status]:  # one that never trained has nothing finished
        status = AttemptStatus.ABORTED
    return e.AttemptEnded(
        status=int(status),  # type: ignore[arg-type]
        cause=int(cause),  # type: ignore[arg-type]
        error=run.error or (errors[0] if errors else None),
    )


def on_closed(run: Run, closed: o.Closed, now_ns: int) -> Iterator[e.Event]:
    if run.status is not RunStatus.SHUTTING_DOWN or open_attempt(run) is not None:
        return
    # The start may be by another machine's clock, and no end is before its start.
    end_ns = run.start_time_ns if run.start_time_ns > now_ns else 0
    cause = int(run.cause)
    payload: e.RunFinished | e.RunAborted | e.RunErrored
    if run.next_status is RunStatus.FINISHED:
        payload = e.RunFinished(end_time_ns=end_ns, return_value=run.return_value)
    elif run.next_status is RunStatus.ABORTED:
        payload = e.RunAborted(cause=cause, end_time_ns=end_ns)  # type: ignore[arg-type]
    else:
        payload = e.RunErrored(cause=cause, error=run.error, end_time_ns=end_ns)  # type: ignore[arg-type]
    yield bare(payload, run.status_reason)


def on_hook_failed(run: Run, failed: o.HookFailed, now_ns: int) -> Iterator[e.Event]:
    payload = e.CallbackFailed(callback=failed.callback, hook=failed.hook, error=failed.error)
    yield bare(payload, first_line(failed.error))
