"""Hooks are called from recorded events, in Ray's order, and change nothing of a run."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from google.protobuf.message import Message

from trainstate.controller import hooks as h
from trainstate.controller.hook_env import callbacks_of
from trainstate.controller.hook_table import TABLE
from trainstate.controller.observers import Observers
from trainstate.controller.report_sets import ReportSets
from trainstate.core import Cause, RunStatus, initial
from trainstate.core import observations as o
from trainstate.core.policy import attempt_id_of
from trainstate.core.transitions import TARGETS
from trainstate.core.values import to_map
from trainstate.errors import UsageError
from trainstate.testing.given import Given, event, given
from trainstate.train.exceptions import TrainingFailedError
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

# --- a run of two workers, as it is recorded ------------------------------------------------------


GANG = "run/0.1"


def created(max_failures: int = 1) -> e.RunCreated:
    cpu = s.ResourceSet(resources=[s.Resource(name="CPU", amount=0.5)])
    scaling = s.ScalingConfig(num_workers_fixed=2, resources_per_worker=cpu)
    failure = s.FailureConfig(max_failures=max_failures, controller_failure_limit=-1)
    config = s.RunConfig(failure_config=failure)
    return e.RunCreated(name="a", settings=s.RunSettings(scaling_config=scaling, run_config=config))


def attempt_id(number: int) -> str:
    return attempt_id_of("run", number)


def started(number: int) -> list[o.Observation]:
    """From a placement that was asked for to training."""
    name = attempt_id(number)
    workers = tuple(
        o.WorkerFacts(
            bundle, 0, b"actor%d" % bundle, b"node", "10.0.0.1", 100 + bundle, placement=GANG
        )
        for bundle in range(2)
    )
    there = o.Reserved(GANG, b"pg", ("n", "n"))
    return [o.Placed((there,)), o.GangUp(name, workers), o.Ready(name)]


def reported(number: int, rank: int, *indices: int, checkpoint: str = "") -> o.Reported:
    reports = tuple(
        e.ReportReceived(
            rank=rank,
            index=index,
            metrics=to_map({"rank": rank, "step": index}),
            checkpoint=checkpoint,
        )
        for index in indices
    )
    return o.Reported(attempt_id(number), rank, 0, reports)


def failed(number: int, rank: int) -> o.WorkerFailed:
    error = s.Error(type="ValueError", message="bad batch", ranks=[rank])
    return o.WorkerFailed(attempt_id(number), rank, 0, Cause.WORKER_ERROR, error)


def completed(number: int) -> list[o.Observation]:
    return [o.Completed(attempt_id(number), rank, 0) for rank in range(2)]


FAILS_ONCE: list[o.Observation] = [
    o.Began(created()),
    *started(1),
    reported(1, 0, 0),
    reported(1, 1, 0),
    failed(1, 1),
    o.Cleared(attempt_id(1)),
    o.Woke(),
    *started(2),
    *completed(2),
    o.Cleared(attempt_id(2)),
    o.Closed(),
]

# --- callbacks that say what they were called with ------------------------------------------------


class Recorder(h.ControllerCallback, h.WorkerGroupCallback, h.ReplicaGroupCallback):
    """Every hook of the controller's process but those on reports."""

    def __init__(self, lines: list[Any]) -> None:
        self.lines = lines

    def __getattribute__(self, name: str) -> Any:
        if name.startswith(("after_", "before_")) and name != "before_controller_shutdown":
            default = getattr(type(self), name)

            def called(*args: Any) -> Any:
                self.lines.append((name, *args))
                return default(self, *args)

            return called
        return object.__getattribute__(self, name)

    def on_controller_start_worker_group(self, **given: Any) -> dict[str, str]:
        self.lines.append(("on_controller_start_worker_group", given["num_workers"]))
        return {"zone": "a"}

    async def before_controller_shutdown(self) -> None:
        await asyncio.sleep(0)
        self.lines.append(("before_controller_shutdown",))

    @contextmanager
    def on_worker_group_start(self) -> Iterator[None]:
        self.lines.append(("on_worker_group_start enter",))
        yield
        self.lines.append(("on_worker_group_start exit",))

    @contextmanager
    def on_worker_group_shutdown(self) -> Iterator[None]:
        self.lines.append(("on_worker_group_shutdown enter",))
        yield
        self.lines.append(("on_worker_group_shutdown exit",))


class User(h.UserCallback):
    def __init__(self, lines: list[Any]) -> None:
        self.lines = lines

    def after_report(self, run_context: Any, metrics: Any, checkpoint: Any) -> None:
        self.lines.append(("user after_report", metrics, checkpoint))

    def after_exception(self, run_context: Any, worker_exceptions: Any) -> None:
        self.lines.append(("user after_exception", worker_exceptions))


class Reports(h.ReportCallback):
    def __init__(self, lines: list[Any]) -> None:
        self.lines = lines

    def after_report(self, training_report: Any, metrics: Any) -> None:
        self.lines.append(("report after_report", training_report, metrics))


def watched(
    callbacks: Sequence[h.Callback],
    observations: Sequence[o.Observation],
    *,
    begun: int = 0,
    values: bool = True,
    timeout_s: float = 5.0,
    exceptions: dict[int, bytes] | None = None,
) -> list[o.Observation]:
    """Has callbacks watch a run, but for its first `begun` observations; what was said of them."""
    said: list[o.Observation] = []

    async def watch() -> None:
        observers = Observers(callbacks, None, said.append, timeout_s)
        story = given()
        step(story, *observations[:begun])
        observers.take_up(story.run)
        for one in observations[begun:]:
            await answer(observers, one, values)
            observers.recorded(step(story, one), story.run, exceptions or {})
        await observers.close(timeout_s)

    asyncio.run(watch())
    return said


async def answer(observers: Observers, one: o.Observation, values: bool) -> None:
    """What the shell asks for before it says this."""
    if values and isinstance(one, o.Placed):
        assert {"zone": "a"} == await observers.labels(2)
    if values and isinstance(one, o.Ready):
        assert {} == await observers.extra(["w0", "w1"])


def step(story: Given, *observations: o.Observation) -> list[e.Event]:
    """The events that follow; one for which nothing does is at fault."""
    before = len(story.events)
    for one in observations:
        wake_s = 10_000.0 if isinstance(one, o.Woke) else 0.0
        story.observed(one, at_s=wake_s)
    return story.events[before:]


def names(lines: Sequence[Any]) -> list[str]:
    """What was called; status changes with what they lead to."""
    return [f"{one[0]} {one[2]}" if "state_update" in one[0] else one[0] for one in lines]


STATE = "after_controller_state_update"
START = [
    "before_controller_execute_resize_decision",
    "on_controller_start_worker_group",
    "on_worker_group_start enter",
    "before_worker_group_start",
    "before_init_train_context",
    "after_worker_group_start",
    "after_execution_group_start",
    "on_worker_group_start exit",
    "after_worker_group_training_start",
    f"{STATE} RUNNING",
]
STOP = [
    "on_worker_group_shutdown enter",
    "before_worker_group_shutdown",
    "before_execution_group_shutdown",
    "after_worker_group_shutdown",
    "on_worker_group_shutdown exit",
]


def test_the_order_of_a_run_that_fails_once_and_succeeds() -> None:
    """It is Ray's, but that workers stop while the run is RESTARTING, before it is SCHEDULING again."""
    lines: list[Any] = []
    callbacks = [Recorder(lines), User(lines), Reports(lines)]
    assert [] == watched(callbacks, FAILS_ONCE)
    assert [
        "after_controller_start",
        f"{STATE} SCHEDULING",
        *START,
        "user after_report",
        "report after_report",
        "after_worker_group_poll_status",
        "user after_exception",
        "after_worker_group_poll_status",
        "before_controller_execute_failure_decision",
        f"{STATE} RESTARTING",
        *STOP,
        f"{STATE} SCHEDULING",
        *START,
        "after_worker_group_poll_status",
        f"{STATE} SHUTTING_DOWN",
        *STOP,
        "before_controller_shutdown",
        f"{STATE} FINISHED",
        "after_controller_finish",
    ] == names(lines)


def test_the_order_of_an_abort() -> None:
    """The hooks of an abort and no others: not those of a shutdown, nor of a finished run."""
    lines: list[Any] = []
    abort = [o.Abort(Cause.USER_ABORT, "Ctrl-C"), o.Cleared(attempt_id(1)), o.Closed()]
    watched([Recorder(lines)], [o.Began(created()), *started(1), *abort])
    assert [
        "before_controller_abort",
        "before_worker_group_abort",
        f"{STATE} SHUTTING_DOWN",
        "after_worker_group_abort",
        f"{STATE} ABORTED",
    ] == names(lines)[-5:]


def test_the_order_of_a_run_that_is_given_up() -> None:
    """A failure that is raised is told, and the result has its exception."""
    lines: list[Any] = []
    story = [o.Began(created(0)), *started(1), failed(1, 1), o.Cleared(attempt_id(1)), o.Closed()]
    boom = pickle.dumps(ValueError("bad batch"))
    watched([Recorder(lines), User(lines)], story, exceptions={1: boom})
    assert [
        "user after_exception",
        "after_worker_group_poll_status",
        "before_controller_execute_failure_decision",
        f"{STATE} SHUTTING_DOWN",
        *STOP,
        "before_controller_shutdown",
        f"{STATE} ERRORED",
        "after_controller_finish",
    ] == names(lines)[-12:]
    given_to = {one[0]: one[1:] for one in lines}
    (exceptions,) = given_to["user after_exception"]
    assert [(1, "ValueError('bad batch')")] == [
        (rank, repr(one)) for rank, one in exceptions.items()
    ]
    (decision,) = given_to["before_controller_execute_failure_decision"]
    assert ("RAISE", Cause.WORKER_ERROR, "bad batch") == (
        decision.name,
        decision.cause,
        decision.error.message,
    )
    assert "ValueError('bad batch')" == repr(given_to["after_controller_finish"][0].error)


def test_a_start_that_is_cut_short_leaves_its_context() -> None:
    """on_worker_group_start is left before the hooks of the stop, also when nothing ever trained."""
    lines: list[Any] = []
    late = o.NotPlaced(1.0, "no room")
    watched([Recorder(lines)], [o.Began(created()), late])
    assert [
        "on_worker_group_start enter",
        "before_worker_group_start",
        "before_controller_execute_failure_decision",
        f"{STATE} RESTARTING",
        "on_worker_group_start exit",
        "on_worker_group_shutdown enter",
    ] == names(lines)[4:10]


def test_the_order_of_a_replacement() -> None:
    """A replica group that is replaced on its own calls its own hooks, and none of the worker group."""
    lines: list[Any] = []
    boom = s.Error(type="ValueError", message="bad batch")
    replacement: list[Message] = [
        e.WorkerFailing(rank=1, error=boom),
        e.ReplicaGroupFailed(group=1),
        e.FailureDecided(decision=e.FAILURE_DECISION_REPLACE, error=boom),
        e.ReplicaGroupReplacing(group=1, generation=1),
        e.WorkerScheduled(rank=1, generation=1, bundle=1),
        e.WorkerStarted(rank=1, pid=201),
        e.ReplicaGroupReplaced(group=1, generation=1),
    ]

    async def test() -> None:
        observers = Observers([Recorder(lines), User(lines)])
        story = given()
        step(story, o.Began(created()), *started(1))
        story.run.attempts[0].replica_group_size = 1
        observers.take_up(story.run)
        events = [event(one, attempt_id(1)) for one in replacement]
        observers.recorded(events, story.run, {})
        await observers.close(5.0)

    in_a_loop(test)
    assert [
        "user after_exception",
        "after_worker_group_poll_status",
        "before_controller_execute_failure_decision",
        "before_controller_execute_resize_decision",
        "before_replica_group_shutdown",
        "before_execution_group_shutdown",
        "after_replica_group_start",
        "after_execution_group_start",
    ] == names(lines)
    old, new = lines[4][1].get_workers(), lines[6][1].get_workers()
    assert [(101, 0)] == [(one.metadata.pid, one.generation) for one in old]
    assert [(201, 1)] == [(one.metadata.pid, one.generation) for one in new]


def test_what_hooks_are_given() -> None:
    """Views have what was recorded: ranks, places, resources, the attempt; and what ranks reported."""
    lines: list[Any] = []
    watched([Recorder(lines), User(lines), Reports(lines)], FAILS_ONCE)
    of = [one for one in lines if one[0] == "after_worker_group_start"][1][1]
    assert 2 == len(of)
    assert [(0, 0, 2, 100), (1, 1, 2, 101)] == [
        (
            one.distributed_context.world_rank,
            one.distributed_context.local_rank,
            one.distributed_context.local_world_size,
            one.metadata.pid,
        )
        for one in of.get_workers()
    ]
    assert f"run/{attempt_id(2)}/0.1.1/0" == of.get_workers()[1].actor_name
    context = of.get_worker_group_context()
    assert (attempt_id(2), 2, 2, {"CPU": 0.5}) == (
        context.run_attempt_id,
        context.number,
        context.num_workers,
        context.resources_per_worker,
    )
    by_rank = [{"rank": 0, "step": 0}, {"rank": 1, "step": 0}]
    assert [by_rank, None] == list(next(one for one in lines if one[0] == "user after_report")[1:])
    polls = [one[1] for one in lines if one[0] == "after_worker_group_poll_status"]
    assert [[], [1], []] == [list(one.errors) for one in polls]
    assert [False, False, True] == [one.finished for one in polls]


def test_a_report_with_a_checkpoint_waits_until_it_is_committed() -> None:
    """No hook hears of a checkpoint that may never be one; what is behind it waits with it."""
    lines: list[Any] = []
    reports = [
        reported(1, 0, 0, checkpoint="c0"),
        reported(1, 1, 0),
        reported(1, 0, 1),
        reported(1, 1, 1),
    ]
    before = [o.Began(created()), *started(1), *reports]
    watched([User(lines)], before, values=False)
    assert [] == lines
    watched([User(lines)], [*before, o.Published(attempt_id(1), 0)], values=False)
    assert [("c0", 0), (None, 1)] == [(one[2], one[1][0]["step"]) for one in lines]


def test_after_a_recovery_hooks_go_on() -> None:
    """after_controller_start is called again; what its predecessor called is not."""
    lines: list[Any] = []
    story = [*FAILS_ONCE[:6], o.Began(created()), *FAILS_ONCE[6:]]
    watched([Recorder(lines), User(lines)], story, begun=6)
    assert [
        "after_controller_start",
        "user after_exception",
        "after_worker_group_poll_status",
        "before_controller_execute_failure_decision",
    ] == names(lines)[:4]


def test_labels_are_asked_for_again_by_a_successor() -> None:
    """A controller that takes over while its gang is placed asks what its predecessor had asked."""
    lines: list[Any] = []
    watched([Recorder(lines)], [o.Began(created()), o.Began(created()), *started(1)], begun=1)
    assert ["after_controller_start", "on_controller_start_worker_group"] == names(lines)[:2]


# --- isolation ------------------------------------------------------------------------------------

HOOKS = sorted(
    {
        hook.name
        for rows in TABLE.values()
        for _, row in rows
        for hook in row
        if hook.family is not h.ReplicaGroupCallback
    }
    | {"before_init_train_context", "after_report"}
)


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_raises_is_recorded_and_changes_nothing(name: str) -> None:
    """Every hook may raise anything: it is said which, and the others are called as before."""

    def broken(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise SystemExit(f"no {name}")

    everything = (h.ControllerCallback, h.WorkerGroupCallback)
    owner = (h.UserCallback,) if hasattr(h.UserCallback, name) else everything
    bad = type("Bad", owner, {name: broken})()
    lines: list[Any] = []
    abort = [o.Abort(Cause.USER_ABORT, "Ctrl-C"), o.Cleared(attempt_id(1)), o.Closed()]
    story = [*FAILS_ONCE[:4], *abort] if "abort" in name else FAILS_ONCE
    alone: list[Any] = []
    watched([Recorder(alone)], story)
    said = watched([bad, Recorder(lines)], story)
    assert {("Bad", name, f"no {name}")} == {
        (one.callback, one.hook, one.error.message) for one in said if isinstance(one, o.HookFailed)
    }
    assert names(alone) == names(lines)


def test_a_hook_may_ask_for_the_end() -> None:
    """TrainingFailedError, and what is derived from it, ends the run, and says which hook it was."""

    class Fatal(TrainingFailedError):
        pass

    class Asks(h.UserCallback):
        def after_report(self, run_context: Any, metrics: Any, checkpoint: Any) -> None:
            raise Fatal("loss is nan")

    hook, end = watched([Asks()], FAILS_ONCE, values=False)
    assert isinstance(hook, o.HookFailed)
    assert isinstance(end, o.Broke)
    assert (Cause.CALLBACK_ERROR, "loss is nan") == (end.cause, end.error.message)


def test_a_failure_can_be_recorded_after_the_end() -> None:
    """The last hook is called when the run has ended; what it raises is said all the same."""
    story = given()
    step(story, *FAILS_ONCE)
    error = s.Error(message="disk full")
    story.observed(o.HookFailed("Mine", "after_controller_finish", error)).then(
        events=["callback_failed"], status=RunStatus.FINISHED, callback_failures=1
    )


class Slow(h.ControllerCallback):
    """Its first hook waits to be let go."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def after_controller_start(self, train_run_context: Any) -> None:
        self.go.wait()


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_a_hook_that_never_returns_is_given_up_once() -> None:
    """Who waits for it says so after the time, and after that nobody waits for it again."""
    slow, said = Slow(), []

    async def test() -> None:
        observers = Observers([slow, Recorder([])], None, said.append, 0.2)
        story = given()
        observers.take_up(story.run)
        began = time.monotonic()
        observers.recorded(step(story, o.Began(created())), story.run, {})
        assert time.monotonic() - began < 0.1
        assert await observers.labels(2) is None
        assert time.monotonic() - began > 0.2
        for _ in range(20):
            assert {} == await observers.extra(["w0", "w1"])
            await observers.farewell()
            await observers.close(30.0)
        assert time.monotonic() - began < 2
        slow.go.set()
        await observers.close(5.0)

    in_a_loop(test)
    (one,) = said
    assert ("Slow", "after_controller_start") == (one.callback, one.hook)
    assert one.error.message.startswith("still running after 0.2 s; ")


def test_a_slow_hook_delays_only_the_next() -> None:
    """What is recorded meanwhile is told later, in its order, and nothing is said of it."""
    slow, said = Slow(), []
    lines: list[Any] = []

    async def test() -> None:
        observers = Observers([slow, User(lines)], None, said.append, 5.0)
        story = given()
        observers.take_up(story.run)
        began = time.monotonic()
        for one in FAILS_ONCE:
            observers.recorded(step(story, one), story.run, {})
        assert await observers.labels(2) is None  # nobody has that hook: nothing is waited for
        assert time.monotonic() - began < 2
        assert [] == lines
        slow.go.set()
        await observers.close(5.0)

    in_a_loop(test)
    assert ["user after_report", "user after_exception"] == names(lines)
    assert [] == said


def test_nobody_is_asked_where_nobody_answers() -> None:
    """Without callbacks of the controller's process there is no thread, and nothing is kept."""

    async def test() -> None:
        observers = Observers([h.WorkerCallback()])
        observers.take_up(initial("run"))
        story = given()
        for one in FAILS_ONCE:
            observers.recorded(step(story, one), story.run, {})
        await observers.close(30.0)
        assert "hooks" not in {thread.name for thread in threading.enumerate() if thread.is_alive()}

    before = [one for one in threading.enumerate() if one.name == "hooks"]
    if not before:  # those of other tests are daemons, and may wait for work still
        in_a_loop(test)


@pytest.mark.parametrize(
    ("value", "why"),
    [({"cache": [1]}, "1 values for 2"), ({"cache": 7}, "len()"), (["cache"], "dict")],
)
def test_a_wrong_value_is_the_hooks_failure(value: Any, why: str) -> None:
    """A value that does not fit the workers is left out, and said."""
    said: list[Any] = []

    class Wrong(h.WorkerGroupCallback):
        def before_init_train_context(self, workers: Any) -> Any:
            return value

    class Right(h.WorkerGroupCallback):
        def before_init_train_context(self, workers: Any) -> Any:
            return {"shard": list(workers)}

    async def test() -> None:
        observers = Observers([Wrong(), Right()], None, said.append, 5.0)
        assert {"shard": ["w0", "w1"]} == await observers.extra(["w0", "w1"])
        await observers.close(5.0)

    in_a_loop(test)
    (one,) = said
    assert ("before_init_train_context", True) == (one.hook, why in one.error.message)


# --- reports far apart ----------------------------------------------------------------------------


def report(rank: int) -> e.ReportReceived:
    return e.ReportReceived(rank=rank, metrics=to_map({"rank": rank}))


def test_ranks_may_be_far_apart() -> None:
    """Sets wait for the slowest rank, no more than the bound, of which the oldest are dropped."""
    sets = ReportSets({0: 0, 1: 0}, sets_max=10)
    for _ in range(25):
        sets.add(report(0))
    assert (10, 15) == (len(sets), sets.dropped)
    found: list[int] = []
    for _ in range(25):
        sets.add(report(1))
        found += [one.index for one in sets.due()]
    assert list(range(15, 25)) == found
    assert 0 == len(sets)


def test_reports_that_the_predecessor_recorded_are_in_no_set() -> None:
    """The first set after a recovery is that of which every report comes after it."""
    sets = ReportSets({0: 7, 1: 5})
    for rank in (1, 1, 1, 0):
        sets.add(report(rank))
    assert [7] == [one.index for one in sets.due()]


def test_a_rank_that_ends_is_waited_for_no_longer() -> None:
    """Sets that it has no report in can not be whole: they are not kept."""
    sets = ReportSets({0: 0, 1: 0})
    sets.add(report(0))
    sets.end(1)
    sets.add(report(0))
    assert (0, []) == (len(sets), list(sets.due()))


def test_a_successor_of_a_rank_counts_with_the_others() -> None:
    """While it is replaced the others' sets are whole without it; then they are of everyone (2-19)."""
    sets = ReportSets({0: 0, 1: 0})
    for rank in (0, 0, 1):
        sets.add(report(rank))
    assert [(0, [0, 1])] == [(one.index, [*one.metrics]) for one in sets.due()]
    sets.leave(1)
    sets.add(report(1))  # its last words, which nobody waited for
    assert [(1, [0])] == [(one.index, [*one.metrics]) for one in sets.due()]
    sets.join(1)
    sets.add(report(1))
    assert [] == list(sets.due())
    sets.add(report(0))
    assert [(2, [0, 1])] == [(one.index, sorted(one.metrics)) for one in sets.due()]


def test_a_set_waits_for_its_own_checkpoint() -> None:
    """It is told by its directory: replica groups count their reports each for itself."""
    sets = ReportSets({0: 0, 1: 0})
    made = report(1)
    made.checkpoint = "there"
    sets.add(report(0))
    sets.add(made)
    assert [] == list(sets.due())
    sets.commit("there")
    assert ["there"] == [one.directory for one in sets.due()]


def test_slow_report_hooks_are_given_the_newest_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets that wait for a hook are bounded too, and that some were dropped is said."""
    monkeypatch.setattr("trainstate.controller.hook_thread.REPORTS_MAX", 10)
    slow, said = Slow(), []
    lines: list[Any] = []
    many = [reported(1, rank, *range(100)) for rank in range(2)]

    async def test() -> None:
        observers = Observers([slow, User(lines)], None, said.append, 5.0)
        story = given()
        observers.take_up(story.run)
        for one in [o.Began(created()), *started(1), *many]:
            observers.recorded(step(story, one), story.run, {})
        slow.go.set()
        await observers.close(5.0)

    in_a_loop(test)
    assert list(range(90, 100)) == [one[1][1]["step"] for one in lines]
    assert [("callbacks", "after_report", True)] == [
        (one.callback, one.hook, "90 sets" in one.error.message) for one in said
    ]


def test_the_table_knows_every_status() -> None:
    """Every event that moves the run has a row, so that no change of status is kept from hooks."""
    moving = {kind for kind, target in TARGETS.items() if isinstance(target, RunStatus)}
    assert set() == moving - set(TABLE) - {"run_created"}
    assert set() == set(TABLE) - {one.name for one in e.Event.DESCRIPTOR.fields}


# --- callbacks of the environment -----------------------------------------------------------------


class Named(h.UserCallback):
    """One that the environment can name."""


def test_the_environment_names_callbacks() -> None:
    """They are made in order, from classes without arguments."""
    name = f"{__name__}.Named"
    made = callbacks_of({"TRAINSTATE_CALLBACKS": f"{name}, {name}"})
    assert ["Named", "Named"] == [type(one).__name__ for one in made]
    assert () == callbacks_of({})


@pytest.mark.parametrize("name", ["nowhere.Named", f"{__name__}.Absent", "builtins.dict", "Named"])
def test_the_environment_names_nothing_of_the_kind(name: str) -> None:
    """What is no callback is refused, with its name."""
    with pytest.raises(UsageError, match=name):
        callbacks_of({"TRAINSTATE_CALLBACKS": name})


def test_a_checkpoint_that_never_will_be_is_not_waited_for() -> None:
    """Half of a replica group had reported it when the group went: the others' sets go on."""
    sets = ReportSets({0: 0, 1: 0, 2: 0})
    half = report(1)
    half.checkpoint = "half"
    for one in (report(0), half):
        sets.add(one)
    for rank in (1, 2):
        sets.leave(rank)
    assert [(0, "")] == [(one.index, one.directory) for one in sets.due()]
