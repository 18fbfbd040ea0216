"""What a person reads: durations, sizes, names, and text from logs."""

from __future__ import annotations

import pytest

from trainstate.cli import _text
from trainstate.core import Cause

S = 10**9


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0 ms", 0),
        ("999 ms", S - 1),
        ("1.0 s", S),
        ("59.9 s", 60 * S - 1),
        ("1m 00s", 60 * S),
        ("59m 59s", 3600 * S - 1),
        ("1h 00m", 3600 * S),
        ("23h 59m", 86_400 * S - 1),
        ("3d 04h", (3 * 86_400 + 4 * 3600 + 59) * S),
    ],
)
def test_durations_are_cut_never_rounded_up(text, ns):
    """A duration names its two largest units, and never one that is not complete."""
    assert text == _text.duration(ns)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("0 B", 0), ("1023 B", 1023), ("1.0 KiB", 1024), ("64.0 MiB", 64 << 20), ("2.5 GiB", 5 << 29)],
)
def test_sizes(text, size_bytes):
    """A size has the unit that makes it short."""
    assert text == _text.size(size_bytes)


def test_a_time_that_is_not_known_is_nothing():
    """0 is not 1970."""
    assert ("", "") == (_text.moment(0), _text.instant(0))
    assert "" == _text.between(0, 5 * S)


def test_a_log_cannot_command_the_terminal():
    """Escape sequences and line ends in a text from a log are blanks."""
    assert " [31mred x y" == _text.clean("\x1b[31mred\nx\ry")


def test_a_traceback_in_one_line():
    """Its first line says who, its last says what."""
    text = "[Rank 1]:\nTraceback (most recent call last):\n  File x\nValueError: boom\n"
    assert "[Rank 1]: … ValueError: boom" == _text.headline(text)
    assert "one line" == _text.headline("one line\n")


def test_fields_leave_out_what_is_empty_and_keep_zero():
    """Rank 0 is as visible as rank 1; long and nested values are hinted at."""
    values = {"rank": 0, "pid": 0, "name": "", "loss": 0.25, "many": ["x" * 99], "end_ns": 0}
    assert "rank=0 loss=0.25 many=[…]" == _text.fields(values)
    assert "actor_id=abababababab log_path=…" + "x" * 28 + ".log" == _text.fields(
        {"actor_id": "ab" * 16, "log_path": "/" + "x" * 80 + ".log", "cause": "UNSPECIFIED"}
    )


def test_names():
    """Enums and payloads as people write them."""
    assert ("worker_error", "") == (_text.word(Cause.WORKER_ERROR), _text.word(Cause.UNSPECIFIED))
    assert "WorkerStarted" == _text.payload_word("worker_started")
    assert ("1 run", "2,000 runs") == (_text.count(1, "run"), _text.count(2000, "run"))
