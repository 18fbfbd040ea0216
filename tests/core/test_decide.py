"""What follows from what is observed: a run from its beginning to each of its ends."""

from __future__ import annotations

import pytest

from tests.core.runs import (
    A1,
    A2,
    ERROR,
    P0,
    PLACES,
    TRAINING,
    began,
    completed,
    facts,
    failed,
    gang,
    ids,
    led,
    placed,
    reported,
    settings,
    starting,
)
from trainstate.core import AttemptStatus, Cause, RunStatus, WorkerStatus
from trainstate.core import effects as f
from trainstate.core import observations as o
from trainstate.core.decide import decide
from trainstate.core.transitions import RUN
from trainstate.core.values import to_map
from trainstate.testing import event, given
from trainstate.testing.given import START_NS
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

SCHEDULED = ["run_scheduling", "placement_requested", "attempt_planned"]
AGAIN = ["run_scheduling", "attempt_planned"]  # it keeps its place (1-02)
RESTARTED = ["worker_failing", "failure_decided", "run_restarting"]
TRAIN = [f.Watch(A1), f.Train(A1, 0, 0), f.Train(A1, 1, 0)]
GIVEN_UP = ["worker_failing", "failure_decided", "run_shutting_down"]


def reason_of(story, observation):
    """The sentence that is given for a decision."""
    return decide(story.run, observation, START_NS).reason


# --- beginning and starting -------------------------------------------------------------------------


def test_a_run_begins():
    """It is created, its place is asked for, and its first attempt is planned."""
    run = (
        given()
        .observed(began())
        .then(
            {"attempt.attempt_id": A1},
            events=["run_created", "controller_started", *SCHEDULED],
            effects=[f.Place(A1)],
            status=RunStatus.SCHEDULING,
            status_reason="scheduling 2 workers, each requiring {CPU: 1}",
            controller_starts=1,
        )
    )
    asked = run.placements[P0]
    assert ("PACK", 2, 0) == (asked.strategy, len(asked.bundles), asked.slot)


def test_a_run_takes_up_the_checkpoints_of_an_earlier_one():
    """They are committed before anything else happens, and count on."""
    earlier = tuple(e.CheckpointCommitted(index=n, directory=f"old-{n}") for n in range(2))
    begun = ["run_created", "controller_started", *earlier, *SCHEDULED]
    run = given().observed(began(restored=earlier)).then(events=begun, checkpoints_committed=2)
    assert [0, 1] == list(run.checkpoints)


def test_a_successor_takes_a_run_up():
    """It says so, and nothing else: what is under way is in the plan."""
    recovered = e.ControllerStarted(actor_id=b"x", node_id=b"y", recovered=True)
    led(*TRAINING).observed(began(actor_id=b"x", node_id=b"y")).then(
        events=[recovered], status=RunStatus.RUNNING, controller_starts=2
    )


def test_label_selectors_go_to_bundles():
    """One for all, or one each."""
    one = s.LabelSelector(labels=[s.Label(key="zone", value="a")])
    single, listed = settings(), settings()
    single.scaling_config.label_selector_single.CopyFrom(one)
    listed.scaling_config.label_selector_list.selectors.extend([one, s.LabelSelector()])
    for wanted, expected in ((single, [one, one]), (listed, [one, s.LabelSelector()])):
        run = given().observed(began(wanted)).then()
        assert expected == run.placements[P0].label_selectors


def test_a_placement_gives_every_rank_a_bundle():
    """Ranks go node by node, nodes in the order of their first bundle."""
    story = led(wanted=settings(workers=3))
    run = story.observed(placed(nodes=("n2", "n1", "n2"))).then(
        events=["placement_ready", *["worker_scheduled"] * 3],
        effects=[f.StartGang(A1), f.Watch(A1)],
    )
    assert [0, 2, 1] == [worker.bundle for worker in run.attempt.workers.values()]
    assert [P0] * 3 == [worker.placement for worker in run.attempt.workers.values()]
    assert list(ids("n2", "n1", "n2")) == run.placements[P0].node_ids


def test_a_placement_of_another_size_is_none():
    """Ranks without a bundle could not be started, bundles without a rank would lie idle."""
    led().observed(placed(nodes=("n1",))).then(events=[], effects=[f.Place(A1)])


def test_a_placement_nobody_asked_for_is_none():
    """It may be another run's, or one that was released."""
    stranger = o.Placed((o.Reserved("more", b"pg", ids("n1", "n1")),))
    led().observed(stranger).then(events=[], effects=[f.Place(A1)])
    led(placed()).observed(stranger).then(events=[], effects=[f.StartGang(A1), f.Watch(A1)])


def test_waiting_says_what_for_and_does_not_repeat_itself():
    """A6.6: have and need, again only when they change; then the placement is there after all."""
    short = o.Short(1, 2, "room for 1 of 2")
    led().observed(short, short).then(
        events=[e.RunWaiting(have=1, need=2)],
        effects=[f.Place(A1)],
        status=RunStatus.WAITING,
        status_reason="room for 1 of 2",
    )
    less, more = o.Short(0, 2, "none"), o.Short(0, 3, "none")
    led(short).observed(less, more).then(
        events=[e.RunWaiting(have=0, need=2), e.RunWaiting(have=0, need=3)]
    )
    led(short).observed(placed(), short).then(
        events=["placement_ready", "run_scheduling", "worker_scheduled", "worker_scheduled"],
        status=RunStatus.SCHEDULING,
    )


@pytest.mark.parametrize("place", ["SCHEDULING", "WAITING"])
def test_a_placement_that_comes_too_late_is_tried_again(place):
    """The start counts against the controller's budget; the group stays requested (1-02, 1-07)."""
    late = o.NotPlaced(30.0, "no room for 2 workers in 30 s")
    story = led(*PLACES[place])
    story.observed(late).then(
        events=["placement_timed_out", "failure_decided", "run_restarting"],
        effects=[f.Stop(A1)],
        status=RunStatus.RESTARTING,
        cause=Cause.START_TIMEOUT,
    )
    story.observed(o.Cleared(A1)).then(
        {"attempt.status": AttemptStatus.ERRORED, "attempt.cause": Cause.START_TIMEOUT},
        events=["attempt_ended"],
    )
    story.observed(o.Woke()).then(events=AGAIN, effects=[f.Place(A2)])
    story.observed(placed()).then(events=["placement_ready", *["worker_scheduled"] * 2])


def test_workers_come_up_by_rank():
    """Ranks, local ranks and node ranks; a worker may run in another bundle than it was given."""
    up = (facts(0, "n2", "1"), facts(1, "n1"), facts(2, "n2", "0"))
    story = led(placed(nodes=("n2", "n1", "n2")), wanted=settings(workers=3))
    run = story.observed(o.GangUp(A1, up)).then(
        events=["worker_started"] * 3, effects=[f.SetUp(A1), f.Watch(A1)]
    )
    seats = [
        (worker.rank, worker.bundle, worker.local_rank, worker.node_rank)
        for worker in run.attempt.workers.values()
    ]
    assert [(0, 2, 0, 0), (1, 0, 1, 0), (2, 1, 0, 1)] == seats


@pytest.mark.parametrize(
    "up",
    [(), (facts(0),), (facts(0), facts(0)), (facts(0), facts(2)), (facts(0), facts(1), facts(1))],
    ids=["nobody", "one", "one-twice", "a-stranger", "one-too-many"],
)
def test_a_gang_is_all_of_its_workers(up):
    """Anything else is not the gang that was asked for."""
    led(placed()).observed(o.GangUp(A1, up)).then(events=[], effects=[f.StartGang(A1), f.Watch(A1)])


def test_training_begins_when_all_is_set_up():
    """The attempt runs, then the run; versions are recorded once."""
    versions = (s.Version(name="torch", version="2.9"),)
    ready = o.Ready(A1, versions)
    led(placed(), gang()).observed(ready, ready).then(
        events=["attempt_started", "framework_versions_recorded", "run_running"],
        effects=TRAIN,
        status=RunStatus.RUNNING,
    )
    led(placed()).observed(ready).then(events=[])


def test_versions_of_rank_0_follow_those_of_the_controller():
    """A0.3: the run is created with ray's; what rank 0 has replaces it, and is not said twice."""
    first, more = s.Version(name="ray", version="2.60"), s.Version(name="torch", version="2.9")
    start = began()
    start.created.framework_versions.append(first)
    story = led(start, placed(), gang())
    run = story.observed(o.Ready(A1, (first, more))).then()
    assert [first, more] == run.framework_versions


def test_nobody_completes_before_training():
    """It would never be set up with the others."""
    led(placed(), gang()).observed(completed(0)).then(events=[], effects=[f.Watch(A1), f.SetUp(A1)])


@pytest.mark.parametrize("place", ["placed", "up"])
@pytest.mark.parametrize("cause", [Cause.START_FAILED, Cause.START_TIMEOUT])
def test_a_start_that_fails_is_tried_again(place, cause):
    """Each rank it failed of is said once, however often it is named."""
    error = s.Error(message="no such module", ranks=[1, 1])
    story = led(*PLACES[place])
    story.observed(o.StartFailed(A1, cause, error)).then(
        {"attempt.workers.1.status": WorkerStatus.FAILING},
        events=RESTARTED,
        effects=[f.Stop(A1)],
        cause=cause,
        error=error,
    )


# --- training ---------------------------------------------------------------------------------------


def test_reports_are_recorded_once_and_in_order():
    """What is recorded already, or comes after a gap, is not."""
    story = led(*TRAINING, reported(0, "", ""))
    story.observed(reported(0, "", "", ""), reported(0, "", first=5)).then(
        {"attempt.workers.0.reports": 3}, events=["report_received"], reports=3
    )


def test_a_report_is_of_the_worker_that_sends_it():
    """A rank speaks for itself."""
    of_another = o.Reported(A1, 0, 0, reported(1, "").reports)
    led(*TRAINING).observed(of_another).then(events=[])


def test_a_run_finishes_when_all_workers_completed():
    """The value that a worker returned is the run's; then workers, attempt, run."""
    story = led(*TRAINING)
    story.observed(completed(0)).then(
        events=["worker_completed"],
        effects=[f.Watch(A1), f.Train(A1, 1, 0)],
        status=RunStatus.RUNNING,
    )
    story.observed(completed(1)).then(
        events=["worker_completed", e.RunShuttingDown(next=RunStatus.FINISHED, cause=1)],
        effects=[f.Stop(A1)],
        status_reason="all 2 workers completed",
    )
    ended = e.AttemptEnded(status=AttemptStatus.FINISHED, cause=Cause.COMPLETED)
    story.observed(o.Cleared(A1)).then(events=[ended], effects=[f.Release((P0,))])
    gone = e.PlacementReleased(name=P0)
    story.observed(o.Released((P0,))).then(events=[gone], effects=[f.Close()], placements={})
    story.observed(o.Closed()).then(
        events=[e.RunFinished(return_value=s.Value(int=1))],
        effects=[],
        status=RunStatus.FINISHED,
        cause=Cause.COMPLETED,
    )


def test_the_clock_of_who_created_a_run_may_be_ahead():
    """No run ends before it started, whichever machine said when that was."""
    ahead = e.RunCreated(name="mnist", settings=settings(), start_time_ns=START_NS + 10**12)
    story = given()
    aborted = [o.Abort(Cause.USER_ABORT, ""), o.Cleared(A1), o.Closed()]
    story.observed(o.Began(ahead), *aborted).then(
        status=RunStatus.ABORTED, end_time_ns=START_NS + 10**12
    )


# --- failing ----------------------------------------------------------------------------------------


def test_a_failure_restarts_the_run():
    """The worker, the decision with its budget, the end of the attempt, and the next one."""
    story = led(*TRAINING)
    error = s.Error(type="ValueError", message="bad batch\nin line 2", ranks=[1])
    decided = e.FailureDecided(decision=1, cause=2, budget=1, used=1, limit=1, error=error)
    story.observed(failed(1)).then(
        events=[
            e.WorkerFailing(rank=1, cause=Cause.WORKER_ERROR, error=error),
            decided,
            e.RunRestarting(cause=Cause.WORKER_ERROR),
        ],
        effects=[f.Stop(A1)],
        error=error,
    )
    ended = e.AttemptEnded(status=AttemptStatus.ERRORED, cause=Cause.WORKER_ERROR, error=error)
    story.observed(o.Cleared(A1)).then(
        {"attempt.workers.0.cause": Cause.WORKER_ERROR},
        events=[
            e.WorkerDied(rank=0, cause=Cause.WORKER_ERROR),
            e.WorkerDied(rank=1),
            ended,
        ],
        effects=[f.Wake(story.run.restart_time_ns)],
    )
    story.observed(o.Woke()).then({"attempt.number": 2}, events=AGAIN, effects=[f.Place(A2)])
    story.observed(*starting(A2)).then(status=RunStatus.RUNNING, error=None)


def test_the_decision_says_what_is_left():
    """A person reads what happened, of what budget, and when it goes on."""
    what = "worker_error: ValueError: bad batch"
    assert f"restarts after {what}" == reason_of(led(*TRAINING), failed(0))
    decided = led(*TRAINING).observed(failed(0)).events[1]
    assert f"tries again (failures 1 of 1) in 0 s after {what}" == decided.reason
    lost = failed(0, Cause.NODE_PREEMPTED)
    decided = led(*TRAINING).observed(lost).events[1]
    assert "tries again (preemptions 1 of any number) in 0 s after node_preempted" in decided.reason


def test_two_workers_fail_at_once():
    """Both are said, and decided on once."""
    story = led(*TRAINING)
    story.observed(failed(0), failed(1)).then(events=[*RESTARTED, "worker_failing"])


def test_nobody_waits_for_a_checkpoint_that_cannot_be():
    """A rank that finished will not report it: that is an error, whichever comes first."""
    first = "rank 1 finished after 0 reports, but checkpoint 'c0' of another rank came with its report 0"
    mismatch = {"error.type": "ReportMismatch", "error.message": first, "error.ranks": [1]}
    led(*TRAINING, completed(1)).observed(reported(0, "c0")).then(mismatch, events=RESTARTED)
    led(*TRAINING, reported(0, "c0")).observed(completed(1)).then(
        mismatch, events=["worker_completed", *RESTARTED[1:]]
    )
    led(*TRAINING, completed(1)).observed(reported(0, "")).then(events=["report_received"])


def test_a_checkpoint_has_one_directory():
    """Parts in two directories are no checkpoint: the second is not recorded, nor ever committed."""
    said = "rank 1 put report 0 into 'other', another rank into 'c0'"
    led(*TRAINING, reported(0, "c0")).observed(reported(1, "other")).then(
        {"error.message": said, "attempt.pending.0.ranks": 1},
        events=RESTARTED,
        effects=[f.Stop(A1)],
    )


@pytest.mark.parametrize("place", PLACES)
def test_a_worker_fails_anywhere(place):
    """It is said of who runs; it decides something only while nothing is decided."""
    story = led(*PLACES[place])
    attempt = story.run.attempt
    lives = 1 in attempt.workers and attempt.workers[1].status is WorkerStatus.RUNNING
    decides = RunStatus.RESTARTING in RUN[story.run.status]
    expected = [["worker_failing"], RESTARTED][decides] if lives else []
    story.observed(failed(1)).then(events=expected)


# --- ending -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_an_abort_anywhere(place):
    """It ends a run that is not ending; one that ends comes to the end that was decided."""
    story = led(*PLACES[place])
    ending = RunStatus.SHUTTING_DOWN not in RUN[story.run.status]
    abort = o.Abort(Cause.DRIVER_EXITED, "the driver exited")
    aborting = e.RunShuttingDown(next=RunStatus.ABORTED, cause=Cause.DRIVER_EXITED)
    story.observed(abort, abort).then(events=[] if ending else [aborting])
    attempt = story.run.attempt
    story.observed(o.Cleared(attempt.attempt_id), o.Closed()).then(irregular=[])
    assert story.run.status.is_terminal
    assert ending or (RunStatus.ABORTED, Cause.DRIVER_EXITED) == (
        story.run.status,
        story.run.cause,
    )
    assert attempt.status.is_terminal


@pytest.mark.parametrize("place", ["finishing", "finishing, cleared", "FINISHED"])
@pytest.mark.parametrize(
    "late",
    [
        o.Abort(Cause.USER_ABORT, "Ctrl-C"),
        o.Broke(Cause.CALLBACK_ERROR, ERROR),
        failed(0),
        o.StartFailed(A1, Cause.START_FAILED, ERROR),
        o.NotPlaced(1.0, "late"),
    ],
    ids=lambda observation: type(observation).__name__,
)
def test_a_run_that_finished_is_finished(place, late):
    """Nothing that comes later overwrites that the work is done."""
    story = led(*PLACES[place])
    story.observed(late).then(events=[])
    story.observed(o.Cleared(A1), o.Closed()).then(status=RunStatus.FINISHED, error=None)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("cause", [Cause.CONTROLLER_ERROR, Cause.CALLBACK_ERROR])
def test_a_broken_controller_gives_up(place, cause):
    """Nothing allows another try of what is not the workers' fault."""
    story = led(*PLACES[place])
    ending = RunStatus.SHUTTING_DOWN not in RUN[story.run.status]
    gives_up = e.RunShuttingDown(next=RunStatus.ERRORED, cause=cause, error=ERROR)
    story.observed(o.Broke(cause, ERROR)).then(
        events=[] if ending else ["failure_decided", gives_up]
    )


@pytest.mark.parametrize("place", ["RESTARTING", "cleared"])
def test_what_breaks_between_attempts_adds_nothing(place):
    """A failed upload of a run that restarts anyway, as a second worker's failure, is not charged."""
    story = led(*PLACES[place])
    story.observed(o.Broke(Cause.UPLOAD_FAILED, ERROR)).then(
        {"budgets.1.used": 1}, events=[], status=RunStatus.RESTARTING
    )


def test_a_run_that_could_not_even_be_scheduled_gives_up():
    """There is no attempt to try again."""
    given(event(e.RunCreated(settings=settings()))).observed(
        o.Broke(Cause.UPLOAD_FAILED, ERROR)
    ).then(events=["failure_decided", "run_shutting_down"])


def test_an_attempt_that_never_trained_has_not_finished():
    """A resize before it began aborts it."""
    resized = [event(e.RunRunning()), event(e.RunResizing(to_workers=3))]
    led(placed(), gang(), *resized).observed(o.Cleared(A1)).then(
        {"attempt.status": AttemptStatus.ABORTED, "attempt.cause": Cause.RESIZE}
    )


@pytest.mark.parametrize("place", ["SCHEDULING", "up", "RUNNING"])
def test_a_failed_upload_restarts_the_run(place):
    """It is a failure like a worker's, whoever noticed it."""
    led(*PLACES[place]).observed(o.Broke(Cause.UPLOAD_FAILED, ERROR)).then(
        {"budgets.1.used": 1}, events=RESTARTED[1:], effects=[f.Stop(A1)]
    )


CAUSES = {
    "resize": (event(e.RunResizing(to_workers=3)), Cause.RESIZE, "FINISHED"),
    "controller error": (o.Broke(Cause.CONTROLLER_ERROR, ERROR), Cause.CONTROLLER_ERROR, "ERRORED"),
    "callback error": (o.Broke(Cause.CALLBACK_ERROR, ERROR), Cause.CALLBACK_ERROR, "ERRORED"),
    "preemption": (failed(0, Cause.NODE_PREEMPTED), Cause.NODE_PREEMPTED, "ERRORED"),
    "abort": (o.Abort(Cause.USER_ABORT, "Ctrl-C"), Cause.USER_ABORT, "ABORTED"),
    "driver": (o.Abort(Cause.DRIVER_EXITED, "gone"), Cause.DRIVER_EXITED, "ABORTED"),
    "completion": (completed(0), Cause.COMPLETED, "FINISHED"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_every_end_of_an_attempt_has_its_own_cause(name):
    """0-12: the attempt and its workers end of what was decided, each told apart."""
    what, cause, status = CAUSES[name]
    story = led(*TRAINING, completed(1))
    (story.when(what) if isinstance(what, e.Event) else story.observed(what)).then()
    run = story.observed(o.Cleared(A1)).then(
        {"attempt.cause": cause, "attempt.status": AttemptStatus[status]}
    )
    assert {cause} == {run.attempt.workers[0].cause}


@pytest.mark.parametrize("place", PLACES)
def test_a_hook_that_fails_changes_nothing(place):
    """B.3 row 12: recorded, also of a run that is over."""
    story = led(*PLACES[place])
    status = story.run.status
    story.observed(o.HookFailed("Callback", "after_report", ERROR)).then(
        events=["callback_failed"], status=status
    )


@pytest.mark.parametrize("place", PLACES)
def test_what_is_found_out_is_recorded_once(place):
    """Whenever it comes; said again, as by a successor, only what is new; of an ended run nothing."""
    story = led(*PLACES[place])
    live = not story.run.status.is_terminal
    code = s.Provenance(git_commit="abc", git_dirty=False)
    events = ["provenance_recorded"] if live else []
    run = story.observed(o.Described("the code", code)).then(events=events)
    assert ("abc" if live else None) == (run.provenance.git_commit if run.provenance else None)
    story.observed(o.Described("the code", code)).then(events=[])
    more = s.Provenance(git_commit="abc", node_types=[s.NodeType(count=2)])
    run = story.observed(o.Described("the cluster", more)).then(events=events)
    assert not live or [2] == [one.count for one in run.provenance.node_types]


# --- what comes too late ----------------------------------------------------------------------------

OF_THE_RUN = [placed(), o.Short(0, 2, "none"), o.NotPlaced(1.0, "late")]
STALE = [
    o.Released((P0,)),
    o.Preempted(A1, ids("n1"), (0,)),
    gang(),
    o.StartFailed(A1, Cause.START_FAILED, ERROR),
    o.Ready(A1),
    reported(0, "c0"),
    completed(0),
    failed(0),
    o.Published(A1, 0),
    o.Cleared(A1),
    o.Woke(),
    o.Closed(),
    o.Deleted(7),
]


@pytest.mark.parametrize(
    ("place", "late"),
    [
        *(("second attempt", late) for late in STALE),
        *(("training again", late) for late in [*STALE, *OF_THE_RUN]),
        *(("FINISHED", late) for late in [*STALE, *OF_THE_RUN]),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_comes_too_late_changes_nothing(place, late):
    """Of an attempt that is over, or of a run that is: no events, a reason, nothing raised."""
    again = [*PLACES["second attempt"], *starting(A2)]
    story = led(*(again if place == "training again" else PLACES[place]))
    story.observed(late).then(events=[])
    expected = "the run ended as FINISHED" if place == "FINISHED" else "nothing to do"
    assert expected == reason_of(story, late)


@pytest.mark.parametrize(
    "late",
    [
        o.Reported(A1, 0, 1, reported(0, "").reports),
        o.Completed(A1, 0, 1),
        o.WorkerFailed(A1, 0, 1, Cause.WORKER_LOST, ERROR),
        o.Completed(A1, 9, 0),
    ],
    ids=["reported", "completed", "failed", "no-such-rank"],
)
def test_a_worker_is_one_generation(late):
    """The last word of another process of the same rank is not taken for this one's."""
    led(*TRAINING).observed(late).then(events=[])


def test_nothing_is_decided_of_a_run_that_has_not_begun():
    """There is nothing to abort, and no hook to fail."""
    story = given()
    late = (o.Abort(Cause.USER_ABORT, ""), o.HookFailed("c", "h", ERROR), o.Broke(Cause(8), ERROR))
    story.observed(*late).then(events=[])


def test_a_run_is_woken_when_it_is_due():
    """Not before, whatever the clock of who wakes it says."""
    wanted = settings(max_failures=5)
    story = led(*TRAINING, failed(0), o.Cleared(A1), o.Woke(), *starting(A2), wanted=wanted)
    story.observed(failed(1, attempt=A2), o.Cleared(A2), at_s=100).then(
        effects=[f.Wake(START_NS + 102 * 10**9)]
    )
    story.observed(o.Woke(), at_s=101.9).then(events=[])
    story.observed(o.Woke(), at_s=102).then(events=AGAIN)


# --- checkpoints ------------------------------------------------------------------------------------


def test_a_checkpoint_is_committed_when_every_rank_reported_it():
    """It is published first; its metrics are rank 0's; it saves progress."""
    story = led(*TRAINING)
    story.observed(reported(1, "c0", loss=1.0)).then(effects=TRAIN)
    story.observed(o.Published(A1, 0)).then(events=[])
    story.observed(reported(0, "c0", loss=0.5)).then(effects=[*TRAIN, f.Publish(A1, 0)])
    committed = e.CheckpointCommitted(index=0, directory="c0", metrics=to_map({"loss": 0.5}))
    story.observed(o.Published(A1, 0), o.Published(A1, 0)).then(
        events=[committed], checkpoints_committed=1
    )


def test_a_rank_may_have_no_part_of_a_checkpoint():
    """It reports without one, before or after the others."""
    for first, other in (
        (reported(0, ""), reported(1, "c0")),
        (reported(1, "c0"), reported(0, "")),
    ):
        led(*TRAINING, first, other).observed(o.Published(A1, 0)).then(
            {"checkpoints.0.directory": "c0"}
        )


def test_checkpoints_are_committed_in_the_order_of_their_reports():
    """However far ahead one rank is."""
    story = led(*TRAINING, reported(0, "c0", "", "c2"), reported(1, "c0", "", "c2"))
    story.observed(o.Published(A1, 2)).then(events=[])
    run = story.observed(o.Published(A1, 0), o.Published(A1, 2)).then(
        {"attempt.committed": 3}, events=["checkpoint_committed"] * 2
    )
    assert ["c0", "c2"] == [one.directory for one in run.checkpoints.values()]
    assert [0, 2] == [one.report_index for one in run.checkpoints.values()]


def test_a_run_finishes_with_its_last_checkpoint():
    """One that was uploaded behind the train function's back is not left behind."""
    story = led(*TRAINING, reported(0, "c0"), reported(1, "c0"))
    story.observed(completed(0), completed(1)).then(
        effects=[f.Watch(A1), f.Publish(A1, 0)], status=RunStatus.RUNNING
    )
    story.observed(o.Published(A1, 0)).then(
        events=["checkpoint_committed", "run_shutting_down"],
        effects=[f.Stop(A1)],
        next_status=RunStatus.FINISHED,
    )


def test_a_run_waits_for_all_of_its_last_checkpoints():
    """The end comes with the last of them."""
    parts = [reported(rank, "c0", "c1") for rank in range(2)]
    story = led(*TRAINING, *parts, completed(0), completed(1))
    story.observed(o.Published(A1, 0)).then(
        events=["checkpoint_committed"], effects=[f.Watch(A1), f.Publish(A1, 1)]
    )
    story.observed(o.Published(A1, 1)).then(events=["checkpoint_committed", "run_shutting_down"])


def test_a_checkpoint_that_is_not_kept_is_deleted():
    """Once; and if it could not be, the reason says so."""
    story = led(*TRAINING, wanted=settings(num_to_keep=1))
    both = [reported(rank, "c0", "c1") for rank in range(2)]
    story.observed(*both, o.Published(A1, 0), o.Published(A1, 1)).then(
        effects=[*TRAIN, f.DeleteCheckpoint(0)]
    )
    deleted = story.observed(o.Deleted(0, "no permission"), o.Deleted(0))
    deleted.then(events=[e.CheckpointDeleted(index=0)])
    assert "left in storage: no permission" == deleted.events[0].reason


def test_a_given_up_run_errs_with_what_it_failed_of():
    """Cause and error of the decision are those of the end."""
    story = led(*TRAINING, wanted=settings(max_failures=0))
    story.observed(failed(0)).then(events=GIVEN_UP, effects=[f.Stop(A1)])
    run = story.observed(o.Cleared(A1), o.Closed()).then(
        status=RunStatus.ERRORED, cause=Cause.WORKER_ERROR
    )
    assert ("ValueError", [0]) == (run.error.type, list(run.error.ranks))
