"""Replica groups: one that fails is replaced on its bundles while the others train on."""

from __future__ import annotations

import pytest

from tests.core.runs import (
    A1,
    ERROR,
    completed,
    elastic,
    facts,
    failed,
    gang_of,
    ids,
    in_groups,
    notice,
    placed,
    reported,
    settings,
    training,
)
from trainstate.core import Cause, ReplicaGroupStatus, RunStatus, WorkerStatus
from trainstate.core import effects as f
from trainstate.core import observations as o
from trainstate.core.decide import decide
from trainstate.core.plan import plan
from trainstate.testing.given import START_NS
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

WATCH = f.Watch(A1)
REPLACES = ["replica_group_failed", "failure_decided"]
STARTS_ANEW = ["worker_failing", "replica_group_replacing", "worker_scheduled", "worker_scheduled"]
FULL = ["failure_decided", "run_restarting"]
LATE_S = 10**6


def trains(*ranks: int, generation: int = 0) -> list[f.Effect]:
    return [f.Train(A1, rank, generation) for rank in ranks]


def kinds(when) -> list[str]:
    when.then()
    return [one.WhichOneof("payload") for one in when.events]


def comes_up(story, group: int):
    """The workers of a group that is replaced come up, and train."""
    generation = story.run.attempt.groups[group].generation
    story.observed(gang_of(story.run, group), o.Ready(A1, (), group, generation)).then()
    return story


def does_not_come_up(story, group: int = 1) -> o.StartFailed:
    generation = story.run.attempt.groups[group].generation
    return o.StartFailed(A1, Cause.START_FAILED, ERROR, group, generation)


# --- replacing --------------------------------------------------------------------------------------


def test_a_group_that_fails_is_replaced():
    """2-13, 2-16: its mates are stopped, all its workers start anew, the others train on."""
    story = in_groups()
    story.observed(failed(2)).then(
        {
            "attempt.groups.1.status": ReplicaGroupStatus.REPLACING,
            "attempt.groups.1.generation": 1,
            "attempt.groups.0.status": ReplicaGroupStatus.RUNNING,
            "attempt.workers.3.status": WorkerStatus.SCHEDULING,
        },
        events=["worker_failing", *REPLACES, *STARTS_ANEW],
        effects=[WATCH, *trains(0, 1), f.StartGang(A1, 1, 1)],
        status=RunStatus.RUNNING,
        error=None,
    )
    story.observed(gang_of(story.run, 1)).then(
        events=["worker_started"] * 2, effects=[WATCH, *trains(0, 1), f.SetUp(A1, 1, 1)]
    )
    story.observed(o.Ready(A1, (), 1, 1)).then(
        {"attempt.groups.1.replacements": 1},
        events=[e.ReplicaGroupReplaced(group=1, generation=1)],
        effects=[WATCH, *trains(0, 1), *trains(2, 3, generation=1)],
    )


def test_the_decision_says_what_is_replaced_and_why():
    """A person reads the rank, the cause, the budget; the last sentence is the decision's."""
    events = in_groups().observed(failed(2)).events
    said = {one.WhichOneof("payload"): one.reason for one in events}
    what = "worker_error: ValueError: bad batch"
    assert f"rank 2 failed of {what}" == said["replica_group_failed"]
    expected = f"replaces replica group 1 (failures 1 of 9) in 0 s after {what}"
    assert expected == said["failure_decided"]
    assert "ranks 2, 3 start anew" == said["replica_group_replacing"]
    assert "ranks 2, 3 start anew" == decide(in_groups().run, failed(2), START_NS).reason


def test_a_replacement_is_on_the_same_bundles_with_the_same_ranks():
    """2-03: whatever accelerators it finds there."""
    story = in_groups()
    before = {rank: (one.placement, one.bundle) for rank, one in story.run.attempt.workers.items()}
    story.observed(failed(3)).then()
    up = (facts(3, "n2", "0", generation=1), facts(2, "n2", "1", generation=1))
    run = story.observed(o.GangUp(A1, up, 1, 1)).then(events=["worker_started"] * 2)
    after = {rank: (one.placement, one.bundle) for rank, one in run.attempt.workers.items()}
    assert before == after
    assert [("1",), ("0",)] == [run.attempt.workers[rank].accelerator_ids for rank in (2, 3)]


def test_a_replacement_is_recorded_worker_by_worker():
    """2-08: who was replaced and why, and who came instead."""
    story = in_groups()
    story.observed(failed(2, Cause.WORKER_LOST)).then()
    run = comes_up(story, 1).run
    assert [(2, 0, True), (3, 0, False)] == [
        (one.rank, one.generation, one.error is not None) for one in run.attempt.replaced
    ]
    assert {Cause.WORKER_LOST} == {one.cause for one in run.attempt.replaced}
    assert [0, 0, 1, 1] == [one.generation for one in run.attempt.by_rank]
    assert all(one.actor_id for one in run.attempt.by_rank)


def test_a_failed_replacement_is_said_of_the_group_that_failed():
    """2-10: every group's status says whether it fails."""
    story = in_groups(6, backoff_first_s=0)
    run = story.observed(failed(0), failed(5)).then()
    found = [group.status for group in run.attempt.groups.values()]
    replacing, running = ReplicaGroupStatus.REPLACING, ReplicaGroupStatus.RUNNING
    assert [replacing, running, replacing] == found


# --- partial or full ----------------------------------------------------------------------------------


def ungrouped():
    return training(settings(4, max_failures=9), placed(("n1", "n1", "n2", "n2")))


def elastic_in_groups():
    wanted = elastic(4, 6, replica_group_size=2)
    return training(wanted, placed(("n1", "n1", "n2", "n2")))


def after(story, *observations):
    story.observed(*observations).then()
    return story


PARTIAL = {
    "one of two groups": (in_groups, True),
    "two of three groups": (lambda: after(in_groups(6), failed(0)), True),
    "groups of one worker": (lambda: in_groups(3, 1), True),
    "an elastic run of the same size": (elastic_in_groups, True),
    "a group that was replaced before": (
        lambda: comes_up(after(in_groups(), failed(2)), 1),
        True,
    ),
    "no replica groups": (ungrouped, False),
    "the only group": (lambda: in_groups(2), False),
    "the last healthy group": (lambda: after(in_groups(), failed(0)), False),
    "a worker is done": (lambda: after(in_groups(), completed(0)), False),
    "no replacement is allowed": (lambda: in_groups(max_replacements=0), False),
    "nodes are taken away": (lambda: after(in_groups(), notice("n1")), False),
    "the budget is used up": (lambda: in_groups(max_failures=0), False),
}


@pytest.mark.parametrize("name", PARTIAL)
def test_partial_or_full(name):
    """2-09: partial if there are groups, one fails, another does not, and the size stays the same."""
    made, partial = PARTIAL[name]
    story = made()
    last = story.run.attempt.workers[max(story.run.attempt.workers)]
    found = kinds(story.observed(failed(last.rank, generation=last.generation)))
    assert partial == ("replica_group_failed" in found)
    assert partial == (story.run.status is RunStatus.RUNNING)
    assert partial == (f.Stop(A1) not in plan(story.run))


def test_a_resize_is_full():
    """2-09: an elastic run that grows starts every group anew, and who fails meanwhile adds nothing."""
    story = elastic_in_groups()
    room = placed(("n1", "n1", "n2", "n2"), slot_1=("n3", "n3"))
    story.observed(room, reported(0, "c0"), reported(1, "c0"), o.Published(A1, 0, 0, 0)).then(
        effects=[f.Stop(A1)], status=RunStatus.RESIZING
    )
    story.observed(failed(2)).then(events=["worker_failing"], effects=[f.Stop(A1)])


def test_a_size_that_changed_starts_all_anew():
    """2-17: the size of an elastic run of groups is of whole groups, the next attempt's too."""
    story = elastic_in_groups()
    story.observed(failed(0), failed(2), o.Cleared(A1)).then(status=RunStatus.RESTARTING)
    story.observed(o.Woke(), at_s=LATE_S).then(effects=[f.Place(asked=2)])
    run = story.observed(placed(("n1", "n1", "n2", "n2"), slot_1=("n3", "n3"))).then(
        {"attempt.num_workers": 6}
    )
    assert [0, 1, 2] == list(run.attempt.groups)
    assert {0} == {group.generation for group in run.attempt.groups.values()}


# --- a replacement that fails ---------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_so_many_failed_replacements_restart_everything(limit):
    """2-11: one generation after the other, then all workers."""
    story = in_groups(max_replacements=limit)
    story.observed(failed(2)).then()
    for tries in range(1, limit):
        story.observed(does_not_come_up(story)).then(
            {"attempt.groups.1.failed_replacements": tries}, status=RunStatus.RUNNING
        )
        story.observed(o.Woke(), at_s=LATE_S * tries).then(
            effects=[WATCH, *trains(0, 1), f.StartGang(A1, 1, tries + 1)]
        )
    story.observed(does_not_come_up(story)).then(
        events=["worker_failing"] * 2 + ["replica_group_replacement_failed", *FULL],
        effects=[f.Stop(A1)],
        cause=Cause.REPLACEMENT_FAILED,
    )


def test_what_the_controllers_budget_does_not_allow_ends_the_run():
    """2-11: after the last try the budget of the controller decides, as of any failed start."""
    story = in_groups(max_replacements=1, controller_failure_limit=0)
    story.observed(failed(2), does_not_come_up(in_groups_failing())).then(
        status=RunStatus.SHUTTING_DOWN, cause=Cause.REPLACEMENT_FAILED
    )


def in_groups_failing():
    return after(in_groups(), failed(2))


def test_by_default_three_replacements_may_fail():
    """As the settings say nothing."""
    story = in_groups_failing()
    for tries in (1, 2):
        story.observed(does_not_come_up(story)).then(status=RunStatus.RUNNING)
        story.observed(o.Woke(), at_s=LATE_S * tries).then()
    story.observed(does_not_come_up(story)).then(status=RunStatus.RESTARTING)


def test_replacements_are_counted_anew_after_one_that_trains():
    """2-11: it is tries in a row that are bounded; failures of training have a budget of their own."""
    story = in_groups(max_replacements=2)
    for generation in (0, 2):
        story.observed(failed(2, generation=generation), at_s=LATE_S * (generation + 1)).then()
        story.observed(o.Woke(), at_s=LATE_S * (generation + 2)).then()
        story.observed(does_not_come_up(story)).then(status=RunStatus.RUNNING)
        story.observed(o.Woke(), at_s=LATE_S * (generation + 3)).then()
        comes_up(story, 1)
    assert (2, 0) == (
        story.run.attempt.groups[1].replacements,
        story.run.attempt.groups[1].failed_replacements,
    )


def test_nothing_of_a_failed_replacement_trains():
    """2-12: its workers fail with it; the next generation's start removes them."""
    story = in_groups_failing()
    story.observed(gang_of(story.run, 1)).then()
    run = story.observed(does_not_come_up(story)).then(
        {"attempt.groups.1.status": ReplicaGroupStatus.FAILED},
        events=["worker_failing"] * 2 + ["replica_group_replacement_failed", "failure_decided"],
        effects=[WATCH, *trains(0, 1), f.Wake(story.run.time_ns)],
    )
    assert {Cause.REPLACEMENT_FAILED} == {run.attempt.workers[rank].cause for rank in (2, 3)}


def test_a_worker_that_fails_before_its_group_trains_is_a_failed_replacement():
    """2-11: it came up, and was gone before the others were set up."""
    story = in_groups_failing()
    story.observed(gang_of(story.run, 1)).then()
    story.observed(failed(2, generation=1)).then(
        {"attempt.groups.1.failed_replacements": 1, "attempt.groups.1.status": 2},
        events=["worker_failing"] * 2 + ["replica_group_replacement_failed", "failure_decided"],
    )


def test_tries_are_spaced():
    """At once, then after the first backoff, then twice as long."""
    story = in_groups_failing()
    found = []
    for tries in range(1, 3):
        story.observed(does_not_come_up(story)).then()
        group = story.run.attempt.groups[1]
        found.append((group.restart_time_ns - story.run.time_ns) / 1e9)
        story.observed(o.Woke(), at_s=LATE_S * tries).then()
    assert [0, 2] == found


def test_what_was_replaced_before_is_left_alone():
    """2-14: the replacement that fails is tried again, those that did not are not."""
    story = in_groups(6, backoff_first_s=0)
    story.observed(failed(0), failed(2)).then()
    story.observed(o.Woke()).then()
    comes_up(story, 0)
    story.observed(does_not_come_up(story)).then(
        {"attempt.groups.0.status": ReplicaGroupStatus.RUNNING}
    )
    story.observed(o.Woke(), at_s=LATE_S).then(
        {"attempt.groups.0.generation": 1, "attempt.groups.1.generation": 2},
        effects=[WATCH, *trains(0, 1, generation=1), *trains(4, 5), f.StartGang(A1, 1, 2)],
    )


def test_several_are_replaced_at_once():
    """2-15: nobody waits for another's replacement; nor for what is left of a group that failed."""
    story = in_groups(8, backoff_first_s=0)
    story.observed(failed(0), failed(3), failed(1)).then(
        effects=[WATCH, *trains(4, 5, 6, 7), f.StartGang(A1, 0, 1), f.StartGang(A1, 1, 1)]
    )
    comes_up(story, 1)
    wanted = [*trains(2, 3, generation=1), *trains(4, 5, 6, 7)]
    assert {WATCH, f.StartGang(A1, 0, 1), *wanted} == set(plan(story.run))


def test_seats_are_no_others():
    """Groups that are replaced at once, on one node, sit beside each other."""
    story = training(settings(4, max_failures=9, replica_group_size=1), placed(("n1",) * 4))
    story.observed(failed(0), failed(2)).then()
    for group in (2, 0):
        comes_up(story, group)
    run = story.run
    assert [0, 1, 2, 3] == sorted(one.local_rank for one in run.attempt.by_rank)
    assert {0} == {one.node_rank for one in run.attempt.by_rank}


# --- waiting --------------------------------------------------------------------------------------


def test_a_group_that_fails_again_waits():
    """By the budget's backoff; until then its mates are not trained with, and it is not started."""
    story = failing_twice()
    due_ns = story.run.time_ns + 2 * 10**9
    assert {WATCH, *trains(0, 1), f.Wake(due_ns)} == set(plan(story.run))
    story.observed(o.Woke()).then(events=[])
    story.observed(o.Woke(), at_s=LATE_S * 2).then(
        events=STARTS_ANEW, effects=[WATCH, *trains(0, 1), f.StartGang(A1, 1, 2)]
    )
    assert [(2, 2), (3, 2)] == [(one.rank, one.cause) for one in story.run.attempt.replaced[-2:]]


def failing_twice():
    """The second group waits to be replaced for the second time."""
    story = comes_up(in_groups_failing(), 1)
    story.observed(failed(2, generation=1)).then(events=["worker_failing", *REPLACES])
    return story


def test_what_the_mates_of_a_failed_group_come_to_changes_nothing():
    """They are replaced with it: one that fails is said, one that returns is not done."""
    failing_twice().observed(failed(3, generation=1)).then(events=["worker_failing"])
    story = failing_twice()
    story.observed(o.Completed(A1, 3, 1)).then(events=[])
    story.observed(o.Woke(), at_s=LATE_S * 2).then(events=STARTS_ANEW)


def test_a_run_that_is_preempted_replaces_nobody():
    """It is about to start anew as a whole: the failed group is not woken for."""
    story = failing_twice()
    story.observed(notice("n1", deadline_ns=START_NS)).then(
        effects=[WATCH, *trains(0, 1), f.Wake(START_NS)]
    )


# --- the last word of the dead ----------------------------------------------------------------------

DEAD = [
    reported(2, ""),
    completed(2),
    failed(2),
    failed(3),
    o.GangUp(A1, (facts(2, "n2"), facts(3, "n2")), 1, 0),
    o.GangUp(A1, (facts(2, "n2"), facts(3, "n2")), 1, 1),
    o.GangUp(A1, (facts(2, "n2"), facts(3, "n2"))),
    o.Ready(A1, (), 1, 0),
    o.Ready(A1, (), 1, 1),
    o.Ready(A1, (), 0, 0),
    o.Ready(A1),
    o.StartFailed(A1, Cause.START_FAILED, ERROR, 1, 0),
    o.StartFailed(A1, Cause.START_FAILED, ERROR, 0, 0),
    o.StartFailed(A1, Cause.START_FAILED, ERROR, 7, 0),
    o.StartFailed(A1, Cause.START_FAILED, ERROR),
    o.Published(A1, 0, 0, 1),
]


@pytest.mark.parametrize("late", DEAD, ids=lambda observation: type(observation).__name__)
def test_a_dead_generation_is_not_heard(late):
    """2-04, 2-11: its last word is not taken for its successor's."""
    in_groups_failing().observed(late).then(events=[])


# --- reports and checkpoints ------------------------------------------------------------------------


def published(group: int, index: int = 0) -> o.Published:
    return o.Published(A1, index, 0, group)


def test_a_checkpoint_is_complete_when_one_group_has_it():
    """Each group holds the whole state: who trains faster commits first."""
    story = in_groups()
    story.observed(reported(2, "c0", loss=2.0), reported(3, "c0", loss=3.0)).then(
        effects=[WATCH, *trains(0, 1, 2, 3), f.Publish(A1, 0, 1)]
    )
    run = story.observed(published(1)).then(events=["checkpoint_committed"])
    committed = story.events[-1].checkpoint_committed
    assert (1, "c0", 2.0) == (
        committed.group,
        committed.directory,
        committed.metrics.entries[0].value.double,
    )
    assert [0, 1] == [group.committed for group in run.attempt.groups.values()]


def test_parts_of_two_groups_are_no_checkpoint():
    """2-19: ranks of one group make it together, or nobody."""
    story = in_groups()
    story.observed(reported(0, "c0"), reported(2, "c0")).then(effects=[WATCH, *trains(0, 1, 2, 3)])
    story.observed(published(0), published(1), o.Published(A1, 0)).then(events=[])


def test_reports_go_on_over_generations():
    """2-19: the new generation begins after the last report of any of its group's ranks."""
    story = in_groups()
    story.observed(reported(2, "", "", ""), reported(3, ""), reported(0, "")).then()
    story.observed(failed(2)).then()
    assert [1, 0, 3, 3] == [one.reports for one in story.run.attempt.by_rank]
    comes_up(story, 1)
    again = reported(2, "", "", first=2, generation=1)
    story.observed(again).then({"attempt.workers.2.reports": 4}, events=["report_received"])


def test_reports_of_survivors_are_kept():
    """2-19: what was on its way in another group is completed as if nothing had been."""
    story = in_groups()
    story.observed(reported(0, "c0"), failed(2)).then({"attempt.groups.0.pending.0.ranks": 1})
    story.observed(reported(1, "c0")).then(
        effects=[WATCH, *trains(0, 1), f.StartGang(A1, 1, 1), f.Publish(A1, 0, 0)]
    )
    story.observed(published(0)).then(events=["checkpoint_committed"])


@pytest.mark.parametrize("first", [2, 3])
def test_generations_are_not_mixed_in_a_checkpoint(first):
    """2-19: what not every rank of the dead generation had reported never will be."""
    story = in_groups()
    story.observed(reported(first, "", "c1"), reported(5 - first, ""), failed(3)).then(
        {"attempt.groups.1.pending": {}}
    )
    comes_up(story, 1)
    due = story.run.attempt.workers[2].reports
    new = [reported(rank, "c2", first=due, generation=1) for rank in (2, 3)]
    story.observed(new[0]).then({"attempt.groups.1.pending.2.ranks": 1})
    story.observed(published(1, 1), published(1, due)).then(events=[])
    story.observed(new[1], published(1, due)).then({"checkpoints.0.directory": "c2"})


def test_a_complete_checkpoint_of_a_failed_generation_is_published():
    """2-19: nothing is missing of it, whoever died since."""
    story = in_groups()
    story.observed(reported(2, "c0", "c1"), reported(3, "c0"), failed(2)).then(
        effects=[WATCH, *trains(0, 1), f.StartGang(A1, 1, 1), f.Publish(A1, 0, 1)]
    )
    assert [0] == list(story.run.attempt.groups[1].pending)
    story.observed(published(1)).then(
        {"attempt.groups.1.committed": 1, "attempt.groups.1.pending": {}}
    )


def test_a_rank_that_finished_too_early_starts_all_anew():
    """Who is done is not replaced: what its mate waits for is decided for all."""
    story = in_groups()
    story.observed(reported(2, "c0"), completed(3)).then(
        {"error.type": "ReportMismatch"},
        events=["report_received", "worker_completed", *FULL],
        effects=[f.Stop(A1)],
    )


def test_another_groups_checkpoint_is_none_of_its_business():
    """A rank may finish while another group has a checkpoint on its way."""
    story = in_groups()
    story.observed(reported(0, "c0"), completed(3)).then(
        events=["report_received", "worker_completed"], status=RunStatus.RUNNING
    )


def test_a_run_of_groups_finishes_with_its_last_checkpoint():
    """Every group's."""
    story = in_groups()
    parts = [reported(rank, "c0") for rank in range(4)]
    story.observed(*parts, *map(completed, range(4))).then(
        effects=[WATCH, f.Publish(A1, 0, 0)], status=RunStatus.RUNNING
    )
    story.observed(published(1)).then(status=RunStatus.RUNNING)
    story.observed(published(0)).then(effects=[f.Stop(A1)], next_status=RunStatus.FINISHED)


def test_a_preempted_group_starts_all_anew():
    """Who fails while nodes are taken away fails of that, and is not replaced where it was."""
    story = after(in_groups(), notice("n2"))
    story.observed(failed(2, Cause.WORKER_LOST)).then(
        {"budgets.2.used": 1, "attempt.workers.2.cause": Cause.WORKER_LOST},
        events=["worker_failing", *FULL],
        cause=Cause.NODE_PREEMPTED,
    )


def test_a_group_of_a_run_that_ends_is_not_replaced():
    """An abort, or the end of the work, stands."""
    story = after(in_groups(), o.Abort(Cause.USER_ABORT, "Ctrl-C"))
    story.observed(failed(2)).then(events=["worker_failing"], effects=[f.Stop(A1)])


def test_an_attempt_ends_with_its_groups():
    """Those that are replaced included."""
    story = in_groups_failing()
    story.observed(o.Broke(Cause.UPLOAD_FAILED, s.Error(message="full")), o.Cleared(A1)).then(
        {"attempt.groups.1.status": ReplicaGroupStatus.ENDED}, irregular=[]
    )
    assert ids("n1") == tuple({*story.run.placements["run/0.1"].node_ids[:2]})


# --- what a replacement begins with ---------------------------------------------------------------


def commits(story, index: int, *ranks: int, group: int, first: int = 0):
    """A group's ranks report a checkpoint, and it is published."""
    name = f"c{group}.{index}"
    story.observed(*(reported(rank, name, first=first) for rank in ranks)).then()
    story.observed(o.Published(A1, first, 0, group)).then()
    return story


def test_all_ranks_of_a_replacement_begin_with_the_same_checkpoint():
    """What was there when it was ready; what others commit since is not for it (2-19)."""
    story = commits(in_groups(), 0, 0, 1, group=0)
    after(story, failed(2))
    comes_up(story, 1)
    commits(story, 1, 0, 1, group=0, first=1)
    groups = story.run.attempt.groups
    assert (2, 0, 1) == (story.run.checkpoints_committed, groups[0].visible, groups[1].visible)
    assert [0, 0] == [one.group for one in story.run.checkpoints.values()]


def test_what_a_replacement_loads_is_not_deleted():
    """Until all its ranks have reported, though others commit on and only one is to be kept."""
    story = commits(in_groups(num_to_keep=1), 0, 0, 1, group=0)
    after(story, failed(2))
    comes_up(story, 1)
    for index in (1, 2):
        commits(story, index, 0, 1, group=0, first=index)
    due = [one.index for one in plan(story.run) if isinstance(one, f.DeleteCheckpoint)]
    assert [1] == due
    story.observed(reported(2, "", generation=1), reported(3, "", generation=1)).then()
    due = [one.index for one in plan(story.run) if isinstance(one, f.DeleteCheckpoint)]
    assert [0, 1] == due


def test_the_progress_of_others_forgives_nothing():
    """A group that comes to nothing again and again uses its budget up, whatever others commit."""
    story = after(in_groups(max_failures=1, backoff_first_s=0), failed(2))
    comes_up(story, 1)
    commits(story, 0, 0, 1, group=0)
    assert 1 == story.run.budgets[1].used
    story.observed(failed(2, generation=1)).then(next_status=RunStatus.ERRORED)


def test_groups_that_go_at_once_are_charged_once():
    """Of one event; none waits for the other's backoff, and one that was started since counts again."""
    story = after(in_groups(6, max_failures=2), failed(0), failed(2))
    assert (1, {0, 1}) == (
        story.run.budgets[1].used,
        {one.group for one in plan(story.run) if isinstance(one, f.StartGang)},
    )
    comes_up(story, 0)
    after(story, failed(0, generation=1))
    assert 2 == story.run.budgets[1].used


def test_a_notice_is_for_the_worker_that_replaced_another():
    """Where it runs now, and not where the one before it did (2-20)."""
    story = comes_up(after(in_groups(), failed(2)), 1)
    generations = {rank: one.generation for rank, one in story.run.attempt.workers.items()}
    story.observed(notice("n2")).then(status=RunStatus.PREEMPTING, preempted_ranks=[2, 3])
    assert {0: 0, 1: 0, 2: 1, 3: 1} == generations
