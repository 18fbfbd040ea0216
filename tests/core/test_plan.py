"""What is under way: the same for a loop that never died and for one that takes a run up."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pytest
from hypothesis import given as forall
from hypothesis import settings as config
from hypothesis import strategies as st

from tests.core.histories import legal_histories
from tests.core.runs import (
    A1,
    A2,
    ERROR,
    P0,
    PLACES,
    answers,
    began,
    completed,
    elastic,
    everywhere,
    facts,
    failed,
    gang,
    gang_of,
    grouped,
    ids,
    in_groups,
    led,
    placed,
    reported,
    settings,
    training,
)
from trainstate.controller.loop import Loop, Seen
from trainstate.core import Cause, Run, check, evolve, initial
from trainstate.core import effects as f
from trainstate.core import observations as o
from trainstate.core.applying import stamp
from trainstate.core.decide import decide
from trainstate.core.freeze import copy, freeze
from trainstate.core.mask import Unmasked
from trainstate.core.plan import plan
from trainstate.testing.given import START_NS
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

TRAIN = [f.Watch(A1), f.Train(A1, 0, 0), f.Train(A1, 1, 0)]
UNDER_WAY = {
    "SCHEDULING": [f.Place(A1)],
    "WAITING": [f.Place(A1)],
    "placed": [f.Watch(A1), f.StartGang(A1)],
    "up": [f.Watch(A1), f.SetUp(A1)],
    "RUNNING": TRAIN,
    # Nobody said when the node goes: so long after the notice.
    "PREEMPTING": [*TRAIN, f.Wake((5 + 120) * 10**9)],
    "RESIZING": [f.Stop(A1)],
    "one completed": [f.Watch(A1), f.Train(A1, 1, 0)],
    "checkpoint pending": TRAIN,
    "checkpoint complete": [*TRAIN, f.Publish(A1, 0)],
    "publishing the last": [f.Watch(A1), f.Publish(A1, 0)],
    "RESTARTING": [f.Stop(A1)],
    "cleared": [f.Wake(5 * 10**9)],
    "second attempt": [f.Place(A2)],
    "finishing": [f.Stop(A1)],
    "finishing, cleared": [f.Release((P0,))],
    "finishing, released": [f.Close()],
    "giving up": [f.Stop(A1)],
    "aborting": [f.Stop(A1)],
    "FINISHED": [],
}


@pytest.mark.parametrize("place", UNDER_WAY)
def test_what_is_under_way(place):
    """In every state a run is in, the effects that lead out of it."""
    assert UNDER_WAY[place] == list(plan(led(*PLACES[place]).run))


def test_of_a_run_that_has_not_begun_nothing_is_under_way():
    """Not before it is created."""
    assert () == plan(initial("run"))


def test_checkpoints_are_deleted_before_the_end():
    """A run that ends leaves those that are to be kept; between attempts nothing waits for it."""
    both = [reported(rank, "c0", "c1") for rank in range(2)]
    made = [*PLACES["RUNNING"], *both, o.Published(A1, 0), o.Published(A1, 1)]
    gone = [o.Cleared(A1), o.Released((P0,))]
    story = led(*made, completed(0), completed(1), *gone, wanted=settings(num_to_keep=1))
    assert (f.DeleteCheckpoint(0),) == plan(story.run)
    story.observed(o.Deleted(0)).then(effects=[f.Close()])
    story = led(*made, failed(0), o.Cleared(A1), wanted=settings(num_to_keep=1))
    assert (f.DeleteCheckpoint(0), f.Wake(story.run.restart_time_ns)) == plan(story.run)


# --- replica groups, sizes, preemption ----------------------------------------------------------------


def test_replacements_are_under_way_beside_training():
    """2-15: of each group that is replaced what brings it up, of the others what they do."""
    story = in_groups(6, backoff_first_s=0)
    story.observed(failed(0), failed(5), o.Woke()).then(
        effects=[
            f.Watch(A1),
            f.StartGang(A1, 0, 1),
            f.Train(A1, 2, 0),
            f.Train(A1, 3, 0),
            f.StartGang(A1, 2, 1),
        ]
    )


def test_a_group_that_waits_is_woken_for():
    """And its workers are not trained with meanwhile."""
    story = in_groups()
    story.observed(failed(2), gang_of(story.run, 1)).then()
    failed_to = o.StartFailed(A1, Cause.START_FAILED, ERROR, 1, 1)
    story.observed(failed_to).then(
        effects=[f.Watch(A1), f.Train(A1, 0, 0), f.Train(A1, 1, 0), f.Wake(story.run.time_ns)]
    )


def test_groups_publish_one_after_the_other():
    """Two may have the same report's checkpoint ready; each writes down all that are committed."""
    story = in_groups()
    story.observed(*(reported(rank, "c0") for rank in range(4))).then()
    published = {one for one in plan(story.run) if isinstance(one, f.Publish)}
    assert {f.Publish(A1, 0, 0)} == published
    story.observed(o.Published(A1, 0, group=0)).then()
    assert f.Publish(A1, 0, 1) in plan(story.run)


def test_an_elastic_run_is_placed_before_it_has_an_attempt():
    """Its size follows from what there is."""
    assert (f.Place(),) == plan(led(wanted=elastic()).run)


def test_an_elastic_run_is_woken_to_grow():
    """When it has waited for a checkpoint long enough; not without room."""
    story = training(elastic(elastic_resize_monitor_interval_s=7), placed())
    assert f.Wake not in {type(one) for one in plan(story.run)}
    since_ns = story.run.scaling_time_ns
    story.observed(placed(slot_1=("n2",))).then(effects=[*TRAIN, f.Wake(since_ns + 7 * 10**9)])


def test_what_is_taken_away_is_released_before_the_next_attempt():
    """And first of all its workers are stopped."""
    story = led(*PLACES["PREEMPTING"], failed(0))
    assert (f.Stop(A1),) == plan(story.run)
    story.observed(o.Cleared(A1)).then(effects=[f.Release((P0,))])
    story.observed(o.Released((P0,))).then(effects=[f.Wake(story.run.restart_time_ns)])


# --- whatever is observed ---------------------------------------------------------------------------

CAUSES = st.sampled_from([cause for cause in Cause if cause])


@st.composite
def observations(draw: st.DrawFn, run: Run) -> o.Observation:
    """Any observation, of the run's own attempts, ranks and placements, and of some it does not have."""
    return draw(
        st.sampled_from(draw(st.sampled_from([_of_places, _of_workers, _of_ends]))(draw, run))
    )


def _attempt_of(draw: st.DrawFn, run: Run) -> str:
    attempts = [one.attempt_id for one in run.attempts]
    return draw(st.sampled_from([*attempts[-1:] * 6, *attempts, "other"]))


def _of_places(draw: st.DrawFn, run: Run) -> list[o.Observation]:
    attempt, have = _attempt_of(draw, run), draw(st.integers(0, 3))
    node = st.sampled_from([*ids("n1", "n2", "n3"), ""])
    name = draw(st.sampled_from([*run.placements, "other"]))
    nodes = draw(st.lists(node, max_size=4))
    groups = [
        o.Reserved(one.name, b"pg", tuple(draw(node) for _ in one.bundles))
        for one in run.placements.values()
        if draw(st.booleans())
    ]
    deadline_ns = draw(st.sampled_from([None, run.time_ns, run.time_ns + 10**10]))
    ranks = tuple(draw(st.lists(st.integers(-1, 5), max_size=2)))
    return [
        everywhere(run),
        o.Placed(tuple(groups)),
        o.Placed((o.Reserved(name, b"pg", tuple(nodes)),)),
        o.Short(have, 4, "short"),
        o.NotPlaced(1.0, "late"),
        o.Released((name, "other")),
        o.Preempted(attempt, tuple(nodes), ranks, deadline_ns),
        o.Preempted(attempt, (), (0,), deadline_ns),
        o.Woke(),
    ]


def _of_workers(draw: st.DrawFn, run: Run) -> list[o.Observation]:
    attempt, rank = _attempt_of(draw, run), draw(st.integers(0, 5))
    found = run.find_attempt(attempt)
    worker = found.workers.get(rank) if found is not None else None
    due = worker.reports if worker is not None else 0
    generation = draw(
        st.sampled_from([worker.generation if worker is not None else 0] * 4 + [0, 1, 2])
    )
    groups = [None] if found is None else found.sharing
    group, cause, number = draw(st.sampled_from(groups)), draw(CAUSES), draw(st.integers(0, 3))
    of_worker = (attempt, rank, generation)
    of_group = (group, found.groups[group].generation if group is not None and found else 0)
    error = s.Error(message="bad", ranks=draw(st.lists(st.integers(-1, 3), max_size=3)))
    up = gang_of(run, group) if found is not None and found is run.attempt else gang(attempt)
    name = draw(st.sampled_from(["", "c", f"c{due}"]))
    made = reported(rank, name, "", first=due, attempt=attempt, generation=generation)
    return [
        o.GangUp(attempt, tuple(facts(one, "n1") for one in range(number)), *of_group),
        up,
        o.StartFailed(attempt, cause, error, *of_group),
        o.Ready(attempt, (), *of_group),
        o.Ready(attempt),
        made,
        o.Reported(*of_worker, reported(number, "c", first=due).reports),
        o.Completed(*of_worker),
        o.Completed(*of_worker, s.Value(int=1)),
        o.WorkerFailed(*of_worker, cause, error),
        o.Published(attempt, number, 0, group),
        o.Published(attempt, max(due - 1, 0), 0, group),
    ]


def _of_ends(draw: st.DrawFn, run: Run) -> list[o.Observation]:
    attempt, cause, number = _attempt_of(draw, run), draw(CAUSES), draw(st.integers(0, 3))
    return [
        began(actor_id=b"x"),
        o.Deleted(number),
        o.Cleared(attempt),
        o.Closed(),
        o.Abort(cause, "ended"),
        o.Broke(cause, ERROR),
        o.HookFailed("c", "h", ERROR),
    ]


@st.composite
def likely(draw: st.DrawFn, run: Run, under_way: Collection[f.Effect]) -> o.Observation:
    """Mostly what effects under way say, of things that go well or not; nobody completes soon."""
    effects = sorted(under_way, key=repr)
    well = [one for effect in effects for one in answers(run, effect)]
    going_on = [one for one in well if not isinstance(one, o.Completed)]
    not_well = [one for effect in effects for one in _mishaps(run, effect)]
    said = draw(st.sampled_from([going_on, going_on, not_well, []]))
    return draw(st.sampled_from(said) if said else observations(run))


def _mishaps(run: Run, effect: f.Effect) -> Iterator[o.Observation]:
    """What an effect says where things go wrong, and what a worker reports on its way."""
    match effect:
        case f.StartGang(attempt, group, generation) | f.SetUp(attempt, group, generation):
            yield o.StartFailed(attempt, Cause.START_FAILED, ERROR, group, generation)
        case f.Train(attempt, rank, generation):
            due = run.find_attempt(attempt).workers[rank].reports
            of_worker = {"first": due, "attempt": attempt, "generation": generation}
            yield reported(rank, f"c{due}", **of_worker)
            yield failed(rank, Cause.WORKER_LOST, attempt, generation)


WANTED = [
    settings(max_failures=3, num_to_keep=1),
    elastic(1, 3, elastic_resize_monitor_interval_s=0),
    grouped(4, 2, max_replacements=2, backoff_first_s=0),
    grouped(3, 1),
    elastic(2, 6, replica_group_size=2, max_preemption_failures=2),
]


@forall(st.sampled_from(WANTED), st.data())
@config(max_examples=60, deadline=None)
def test_whatever_a_run_meets_is_decided_legally(wanted, data):
    """1-10: step by step; every event passes `check`, and a run comes to its end when all goes well."""
    run = initial("run")
    _take(run, began(wanted))
    for _ in range(30):
        seen = data.draw(likely(run, plan(run)))
        before = freeze(run)
        decide(run, seen, run.time_ns + 10**9)
        assert before == freeze(run)
        _take(run, seen)
    _lead_to_the_end(run)
    assert [] == run.irregular


def _lead_to_the_end(run: Run) -> None:
    for _ in range(60):
        effects = plan(run)
        assert run.status.is_terminal or effects
        for seen in [one for effect in effects for one in answers(run, effect)]:
            _take(run, seen, 10**12)
    assert run.status.is_terminal


def _take(run: Run, seen: o.Observation, later_ns: int = 10**9) -> None:
    for one in decide(run, seen, run.time_ns + later_ns).events:
        stamp(run, one)
        check(run, one)
        evolve(run, one)


@forall(legal_histories, st.data())
@config(max_examples=80, deadline=None)
def test_whatever_is_observed_is_decided_legally(events, data):
    """From any legal history: nothing raises, every event passes `check`, and the run is not changed."""
    run = initial("run")
    for one in events:
        evolve(run, one)
    for _ in range(8):
        before = freeze(run)
        decision = decide(run, data.draw(observations(run)), run.time_ns + 1)
        assert before == freeze(run)
        assert decision.reason
        for one in decision.events:
            stamp(run, one)
            check(run, one)
            evolve(run, one)
        plan(run)


class Driven:
    """The real loop over a list of events, with effects that are only noted."""

    def __init__(self, run: Run) -> None:
        self.loop = Loop(run, self._append, self._start, lambda: START_NS + 10**15, Unmasked())
        self.durable = copy(run)
        self.under_way: set[f.Effect] = set()

    async def _append(self, events: list[e.Event]) -> None:
        for one in events:
            recorded = e.Event.FromString(one.SerializeToString())
            check(self.durable, recorded)
            evolve(self.durable, recorded)

    def _start(self, effect: f.Effect, again: bool):
        assert self.loop.run == self.durable, "acted before it appended"
        assert effect not in self.under_way, "begun twice"
        self.under_way.add(effect)
        return lambda: self.under_way.remove(effect)

    def step(self, *seen: Seen) -> None:
        self.under_way -= {one.ended for one in seen}
        with pytest.raises(StopIteration):
            self.loop.step(seen).send(None)
        assert self.loop._ahead == self.loop.run == self.durable


@forall(st.sampled_from(WANTED), st.data())
@config(max_examples=80, deadline=None)
def test_a_successor_has_the_same_under_way(wanted, data):
    """After every step of a loop: what is under way is the plan of what is durable."""
    driven = Driven(initial("run"))
    driven.step(Seen(began(wanted)))
    for _ in range(25):
        run = driven.loop.run
        effects = [None, *sorted(driven.under_way, key=repr)]
        ended = data.draw(st.sampled_from(effects))
        driven.step(Seen(data.draw(likely(run, driven.under_way)), ended))
        assert set(plan(driven.durable)) == driven.under_way
