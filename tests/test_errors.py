"""The error tree: what crosses from process to process is what was raised."""

from __future__ import annotations

import pickle

import pytest

from trainstate import errors
from trainstate.errors import ConcurrencyError, TrainstateError

CLASSES = [getattr(errors, name) for name in errors.__all__]


def raised(kind: type[TrainstateError]) -> TrainstateError:
    """An error of that class with everything it can carry."""
    if kind is ConcurrencyError:
        return ConcurrencyError(7, 5, run_id="r1")
    return kind("it broke", path="/journal", offset=72, run_id="r1", hint="trainstate verify")


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_survives_a_pickle(kind):
    """Class, message, every attribute and every note."""
    error = raised(kind)
    error.add_note("seen by rank 3")
    copy = pickle.loads(pickle.dumps(error))
    assert (kind, str(error), error.args) == (type(copy), str(copy), copy.args)
    assert vars(error) == vars(copy)
