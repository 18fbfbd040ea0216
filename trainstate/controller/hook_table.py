"""Which hooks a recorded event calls, in which order: the table, and what its conditions look at.

The order is Ray Train's (reference F.2), but where our run takes another way. Workers are stopped while
the run is RESTARTING, so the hooks of their end come before it is SCHEDULING again, not after. What Ray
tells at every poll is told when there is something to tell: `after_controller_state_update` when the
status changes, `after_worker_group_poll_status` with a set of reports, a failure, and the last worker's
end. An abort goes through SHUTTING_DOWN.

Nothing here calls anything. Views are made when the event is recorded; what is costly to make, or runs
the user's code, is `Later`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

from trainstate.controller import hooks as h
from trainstate.controller.hook_story import AttemptStory, Story
from trainstate.controller.hook_views import (
    ResizeDecision,
    TrainingReport,
    WorkerGroupPollStatus,
    WorkerStatusView,
    failure_decision,
)
from trainstate.controller.report_sets import ReportSet
from trainstate.core import RunStatus
from trainstate.core.deciding import STOPPING
from trainstate.core.values import from_map
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s


class Later:
    """An argument that is made in the hooks' thread, for each callback anew."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


class How(Enum):
    """Called, or a context manager that is entered at one event and left at another."""

    CALL = auto()
    ENTER = auto()
    EXIT = auto()


class Hook(NamedTuple):
    """A hook of a family."""

    family: type[h.Callback]
    name: str
    how: How = How.CALL


class Call(NamedTuple):
    """A hook to call on every callback of its family, and what with."""

    hook: Hook
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}


class World(Protocol):
    """What cannot be had from events. `exception` and `result` take what is so now for later."""

    def context(self) -> Any: ...

    def checkpoint(self, directory: str) -> Any: ...

    def exception(self, rank: int, error: s.Error) -> Callable[[], Exception]: ...

    def result(self) -> Callable[[], Any]: ...


class Moment(NamedTuple):
    """An event, with the story that it is already part of."""

    story: Story
    event: e.Event
    before: RunStatus
    world: World

    @property
    def attempt(self) -> AttemptStory:
        """The open attempt, or the one that this event ended."""
        assert self.story.attempt is not None
        return self.story.attempt


START = Hook(h.ControllerCallback, "after_controller_start")
STATE = Hook(h.ControllerCallback, "after_controller_state_update")
RESIZE = Hook(h.ControllerCallback, "before_controller_execute_resize_decision")
LABELS = Hook(h.ControllerCallback, "on_controller_start_worker_group")
FAILURE = Hook(h.ControllerCallback, "before_controller_execute_failure_decision")
SHUTDOWN = Hook(h.ControllerCallback, "before_controller_shutdown")
ABORT = Hook(h.ControllerCallback, "before_controller_abort")
FINISH = Hook(h.ControllerCallback, "after_controller_finish")
EXTRA = Hook(h.ExecutionGroupCallback, "before_init_train_context")
GROUP_START_ENTER = Hook(h.WorkerGroupCallback, "on_worker_group_start", How.ENTER)
GROUP_START_BEFORE = Hook(h.WorkerGroupCallback, "before_worker_group_start")
GROUP_START_AFTER = Hook(h.WorkerGroupCallback, "after_worker_group_start")
GROUP_START_EXIT = Hook(h.WorkerGroupCallback, "on_worker_group_start", How.EXIT)
GROUP_TRAINING = Hook(h.WorkerGroupCallback, "after_worker_group_training_start")
GROUP_POLL = Hook(h.WorkerGroupCallback, "after_worker_group_poll_status")
GROUP_SHUTDOWN_ENTER = Hook(h.WorkerGroupCallback, "on_worker_group_shutdown", How.ENTER)
GROUP_SHUTDOWN_BEFORE = Hook(h.WorkerGroupCallback, "before_worker_group_shutdown")
GROUP_SHUTDOWN_AFTER = Hook(h.WorkerGroupCallback, "after_worker_group_shutdown")
GROUP_SHUTDOWN_EXIT = Hook(h.WorkerGroupCallback, "on_worker_group_shutdown", How.EXIT)
GROUP_ABORT_BEFORE = Hook(h.WorkerGroupCallback, "before_worker_group_abort")
GROUP_ABORT_AFTER = Hook(h.WorkerGroupCallback, "after_worker_group_abort")
REPLICAS_SHUTDOWN = Hook(h.ReplicaGroupCallback, "before_replica_group_shutdown")
REPLICAS_START = Hook(h.ReplicaGroupCallback, "after_replica_group_start")
USER_REPORT = Hook(h.UserCallback, "after_report")
REPORT = Hook(h.ReportCallback, "after_report")
EXCEPTION = Hook(h.UserCallback, "after_exception")


# --- conditions -----------------------------------------------------------------------------------


def _always(now: Moment) -> bool:
    return True


def _moved(now: Moment) -> bool:
    return now.story.status is not now.before


def _failing(now: Moment) -> bool:
    return now.story.attempt is not None and bool(now.story.attempt.failing)


def _failing_late(now: Moment) -> bool:
    return _failing(now) and now.story.status in STOPPING  # nothing is decided on it any more


def _last_completed(now: Moment) -> bool:
    return len(now.attempt.completed) == len(now.attempt.workers)


def _aborting(now: Moment) -> bool:
    return now.story.next_status is RunStatus.ABORTED


def _ending(now: Moment) -> bool:
    return now.story.status is RunStatus.SHUTTING_DOWN and not _aborting(now)


def _open(now: Moment) -> bool:
    return now.story.attempt is not None


def _starting(now: Moment) -> bool:
    return now.story.attempt is not None and now.story.attempt.starting


def _closing(now: Moment) -> bool:
    return now.attempt.closing


def _and(*conditions: Callable[[Moment], bool]) -> Callable[[Moment], bool]:
    return lambda now: all(one(now) for one in conditions)


def _not(condition: Callable[[Moment], bool]) -> Callable[[Moment], bool]:
    return lambda now: not condition(now)


# --- the table ------------------------------------------------------------------------------------

Row = tuple[Callable[[Moment], bool], tuple[Hook, ...]]
_STATUS: Row = (_moved, (STATE,))
_CUT_START: Row = (_starting, (GROUP_START_EXIT,))
_STOP = (GROUP_SHUTDOWN_ENTER, GROUP_SHUTDOWN_BEFORE)
_STOPPED = (GROUP_SHUTDOWN_AFTER, GROUP_SHUTDOWN_EXIT)

TABLE: Mapping[str, Sequence[Row]] = {
    "controller_started": [(_always, (START,))],
    "run_scheduling": [_STATUS],
    "run_waiting": [_STATUS],
    "run_running": [_STATUS],
    "run_preempting": [_STATUS],
    "attempt_planned": [(_always, (RESIZE, LABELS, GROUP_START_ENTER, GROUP_START_BEFORE))],
    # The value of EXTRA is asked for between these two.
    "attempt_started": [(_always, (GROUP_START_AFTER, GROUP_START_EXIT, GROUP_TRAINING))],
    "worker_failing": [(_failing_late, (EXCEPTION, GROUP_POLL))],
    "worker_completed": [(_last_completed, (GROUP_POLL,))],
    "failure_decided": [(_failing, (EXCEPTION, GROUP_POLL)), (_always, (FAILURE,))],
    "run_restarting": [_STATUS, _CUT_START, (_open, _STOP)],
    "run_resizing": [_STATUS, _CUT_START, (_open, _STOP)],
    "run_shutting_down": [
        (_aborting, (ABORT,)),
        (_and(_aborting, _open), (GROUP_ABORT_BEFORE,)),
        _STATUS,
        _CUT_START,
        (_and(_ending, _open, _not(lambda now: now.attempt.stopped)), _STOP),
        (_and(_ending, _not(_open)), (SHUTDOWN,)),
    ],
    "attempt_ended": [
        (_aborting, (GROUP_ABORT_AFTER,)),
        (_closing, _STOPPED),
        (_ending, (SHUTDOWN,)),
    ],
    "run_finished": [_STATUS, (_always, (FINISH,))],
    "run_errored": [_STATUS, (_always, (FINISH,))],
    "run_aborted": [_STATUS],
    "replica_group_replacing": [(_always, (RESIZE, REPLICAS_SHUTDOWN))],
    "replica_group_replaced": [(_always, (REPLICAS_START,))],
}


# --- what hooks are given -------------------------------------------------------------------------


def _state(now: Moment, hook: Hook) -> Call:
    return Call(hook, (now.before, now.story.status))


def _context(now: Moment, hook: Hook) -> Call:
    return Call(hook, (Later(now.world.context),))


def _resize(now: Moment, hook: Hook) -> Call:
    of = now.attempt.context
    return Call(hook, (ResizeDecision(of.num_workers, of.resources_per_worker),))


def labels(world: World, num_workers: int) -> Call:
    """The question which labels the nodes of that many workers are to have."""
    scaling = Later(lambda: getattr(world.context(), "scaling_config", None))
    return Call(LABELS, (), {"scaling_config": scaling, "num_workers": num_workers})


def _labels(now: Moment, hook: Hook) -> Call:
    return labels(now.world, now.attempt.context.num_workers)


def _of_group(now: Moment, hook: Hook) -> Call:
    return Call(hook, (now.attempt.group(now.event.run_seq),))


def _of_replicas(now: Moment, hook: Hook) -> Call:
    kind = now.event.WhichOneof("payload") or ""
    number = getattr(now.event, kind).group
    return Call(hook, (now.attempt.group(now.event.run_seq, number),))


def _of_attempt(now: Moment, hook: Hook) -> Call:
    return Call(hook, (now.attempt.context,))


def _exception(now: Moment, hook: Hook) -> Call:
    failing = dict(now.attempt.failing)
    return Call(
        hook,
        (),
        {
            "run_context": Later(now.world.context),
            "worker_exceptions": Later(lambda: {rank: one() for rank, one in failing.items()}),
        },
    )


def _failure(now: Moment, hook: Hook) -> Call:
    return Call(hook, (failure_decision(now.event),))


def _poll(now: Moment, hook: Hook) -> Call:
    return _poll_of(now.attempt, {})


def _result(now: Moment, hook: Hook) -> Call:
    return Call(hook, (Later(now.world.result()),))


def _nothing(now: Moment, hook: Hook) -> Call:
    return Call(hook)


_GIVEN: Mapping[Hook, Callable[[Moment, Hook], Call]] = {
    START: _context,
    STATE: _state,
    RESIZE: _resize,
    LABELS: _labels,
    FAILURE: _failure,
    FINISH: _result,
    GROUP_START_BEFORE: _of_attempt,
    GROUP_START_AFTER: _of_group,
    GROUP_TRAINING: _of_group,
    GROUP_POLL: _poll,
    GROUP_SHUTDOWN_BEFORE: _of_group,
    GROUP_SHUTDOWN_AFTER: _of_attempt,
    GROUP_ABORT_BEFORE: _of_attempt,
    GROUP_ABORT_AFTER: _of_attempt,
    REPLICAS_SHUTDOWN: _of_replicas,
    REPLICAS_START: _of_replicas,
    EXCEPTION: _exception,
}


def calls(story: Story, event: e.Event, world: World) -> list[Call]:
    """Makes the event part of the story; the hooks it calls, in order. Reports are told by `told`."""
    before = story.status
    story.take(event, world.exception)
    now = Moment(story, event, before, world)
    made = [
        _GIVEN.get(hook, _nothing)(now, hook)
        for condition, row in TABLE.get(event.WhichOneof("payload") or "", ())
        if condition(now)
        for hook in row
    ]
    story.turn(event, any(one.hook is EXCEPTION for one in made))
    return made


# --- reports --------------------------------------------------------------------------------------


def told(story: Story, world: World) -> Iterator[list[Call]]:
    """The hooks that each whole set of reports calls."""
    attempt = story.attempt
    for one in attempt.sets.due() if attempt is not None and attempt.sets is not None else ():
        assert attempt is not None
        yield _of_set(attempt, one, world)


def _of_set(attempt: AttemptStory, one: ReportSet, world: World) -> list[Call]:
    def metrics() -> list[dict[str, Any]]:
        found = sorted(one.metrics.items())
        return [from_map(s.ValueMap.FromString(encoded)) for _, encoded in found]

    def checkpoint() -> Any:
        return world.checkpoint(one.directory) if one.directory else None

    def report() -> TrainingReport:
        return TrainingReport(checkpoint(), metrics()[0])

    by_name = {
        "run_context": Later(world.context),
        "metrics": Later(metrics),
        "checkpoint": Later(checkpoint),
    }
    return [
        Call(USER_REPORT, (), by_name),
        Call(REPORT, (Later(report), Later(metrics))),
        _poll_of(attempt, one.metrics),
    ]


def _poll_of(attempt: AttemptStory, metrics: Mapping[int, bytes]) -> Call:
    # What is taken now is small while training goes on; the rest is made when it is asked for.
    ranks = range(attempt.context.num_workers)
    completed, errors = frozenset(attempt.completed), dict(attempt.errors)

    def report(rank: int) -> TrainingReport | None:
        encoded = metrics.get(rank)
        found = None if encoded is None else from_map(s.ValueMap.FromString(encoded))
        return None if found is None else TrainingReport(None, found)

    def status(rank: int) -> WorkerStatusView:
        error = errors[rank]() if rank in errors else None
        return WorkerStatusView(error is None and rank not in completed, error, report(rank))

    def known() -> WorkerGroupPollStatus:
        return WorkerGroupPollStatus({rank: status(rank) for rank in ranks})

    return Call(GROUP_POLL, (Later(known),))
