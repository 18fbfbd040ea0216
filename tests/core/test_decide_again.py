"""A successor goes on from whatever its predecessor recorded, whole decisions or not."""

from __future__ import annotations

import pytest

from tests.core.runs import (
    A1,
    ERROR,
    PLACES,
    TRAINING,
    answers,
    began,
    completed,
    elastic,
    everywhere,
    failed,
    gang_of,
    in_groups,
    led,
    notice,
    placed,
    reported,
    train,
    training,
)
from trainstate.core import Cause, RunStatus
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
        found = [one for effect in plan(story.run) for one in answers(story.run, effect)]
        assert found, f"nothing is under way in {story.run.status.name}"
        story.observed(*found, at_s=10**6 + story.run.run_seq).then()
        if story.run.status.is_terminal:
            return True
    return False


# --- replica groups, sizes, preemption --------------------------------------------------------------


def replacing(*observations):
    """Two groups of two; the second is replaced, and that may be all but over."""
    return after(in_groups(backoff_first_s=0), failed(3), *observations)


def not_replaced(generation):
    return o.StartFailed(A1, Cause.START_FAILED, ERROR, 1, generation)


def after(story, *observations):
    for one in observations:
        story.observed(one).then()
    return story


def again(story, *observations):
    """After the attempt was stopped: what is to be released is, and the next one is scheduled."""
    story.observed(o.Cleared(story.run.attempt.attempt_id)).then()
    for effect in plan(story.run):
        story.observed(*answers(story.run, effect)).then()
    return after(story, *observations)


def replaced():
    story = replacing()
    return after(story, gang_of(story.run, 1), o.Ready(A1, (), 1, 1))


def gave_up_replacing():
    return after(in_groups(max_replacements=1, backoff_first_s=0), failed(3), not_replaced(1))


def saved(attempt=A1, group=None, ranks=(0, 1)):
    return [
        *(reported(one, "c0", attempt=attempt) for one in ranks),
        o.Published(attempt, 0, 0, group),
    ]


def grown():
    story = after(training(elastic(), placed()), placed(slot_1=("n2",)), *saved())
    return train(again(story, o.Woke(), placed(slot_1=("n2",))))


def shrunk():
    story = training(elastic(2, 3), placed(("n1", "n2"), slot_1=("n3",)))
    gone = placed(("n1", ""), slot_1=("n3",))
    return train(again(after(story, gone, failed(1, Cause.WORKER_LOST)), gone))


def preempted():
    story = led(*PLACES["PREEMPTING"], *saved())
    story = again(story, o.Woke())
    return train(after(story, everywhere(story.run)))


def preempted_at_the_start():
    return again(led(placed(), notice("n1")), o.Woke())


STORIES = {
    "replacing": replacing,
    "replaced": replaced,
    "replaced in parallel": lambda: after(
        in_groups(6, backoff_first_s=0), failed(0), failed(5), o.Woke()
    ),
    "tried again": lambda: replacing(not_replaced(1), o.Woke()),
    "gave up replacing": gave_up_replacing,
    "a checkpoint of each group": lambda: replacing(*saved(group=0), reported(0, "c1", first=1)),
    "a rank left out": lambda: after(in_groups(), reported(2, "c0"), completed(3)),
    "placed": lambda: led(placed(slot_1=("n2",)), wanted=elastic()),
    "waiting": lambda: led(o.Short(1, 2, "short"), placed(), wanted=elastic()),
    "grown": grown,
    "shrunk": shrunk,
    "lost while starting": lambda: led(placed(("n1", "n2")), placed(("n1", ""))),
    "preempted": preempted,
    "preempted at the start": preempted_at_the_start,
}


def cut_decisions():
    """Of each story every beginning that ends inside a decision, or after one."""
    for name, made in STORIES.items():
        events = made().events
        for end in range(1, len(events) + 1):
            yield pytest.param(
                events[:end], id=f"{name}-{end}-{events[end - 1].WhichOneof('payload')}"
            )


@pytest.mark.parametrize("events", [*cut_decisions()])
def test_a_decision_recorded_in_part_comes_to_a_good_end(events):
    """The same place, or one more restart: where nothing else goes wrong, the run finishes."""
    story = given(*events)
    attempts = len(story.run.attempts)
    story.observed(began(story.run.settings)).then()
    assert lead_to_the_end(story)
    story.when().then(status=RunStatus.FINISHED, irregular=[])
    assert attempts + 1 >= len(story.run.attempts)


@pytest.mark.parametrize("name", STORIES)
def test_after_a_whole_story_there_is_nothing_to_add(name):
    """A successor has the same under way as its predecessor."""
    story = STORIES[name]()
    under_way = plan(story.run)
    story.observed(began(story.run.settings)).then(events=["controller_started"], effects=under_way)


@pytest.mark.parametrize(
    ("made", "last", "added"),
    [
        (replacing, "worker_failing", ["replica_group_failed", "failure_decided"]),
        (replacing, "replica_group_failed", []),
        (replacing, "failure_decided", []),
        (replacing, "replica_group_replacing", ["worker_scheduled", "worker_scheduled"]),
        (gave_up_replacing, "replica_group_replacement_failed", ["failure_decided"]),
        (grown, "run_resizing", []),
        (shrunk, "run_restarting", []),
        (preempted, "run_preempting", []),
        (preempted_at_the_start, "run_preempting", ["failure_decided", "run_restarting"]),
    ],
)
def test_what_is_added_to_part_of_a_decision(made, last, added):
    """A replacement is completed, not begun again; a decision without its event is made again."""
    whole = made().events
    end = next(n for n, one in enumerate(whole, start=1) if last == one.WhichOneof("payload"))
    story = given(*whole[:end])
    when = story.observed(began(story.run.settings))
    when.then()
    assert ["controller_started", *added] == [
        one.WhichOneof("payload") for one in when.events[: len(added) + 1]
    ]
    assert bool(added) == (len(when.events) > 1)


def test_a_replacement_that_came_up_in_part_takes_the_seats_that_are_left():
    """Its mate's start is recorded: the rest sits beside it, on the node they share."""
    whole = replaced().events
    starts = [n for n, one in enumerate(whole, start=1) if one.HasField("worker_started")]
    story = given(*whole[: starts[4]])  # four of the attempt, and one of the replacement
    story.observed(began(story.run.settings), gang_of(story.run, 1)).then()
    seats = {(one.node_rank, one.local_rank) for one in story.run.attempt.by_rank}
    assert 4 == len(seats)
