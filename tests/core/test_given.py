"""The test kit itself: what passes, what fails, and what a failure tells."""

from __future__ import annotations

import pytest

from tests.core.stories import CREATED, RUNNING, SCHEDULING
from trainstate.core import Cause, RunStatus, WorkerStatus
from trainstate.core import effects as f
from trainstate.core.observations import WorkerFailed
from trainstate.testing import event, given, stamp
from trainstate.testing.given import START_NS
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

LOST = WorkerFailed("a1", 0, 0, Cause.WORKER_LOST, s.Error(message="it is gone"))


def test_given_when_then():
    """Fields by name, what lies deeper by path; the run comes back for more."""
    run = (
        given(*RUNNING)
        .when(event(e.WorkerDied(rank=1), "a1"))
        .then(
            {"attempt.workers.1.status": WorkerStatus.DEAD, "attempts.0.number": 1},
            status=RunStatus.RUNNING,
        )
    )
    assert "mnist" == run.name


def test_refused_gives_the_reason():
    """The refusal is what the test is about."""
    why = given(*CREATED).when(event(e.RunResizing())).refused("does not go from INITIALIZING")
    assert why.startswith("run_resizing refused")


def test_the_envelope_is_filled():
    """Identity, position, incarnation and time; what a test sets stays."""
    story = given(*CREATED, event(e.RunScheduling(), at_s=2.5, reason="because"), run_id="r7")
    first, second = story.events
    assert ("r7", 1, 1, START_NS) == (
        first.run_id,
        first.run_seq,
        first.incarnation,
        first.time_unix_nano,
    )
    assert (2, START_NS + 25 * 10**8, "because") == (
        second.run_seq,
        second.time_unix_nano,
        second.reason,
    )


def test_a_stamp_is_a_copy():
    """An event of a constant list can be used in every test."""
    bare = event(e.RunCreated())
    assert 1 == stamp(given().run, bare).run_seq
    assert 0 == bare.run_seq


@pytest.mark.parametrize(
    "fail",
    [
        lambda when: when.then(status=RunStatus.RUNNING),
        lambda when: when.then({"attempts": [1]}),
        lambda when: when.refused(),
    ],
    ids=["other-value", "other-list", "not-refused"],
)
def test_a_failure_prints_both_lists(fail):
    """What was given and what happened, each event on a line."""
    with pytest.raises(AssertionError) as failed:
        fail(given(*CREATED).when(event(e.RunScheduling(num_workers=2))))
    lines = str(failed.value).splitlines()
    given_at, when_at = lines.index("given"), lines.index("when")
    assert "run_created" in lines[given_at + 1]
    assert "run_scheduling { num_workers: 2 }" in lines[when_at + 1]


def test_a_refusal_fails_then_and_says_why():
    """`then` after a refusal shows the refusal; so does `refused` for another reason."""
    with pytest.raises(AssertionError, match="does not go from INITIALIZING to RUNNING"):
        given(*CREATED).when(event(e.RunRunning())).then(status=RunStatus.RUNNING)
    with pytest.raises(AssertionError, match="expected a refusal with 'the moon'"):
        given(*CREATED).when(event(e.RunRunning())).refused("the moon")


def test_given_must_be_legal():
    """A story that could not have happened is an error of the test."""
    with pytest.raises(AssertionError, match="given event 3 is refused: run_scheduling refused"):
        given(*SCHEDULING, event(e.RunScheduling()))


# --- what is decided --------------------------------------------------------------------------------


def test_what_is_observed_is_decided_and_recorded():
    """`observed` records what follows; events are told by payload or by name, effects in any order."""
    story = given(*RUNNING)
    restarting = e.RunRestarting(cause=Cause.WORKER_LOST)
    story.observed(LOST, at_s=100).then(
        events=["worker_failing", "failure_decided", "run_shutting_down"], effects=[f.Stop("a1")]
    )
    assert START_NS + 100 * 10**9 == story.run.time_ns
    with pytest.raises(AssertionError, match="expected events"):
        given(*RUNNING).observed(LOST).then(events=[restarting])


@pytest.mark.parametrize(
    "expected",
    [
        {"events": []},
        {"events": ["worker_failing"] * 4},
        {"events": [e.WorkerFailing(rank=1), "failure_decided", "run_shutting_down"]},
        {"effects": []},
    ],
    ids=["fewer", "more", "other-payload", "other-effects"],
)
def test_a_decision_that_is_not_the_expected_one_prints_both_lists(expected):
    """What was given and what was decided."""
    with pytest.raises(AssertionError) as failed:
        given(*RUNNING).observed(LOST).then(**expected)
    lines = str(failed.value).splitlines()
    assert f"expected {next(iter(expected))}" in lines[0]
    assert "run_created" in lines[lines.index("given") + 1]
    assert "worker_failing" in lines[lines.index("when") + 1]
