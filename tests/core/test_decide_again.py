"""A successor goes on from whatever its predecessor recorded, whole decisions or not."""

from __future__ import annotations

import pytest

from tests.core.runs import (
    PLACES,
    TRAINING,
    began,
    completed,
    failed,
    gang,
    led,
    placed,
    reported,
)
from trainstate.core import effects as f
from trainstate.core import observations as o
from trainstate.core.plan import plan
from trainstate.testing import given


@pytest.mark.parametrize("place", PLACES)
def test_after_a_whole_decision_there_is_nothing_to_add(place):
    """A successor of a run in any state says that it is there, and has the same under way."""
    story = led(*PLACES[place])
    under_way = plan(story.run)
    over = story.run.status.is_terminal
    story.observed(began()).then(events=[] if over else ["controller_started"], effects=under_way)


@pytest.mark.parametrize(
    ("observations", "events", "left", "added"),
    [
        ([], 1, "RunCreated", "run_scheduling"),
        ([], 3, "no attempt", "run_restarting"),
        ([], 4, "no placement", "run_restarting"),
        ([placed()], 7, "one of two ranks", "run_restarting"),
        ([*TRAINING[:2]], 9, "one of two workers", "run_restarting"),
        ([*TRAINING], 11, "attempt, not run", "run_restarting"),
        ([*TRAINING, failed(0)], 13, "a failing worker", "run_restarting"),
        ([*TRAINING, completed(0), completed(1)], 14, "all completed", "run_shutting_down"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_half_a_decision_leads_to(observations, events, left, added):
    """A start is started anew, a failure is decided on, an end is come to."""
    whole = led(*observations).events
    when = given(*whole[:events]).observed(began())
    when.then()
    assert added in [one.WhichOneof("payload") for one in when.events], left


def cut_stories():
    """Every beginning of the events of each place, as a crash between two frames may leave it."""
    for name, observations in PLACES.items():
        events = led(*observations).events
        for end in range(1, len(events) + 1):
            yield pytest.param(events[:end], id=f"{name}-{end}")


@pytest.mark.parametrize("events", [*cut_stories()])
def test_a_successor_goes_on_from_any_event(events):
    """A decision recorded in part is decided anew: whatever is left, something is under way."""
    story = given(*events)
    story.observed(began()).then()
    assert story.run.status.is_terminal or lead_to_the_end(story)


def lead_to_the_end(story):
    """Answers what the plan asks for, for ever well, until the run has finished or is given up."""
    for _ in range(60):
        answers = [one for effect in plan(story.run) for one in answer(story.run, effect)]
        assert answers, f"nothing is under way in {story.run.status.name}"
        story.observed(*answers, at_s=10**6 + story.run.run_seq).then()
        if story.run.status.is_terminal:
            return True
    return False


def answer(run, effect):
    """The last word of an effect in a world where nothing goes wrong."""
    match effect:
        case f.Place(attempt_id):
            yield placed(attempt_id)
        case f.StartGang(attempt_id):
            yield gang(attempt_id)
        case f.SetUp(attempt_id):
            yield o.Ready(attempt_id)
        case f.Train(attempt_id, rank):
            worker = run.attempt.workers[rank]
            due = [
                one for one in run.attempt.pending.values() if one.report_index >= worker.reports
            ]
            names = [one.directory for one in due]
            yield reported(rank, *names, first=worker.reports, attempt=attempt_id)
            yield completed(rank, attempt_id)
        case f.Publish(attempt_id, index):
            yield o.Published(attempt_id, index)
        case f.DeleteCheckpoint(index):
            yield o.Deleted(index)
        case f.Stop(attempt_id):
            yield o.Cleared(attempt_id)
        case f.Wake():
            yield o.Woke()
        case f.Close():
            yield o.Closed()
