"""Where the time of a run went: the buckets, and that they sum exactly to wall time."""

from __future__ import annotations

import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from tests.core.histories import legal_histories
from trainstate.core import AttemptStatus, Cause, RunStatus, evolve, initial
from trainstate.core.views.goodput import BUCKETS, goodput
from trainstate.testing import event, given
from trainstate.testing.given import START_NS
from trainstate.v1 import event_pb2 as e

SECOND = 10**9


def at(second, payload, attempt_id=""):
    return event(payload, attempt_id, at_s=second)


def opened(foreign=False):
    return event(e.RunOpened(foreign=foreign))


def attempt(second, name):
    return at(second, e.AttemptPlanned(num_workers=0), name)


def ended(second, name, status, cause=Cause.WORKER_ERROR):
    return at(second, e.AttemptEnded(status=status, cause=cause), name)


def buckets(*events, now_s=None):
    """Seconds per bucket that is not empty, of a legal story."""
    now_ns = None if now_s is None else START_NS + now_s * SECOND
    result = goodput(given(*events).events, now_ns)
    assert tuple(BUCKETS) == tuple(result.buckets)
    assert result.wall_ns == sum(result.buckets.values())
    return {name: ns / SECOND for name, ns in result.buckets.items() if ns}


TO_RUNNING = [
    opened(),
    at(1, e.RunCreated(name="a")),
    at(2, e.RunScheduling()),
    attempt(3, "a1"),
    at(5, e.AttemptStarted(), "a1"),
    at(10, e.RunRunning()),
]


def test_of_nothing_there_is_nothing():
    """No events, no time."""
    assert 0 == goodput([]).wall_ns
    assert {} == buckets(opened())


def test_a_run_that_finishes_loses_nothing():
    """Productive from RUNNING to the end, checkpoint or not."""
    story = [
        *TO_RUNNING,
        ended(100, "a1", AttemptStatus.FINISHED, Cause.COMPLETED),
        at(110, e.RunShuttingDown(next=9)),
        at(112, e.RunFinished()),
    ]
    assert {"scheduling": 9, "productive": 100, "stopping": 2} == buckets(*story)


def test_a_restart_loses_what_was_not_committed():
    """Work since the last checkpoint is done again: it moves from productive to lost."""
    story = [
        *TO_RUNNING,
        at(40, e.CheckpointCommitted(index=0)),
        ended(70, "a1", AttemptStatus.ERRORED),
        at(75, e.RunRestarting(cause=Cause.WORKER_ERROR)),
        at(80, e.RunScheduling()),
        attempt(80, "a2"),
        at(90, e.AttemptStarted(), "a2"),
        at(90, e.RunRunning()),
        at(100, e.CheckpointCommitted(index=1)),
    ]
    expected = {"scheduling": 19, "productive": 45, "restarting": 5, "lost": 30}
    assert expected == buckets(*story)


def test_without_a_checkpoint_all_is_lost():
    """Nothing was saved: the whole attempt is done again."""
    story = [*TO_RUNNING, ended(70, "a1", AttemptStatus.ERRORED)]
    assert {"scheduling": 9, "lost": 60} == buckets(*story)


def test_a_run_that_errs_loses_what_was_not_committed():
    """The end of a run that did not finish is counted like a restart."""
    story = [
        *TO_RUNNING,
        at(40, e.CheckpointCommitted(index=0)),
        ended(70, "a1", AttemptStatus.ERRORED),
        at(70, e.RunErrored(cause=Cause.WORKER_ERROR)),
    ]
    assert {"scheduling": 9, "productive": 30, "lost": 30} == buckets(*story)
    aborted = [*TO_RUNNING, ended(70, "a1", AttemptStatus.ABORTED), at(72, e.RunAborted())]
    assert {"scheduling": 9, "productive": 2 - 2, "lost": 62} == {
        "productive": 0,
        **buckets(*aborted),
    }


def test_waiting_for_resources():
    """A6.6: the time a run waits has a bucket of its own."""
    story = [
        opened(),
        at(1, e.RunCreated()),
        at(2, e.RunWaiting(have=2, need=4)),
        at(62, e.RunWaiting(have=3, need=4)),
        at(92, e.RunScheduling()),
        at(95, e.RunWaiting(have=3, need=4)),
        at(100, e.RunAborted(cause=Cause.USER_ABORT)),
    ]
    assert {"scheduling": 4, "waiting": 95} == buckets(*story)


def test_resizing():
    """A resize ends its attempt on purpose; what was not committed by then is done again."""
    story = [
        *TO_RUNNING,
        at(40, e.CheckpointCommitted(index=0)),
        at(50, e.RunResizing(from_workers=2, to_workers=4)),
        ended(53, "a1", AttemptStatus.ABORTED, Cause.RESIZE),
        at(55, e.RunScheduling()),
    ]
    assert {"scheduling": 9, "productive": 30, "lost": 10, "resizing": 5} == buckets(*story)


def test_workers_train_while_their_node_is_preempted():
    """PREEMPTING is productive: the workers have the time of the notice."""
    story = [*TO_RUNNING, at(30, e.RunPreempting()), at(60, e.CheckpointCommitted(index=0))]
    assert {"scheduling": 9, "productive": 50} == buckets(*story)


def test_a_run_that_goes_on_is_counted_until_now():
    """`now_ns` ends the count of a run that has not ended; a time before its newest event does not."""
    assert {"scheduling": 9, "productive": 30} == buckets(*TO_RUNNING, now_s=40)
    assert {"scheduling": 9} == buckets(*TO_RUNNING, now_s=5)
    assert {"scheduling": 9} == buckets(*TO_RUNNING)


def test_the_time_after_the_end_is_nobodys():
    """Clean-up after the end is not part of the run's wall time."""
    story = [opened(), at(1, e.RunCreated()), at(5, e.RunAborted()), at(500, e.SyncSkipped())]
    assert {"scheduling": 4} == buckets(*story, now_s=900)


def test_an_imported_log_says_unknown():
    """Ray's log records no checkpoints: what restarts lost is not guessed, and the view says so."""
    story = [opened(foreign=True), *TO_RUNNING[1:], ended(70, "a1", AttemptStatus.ERRORED)]
    result = goodput(given(*story).events)
    assert (0, 60 * SECOND) == (result.buckets["lost"], result.buckets["productive"])
    assert "what restarts lost is not known" in result.note
    assert "" == goodput(given(*TO_RUNNING).events).note


@pytest.mark.parametrize("status", RunStatus, ids=lambda status: status.name)
def test_every_state_has_a_bucket_or_has_ended(status):
    """No state's time is forgotten."""
    observed = e.ForeignStatusObserved(entity=e.FOREIGN_ENTITY_RUN, status=status)
    story = [opened(), at(1, e.RunCreated()), *([at(1, observed)] if status else [])]
    wall_s = goodput(given(*story).events, START_NS + 11 * SECOND).wall_ns / SECOND
    assert (0 if status.is_terminal else 10) == wall_s


@forall(legal_histories, st.integers(0, 10**9))
@settings(max_examples=80, deadline=None)
def test_the_buckets_sum_to_wall_time(events, later_ns):
    """Exactly, in whole nanoseconds: from the start of the run to its end, or to now."""
    run, end_ns = initial("run"), None
    for one in events:
        evolve(run, one)
        if run.status.is_terminal and end_ns is None:
            end_ns = one.time_unix_nano
    now_ns = run.time_ns + later_ns
    for until_ns in (None, now_ns):
        result = goodput(events, until_ns)
        wall_ns = (end_ns or until_ns or run.time_ns) - run.start_time_ns if run.status else 0
        assert wall_ns == result.wall_ns
        assert result.wall_ns == sum(result.buckets.values())
        assert min(result.buckets.values()) >= 0
