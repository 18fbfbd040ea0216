"""What failed, as it is told: whose fault it is, and where to look."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from trainstate.controller.failure import describe, lost
from trainstate.train.train_function import checked

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


def deep(levels: int) -> None:
    """Raises below so many frames, no two of them alike."""
    if levels:
        exec(compile(f"deep({levels - 1})", f"file{levels}", "exec"), {"deep": deep})
    raise ValueError("at the bottom")


def test_a_deep_stack_has_its_ends():
    """The first frames and the last are kept, and how many are left out is said."""
    with pytest.raises(ValueError, match="bottom") as caught:
        deep(200)
    told = describe(caught.value).traceback
    assert "frames left out)" in told
    assert told.count("  File ") < 140
    assert "file200" in told
    assert 'file1"' in told
    assert told.rstrip().endswith("ValueError: at the bottom")


def test_a_story_begins_where_the_user_does():
    """Frames of trainstate that only lead to the training function are nobody's business."""
    with pytest.raises(RuntimeError) as caught:
        checked(_raise, None, nullcontext)()
    told = describe(caught.value.with_traceback(caught.tb.tb_next)).traceback
    assert "_raise" in told
    assert "train_function.py" not in told
    assert describe(RuntimeError("never raised")).traceback == "RuntimeError: never raised\n"


def _raise() -> None:
    raise RuntimeError("x")


@pytest.mark.parametrize("where", range(3970, 4030, 3))
def test_a_cut_goes_through_no_secret(where: int):
    """What is left of a message has a whole secret or none of it: half of one would not be masked."""
    secret = "hf_" + "Ab1" * 12
    said = "x " * (where // 2) + secret + " y" * 20_000
    backwards = "y " * 20_000 + secret + " x" * (where // 2)
    for text in (said, backwards):
        kept = describe(RuntimeError(text)).message
        assert secret in kept or not any(secret[at : at + 4] in kept for at in range(32))
