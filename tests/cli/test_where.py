"""Journals, attempts and positions as people name them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from trainstate.cli._where import Position, find_attempt, import_target, parse_position
from trainstate.core import Attempt, initial
from trainstate.errors import NotFound, UsageError
from trainstate.store import Recorded
from trainstate.v1 import event_pb2 as e

S = 10**9
NOW = 1_795_221_788 * S


@pytest.fixture
def berlin(monkeypatch):
    """Local time is one hour ahead of UTC in winter."""
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (Position(seq=0), "0"),
        (Position(seq=42), "42"),
        (Position(time_ns=1_795_221_788 * S), "@1795221788"),
        (Position(time_ns=1_795_221_788_123_456_789), "@1795221788.123456789"),
        (Position(time_ns=NOW - 90 * S), "-90s"),
        (Position(time_ns=NOW - 5 * 60 * S), "-5m"),
        (Position(time_ns=NOW - 2 * 3600 * S), "-2h"),
        (Position(time_ns=NOW - 3 * 86_400 * S), "-3d"),
        (Position(time_ns=0), "-99999d"),
        (Position(time_ns=1_795_221_788 * S), "2026-11-21T00:43:08Z"),
        (Position(time_ns=1_795_221_788 * S + 123_456_000), "2026-11-21 00:43:08.123456+00:00"),
        (Position(time_ns=1_795_221_788 * S), "2026-11-21T01:43:08"),
        (Position(time_ns=1_795_219_200 * S - 3600 * S), "2026-11-21"),
    ],
)
def test_positions(berlin, position, text):
    """SEQ, and every form of TIME, exactly; without a zone a time is local."""
    assert position == parse_position(text, NOW)


@pytest.mark.parametrize("text", ["", "yesterday", "-5", "-5w", "@", "@x", "1.5", "-1", "9" * 30])
def test_what_is_no_position(text):
    """The error shows what would have been one."""
    with pytest.raises(UsageError, match="neither a position nor a time") as refused:
        parse_position(text, NOW)
    assert "2026-11-21T14:30" in (refused.value.hint or "")


def test_a_position_includes_itself():
    """Up to and including, by seq and by time."""
    event = e.Event(time_unix_nano=7)
    assert Position(seq=3).include(Recorded(3, event))
    assert not Position(seq=3).include(Recorded(4, event))
    assert Position(time_ns=7).include(Recorded(9, event))
    assert not Position(time_ns=6).include(Recorded(1, event))


def test_attempts_by_number_id_and_prefix():
    """A number goes before a prefix; without either it is the newest."""
    run = initial("r")
    run.attempts = [Attempt("2abc", 1), Attempt("9def", 2), Attempt("9dxx", 3)]
    found = {text: find_attempt(run, text) for text in (None, "2", "2a", "9def")}
    assert {None: 3, "2": 2, "2a": 1, "9def": 2} == {
        text: one.number for text, one in found.items()
    }


@pytest.mark.parametrize(("message", "text"), [("2 attempts fit '9d'", "9d"), ("no attempt", "x")])
def test_attempts_that_are_not_one(message, text):
    """None, or several, is an error that names them."""
    run = initial("r")
    run.attempts = [Attempt("9def", 1), Attempt("9dxx", 2)]
    with pytest.raises(NotFound, match=message):
        find_attempt(run, text)


def test_an_import_goes_where_it_is_said(tmp_path: Path, monkeypatch):
    """Into the journal named, into `imported` of a root named, else into that at home."""
    monkeypatch.setenv("TRAINSTATE_HOME", str(tmp_path / "home"))
    root = tmp_path / "root"
    (root / "journals").mkdir(parents=True)
    assert tmp_path / "home/journals/imported" == import_target(None)
    assert root / "journals/imported" == import_target(root)
    assert tmp_path / "mine" == import_target(tmp_path / "mine")
