"""What `fit()` raises: named as Ray's, in our tree, and picklable."""

from __future__ import annotations

import pickle

import pytest

from trainstate import train
from trainstate.errors import TrainstateError

FAILURES = {1: ValueError("bad"), 0: RuntimeError("worse")}
ERRORS = [
    train.TrainingFailedError("aborted", run_id="r1", hint="do this"),
    train.WorkerGroupError("rank 1: bad", FAILURES, run_id="r1", hint="do this"),
    train.ControllerError(OSError("gone"), run_id="r1", hint="do this"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_a_pickle(error):
    """With all that they carry."""
    again = pickle.loads(pickle.dumps(error))
    assert (type(error), str(error)) == (type(again), str(again))
    assert ("r1", "do this") == (again.run_id, again.hint)
    assert isinstance(again, train.TrainingFailedError)
    assert isinstance(again, TrainstateError)


def test_what_failed_is_in_them():
    """The exceptions of the workers by rank, or the controller's."""
    group = pickle.loads(pickle.dumps(ERRORS[1]))
    assert {0: "worse", 1: "bad"} == {rank: str(one) for rank, one in group.worker_failures.items()}
    assert "training failed in workers: rank 1: bad (run r1)" == str(group)
    assert isinstance(pickle.loads(pickle.dumps(ERRORS[2])).controller_failure, OSError)


def test_they_are_made_as_rays_are():
    """Message and failures, or the failure, by position."""
    assert FAILURES == train.WorkerGroupError("text", FAILURES).worker_failures
    assert "gone" in str(train.ControllerError(OSError("gone")))
