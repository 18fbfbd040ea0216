"""The loop of a controller: what is durable first, then what is due, once."""

from __future__ import annotations

import pytest

from tests.core.runs import A1, began, completed, gang, placed, reported, settings
from trainstate.controller.loop import Loop, Seen
from trainstate.core import RunStatus, initial
from trainstate.core import effects as f
from trainstate.core import observations as o
from trainstate.core.mask import Unmasked
from trainstate.errors import Fenced
from trainstate.testing.given import START_NS

PLACE, START, SET_UP = f.Place(A1), f.StartGang(A1), f.SetUp(A1)
WATCH = f.Watch(A1)
TRAIN = [f.Train(A1, 0, 0), f.Train(A1, 1, 0)]


class Story:
    """A loop, and in order what it appended, began and cancelled."""

    def __init__(self, *observations: o.Observation) -> None:
        self.log: list[object] = []
        self.refusal: Exception | None = None
        self.loop = Loop(initial("run"), self._append, self._start, lambda: START_NS, Unmasked())
        for one in observations:
            self.step(Seen(one))
        self.log.clear()

    async def _append(self, events):
        if self.refusal:
            raise self.refusal
        self.log.append(("append", len(events), self.loop.run.run_seq))

    def _start(self, effect, again):
        self.log.append(("again" if again else "begin", effect))
        return lambda: self.log.append(("cancel", effect))

    def step(self, *seen: Seen) -> list[str]:
        try:
            self.loop.step(seen).send(None)
        except StopIteration as stop:
            return [one.WhichOneof("payload") for one in stop.value]
        raise AssertionError("it waits for something else than append")


TRAINING = [began(settings()), placed(), gang(), o.Ready(A1)]


def test_append_comes_before_act():
    """The state that effects read is what is durable: not yet while the append is on its way."""
    story = Story()
    story.step(Seen(began()))
    assert [("append", 5, 0), ("begin", PLACE)] == story.log
    assert 5 == story.loop.run.run_seq


def test_one_step_appends_all_it_saw_together():
    """Each observation is decided on after those before it."""
    story = Story()
    seen = [began(), placed(), gang(), o.Ready(A1)]
    assert "run_running" == story.step(*map(Seen, seen))[-1]
    assert [("append", 12, 0), *(("begin", one) for one in (WATCH, *TRAIN))] == story.log


def test_a_refused_append_changes_nothing():
    """Nothing is begun, nothing cancelled, and the state stays what is durable."""
    story = Story(began())
    story.refusal = Fenced("incarnation 1 may not write")
    with pytest.raises(Fenced):
        story.step(Seen(placed(), PLACE))
    assert [] == story.log
    assert (5, RunStatus.SCHEDULING) == (story.loop.run.run_seq, story.loop.run.status)
    assert {} == story.loop.run.attempt.workers


def test_effects_follow_the_plan():
    """What is due is begun, what no longer is is cancelled, what is under way is left alone."""
    story = Story(*TRAINING)
    story.step(Seen(completed(0), TRAIN[0]))
    assert [("append", 1, 12)] == story.log
    story.step(Seen(o.Abort(o.Cause.USER_ABORT, "Ctrl-C")))
    ends = [("cancel", WATCH), ("cancel", TRAIN[1]), ("begin", f.Stop(A1))]
    assert [("append", 1, 13), *ends] == story.log[1:]


def test_an_effect_that_ended_too_early_is_begun_again():
    """Its last word changed nothing, and it is wanted still: begun again, and told so."""
    story = Story(began())
    story.step(Seen(o.Woke(), PLACE))
    assert [("again", PLACE)] == story.log


def test_what_changes_nothing_is_not_appended():
    """No events, no append, no look at the plan."""
    story = Story(*TRAINING)
    assert [] == story.step(Seen(gang()), Seen(o.Woke()))
    assert [] == story.log


def test_a_report_begins_nothing_until_it_completes_a_checkpoint():
    """Publishing is due when the last rank has reported."""
    story = Story(*TRAINING)
    story.step(Seen(reported(0, "c0")))
    story.step(Seen(reported(1, "c0")))
    assert [("append", 1, 12), ("append", 1, 13), ("begin", f.Publish(A1, 0))] == story.log


def test_a_loop_that_is_over_cancels_everything():
    """Once."""
    story = Story(*TRAINING)
    story.loop.cancel()
    story.loop.cancel()
    assert [("cancel", one) for one in (WATCH, *TRAIN)] == story.log


def test_the_reason_is_the_newest_decisions():
    """What changes nothing leaves it."""
    story = Story(began(), o.Short(1, 2, "room for 1 of 2"), o.Woke())
    assert "room for 1 of 2" == story.loop.reason
