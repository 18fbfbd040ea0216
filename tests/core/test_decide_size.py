"""Sizes: what is asked for, growing when there is room, making way for what is taken away."""

from __future__ import annotations

import pytest

from tests.core.runs import (
    A1,
    A2,
    P0,
    P1,
    P2,
    TRAINING,
    completed,
    elastic,
    everywhere,
    facts,
    failed,
    gang,
    ids,
    led,
    notice,
    placed,
    reported,
    reserved,
    settings,
    train,
    training,
)
from trainstate.core import AttemptStatus, Cause, RunStatus
from trainstate.core import effects as f
from trainstate.core import observations as o
from trainstate.core.plan import plan
from trainstate.testing import event
from trainstate.testing.given import START_NS
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

SECOND = 10**9
LATE_S = 10**6
RESTARTS = ["failure_decided", "run_restarting"]
GROWS = ["scaling_decided", "run_resizing"]
SCHEDULED = ["run_scheduling", "placement_requested", "attempt_planned"]


def checkpoint(index: int, *ranks: int, attempt: str = A1) -> list[o.Observation]:
    """Every rank reports a part of it, and it is published."""
    name = f"c{index}"
    parts = [reported(rank, name, first=index, attempt=attempt) for rank in ranks]
    return [*parts, o.Published(attempt, index)]


def ranks_of(run) -> list[tuple[str, int]]:
    """The bundle of each rank."""
    return [(one.placement, one.bundle) for one in run.attempt.by_rank]


# --- asking and placing ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "bundles"),
    [
        (settings(3), [3]),
        (settings(4, replica_group_size=2), [4]),
        (elastic(2, 5), [2, 1, 1, 1]),
        (elastic(1, 2), [1, 1]),
        (elastic(2, 6, replica_group_size=2), [2, 2, 2]),
        (elastic(4, 8, replica_group_size=4), [4, 4]),
        (elastic(3, 3), [3]),
    ],
)
def test_everything_is_asked_for_at_once(wanted, bundles):
    """1-05, 1-06, 2-17: one gang of the minimum, and each extra worker or replica group by itself.

    What may be added is asked for when the gang has its place: it could take the room it waits for.
    """
    story = led(wanted=wanted)
    assert ["run/0.1"] == list(story.run.placements)
    run = story.observed(placed(["n1"] * bundles[0])).then()
    asked = {slot: f"run/{slot}.1" for slot in range(len(bundles))}
    assert asked == {one.slot: name for name, one in run.placements.items()}
    assert bundles == [len(run.placements[name].bundles) for name in asked.values()]


def asking(wanted):
    """The story of an elastic run whose gang has its place: what may be added is asked for."""
    story = led(wanted=wanted)
    story.observed(placed()).then()
    return story


def test_an_elastic_run_has_an_attempt_when_it_has_its_place():
    """Nothing is planned that might not be."""
    led(wanted=elastic()).observed(o.Woke()).then(
        events=[], effects=[f.Place()], attempt=None, status=RunStatus.SCHEDULING
    )


def test_label_selectors_of_extras_are_theirs():
    """One selector for each bundle there may be, in the order of slots."""
    wanted = elastic(2, 4)
    listed = [s.LabelSelector(labels=[s.Label(key="n", value=str(n))]) for n in range(4)]
    wanted.scaling_config.label_selector_list.selectors.extend(listed)
    asked = asking(wanted).run.placements
    assert [listed[:2], listed[2:3], listed[3:]] == [
        asked[name].label_selectors for name in (P0, P1, P2)
    ]


@pytest.mark.parametrize(
    ("there", "where"),
    [
        (placed(), [(P0, 0), (P0, 1)]),
        (placed(slot_1=("n2",)), [(P0, 0), (P0, 1), (P1, 0)]),
        (placed(slot_2=("n1",), slot_1=("n2",)), [(P0, 0), (P0, 1), (P2, 0), (P1, 0)]),
        (placed(("n1", ""), slot_2=("n2",)), [(P0, 0), (P2, 0)]),
        (placed(("", ""), slot_1=("n2",), slot_2=("n2",)), [(P1, 0), (P2, 0)]),
        (placed(("n1", "")), []),
        (placed(("", ""), slot_1=("n2",)), []),
    ],
)
def test_an_attempt_takes_what_there_is(there, where):
    """As many workers as bundles have a node, node by node; none if they are fewer than the minimum."""
    run = asking(elastic()).observed(there).then()
    assert where == (ranks_of(run) if run.attempt else [])
    assert ([len(where)] if where else []) == [one.to_workers for one in run.resizes]


def test_the_size_that_is_taken_is_said():
    """Once, with what there is and what is wanted."""
    decided = asking(elastic()).observed(placed(slot_1=("n2",)))
    scaled = e.ScalingDecided(from_workers=0, to_workers=3)
    planned = ["attempt_planned", *["worker_scheduled"] * 3]
    decided.then(events=["placement_ready", scaled, *planned])
    expected = "3 bundles have a node, 2 to 4 workers are wanted"
    assert expected == decided.events[1].reason


@pytest.mark.parametrize(
    ("there", "workers"),
    [
        (placed(slot_1=("n2", "n2")), 4),
        (placed(slot_1=("n2", "")), 2),
        (placed(("n1", ""), slot_1=("n2", "")), 2),
        (placed(("n1", ""), slot_1=("n2", "n2"), slot_2=("", "")), 2),
        (placed(slot_1=("n2", "n3"), slot_2=("n3", "n4")), 6),
    ],
)
def test_replica_groups_are_whole(there, workers):
    """2-17: bundles that make no group are left alone."""
    wanted = elastic(2, 6, replica_group_size=2)
    asking(wanted).observed(there).then({"attempt.num_workers": workers})


def test_an_elastic_run_says_what_it_waits_for():
    """A6.6: have and need, once; then it goes on by itself."""
    short = o.Short(1, 2, "room for 1 of 2")
    story = led(wanted=elastic())
    story.observed(short, short).then(
        events=[e.RunWaiting(have=1, need=2)], effects=[f.Place()], have_workers=1, need_workers=2
    )
    more = ["placement_requested"] * 2
    story.observed(placed(("n1", ""))).then(
        events=["placement_ready", *more], status=RunStatus.WAITING
    )
    back = ["placement_changed", "run_scheduling", "scaling_decided", "attempt_planned"]
    story.observed(placed()).then(
        events=[*back, *["worker_scheduled"] * 2], status=RunStatus.SCHEDULING
    )


def test_a_place_that_is_lost_while_workers_start():
    """A start that cannot succeed is given up, and says whose node it was."""
    story = led(placed(("n1", "n2")))
    story.observed(placed(("n1", ""))).then(
        {"error.ranks": [1], "error.type": "NodeLost"},
        events=["placement_changed", *RESTARTS],
        cause=Cause.START_FAILED,
    )
    led(placed(("n1", "n2"))).observed(placed(("n1", "n2"))).then(events=[])


# --- growing ----------------------------------------------------------------------------------------


def small(**fields):
    """An elastic run of two to four that trains on two."""
    return training(elastic(**fields), placed())


def test_room_is_observed():
    """1-04: an extra that becomes ready is recorded when it does; nobody asks for it again."""
    story = small()
    story.observed(placed(slot_1=("n2",)), placed(slot_1=("n2",))).then(
        {"attempt.num_workers": 2}, events=["placement_ready"], status=RunStatus.RUNNING
    )


def test_a_run_grows_at_its_next_checkpoint():
    """Nothing is lost by it; the attempt ends as resized, and the next takes what there is."""
    story = small()
    story.observed(placed(slot_1=("n2",))).then()
    resizing = e.RunResizing(from_workers=2, to_workers=3)
    scaled = e.ScalingDecided(from_workers=2, to_workers=3)
    parts = ["report_received"] * 2
    story.observed(*checkpoint(0, 0, 1)).then(
        events=[*parts, "checkpoint_committed", scaled, resizing], effects=[f.Stop(A1)]
    )
    story.observed(o.Cleared(A1)).then(
        {"attempt.status": AttemptStatus.FINISHED, "attempt.cause": Cause.RESIZE}, budgets={}
    )
    story.observed(o.Woke()).then(events=["run_scheduling"], effects=[f.Place(asked=3)])
    story.observed(everywhere(story.run)).then({"attempt.num_workers": 4})


def test_the_size_that_was_decided_is_not_decided_again():
    """The next attempt says its size only if it is another than was wanted."""
    story = small()
    story.observed(placed(slot_1=("n2",)), *checkpoint(0, 0, 1), o.Cleared(A1), o.Woke()).then()
    story.observed(placed(slot_1=("n2",))).then(
        {"attempt.num_workers": 3}, events=["attempt_planned", *["worker_scheduled"] * 3]
    )


@pytest.mark.parametrize("interval_s", [None, 0, 5])
def test_a_run_without_checkpoints_grows_when_it_has_waited(interval_s):
    """Counted from when it began to train, or from the last decision; a minute if nobody said."""
    named = {} if interval_s is None else {"elastic_resize_monitor_interval_s": interval_s}
    story = small(**named)
    due_ns = story.run.scaling_time_ns + (60 if interval_s is None else interval_s) * SECOND
    story.observed(placed(slot_1=("n2",))).then()
    assert f.Wake(due_ns) in plan(story.run)
    at_s = (due_ns - START_NS) / SECOND
    if interval_s != 0:
        story.observed(o.Woke(), at_s=at_s - 1e-3).then(events=[])
    story.observed(o.Woke(), at_s=at_s).then(events=GROWS, status=RunStatus.RESIZING)


NO_ROOM = {
    "nothing is ready": (elastic(), placed(), []),
    "it is as large as may be": (elastic(2, 3), placed(slot_1=("n2",)), []),
    "it is fixed": (settings(2), placed(), []),
    "the bundle has no node": (elastic(), placed(), [placed(slot_1=("",))]),
    "half a replica group": (
        elastic(2, 4, replica_group_size=2),
        placed(),
        [placed(slot_1=("n2", ""))],
    ),
    "a worker is done (1-13)": (elastic(), placed(), [placed(slot_1=("n2",)), completed(0)]),
}


@pytest.mark.parametrize("name", NO_ROOM)
def test_a_run_does_not_grow(name):
    """Not without room, and not once a worker has completed."""
    wanted, there, more = NO_ROOM[name]
    story = training(wanted, there)
    story.observed(*more).then()
    assert f.Wake not in {type(one) for one in plan(story.run)}
    story.observed(o.Woke(), at_s=LATE_S).then(events=[])


def test_room_that_goes_again_is_none():
    """What is there when the checkpoint is counts."""
    story = small()
    story.observed(placed(slot_1=("n2",)), placed(slot_1=("",)), *checkpoint(0, 0, 1)).then(
        status=RunStatus.RUNNING
    )


# --- shrinking ------------------------------------------------------------------------------------


def test_a_run_shrinks_to_what_is_left():
    """1-02, 1-03: a lost node fails its worker; the next attempt keeps the groups and is smaller."""
    story = training(elastic(2, 3), placed(("n1", "n2"), slot_1=("n3",)))
    gone = placed(("n1", ""), slot_1=("n3",))
    story.observed(gone, failed(1, Cause.WORKER_LOST)).then(status=RunStatus.RESTARTING)
    story.observed(o.Cleared(A1), o.Woke()).then(
        effects=[f.Place(asked=2)],
        events=["worker_died"] * 3 + ["attempt_ended", "run_scheduling"],
    )
    scaled = e.ScalingDecided(from_workers=3, to_workers=2)
    run = story.observed(gone).then(events=[scaled, "attempt_planned", *["worker_scheduled"] * 2])
    assert [(P0, 0), (P1, 0)] == ranks_of(run)


def test_a_run_that_lost_too_much_waits():
    """Below its minimum: it says what it has and needs, and takes what comes back."""
    story = small()
    story.observed(failed(1, Cause.WORKER_LOST), o.Cleared(A1), o.Woke()).then()
    story.observed(placed(("n1", "")), o.Short(1, 2, "room for 1 of 2")).then(
        {"attempt.number": 1}, status=RunStatus.WAITING, effects=[f.Place(asked=3)]
    )
    run = story.observed(placed(("n1", "n9"))).then({"attempt.number": 2})
    assert list(ids("n1", "n9")) == run.placements[P0].node_ids


def test_a_fixed_run_is_placed_where_it_was():
    """1-02: a restart keeps its placement group; nothing is released, nothing asked for."""
    story = led(*TRAINING, failed(0), o.Cleared(A1))
    before = list(story.run.placements)
    found = story.observed(o.Woke(), placed())
    found.then(events=["run_scheduling", "attempt_planned", *["worker_scheduled"] * 2])
    assert before == list(story.run.placements)


# --- making way -------------------------------------------------------------------------------------


def test_a_notice_is_said():
    """Which nodes, whose workers, when; it trains on until then, and so long after as it may."""
    wanted = settings(3, preemption_grace_s=7)
    story = training(wanted, placed(("n1", "n2", "n2")))
    deadline_ns = story.run.time_ns + 31 * SECOND
    said = story.observed(notice("n2", "n7", deadline_ns=deadline_ns))
    preempting = e.RunPreempting(node_ids=ids("n2"), deadline_unix_nano=deadline_ns, ranks=[1, 2])
    said.then(
        events=[preempting],
        effects=[
            f.Watch(A1),
            *(f.Train(A1, rank, 0) for rank in range(3)),
            f.Wake(deadline_ns + 7 * SECOND),
        ],
        status=RunStatus.PREEMPTING,
    )
    assert "1 nodes are to go in 30 s: ranks 1, 2" == said.events[0].reason


def test_workers_may_be_told_themselves():
    """By a signal; nobody says when."""
    story = led(*TRAINING)
    said = story.observed(notice(ranks=(1, 9)))
    said.then(events=[e.RunPreempting(ranks=[1])], preemption_deadline_ns=None)
    assert "workers were told to end: ranks 1" == said.events[0].reason


@pytest.mark.parametrize(
    "late",
    [notice("n9"), notice(ranks=(7,)), notice("n1", attempt=A2), notice("")],
    ids=["other node", "no such rank", "other attempt", "no node"],
)
def test_a_notice_to_others_is_none(late):
    """Only what the attempt's workers run on."""
    led(*TRAINING).observed(late).then(events=[])


@pytest.mark.parametrize(
    "place", [[], [*TRAINING, failed(0)], [*TRAINING, completed(0), completed(1)]]
)
def test_a_notice_is_for_who_runs(place):
    """Who has no place yet, or ends anyway, is not told; it is said again as long as it is so."""
    led(*place).observed(notice("n1"), notice(ranks=(0,))).then(events=[])


@pytest.mark.parametrize("place", [[placed()], [placed(), gang()]])
def test_a_node_that_is_to_go_starts_nothing(place):
    """Who is told while workers start begins elsewhere at once: nothing is to be saved yet."""
    story = led(*place)
    story.observed(notice("n1")).then(
        {"error.message": "ranks 0, 1 are taken away; before they trained", "budgets.2.used": 1},
        events=["run_preempting", *RESTARTS],
        effects=[f.Stop(A1)],
    )
    story.observed(o.Cleared(A1)).then(effects=[f.Release((P0,))])


def test_a_bundle_that_lost_its_node_to_a_preemption_is_asked_for_anew():
    """Even if it is seen to have no node by the time the run restarts."""
    story = led(*TRAINING, notice("n1"), placed(("", "")), failed(0))
    story.observed(o.Cleared(A1)).then(effects=[f.Release((P0,))])


@pytest.mark.parametrize(
    ("first", "second", "earliest"),
    [
        ((("n1",), 50), (("n2",), 40), 40),
        ((("n1",), 40), (("n2",), 50), 40),
        ((("n1",), None), (("n2",), 50), 50),
        ((("n1",), 50), (("n2",), None), 50),
        ((("n1",), 50), (("n1",), 40), 40),
        ((("n1",), None), (("n1",), 40), 40),
    ],
)
def test_of_several_notices_the_earliest_deadline_counts(first, second, earliest):
    """Whatever the order, and whether the second names other nodes or the same."""
    story = led(placed(("n1", "n2")), o.GangUp(A1, (facts(0), facts(1, "n2"))), o.Ready(A1))
    for nodes, deadline_ns in (first, second):
        story.observed(notice(*nodes, deadline_ns=deadline_ns)).then(events=["run_preempting"])
    nodes = sorted({*first[0], *second[0]})
    assert (earliest, list(ids(*nodes))) == (
        story.run.preemption_deadline_ns,
        sorted(story.run.preempted_nodes),
    )
    assert len(nodes) == len(story.run.preempted_ranks)


@pytest.mark.parametrize("again_ns", [None, 50, 60])
def test_a_notice_is_said_once(again_ns):
    """Repeated, or with a later deadline, it is no news."""
    story = led(*TRAINING, notice("n1", deadline_ns=50))
    story.observed(notice("n1", deadline_ns=again_ns), notice(ranks=(0,))).then(events=[])


def test_without_a_deadline_it_is_two_minutes():
    """As on clouds; and the grace is added."""
    story = led(*TRAINING, wanted=settings(preemption_grace_s=10))
    story.observed(notice("n1")).then()
    due_ns = story.run.status_time_ns + 130 * SECOND
    assert f.Wake(due_ns) in plan(story.run)
    at_s = (due_ns - START_NS) / SECOND
    story.observed(o.Woke(), at_s=at_s - 1e-3).then(events=[])
    story.observed(o.Woke(), at_s=at_s).then(events=RESTARTS)


def preempted(*observations: o.Observation, wanted=None):
    """A run that is told that its only node goes."""
    return led(*TRAINING, notice("n1"), *observations, wanted=wanted)


def test_a_preempted_run_restarts_when_its_state_is_saved():
    """At the next checkpoint: nothing is lost; and it counts as a preemption, not as a failure."""
    story = preempted()
    story.observed(*checkpoint(0, 0, 1)).then(
        {"error.message": "ranks 0, 1 are taken away; its state is saved", "budgets.2.used": 1},
        events=["report_received", "report_received", "checkpoint_committed", *RESTARTS],
        effects=[f.Stop(A1)],
        cause=Cause.NODE_PREEMPTED,
    )


def test_a_preempted_run_restarts_when_time_is_up():
    """Without a checkpoint it loses what it did since the last."""
    story = preempted()
    story.observed(o.Woke()).then(events=[], status=RunStatus.PREEMPTING)
    story.observed(o.Woke(), at_s=LATE_S).then(
        {"error.message": "ranks 0, 1 are taken away; its time is up"}, events=RESTARTS
    )


def test_a_checkpoint_that_is_saved_counts_before_the_preemption():
    """Budgets begin anew with it, also those of the restart that it brings."""
    wanted = settings(max_preemption_failures=1)
    story = preempted(failed(0), o.Cleared(A1), o.Released((P0,)), o.Woke(), wanted=wanted)
    story.observed(everywhere(story.run)).then()
    train(story)
    node = story.run.attempt.workers[0].node_id.hex()
    saved = checkpoint(0, 0, 1, attempt=A2)
    story.observed(o.Preempted(A2, (node,)), *saved).then(
        {"budgets.2.used": 1, "budgets.2.total": 2}, status=RunStatus.RESTARTING
    )


@pytest.mark.parametrize("limit", [0, 1])
def test_preemptions_have_a_budget(limit):
    """What it does not allow ends the run, as preempted."""
    story = preempted(wanted=settings(max_preemption_failures=limit))
    ended = RunStatus.RESTARTING if limit else RunStatus.SHUTTING_DOWN
    story.observed(o.Woke(), at_s=LATE_S).then(status=ended, cause=Cause.NODE_PREEMPTED)


@pytest.mark.parametrize("cause", [Cause.WORKER_ERROR, Cause.WORKER_LOST, Cause.WORKER_HUNG])
def test_who_fails_while_nodes_are_taken_away_fails_of_that(cause):
    """It counts against preemptions; the worker keeps what it was seen to fail of."""
    story = preempted(wanted=settings(max_failures=0))
    run = story.observed(failed(0, cause)).then(
        {"attempt.workers.0.cause": cause},
        events=["worker_failing", *RESTARTS],
        cause=Cause.NODE_PREEMPTED,
    )
    assert [2] == list(run.budgets)


def test_a_run_may_finish_while_nodes_are_taken_away():
    """It is done: nobody needs them any more."""
    preempted().observed(completed(0), completed(1)).then(
        status=RunStatus.SHUTTING_DOWN, next_status=RunStatus.FINISHED
    )
    story = preempted(reported(0, "c0"), reported(1, "c0"), completed(0), completed(1))
    story.observed(o.Published(A1, 0)).then(next_status=RunStatus.FINISHED)


def test_a_preempted_run_does_not_grow():
    """It restarts anyway, with all there is."""
    story = small()
    story.observed(notice("n1"), placed(slot_1=("n2",)), *checkpoint(0, 0, 1)).then(
        status=RunStatus.RESTARTING, resizes=story.run.resizes
    )


def test_groups_on_nodes_that_go_are_released_and_asked_for_anew():
    """Under another name; until they are given back nothing else begins."""
    story = preempted(failed(0))
    story.observed(o.Cleared(A1)).then(effects=[f.Release((P0,))])
    story.observed(o.Woke(), at_s=LATE_S).then(events=[])
    gone = story.observed(o.Released((P0,)))
    gone.then(events=[e.PlacementReleased(name=P0)])
    assert "a node of it is gone, or is taken away" == gone.events[0].reason
    run = story.observed(o.Woke()).then(events=SCHEDULED, effects=[f.Place(A2)])
    assert ["run/0.2"] == list(run.placements)


def test_a_node_that_is_taken_away_is_not_used_again():
    """As long as it is there still, whoever offers it."""
    story = preempted(failed(0), o.Cleared(A1), o.Released((P0,)), o.Woke())
    offered = o.Placed((reserved("run/0.2", ("n1", "n2")),))
    story.observed(offered).then(events=["placement_ready"], effects=[f.Place(A2)])
    elsewhere = o.Placed((reserved("run/0.2", ("n3", "n2")),))
    story.observed(elsewhere).then(events=["placement_changed", *["worker_scheduled"] * 2])


def large(*observations: o.Observation):
    """An elastic run of two to four that trains on three nodes."""
    there = placed(("n1", "n2"), slot_1=("n2",), slot_2=("n3",))
    story = training(elastic(), there)
    story.observed(*observations).then()
    return story


@pytest.mark.parametrize(
    ("nodes", "released"),
    [
        (["n1"], []),
        (["n3"], [P2]),
        (["n2"], [P1]),
        (["n1", "n2"], [P0, P1, P2]),
        (["n1", "n3"], [P2]),
    ],
)
def test_the_gang_is_kept_as_long_as_enough_is_left(nodes, released):
    """Extras on nodes that go are given back; all, with the gang, if there is too little left."""
    story = large(notice(*nodes), failed(0), o.Cleared(A1))
    found = [one.names for one in plan(story.run) if isinstance(one, f.Release)]
    assert (([tuple(released)]) if released else []) == found


def test_an_elastic_run_goes_on_with_what_is_left():
    """What it has on other nodes is enough; what went is asked for anew beside it."""
    story = large(notice("n3"), failed(3), o.Cleared(A1), o.Released((P2,)))
    run = story.observed(o.Woke()).then(events=["run_scheduling", "placement_requested"])
    assert "run/2.2" in run.placements
    run = story.observed(placed(("n1", "n2"), slot_1=("n2",))).then({"attempt.num_workers": 3})
    assert [(P0, 0), (P0, 1), (P1, 0)] == ranks_of(run)


def test_a_resize_that_was_decided_elsewhere_stands():
    """Who fails or is told to go while the size changes adds nothing."""
    story = led(*TRAINING, event(e.RunResizing(from_workers=2, to_workers=3)))
    story.observed(notice("n1"), o.Woke()).then(events=[], effects=[f.Stop(A1)])


def test_an_extra_whose_node_is_gone_is_asked_for_anew():
    """Ray tries a lost bundle without a pause; what nobody runs on is given back, and requested."""
    story = training(elastic(1, 3), placed(["n1"], slot_1=["n2"]))
    lost = o.Placed((reserved(nodes=["n1"]), reserved(P1, ["n2"]), reserved(P2, ["n3"])))
    story.observed(lost).then()
    story.observed(o.Placed((reserved(P2, [""]),))).then()
    assert f.Release((P2,)) in plan(story.run)
    story.observed(o.Released((P2,))).then(events=["placement_released", "placement_requested"])
    assert ["run/0.1", "run/1.1", "run/2.2"] == list(story.run.placements)
    assert not any(isinstance(one, f.Release) for one in plan(story.run))
