"""What each event does to the state; that it is total over whatever was recorded."""

from __future__ import annotations

import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from tests.core.histories import CPU, ERROR, any_events, legal_histories
from tests.core.stories import (
    ATTEMPT_DONE,
    CREATED,
    PLANNED,
    RUNNING,
    SCHEDULED,
    SCHEDULING,
    STARTED,
    TOGETHER,
    WORKERS_DONE,
)
from trainstate.core import (
    AttemptStatus,
    Budget,
    Cause,
    PlacementStatus,
    ReplicaGroupStatus,
    RunStatus,
    SyncStatus,
    WorkerStatus,
    evolve,
    initial,
)
from trainstate.core.applying import IRREGULAR_KEPT
from trainstate.core.freeze import freeze
from trainstate.core.model import Checkpoint, Resize
from trainstate.core.values import to_map, to_value
from trainstate.testing import event, given, stamp
from trainstate.testing.given import START_NS
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

SECOND = 10**9


def recorded(*events):
    """The fold of events that nobody checked."""
    run = initial("run")
    for one in events:
        evolve(run, stamp(run, one))
    return run


# --- run ------------------------------------------------------------------------------------------


def test_opened():
    """A writer takes the run up; the highest incarnation seen stands, `imported` stays."""
    opened = event(e.RunOpened(writer="ray-export", foreign=True))
    opened.incarnation = 3
    run = given(opened, *CREATED).when(event(e.RunOpened(writer="reaper"))).run
    assert (3, "reaper", True) == (run.incarnation, run.writer, run.imported)


def test_the_incarnation_does_not_go_back():
    """An event of a fenced writer that was recorded all the same does not un-fence it."""
    opened, late = event(e.RunOpened()), event(e.ControllerStarted())
    opened.incarnation, late.incarnation = 3, 2
    assert 3 == recorded(opened, *CREATED, late).incarnation


def test_created():
    """What identifies a run, and what its user asked for."""
    made = e.RunCreated(
        name="mnist",
        job_id=b"\x01",
        controller_actor_id=b"\x02",
        controller_log_path="/l",
        start_time_ns=START_NS - 5,
        settings=s.RunSettings(datasets=["train"]),
        framework_versions=[s.Version(name="ray", version="2.60.0")],
        provenance=s.Provenance(git_commit="abc"),
        run_panels=[s.Panel(id="1", title="Controller State")],
        worker_panels=[s.Panel(id="4", title="CPU Usage")],
    )
    given().when(event(made, reason="fit() was called")).then(
        status=RunStatus.INITIALIZING,
        status_reason="fit() was called",
        name="mnist",
        job_id=b"\x01",
        controller_actor_id=b"\x02",
        controller_log_path="/l",
        start_time_ns=START_NS - 5,
        first_time_ns=START_NS,
        settings=made.settings,
        framework_versions=[*made.framework_versions],
        provenance=made.provenance,
        run_panels=[*made.run_panels],
        worker_panels=[*made.worker_panels],
    )


def test_a_run_starts_at_its_creation():
    """Without a finer time of its own, the start is the event's time."""
    given(event(e.RunOpened())).when(event(e.RunCreated())).then(
        start_time_ns=START_NS + SECOND, first_time_ns=START_NS, settings=None, provenance=None
    )


def test_controller_started():
    """Each start of a controller is counted; the newest actor is the controller."""
    given(*CREATED, event(e.ControllerStarted(actor_id=b"\x01"))).when(
        event(e.ControllerStarted(actor_id=b"\x02", recovered=True)), event(e.ControllerStarted())
    ).then(controller_starts=3, controller_actor_id=b"\x02")


def test_framework_versions_recorded():
    """The versions a worker reports replace those of the controller."""
    versions = [s.Version(name="ray", version="2.60.0"), s.Version(name="torch", version="2.9")]
    given(*CREATED).when(event(e.FrameworkVersionsRecorded(versions=versions[:1]))).then()
    given(*CREATED).when(event(e.FrameworkVersionsRecorded(versions=versions))).then(
        framework_versions=versions
    )


STATES = [
    (CREATED, e.RunScheduling(), RunStatus.SCHEDULING),
    (STARTED, e.RunRunning(), RunStatus.RUNNING),
    (RUNNING, e.RunResizing(from_workers=2, to_workers=4), RunStatus.RESIZING),
    (RUNNING, e.RunRestarting(cause=Cause.WORKER_LOST), RunStatus.RESTARTING),
    (RUNNING, e.RunShuttingDown(cause=Cause.USER_ABORT), RunStatus.SHUTTING_DOWN),
]


@pytest.mark.parametrize(
    ("before", "payload", "state"), STATES, ids=lambda v: getattr(v, "name", "")
)
def test_a_move_of_a_run(before, payload, state):
    """The state, when it began and the sentence that says why."""
    given(*before).when(event(payload, reason="so it was decided", at_s=100)).then(
        status=state,
        status_reason="so it was decided",
        status_time_ns=START_NS + 100 * SECOND,
        cause=getattr(payload, "cause", 0),
        irregular=[],
    )


def test_waiting_says_what_for():
    """A6.6: a run that waits says how many workers it has and needs, and may say so again."""
    given(*CREATED, event(e.RunWaiting(have=1, need=4))).when(
        event(e.RunWaiting(have=2, need=4))
    ).then(status=RunStatus.WAITING, have_workers=2, need_workers=4, irregular=[])


def test_preempting_says_where_and_until_when():
    """The nodes that go, and the deadline if one was given: 0 is a deadline, absent is none."""
    named = event(e.RunPreempting(node_ids=["n1"], deadline_unix_nano=0))
    given(*RUNNING).when(named).then(
        status=RunStatus.PREEMPTING, preempted_nodes=["n1"], preemption_deadline_ns=0
    )
    given(*RUNNING, named).when(event(e.RunPreempting(node_ids=["n1", "n2"]))).then(
        preempted_nodes=["n1", "n2"], preemption_deadline_ns=None, irregular=[]
    )


def test_finished():
    """A finished run is completed, and keeps what the train function returned."""
    value = to_value({"loss": 0.5})
    given(*ATTEMPT_DONE).when(event(e.RunFinished(return_value=value))).then(
        status=RunStatus.FINISHED, cause=Cause.COMPLETED, return_value=value
    )
    run = given(*ATTEMPT_DONE).when(event(e.RunFinished())).then(return_value=None)
    assert run.time_ns == run.end_time_ns


def test_errored():
    """Cause and error are those the decision named."""
    errored = event(e.RunErrored(cause=Cause.CALLBACK_ERROR, error=ERROR), reason="callback raised")
    given(*CREATED).when(errored).then(
        status=RunStatus.ERRORED,
        cause=Cause.CALLBACK_ERROR,
        error=ERROR,
        status_reason="callback raised",
    )


@pytest.mark.parametrize("cause", [Cause.USER_ABORT, Cause.DRIVER_EXITED, Cause.CLUSTER_LOST])
def test_aborted(cause):
    """0-12: who ended it is recorded, not guessed."""
    aborted = event(e.RunAborted(cause=cause, end_time_ns=START_NS + 7 * SECOND))
    given(*CREATED).when(aborted).then(
        status=RunStatus.ABORTED, cause=cause, end_time_ns=START_NS + 7 * SECOND
    )


# --- decisions ------------------------------------------------------------------------------------


def test_budgets_count_failures_and_are_given_back_by_progress():
    """B.3 row 13: counted per budget; a committed checkpoint resets what is used, not the total."""
    failure = event(e.FailureDecided(budget=Budget.FAILURES))
    preemption = event(e.FailureDecided(budget=Budget.PREEMPTIONS))
    uncounted = event(e.FailureDecided())
    run = given(*RUNNING).when(failure, failure, preemption, uncounted).then()
    assert {1: (2, 2), 2: (1, 1)} == {k: (use.used, use.total) for k, use in run.budgets.items()}
    run = (
        given(*RUNNING, failure, failure, preemption)
        .when(event(e.CheckpointCommitted()), failure)
        .then()
    )
    assert {1: (1, 3), 2: (0, 1)} == {k: (use.used, use.total) for k, use in run.budgets.items()}


def test_a_decision_says_when_to_try_again_and_after_what():
    """The error stands until training runs again; the next attempt is due after the backoff."""
    decided = e.FailureDecided(budget=1, used=3, error=ERROR, backoff_s=2.5)
    run = given(*RUNNING).when(event(decided, at_s=50)).then({"budgets.1.used": 3}, error=ERROR)
    assert START_NS + 52.5 * SECOND == run.restart_time_ns
    restarting = [event(decided), event(e.RunRestarting(cause=2)), event(e.RunScheduling())]
    given(*RUNNING, *restarting).when(event(e.RunRunning())).then(error=None)


@pytest.mark.parametrize("backoff_s", [float("inf"), float("nan"), -1.0, 1e300])
def test_a_backoff_beyond_counting_is_none(backoff_s):
    """Whatever a double holds, the time of the next attempt is one."""
    decided = event(e.FailureDecided(backoff_s=backoff_s), at_s=50)
    given(*RUNNING).when(decided).then(restart_time_ns=START_NS + 50 * SECOND)


def test_a_budget_remembers_the_reports_it_was_charged_at():
    """So that progress since then can be seen (design section 5)."""
    report = event(e.ReportReceived(rank=0, index=0), "a1")
    charged = event(e.FailureDecided(budget=1))
    given(*RUNNING, report).when(charged).then({"budgets.1.reports": 1})


def test_where_a_run_that_shuts_down_goes():
    """The end is decided before it is reached, with its cause and its error."""
    ending = e.RunShuttingDown(next=RunStatus.ERRORED, cause=Cause.WORKER_LOST, error=ERROR)
    given(*RUNNING).when(event(ending)).then(
        next_status=RunStatus.ERRORED, cause=Cause.WORKER_LOST, error=ERROR
    )


def test_a_callback_that_fails_is_counted_and_changes_nothing():
    """B.3 row 12: an observer's failure leaves the run as it is."""
    failed = event(e.CallbackFailed(callback="c", hook="after_report", error=ERROR))
    given(*RUNNING).when(failed).then(status=RunStatus.RUNNING, callback_failures=1, error=None)


@pytest.mark.parametrize(
    "payload",
    [e.LineImported()],
    ids=lambda payload: payload.DESCRIPTOR.name,
)
def test_some_events_are_for_the_reader_only(payload):
    """They advance the run's position and time, and change no state."""
    before = given(*RUNNING).run
    run = given(*RUNNING).when(event(payload)).then(run_seq=before.run_seq + 1)
    run.run_seq, run.time_ns = before.run_seq, before.time_ns
    assert before == run


# --- attempt and placement -------------------------------------------------------------------------


def test_an_attempt_is_planned():
    """Size and resources, and one replica group for every so many ranks."""
    planned = e.AttemptPlanned(num_workers=4, resources_per_worker=CPU, replica_group_size=2)
    run = (
        given(*SCHEDULING)
        .when(event(planned, "a1", reason="4 fit"))
        .then(
            {
                "attempt.attempt_id": "a1",
                "attempt.number": 1,
                "attempt.status": AttemptStatus.PENDING,
                "attempt.status_reason": "4 fit",
                "attempt.num_workers": 4,
                "attempt.resources_per_worker": CPU,
                "attempt.resources": [],
                "attempt.replica_group_size": 2,
            }
        )
    )
    assert {0: 1, 1: 1} == {n: group.status for n, group in run.attempt.groups.items()}
    assert run.time_ns == run.attempt.start_time_ns


def test_workers_that_are_not_alike():
    """One resource set per worker, where they differ."""
    gpu = s.ResourceSet(resources=[s.Resource(name="GPU", amount=0.5)])
    planned = e.AttemptPlanned(num_workers=2, resources=[CPU, gpu], start_time_ns=START_NS + 1)
    given(*SCHEDULING).when(event(planned, "a1")).then(
        {
            "attempt.resources": [CPU, gpu],
            "attempt.resources_per_worker": None,
            "attempt.start_time_ns": START_NS + 1,
        }
    )


@pytest.mark.parametrize("cause", [c for c in Cause if c], ids=lambda cause: cause.name)
def test_an_attempt_ends_with_the_cause_it_was_given(cause):
    """0-12: resize, controller error, callback error, preemption, abort: each is told apart."""
    ended = e.AttemptEnded(status=AttemptStatus.ERRORED, cause=cause, error=ERROR)
    given(*WORKERS_DONE).when(event(ended, "a1", at_s=50)).then(
        {
            "attempt.status": AttemptStatus.ERRORED,
            "attempt.cause": cause,
            "attempt.error": ERROR,
            "attempt.end_time_ns": START_NS + 50 * SECOND,
            "attempt.groups.0.status": ReplicaGroupStatus.ENDED,
            "attempt.groups.1.status": ReplicaGroupStatus.ENDED,
        },
        irregular=[],
    )


def test_a_placement_from_request_to_release():
    """A placement is kept for as long as it is held."""
    requested = e.PlacementRequested(name="pg", bundles=[CPU, CPU], strategy="SPREAD")
    ready = e.PlacementReady(name="pg", placement_group_id=b"\x07")
    given(*PLANNED, event(requested, "a1")).when(event(ready)).then(
        {
            "placements.pg.status": PlacementStatus.READY,
            "placements.pg.attempt_id": "a1",
            "placements.pg.bundles": [CPU, CPU],
            "placements.pg.strategy": "SPREAD",
            "placements.pg.placement_group_id": b"\x07",
        }
    )
    timed_out = event(e.PlacementTimedOut(name="pg"), reason="1-07: 1 of 2 CPUs after 60 s")
    given(*PLANNED, event(requested)).when(timed_out).then(
        {"placements.pg.status": 3, "placements.pg.status_reason": "1-07: 1 of 2 CPUs after 60 s"}
    )
    given(*PLANNED, event(requested)).when(event(e.PlacementReleased(name="pg"))).then(
        placements={}, irregular=[]
    )


# --- workers and replica groups ---------------------------------------------------------------------


def test_a_worker_starts():
    """Where it runs and on what, as the node names it: an accelerator id may be a UUID (0-13)."""
    started = e.WorkerStarted(
        rank=1,
        local_rank=1,
        node_rank=0,
        actor_id=b"\x0a",
        node_id=b"\x0b",
        node_ip="10.0.0.1",
        pid=42,
        accelerator_ids=["0", "MIG-GPU-5b6c/1/0"],
        resources=CPU,
        log_path="/l",
    )
    scheduled = event(e.WorkerScheduled(rank=1, placement="pg", bundle=3), "a1")
    run = given(*PLANNED, scheduled).when(event(started, "a1")).then()
    worker = run.attempt.workers[1]
    assert {"placement": "pg", "bundle": 3} == {
        k: getattr(worker, k) for k in ("placement", "bundle")
    }
    where = ("placement", "bundle")
    carried = [field.name for field in started.DESCRIPTOR.fields if field.name not in where]
    for name in carried:
        ours = getattr(worker, name)
        assert getattr(started, name) == (list(ours) if isinstance(ours, tuple) else ours), name
    assert (WorkerStatus.RUNNING, run.time_ns) == (worker.status, worker.start_time_ns)


def test_a_worker_starts_in_another_bundle():
    """Ranks follow accelerator ids, known only at the start: the bundle it runs in stands."""
    scheduled = event(e.WorkerScheduled(rank=1, placement="pg", bundle=3), "a1")
    elsewhere = e.WorkerStarted(rank=1, placement="other", bundle=0)
    for started, where in ((e.WorkerStarted(rank=1), ("pg", 3)), (elsewhere, ("other", 0))):
        run = given(*PLANNED, scheduled).when(event(started, "a1")).then()
        assert where == (run.attempt.workers[1].placement, run.attempt.workers[1].bundle)


def test_what_made_a_worker_fail_stays_its_cause():
    """The end of a failing worker adds no cause; one of its own is kept."""
    failing = event(e.WorkerFailing(rank=0, cause=Cause.WORKER_HUNG, error=ERROR), "a1")
    given(*RUNNING, failing).when(event(e.WorkerDied(rank=0), "a1")).then(
        {
            "attempt.workers.0.status": WorkerStatus.DEAD,
            "attempt.workers.0.cause": Cause.WORKER_HUNG,
            "attempt.workers.0.error": ERROR,
            "attempt.workers.1.status": WorkerStatus.RUNNING,
        }
    )
    died = event(e.WorkerDied(rank=0, cause=Cause.NODE_PREEMPTED), "a1")
    given(*RUNNING, failing).when(died).then({"attempt.workers.0.cause": Cause.NODE_PREEMPTED})


def test_a_worker_completes():
    """It ends at the event's time, as completed."""
    run = given(*RUNNING).when(event(e.WorkerCompleted(rank=1), "a1")).run
    worker = run.attempt.workers[1]
    assert (WorkerStatus.COMPLETED, Cause.COMPLETED) == (worker.status, worker.cause)
    assert run.time_ns == worker.end_time_ns


def test_a_replaced_worker_is_kept_with_its_story():
    """2-08: the new generation takes the rank, the old one stays to be looked at."""
    failing = event(e.WorkerFailing(rank=0, cause=Cause.WORKER_ERROR), "a1")
    again = event(e.WorkerScheduled(rank=0, generation=1, bundle=5), "a1")
    run = (
        given(*RUNNING, failing)
        .when(again)
        .then(
            {
                "attempt.workers.0.generation": 1,
                "attempt.workers.0.status": WorkerStatus.SCHEDULING,
                "attempt.workers.0.pid": 0,
                "attempt.workers.0.reports": 0,
                "attempt.replaced.0.generation": 0,
                "attempt.replaced.0.cause": Cause.WORKER_ERROR,
                "attempt.replaced.0.pid": 100,
            },
            irregular=[],
        )
    )
    assert run.time_ns == run.attempt.replaced[0].end_time_ns


def test_a_replica_group_fails_and_is_replaced():
    """2-11: failed replacements are counted until one succeeds, so that a fallback can be decided."""
    ours = {"group": 0, "generation": 1}
    tries = [
        event(e.ReplicaGroupFailed(group=0, cause=Cause.WORKER_LOST, error=ERROR), "a1"),
        event(e.ReplicaGroupReplacing(**ours), "a1"),
        event(e.ReplicaGroupReplacementFailed(**ours, error=ERROR), "a1"),
        event(e.ReplicaGroupReplacing(group=0, generation=2), "a1"),
    ]
    given(*RUNNING).when(*tries[:1]).then({"attempt.groups.0.cause": Cause.WORKER_LOST})
    given(*RUNNING).when(*tries).then(
        {
            "attempt.groups.0.status": ReplicaGroupStatus.REPLACING,
            "attempt.groups.0.generation": 2,
            "attempt.groups.0.failed_replacements": 1,
            "attempt.groups.0.cause": Cause.REPLACEMENT_FAILED,
            "attempt.groups.0.error": ERROR,
        }
    )
    replaced = event(e.ReplicaGroupReplaced(group=0, generation=2), "a1")
    given(*RUNNING, *tries).when(replaced).then(
        {
            "attempt.groups.0.status": ReplicaGroupStatus.RUNNING,
            "attempt.groups.0.failed_replacements": 0,
            "attempt.groups.0.replacements": 1,
        }
    )


# --- training and sync --------------------------------------------------------------------------------


def test_reports_are_counted_not_kept():
    """0-15: memory does not grow with reports; the newest metrics are there."""
    reports = [
        event(
            e.ReportReceived(rank=0, index=index, metrics=to_map({"loss": 1 / (index + 1)})), "a1"
        )
        for index in range(50)
    ]
    run = given(*RUNNING, *reports[:49]).when(reports[49]).then(reports=50)
    assert 50 == run.attempt.workers[0].reports
    assert to_map({"loss": 0.02}) == s.ValueMap.FromString(run.last_metrics)
    one = given(*RUNNING).when(reports[0]).run
    assert len(freeze(run)) <= len(freeze(one)) + 1


def test_checkpoints():
    """What is committed is kept until it is deleted; a deleted one still counts."""
    made = e.CheckpointCommitted(index=0, directory="c0", metrics=to_map({"a": 1}), size_bytes=9)
    run = given(*RUNNING).when(event(made), event(e.CheckpointCommitted(index=1))).then()
    first = Checkpoint(0, "c0", made.metrics, run.time_ns - SECOND, 9)
    assert first == run.checkpoints[0]
    gone = [event(made), event(e.CheckpointDeleted(index=0))]
    given(*RUNNING).when(*gone).then(checkpoints={}, checkpoints_committed=1)


def reports_of(checkpoint, *ranks, index=0):
    """A report of each of these ranks, with its part of a checkpoint or without."""
    return [
        event(
            e.ReportReceived(
                rank=rank,
                index=index,
                checkpoint=checkpoint,
                metrics=to_map({"rank": rank}),
            ),
            "a1",
        )
        for rank in ranks
    ]


def test_a_checkpoint_is_pending_until_it_is_committed():
    """It has rank 0's metrics, and counts the ranks that reported its index."""
    first, other = reports_of("c0", 1), reports_of("c0", 0)
    run = given(*TOGETHER).when(*first).then({"attempt.pending.0.ranks": 1})
    assert to_map({"rank": 1}) == run.attempt.pending[0].metrics
    run = given(*TOGETHER, *first).when(*other).then({"attempt.pending.0.ranks": 2})
    pending = run.attempt.pending[0]
    assert ("c0", to_map({"rank": 0})) == (pending.directory, pending.metrics)
    committed = event(e.CheckpointCommitted(index=0, directory="c0", report_index=0), "a1")
    given(*TOGETHER, *first, *other).when(committed).then(
        {"attempt.pending": {}, "attempt.committed": 1, "checkpoints.0.report_index": 0}
    )


def test_a_rank_that_went_ahead_without_a_part_counts():
    """Rank 0 reported the index, and the next, before rank 1 brought the checkpoint with it."""
    ahead = [*reports_of("", 0), *reports_of("", 0, index=1)]
    given(*TOGETHER, *ahead).when(*reports_of("c0", 1)).then({"attempt.pending.0.ranks": 2})
    given(*TOGETHER, *reports_of("c0", 1)).when(*reports_of("", 0)).then(
        {"attempt.pending.0.ranks": 2}
    )


# Two replica groups of two ranks each.
GROUPED = [
    *SCHEDULING,
    event(e.AttemptPlanned(num_workers=4, replica_group_size=2), "a1"),
    *(event(e.WorkerScheduled(rank=rank), "a1") for rank in range(4)),
    *(event(e.WorkerStarted(rank=rank, pid=100 + rank), "a1") for rank in range(4)),
    event(e.AttemptStarted(), "a1"),
    event(e.RunRunning()),
]


def test_every_replica_group_has_checkpoints_of_its_own():
    """Each holds the whole state; a checkpoint has the metrics of its group's lowest rank."""
    parts = [*reports_of("c0", 0, 3, 2)]
    run = given(*GROUPED).when(*parts).then({"attempt.pending": {}})
    pending = {n: (one.pending[0].ranks, one.pending[0].metrics) for n, one in groups_of(run)}
    assert {0: (1, to_map({"rank": 0})), 1: (2, to_map({"rank": 2}))} == pending
    committed = e.CheckpointCommitted(index=0, directory="c0", report_index=0, group=1)
    given(*GROUPED, *parts).when(event(committed, "a1")).then(
        {
            "attempt.groups.1.pending": {},
            "attempt.groups.1.committed": 1,
            "attempt.groups.0.pending.0.ranks": 1,
            "attempt.groups.0.committed": 0,
            "attempt.committed": 0,
        }
    )


def groups_of(run):
    return run.attempt.groups.items()


def test_a_group_is_no_larger_than_its_attempt():
    """Whatever was recorded: nothing is walked that is not there."""
    planned = e.AttemptPlanned(num_workers=2, replica_group_size=2**31 - 1)
    run = given(*SCHEDULING).run
    for one in (event(planned, "a1"), *reports_of("c0", 0, 1)):
        evolve(run, stamp(run, one))
    assert 2 == run.attempt.pending[0].ranks
    assert [0, 1] == [one.rank for one in run.attempt.gang(0)]


def test_a_new_generation_leaves_what_was_incomplete():
    """2-19: a checkpoint that lacks a rank is dropped, one that lacks none is kept; so in its group."""
    parts = [*reports_of("c0", 0, 2, 3), *reports_of("c1", 2, index=1)]
    failed = event(e.ReplicaGroupFailed(group=1, cause=2, backoff_s=2.5), "a1")
    story = given(*GROUPED, *parts)
    run = story.when(failed).then({"attempt.groups.1.status": ReplicaGroupStatus.FAILED})
    assert [0, 1] == list(run.attempt.groups[1].pending)
    assert run.time_ns + 2.5 * SECOND == run.attempt.groups[1].restart_time_ns
    story.when(event(e.ReplicaGroupReplacing(group=1, generation=1), "a1")).then(irregular=[])
    assert {0: [0], 1: [0]} == {n: list(one.pending) for n, one in groups_of(story.run)}


def test_a_generation_goes_on_with_its_groups_reports():
    """What it reports first is said when it is scheduled."""
    failing = event(e.WorkerFailing(rank=0, cause=Cause.WORKER_ERROR), "a1")
    again = e.WorkerScheduled(rank=0, generation=1, first_report=7)
    given(*RUNNING, failing).when(event(again, "a1")).then({"attempt.workers.0.reports": 7})


def test_a_replacement_leaves_the_run_as_it_is():
    """It is counted against its budget; the run has no error and waits for nothing."""
    before = given(*GROUPED).run
    decided = e.FailureDecided(
        decision=2, cause=2, budget=1, used=1, limit=3, backoff_s=9, error=ERROR
    )
    given(*GROUPED).when(event(decided)).then(
        {"budgets.1.used": 1}, error=None, restart_time_ns=before.restart_time_ns
    )


# --- size and preemption --------------------------------------------------------------------------


def test_a_size_is_decided():
    """What is wanted, and since when."""
    decided = e.ScalingDecided(from_workers=2, to_workers=4)
    run = given(*RUNNING).when(event(decided, reason="room for 2")).then()
    assert run.time_ns == run.scaling_time_ns
    assert [Resize(run.time_ns, 2, 4, "room for 2")] == run.resizes


def test_a_bundle_changes_its_node():
    """A placement is where its bundles are now; of one that is late, too."""
    asked = event(e.PlacementRequested(name="pg", bundles=[CPU, CPU], slot=3))
    ready = event(e.PlacementReady(name="pg", placement_group_id=b"1", node_ids=["a", "b"]))
    changed = event(e.PlacementChanged(name="pg", node_ids=["a", ""]))
    run = given(*PLANNED, asked, ready).when(changed).then(irregular=[])
    assert (["a", ""], b"1", 3) == (
        run.placements["pg"].node_ids,
        run.placements["pg"].placement_group_id,
        run.placements["pg"].slot,
    )
    late = event(e.PlacementTimedOut(name="pg", timeout_s=30))
    given(*PLANNED, asked, ready, late).when(ready).then(irregular=[])


def test_nodes_that_are_taken_away_are_avoided_for_ever():
    """What is known of a notice ends with its attempt; the nodes do not come back."""
    first = event(e.RunPreempting(node_ids=["a"], deadline_unix_nano=7, ranks=[0]))
    second = event(e.RunPreempting(node_ids=["b", "a"], deadline_unix_nano=5, ranks=[0, 1]))
    story = given(*RUNNING, first)
    story.when(second).then(
        preempted_nodes=["a", "b"], preempted_ranks=[0, 1], preemption_deadline_ns=5
    )
    story.when(event(e.RunRunning())).then(
        preempted_nodes=["a", "b"], preempted_ranks=[], preemption_deadline_ns=None
    )
    unknown = event(e.RunPreempting(ranks=[1]))
    given(*RUNNING, first).when(unknown).then(preemption_deadline_ns=None)


def test_syncs():
    """A transfer is kept while it runs, and if it failed: why."""
    started = event(e.SyncStarted(sync_id="s", source="/a", target="s3://b"))
    given(*RUNNING).when(started).then(
        {"syncs.s.status": SyncStatus.RUNNING, "syncs.s.source": "/a", "syncs.s.target": "s3://b"}
    )
    failed = event(e.SyncFailed(sync_id="s", error=ERROR), reason="timed out after 1800 s")
    given(*RUNNING, started).when(failed).then(
        {"syncs.s.error": ERROR, "syncs.s.status_reason": "timed out after 1800 s"}
    )
    given(*RUNNING, started, failed).when(started).then({"syncs.s.error": None}, irregular=[])
    given(*RUNNING, started).when(event(e.SyncSucceeded(sync_id="s"))).then(syncs={}, irregular=[])
    given(*RUNNING).when(event(e.SyncSkipped()), event(e.SyncSkipped())).then(syncs_skipped=2)


# --- foreign --------------------------------------------------------------------------------------


def observed(entity, status, **fields):
    seen = e.ForeignStatusObserved(entity=entity, status=status, text="foreign text", **fields)
    return event(seen, "a1", reason="our table refused it")


def test_a_foreign_status_of_a_run():
    """It stands as recorded, with the foreign text, flagged with the refusal."""
    run = (
        given(*RUNNING)
        .when(observed(e.FOREIGN_ENTITY_RUN, RunStatus.ABORTED, end_time_ns=START_NS + 1))
        .then(
            status=RunStatus.ABORTED,
            status_reason="foreign text",
            end_time_ns=START_NS + 1,
            irregular_count=1,
        )
    )
    expected = "run was said to go from RUNNING to ABORTED: our table refused it"
    assert (run.run_seq, expected) == (run.irregular[0].run_seq, run.irregular[0].text)


def test_a_foreign_status_of_an_attempt():
    """A6.3: Ray plans the same attempt again, with another start."""
    planned = observed(e.FOREIGN_ENTITY_ATTEMPT, AttemptStatus.PENDING, start_time_ns=START_NS + 9)
    given(*PLANNED).when(planned).then(
        {
            "attempt.status": AttemptStatus.PENDING,
            "attempt.start_time_ns": START_NS + 9,
            "attempt.number": 1,
        },
        irregular_count=1,
    )


def test_a_foreign_status_of_a_worker():
    """The rank it names, in the attempt it names."""
    given(*ATTEMPT_DONE).when(observed(e.FOREIGN_ENTITY_WORKER, WorkerStatus.DEAD, rank=1)).then(
        {"attempt.workers.1.status": WorkerStatus.DEAD}, irregular_count=1
    )


# --- total over recorded history ------------------------------------------------------------------


@forall(st.lists(any_events(), max_size=15))
@settings(max_examples=300, deadline=None)
def test_evolve_is_total(events):
    """Whatever was recorded, in whatever order, is applied: no exception, and run_seq advances."""
    run = initial("run")
    for number, one in enumerate(events, start=1):
        one.run_seq = number
        evolve(run, one)
        assert number == run.run_seq
        assert one.time_unix_nano == run.time_ns
        assert len(run.irregular) == min(run.irregular_count, IRREGULAR_KEPT)


@forall(legal_histories)
@settings(max_examples=60, deadline=None)
def test_what_passed_check_is_regular(events):
    """`check` and `evolve` read the same tables: nothing that passed the one is noted by the other."""
    run = initial("run")
    for one in events:
        evolve(run, one)
    assert [] == run.irregular
    assert 0 == run.irregular_count
    assert len(events) == run.run_seq


@forall(legal_histories)
@settings(max_examples=60, deadline=None)
def test_rules_across_entities_hold_in_every_state(events):
    """Of any legal history: at most one attempt is open, ends are after starts, an end is final."""
    run = initial("run")
    for one in events:
        evolve(run, one)
        assert all(attempt.status.is_terminal for attempt in run.attempts[:-1])
        for attempt in run.attempts:
            alive = [w for w in attempt.workers.values() if not w.status.is_terminal]
            assert not (attempt.status.is_terminal and alive)
            ended = [attempt, *attempt.workers.values(), *attempt.replaced]
            assert all(not x.end_time_ns or x.start_time_ns <= x.end_time_ns for x in ended)
        if run.status.is_terminal:
            assert run.attempt is None or run.attempt.status.is_terminal
            assert run.start_time_ns <= run.end_time_ns


def test_an_irregular_move_is_applied_and_said():
    """A recorded move outside today's tables: the state follows it, and the run says so."""
    run = recorded(*CREATED, event(e.RunFinished()), event(e.RunRunning(), reason="back again"))
    assert RunStatus.RUNNING == run.status
    assert "back again" == run.status_reason
    notes = [
        (2, "run went from INITIALIZING to FINISHED"),
        (3, "run went from FINISHED to RUNNING"),
    ]
    assert notes == [(note.run_seq, note.text) for note in run.irregular]


def test_a_worker_replaced_while_it_runs_is_irregular():
    """The new generation goes on from the state of the old one: RUNNING -> SCHEDULING is no move."""
    run = recorded(*RUNNING, event(e.WorkerScheduled(rank=0, generation=1), "a1"))
    assert ["worker 0 went from RUNNING to SCHEDULING"] == [note.text for note in run.irregular]


def test_an_attempt_nobody_planned_is_made():
    """A worker of an unknown attempt is not lost: the attempt is made on the spot, and noted."""
    run = recorded(*CREATED, event(e.WorkerStarted(rank=7, pid=1), "a9"))
    assert ("a9", 1) == (run.attempt.attempt_id, run.attempt.number)
    assert 1 == run.attempt.workers[7].pid
    assert "attempt 'a9' was never planned" == run.irregular[0].text


def test_irregular_notes_are_capped():
    """A history of nothing but irregular moves does not grow the state; all of them are counted."""
    moves = [event(e.RunRunning())] * (IRREGULAR_KEPT + 50)
    run = recorded(*CREATED, *moves)
    assert (IRREGULAR_KEPT, IRREGULAR_KEPT + 50) == (len(run.irregular), run.irregular_count)
    assert 2 == run.irregular[0].run_seq


def test_an_unknown_payload_only_advances():
    """A payload of the future leaves the state as it is, but for position and time."""
    before = given(*RUNNING).run
    run = given(*RUNNING).run
    future = e.Event.FromString(b"\xa2\x1f\x02\x08\x01")
    evolve(run, stamp(run, future))
    assert before.run_seq + 1 == run.run_seq
    run.run_seq, run.time_ns = before.run_seq, before.time_ns
    assert before == run


def test_the_cost_of_a_worker_change_does_not_depend_on_the_others():
    """B.3 row 9: in place, touching one worker; the others are the same objects as before."""
    run = given(*SCHEDULED).run
    other = run.attempt.workers[1]
    evolve(run, stamp(run, event(e.WorkerStarted(rank=0), "a1")))
    assert other is run.attempt.workers[1]
