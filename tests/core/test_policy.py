"""The rules a decision follows: budgets, backoff, ranks, and which checkpoints are kept."""

from __future__ import annotations

import math

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from tests.core.runs import (
    A1,
    ERROR,
    TRAINING,
    elastic,
    facts,
    failed,
    led,
    reported,
    settings,
    starting,
)
from trainstate.core import Budget, Cause, RunStatus
from trainstate.core import observations as o
from trainstate.core.model import Run, Worker
from trainstate.core.policy import (
    BUDGET_OF,
    Place,
    Size,
    attempt_id_of,
    backoff_s,
    by_node,
    charge,
    in_order_of_worth,
    in_rank_order,
    max_replacements,
    preemption_ends_ns,
    resize_due_ns,
    seats,
    size_of,
    slots,
    surplus,
)
from trainstate.core.values import to_map
from trainstate.testing import event, given
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

TRAINED_BADLY = [cause for cause, budget in BUDGET_OF.items() if budget is not Budget.CONTROLLER]
NO_BUDGET = [cause for cause in Cause if cause and cause not in BUDGET_OF]
LIMIT_OF = {
    Budget.FAILURES: "max_failures",
    Budget.PREEMPTIONS: "max_preemption_failures",
    Budget.CONTROLLER: "controller_failure_limit",
}


def fail(story, cause):
    """One more failure of that cause and the next attempt, if any; how many there were before."""
    number = len(story.run.attempts)
    attempt = attempt_id_of("run", number)
    if BUDGET_OF.get(cause) is Budget.CONTROLLER:
        story.observed(o.StartFailed(attempt, cause, ERROR)).then()
    else:
        story.observed(*starting(attempt), failed(0, cause, attempt)).then()
    if story.run.status is RunStatus.RESTARTING:
        story.observed(o.Cleared(attempt)).then()
        story.observed(o.Woke(), at_s=10**6 * number).then()
    return number


# --- budgets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 3])
@pytest.mark.parametrize("cause", BUDGET_OF, ids=lambda cause: cause.name)
def test_a_run_is_tried_as_often_as_its_budget_allows(cause, limit):
    """A6: limit + 1 attempts, counted by the budget of the cause, then the cause is the run's."""
    budget = BUDGET_OF[cause]
    story = led(wanted=settings(**{LIMIT_OF[budget]: limit}))
    while story.run.status is not RunStatus.SHUTTING_DOWN:
        attempts = fail(story, cause)
    assert (limit + 1, cause) == (attempts, story.run.cause)
    decided = [one.failure_decided for one in story.events if one.HasField("failure_decided")]
    counted = [(one.budget, one.used, one.limit) for one in decided]
    assert [(budget, used, limit) for used in range(1, limit + 2)] == counted


@pytest.mark.parametrize("cause", BUDGET_OF, ids=lambda cause: cause.name)
def test_a_budget_of_minus_one_is_never_used_up(cause):
    """Each of them may be without limit."""
    story = led(wanted=settings(**{LIMIT_OF[BUDGET_OF[cause]]: -1}))
    for _ in range(20):
        fail(story, cause)
    assert RunStatus.SCHEDULING == story.run.status


@pytest.mark.parametrize("cause", NO_BUDGET, ids=lambda cause: cause.name)
def test_other_causes_are_never_tried_again(cause):
    """What no budget is for ends the run, whatever the budgets allow."""
    story = led(*TRAINING, wanted=settings(max_failures=-1))
    assert charge(story.run, cause) is None
    story.observed(o.Broke(cause, ERROR)).then(
        events=["failure_decided", "run_shutting_down"], cause=cause
    )


def test_budgets_do_not_share():
    """A preemption uses nothing of what failures may, and the other way round."""
    story = led(wanted=settings(max_failures=1, max_preemption_failures=1))
    for cause in (Cause.NODE_PREEMPTED, Cause.START_FAILED, Cause.WORKER_LOST):
        fail(story, cause)
    assert {2: 1, 3: 1, 1: 1} == {one: use.used for one, use in story.run.budgets.items()}
    fail(story, Cause.WORKER_HUNG)
    assert RunStatus.SHUTTING_DOWN == story.run.status


def test_without_settings_the_limits_are_rays():
    """No failure, any number of preemptions and of failed starts."""
    run = Run("run", settings=s.RunSettings())
    limits = {cause: charge(run, cause).limit for cause in BUDGET_OF}
    assert {0} == {limits[cause] for cause in TRAINED_BADLY if cause is not Cause.NODE_PREEMPTED}
    assert {-1} == {limits[cause] for cause in limits if cause not in TRAINED_BADLY}
    assert -1 == limits[Cause.NODE_PREEMPTED]
    assert limits == {cause: charge(Run("run"), cause).limit for cause in BUDGET_OF}


def test_a_committed_checkpoint_begins_budgets_anew():
    """B.3 row 13: two failures with progress between them are not two in a row."""
    story = led(wanted=settings(max_failures=1))
    fail(story, Cause.WORKER_ERROR)
    attempt = attempt_id_of("run", 2)
    parts = [reported(rank, "c0", attempt=attempt) for rank in range(2)]
    story.observed(*starting(attempt), *parts, o.Published(attempt, 0)).then(
        {"budgets.1.used": 0, "budgets.1.total": 1}
    )
    story.observed(failed(0, attempt=attempt)).then(
        {"budgets.1.used": 1, "budgets.1.total": 2}, status=RunStatus.RESTARTING
    )


@pytest.mark.parametrize(
    ("enough", "reports", "used"), [(0, 9, 2), (4, 3, 2), (4, 4, 1), (4, 5, 1)]
)
def test_so_many_reports_begin_a_budget_anew(enough, reports, used):
    """Reports of all ranks since the last failure; 0: they are no progress."""
    story = led(wanted=settings(max_failures=9, reset_after_reports=enough))
    fail(story, Cause.WORKER_ERROR)
    attempt = attempt_id_of("run", 2)
    story.observed(*starting(attempt), reported(1, *[""] * reports, attempt=attempt)).then()
    story.observed(failed(0, attempt=attempt)).then({"budgets.1.used": used})


def test_restarts_are_spaced():
    """At once, then after the first backoff, then twice as long each time, up to the longest."""
    story = led(wanted=settings(max_failures=-1))
    for _ in range(7):
        fail(story, Cause.WORKER_ERROR)
    decided = [one.failure_decided for one in story.events if one.HasField("failure_decided")]
    assert [0, 2, 4, 8, 10, 10, 10] == [one.backoff_s for one in decided]
    assert 10 == backoff_s(story.run, 10**6)


# --- ranks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "bundles"),
    [
        ("", []),
        ("a", [0]),
        ("aaa", [0, 1, 2]),
        ("aba", [0, 2, 1]),
        ("baab", [0, 3, 1, 2]),
        ("cbacba", [0, 3, 1, 4, 2, 5]),
    ],
)
def test_bundles_go_node_by_node(nodes, bundles):
    """Nodes in the order of their first bundle."""
    places = [Place("pg", bundle, node) for bundle, node in enumerate(nodes)]
    assert bundles == [one.bundle for one in by_node(places)]


@pytest.mark.parametrize(
    ("ids", "order"),
    [
        (["2", "0", "1"], [1, 2, 0]),
        (["10", "9", "0"], [2, 1, 0]),
        (["", "", ""], [0, 1, 2]),
        (["GPU-b", "GPU-a", "GPU-c"], [1, 0, 2]),
        (["MIG-GPU-5b6c/1/0", "0", "MIG-GPU-5b6c/0/0"], [2, 0, 1]),
        (["3 1", "0 9", "2"], [1, 0, 2]),
        (["\u0663", "1", "\u00b2"], [2, 1, 0]),
    ],
)
def test_ranks_go_by_the_lowest_accelerator(ids, order):
    """0-13: as the node names them: numbers by value, names of any form by name, before numbers."""
    workers = [facts(bundle, "n1", *one.split()) for bundle, one in enumerate(ids)]
    assert order == [one.bundle for one in in_rank_order(workers)]
    if len({one.accelerator_ids for one in workers}) == len(workers):
        assert order == [one.bundle for one in in_rank_order(workers[::-1])]


def test_ranks_go_by_node_before_accelerator():
    """A node's workers are neighbours, whatever accelerators another node has."""
    workers = [facts(0, "b", "7"), facts(1, "a", "0"), facts(2, "b", "3"), facts(3, "a", "1")]
    assert [2, 0, 1, 3] == [one.bundle for one in in_rank_order(workers)]


NODES = st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=8)


@forall(NODES, NODES)
def test_seats_are_the_lowest_that_are_free(before, coming):
    """Nobody shares one; a node has one rank; without gaps if nobody left."""
    taken = [
        Worker(rank, node_id=node, local_rank=seat.local_rank, node_rank=seat.node_rank)
        for rank, (node, seat) in enumerate(zip(before, seats([], before), strict=True))
    ]
    found = seats(taken, coming)
    nodes = [*before, *coming]
    everybody = [*((one.local_rank, one.node_rank) for one in taken), *found]
    assert len(nodes) == len(set(everybody))
    assert len(set(nodes)) == len(
        {(node, seat[1]) for node, seat in zip(nodes, everybody, strict=True)}
    )
    assert set(range(len(set(nodes)))) == {seat[1] for seat in everybody}


@forall(NODES, NODES, st.data())
def test_seats_that_were_left_are_taken_again(before, coming, data):
    """Whoever left: who stays keeps the seat, and nobody gets one that is taken."""
    sitting = zip(before, seats([], before), strict=True)
    taken = [
        Worker(rank, node_id=node, local_rank=seat.local_rank, node_rank=seat.node_rank)
        for rank, (node, seat) in enumerate(sitting)
        if data.draw(st.booleans())
    ]
    everybody = [*((one.node_id, one.local_rank) for one in taken)]
    everybody += [
        (node, seat.local_rank) for node, seat in zip(coming, seats(taken, coming), strict=True)
    ]
    assert len(everybody) == len(set(everybody))


# --- sizes ----------------------------------------------------------------------------------------

SIZES = st.builds(
    lambda unit, smallest, more, grouped: Size(
        smallest * unit, (smallest + more) * unit, unit if grouped or unit > 1 else 0
    ),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(0, 5),
    st.booleans(),
)


@forall(SIZES, st.integers(0, 60))
def test_a_size_fits_what_there_is(size, bundles):
    """Whole replica groups, from the smallest to the largest number; none if there is too little."""
    workers = size.of(bundles)
    assert 0 == workers or size.smallest <= workers <= min(size.largest, bundles)
    assert 0 == workers % size.unit
    assert (0 == workers) == (bundles < size.smallest)
    assert size.of(bundles) <= size.of(bundles + 1)
    if workers:
        assert workers + size.unit > min(bundles, size.largest)


@forall(SIZES)
def test_slots_hold_the_largest_number(size):
    """The gang holds the smallest, every other one unit; a run that is not elastic has the gang only."""
    found = slots(size)
    assert (size.smallest, size.largest) == (found[0], sum(found))
    assert {size.unit} >= set(found[1:])
    assert size.is_elastic == (len(found) > 1)


@pytest.mark.parametrize(
    ("asked", "size"),
    [
        (settings(3), (3, 3, 0)),
        (settings(4, replica_group_size=2), (4, 4, 2)),
        (elastic(2, 5), (2, 5, 0)),
        (elastic(4, 8, replica_group_size=4), (4, 8, 4)),
        (elastic(0, 4), (4, 4, 0)),
        (s.RunSettings(), (1, 1, 0)),
        (None, (1, 1, 0)),
    ],
)
def test_the_size_that_was_asked_for(asked, size):
    """1-15: a minimum that nobody named is the maximum; without a number there is one worker."""
    assert size == size_of(asked)


def test_without_settings_sizes_and_preemptions_are_rays():
    """A minute between resizes, two until a node goes; three replacements may fail."""
    run = Run("run", scaling_time_ns=7, status_time_ns=9)
    assert (7 + 60 * 10**9, 9 + 120 * 10**9, 3) == (
        resize_due_ns(run),
        preemption_ends_ns(run),
        max_replacements(run),
    )


def test_a_budget_begins_anew_with_what_is_being_saved():
    """A checkpoint that the same decision commits is progress already."""
    story = led(wanted=settings(max_failures=1))
    fail(story, Cause.WORKER_ERROR)
    charged = [charge(story.run, Cause.WORKER_ERROR, saved) for saved in (False, True)]
    assert [(2, False), (1, True)] == [(one.used, one.allows) for one in charged]


# --- checkpoints ------------------------------------------------------------------------------------


def kept(*scores, keep=1, order=s.SCORE_ORDER_MAX, attribute="score"):
    """A run with a committed checkpoint per score; None is a checkpoint without metrics."""
    wanted = settings(num_to_keep=keep, checkpoint_score_order=order)
    if attribute:
        wanted.run_config.checkpoint_config.checkpoint_score_attribute = attribute
    made = [
        event(
            e.CheckpointCommitted(
                index=index, metrics=None if one is None else to_map({"score": one})
            )
        )
        for index, one in enumerate(scores)
    ]
    return given(event(e.RunCreated(settings=wanted)), *made).run


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("scores", "keep", "deleted"),
    [
        ([], 1, []),
        ([1], 1, []),
        ([1, 2, 3], 3, []),
        ([1, 2, 3], 1, [0, 1]),
        ([3, 1, 2], 2, [1]),
        ([3, 2, 1], 1, [1]),
        ([1, 1, 1], 1, [0, 1]),
        ([NAN, 1, 2], 2, [0]),
        ([2, NAN, 1], 2, [1]),
        ([None, 1, 2], 2, [0]),
        (["best", 1, 2], 2, [0]),
        ([True, 2, 0], 2, []),
        ([-INF, 1, INF], 2, [0]),
        ([10**400, 1.0, 5], 2, [1]),
        ([-(10**400), -1.0, 5], 2, [0]),
        ([2**70, 2**63, 2**80], 2, [1]),
        ([INF, 10**1000, 0], 2, []),
    ],
)
def test_the_best_checkpoints_are_kept(scores, keep, deleted):
    """Worst first; of equals the older; one without a usable score is worst; the newest always stays."""
    assert deleted == [one.index for one in surplus(kept(*scores, keep=keep))]


@pytest.mark.parametrize(
    ("scores", "deleted"),
    [
        ([1, 3, 2], [1]),
        ([1, 2, 3], []),
        ([3, 1, 2], [0]),
        ([NAN, 1, 2], [0]),
        ([INF, NAN, 2, 3], [1, 0]),
    ],
)
def test_the_lowest_score_may_be_the_best(scores, deleted):
    """`checkpoint_score_order="min"`; and what has no usable score is not the lowest."""
    run = kept(*scores, keep=2, order=s.SCORE_ORDER_MIN)
    assert deleted == [one.index for one in surplus(run)]


def test_without_a_score_the_newest_are_kept():
    """By age; and without a number to keep, all of them."""
    assert [0, 1] == [one.index for one in surplus(kept(3, 2, 1, 0, keep=2, attribute=""))]
    run = kept(1, 2, 3)
    run.settings.run_config.checkpoint_config.ClearField("num_to_keep")
    assert [] == surplus(run)
    assert [] == surplus(Run("run"))


def test_a_score_may_be_inside_a_map():
    """As in Ray: "eval/loss" is `loss` in the map `eval`, or the metric of that very name."""
    deep = kept(
        {"eval": {"loss": 3}}, {"eval": {"loss": 9}}, {"eval": 4}, attribute="score/eval/loss"
    )
    assert [2, 0, 1] == [one.index for one in in_order_of_worth(deep)]
    run = kept(1, 2)
    run.settings.run_config.checkpoint_config.checkpoint_score_attribute = "a/b"
    for index, score in enumerate((7, 5)):
        run.checkpoints[index].metrics.CopyFrom(to_map({"a/b": score}))
    assert [1, 0] == [one.index for one in in_order_of_worth(run)]


def test_attempts_are_named_by_run_and_number():
    """Whoever decides the same names it the same."""
    assert A1 == attempt_id_of("run", 1)
    assert 4 == len({attempt_id_of(run, number) for run in ("a", "b") for number in (1, 2)})


def test_what_shall_never_be_is_far_away():
    """An interval, or a grace, of infinity is a time like others."""
    run = Run("run", settings=s.RunSettings(), preemption_deadline_ns=5)
    run.settings.scaling_config.elastic_resize_monitor_interval_s = math.inf
    run.settings.run_config.failure_config.preemption_grace_s = math.inf
    assert 10**18 <= resize_due_ns(run) < 2**63
    assert 10**18 <= preemption_ends_ns(run) < 2**63
