"""What failed, as it is told: whose fault it is, and where to look."""

from __future__ import annotations

import pytest

from trainstate.controller.failure import describe, lost

GONE = "The actor died unexpectedly before finishing this task.\n\tclass_name: Worker\n"


@pytest.mark.parametrize(
    ("said", "told", "hint"),
    [
        (
            f"{GONE}The actor's node was terminated unexpectedly: health check failed.",
            "rank 3 went with its node abcdef012345, which was terminated unexpectedly: health",
            "ray list nodes",
        ),
        (
            f"{GONE}Worker exit type: SYSTEM_ERROR Worker exit detail: connection error code 2. End",
            "the process of rank 3 ended: connection error code 2",
            "dmesg",
        ),
        (GONE, "the process of rank 3 ended: no detail", "dmesg"),
    ],
)
def test_a_worker_that_is_lost(said: str, told: str, hint: str):
    """A node that went is not taken for a process that crashed; what Ray says is kept whole."""
    error = lost(RuntimeError(said), 3, "abcdef0123456789")
    assert error.message.startswith(told)
    assert hint in error.hint
    assert said == error.traceback


def test_colours_are_left_out():
    """Ray writes them into the texts of its errors; a journal is read by programs too."""
    assert "red" == describe(RuntimeError("\x1b[36mred\x1b[0m")).message
