"""What is under way: the same for a loop that never died and for one that takes a run up."""

from __future__ import annotations

import pytest
from hypothesis import given as forall
from hypothesis import settings as config
from hypothesis import strategies as st

from tests.core.histories import legal_histories
from tests.core.runs import (
    A1,
    A2,
    ERROR,
    P1,
    P2,
    PLACES,
    began,
    completed,
    facts,
    failed,
    led,
    placed,
    reported,
    settings,
)
from trainstate.controller.loop import Loop, Seen
from trainstate.core import Cause, Run, check, evolve, initial
from trainstate.core import effects as f
from trainstate.core import observations as o
from trainstate.core.applying import stamp
from trainstate.core.decide import decide
from trainstate.core.freeze import copy, freeze
from trainstate.core.plan import plan
from trainstate.testing.given import START_NS
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

UNDER_WAY = {
    "SCHEDULING": [f.Place(A1, P1)],
    "WAITING": [f.Place(A1, P1)],
    "placed": [f.StartGang(A1)],
    "up": [f.SetUp(A1)],
    "RUNNING": [f.Train(A1, 0, 0), f.Train(A1, 1, 0)],
    "PREEMPTING": [f.Train(A1, 0, 0), f.Train(A1, 1, 0)],
    "RESIZING": [f.Stop(A1)],
    "one completed": [f.Train(A1, 1, 0)],
    "checkpoint pending": [f.Train(A1, 0, 0), f.Train(A1, 1, 0)],
    "checkpoint complete": [f.Train(A1, 0, 0), f.Train(A1, 1, 0), f.Publish(A1, 0)],
    "publishing the last": [f.Publish(A1, 0)],
    "RESTARTING": [f.Stop(A1)],
    "second attempt": [f.Place(A2, P2)],
    "finishing": [f.Stop(A1)],
    "finishing, cleared": [f.Close()],
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
    story = led(*made, completed(0), completed(1), o.Cleared(A1), wanted=settings(num_to_keep=1))
    assert (f.DeleteCheckpoint(0),) == plan(story.run)
    story.observed(o.Deleted(0)).then(effects=[f.Close()])
    story = led(*made, failed(0), o.Cleared(A1), wanted=settings(num_to_keep=1))
    assert (f.DeleteCheckpoint(0), f.Wake(story.run.restart_time_ns)) == plan(story.run)


def test_a_placement_of_another_attempt_is_not_asked_for():
    """What an attempt that is over left requested is nobody's."""
    run = led().run
    run.placements[P1].attempt_id = A2
    assert () == plan(run)


# --- whatever is observed ---------------------------------------------------------------------------

CAUSES = st.sampled_from([cause for cause in Cause if cause])


@st.composite
def observations(draw: st.DrawFn, run: Run) -> o.Observation:
    """Any observation, of the run's own attempts, ranks and placements, and of some it does not have."""
    attempts = [one.attempt_id for one in run.attempts]
    attempt = draw(st.sampled_from([*attempts[-1:] * 6, *attempts, "other"]))
    name = draw(st.sampled_from([*run.placements, f"run/{attempt}", "other"]))
    rank, generation = draw(st.integers(0, 3)), draw(st.sampled_from([0, 0, 0, 1, 2]))
    of_worker = (attempt, rank, generation)
    error = s.Error(message="bad", ranks=draw(st.lists(st.integers(-1, 3), max_size=3)))
    cause, number = draw(CAUSES), draw(st.integers(0, 3))
    nodes = tuple(draw(st.lists(st.sampled_from("ab"), max_size=4)))
    mine = run.find_attempt(attempt)
    due = mine.workers[rank].reports if mine and rank in mine.workers else 0
    kinds: list[o.Observation] = [
        began(actor_id=b"x"),
        o.Woke(),
        placed(attempt, nodes or ("a", "b")),
        o.Placed(name, b"pg", nodes),
        o.Short(name, number, rank, "short"),
        o.NotPlaced(name, 1.0, "late"),
        o.GangUp(attempt, tuple(facts(one, "a") for one in range(number))),
        _gang_of(run, attempt),
        o.StartFailed(attempt, cause, error),
        o.Ready(attempt),
        reported(rank, draw(st.sampled_from(["", "c", "d"])), "", first=due, attempt=attempt),
        o.Reported(*of_worker, reported(number, "c", first=due).reports),
        o.Completed(*of_worker),
        o.Completed(*of_worker, s.Value(int=1)),
        o.WorkerFailed(*of_worker, cause, error),
        o.Published(attempt, draw(st.integers(0, 3))),
        o.Deleted(number),
        o.Cleared(attempt),
        o.Closed(),
        o.Abort(cause, "ended"),
        o.Broke(cause, ERROR),
        o.HookFailed("c", "h", ERROR),
    ]
    return draw(st.sampled_from(kinds))


def _gang_of(run: Run, attempt_id: str) -> o.GangUp:
    """The gang that is waited for."""
    attempt = run.find_attempt(attempt_id)
    waiting = [one for one in (attempt.workers.values() if attempt else ()) if one.status == 1]
    up = (o.WorkerFacts(w.bundle, w.generation, b"a", b"n", "n", 1) for w in waiting)
    return o.GangUp(attempt_id, tuple(up))


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
        self.loop = Loop(run, self._append, self._start, lambda: START_NS + 10**15)
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


@forall(st.data())
@config(max_examples=80, deadline=None)
def test_a_successor_has_the_same_under_way(data):
    """After every step of a loop: what is under way is the plan of what is durable."""
    driven = Driven(initial("run"))
    driven.step(Seen(began(settings(max_failures=3, num_to_keep=1))))
    for _ in range(25):
        run = driven.loop.run
        effects = [None, *sorted(driven.under_way, key=repr)]
        ended = data.draw(st.sampled_from(effects))
        driven.step(Seen(data.draw(observations(run)), ended))
        assert set(plan(driven.durable)) == driven.under_way
