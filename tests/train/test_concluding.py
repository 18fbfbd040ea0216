"""From the end of a run to what `fit()` returns or raises."""

from __future__ import annotations

import pickle
import signal

import pytest

from trainstate import train
from trainstate.controller.outcome import Outcome
from trainstate.controller.snapshot import Kept, Snapshot
from trainstate.controller.storage import Storage
from trainstate.core import Cause, RunStatus
from trainstate.errors import StateUnavailable
from trainstate.train.concluding import Ended, concluded, opened


@pytest.fixture
def storage(tmp_path) -> Storage:
    made = Storage(tmp_path, "exp")
    made.prepare()
    return made


def finished(**fields) -> Ended:
    return Ended(RunStatus.FINISHED, Cause.COMPLETED, **fields)


def test_a_run_without_checkpoints(storage):
    """Its result has the last metrics and the return value."""
    result = concluded(finished(metrics={"a": 1}, return_value=[7]), storage, "r1")
    assert ({"a": 1}, [7], "r1", None, None) == (
        result.metrics,
        result.return_value,
        result.run_id,
        result.checkpoint,
        result.best_checkpoints,
    )
    assert storage.experiment_fs_path == result.path


def test_a_run_with_checkpoints(storage):
    """The metrics are still those of the last report, which had no checkpoint."""
    storage.write_snapshot(Snapshot([Kept("one", {"a": 1}, 0), Kept("two", {"a": 2}, 1)], "two"))
    result = concluded(finished(metrics={"a": 3}), storage, "r1")
    assert {"a": 3} == result.metrics
    assert storage.build_checkpoint_path_from_name("two") == result.checkpoint.path
    assert [{"a": 1}, {"a": 2}] == [metrics for _, metrics in result.best_checkpoints]


def test_workers_that_failed(storage):
    """The error names the run, and is raised from the lowest rank's exception."""
    failures = {2: ValueError("two"), 1: KeyError("one")}
    ended = Ended(RunStatus.ERRORED, Cause.WORKER_ERROR, "rank 1: one", failures)
    with pytest.raises(train.WorkerGroupError, match="rank 1: one") as caught:
        concluded(ended, storage, "r1")
    assert failures == caught.value.worker_failures
    assert failures[1] is caught.value.__cause__
    assert ("r1", "trainstate show r1") == (caught.value.run_id, caught.value.hint)


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (Cause.WORKER_LOST, train.WorkerGroupError),
        (Cause.WORKER_HUNG, train.WorkerGroupError),
        (Cause.NODE_PREEMPTED, train.WorkerGroupError),
        (Cause.UPLOAD_FAILED, train.WorkerGroupError),
        (Cause.START_TIMEOUT, train.ControllerError),
        (Cause.CONTROLLER_ERROR, train.ControllerError),
        (Cause.STATE_LOST, StateUnavailable),
    ],
)
def test_the_cause_says_what_failed(storage, cause, kind):
    """Also where no exception came back."""
    with pytest.raises(kind, match="told so") as caught:
        concluded(Ended(RunStatus.ERRORED, cause, "told so"), storage, "r1")
    assert caught.value.hint
    assert "r1" == caught.value.run_id


@pytest.mark.parametrize(
    ("number", "kind", "code"),
    [
        (signal.SIGINT, KeyboardInterrupt, ()),
        (signal.SIGTERM, SystemExit, (143,)),
        (0, train.TrainingFailedError, ("aborted: told so",)),
    ],
)
def test_an_abort_goes_on_as_what_it_was(storage, number, kind, code):
    """Ctrl-C and SIGTERM end the program as they would have; another's abort is an error."""
    ended = Ended(RunStatus.ABORTED, Cause.USER_ABORT, "told so", signal=number)
    with pytest.raises(kind) as caught:
        concluded(ended, storage, "r1")
    assert code == caught.value.args


def test_an_outcome_is_unpickled():
    """Exceptions and the return value are the user's objects."""
    ended = opened(
        Outcome(
            RunStatus.ERRORED,
            Cause.WORKER_ERROR,
            "text",
            {0: pickle.dumps(ValueError("bad"))},
            pickle.dumps(OSError("gone")),
            pickle.dumps({"x": 1}),
            {"a": 1},
            15,
        )
    )
    assert ["ValueError('bad')", "OSError('gone')"] == [
        repr(ended.worker_failures[0]),
        repr(ended.controller_failure),
    ]
    assert ({"x": 1}, {"a": 1}, 15) == (ended.return_value, ended.metrics, ended.signal)


@pytest.mark.parametrize("data", [b"", b"garbage", pickle.dumps("no exception")])
def test_an_exception_that_cannot_be_had_again_is_its_text(data):
    """The driver may lack its class."""
    outcome = Outcome(RunStatus.ERRORED, Cause.WORKER_ERROR, "text", {0: data})
    failure = opened(outcome).worker_failures[0]
    assert isinstance(failure, RuntimeError)
    assert str(failure).startswith("text")
