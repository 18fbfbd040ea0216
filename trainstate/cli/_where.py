"""Journals, runs, attempts and positions as people name them.

A *journal* is `--journal PATH`, which may also be a root with many, or `$TRAINSTATE_HOME`. A *run* is
its id, a prefix that fits only one, or its name; an *attempt* its number, id or a prefix. A *position*
is SEQ, a place in one journal, or TIME, which means something in all of them.
"""

from __future__ import annotations

import os
import re
import time
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from trainstate.core import Attempt, Run
from trainstate.core.units import NS_PER_S
from trainstate.errors import NotFound, UsageError
from trainstate.store import History, Root, until_seq, until_time
from trainstate.store.events import Include
from trainstate.store.root import journals_at

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_RELATIVE = re.compile(r"-(\d+)([smhd])")
_UNIX = re.compile(r"@(\d{1,10}(?:\.\d+)?)")
_SEQ = re.compile(r"\d{1,19}")


class Position(NamedTuple):
    """A place in a journal: up to a seq, or up to a time; exactly one of the two is given."""

    seq: int | None = None
    time_ns: int | None = None

    @property
    def include(self) -> Include:
        """Lets through what was recorded up to here, inclusively."""
        if self.seq is not None:
            return until_seq(self.seq)
        assert self.time_ns is not None
        return until_time(self.time_ns)


def home() -> Path:
    """`$TRAINSTATE_HOME`, or `~/.trainstate`."""
    try:
        return Path(os.environ.get("TRAINSTATE_HOME") or Path.home() / ".trainstate")
    except RuntimeError as error:
        raise UsageError(
            "there is no home directory", hint="set TRAINSTATE_HOME, or name --journal PATH"
        ) from error


def open_root(journal: Path | None) -> Root:
    """The journals at `--journal`, or all of them at home. Raises NotAJournal if there is none."""
    return Root(_existing(journal or home()))


def open_journal(journal: Path | None) -> History:
    """The one journal that is meant; NotFound if there are several."""
    return open_root(journal).only()


def journal_paths(journal: Path | None) -> list[Path]:
    """The journals at `--journal`, or at home, none of them opened: they may be damaged.

    Raises NotAJournal if there is none.
    """
    path = _existing(journal or home())
    # Without IDENTITY it is one all the same, for who verifies or repairs it.
    return [path] if (path / "seg").is_dir() else journals_at(path)


def _existing(path: Path) -> Path:
    # A directory we may not list is to say so, not that there is no journal in it.
    if path.is_dir():
        os.listdir(path)
    return path


def import_target(journal: Path | None) -> Path:
    """Where an import goes: the journal named, or `journals/imported` of the root that is meant."""
    if journal is not None and not (journal / "journals").is_dir():
        return journal
    return (journal or home()) / "journals" / "imported"


def histories_at(root: Root, position: Position | None) -> list[History]:
    """The journals a position speaks of: a seq is of one only."""
    if position is not None and position.seq is not None:
        return [root.only()]
    return root.journals


_ID_DIGITS_MIN = 6


def find_attempt(run: Run, text: str | None) -> Attempt | None:
    """The attempt of that number, id or prefix; without one, the newest. Raises NotFound."""
    if text is None:
        return run.attempt
    # A short whole number is a number, and never the beginning of an id.
    by_number = text.isdecimal() and len(text) < _ID_DIGITS_MIN
    fits = [
        attempt
        for attempt in run.attempts
        if str(attempt.number) == text or attempt.attempt_id == text
    ] or [a for a in run.attempts if a.attempt_id.startswith(text) and not by_number]
    if len(fits) == 1:
        return fits[0]
    named = ", ".join(f"{attempt.number} ({attempt.attempt_id})" for attempt in fits[:5])
    raise NotFound(
        f"{len(fits)} attempts fit {text!r}: {named}" if fits else f"no attempt fits {text!r}",
        run_id=run.run_id,
        hint=f"trainstate show {run.run_id} lists its {len(run.attempts)} attempts",
    )


def parse_position(text: str, now_ns: int | None = None) -> Position:
    """Reads SEQ or TIME. Raises UsageError for what is neither.

    A whole number is a seq. A time is ISO 8601 (local time unless it names a zone), `@` and Unix
    seconds, or `-90s`, `-5m`, `-2h`, `-3d` before now.
    """
    if _SEQ.fullmatch(text):
        return Position(seq=int(text))
    if match := _RELATIVE.fullmatch(text):
        ago_ns = int(match[1]) * _UNITS_S[match[2]] * NS_PER_S
        return Position(time_ns=max(0, (time.time_ns() if now_ns is None else now_ns) - ago_ns))
    if match := _UNIX.fullmatch(text):
        return Position(time_ns=int(Decimal(match[1]) * NS_PER_S))
    try:
        return Position(time_ns=_since_1970_ns(datetime.fromisoformat(text)))
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{text!r} is neither a position nor a time",
            hint="a whole number, 2026-11-21T14:30, @1795271400, or -2h (s, m, h, d)",
        ) from error


def _since_1970_ns(moment: datetime) -> int:
    # Not through a float, which holds a microsecond of today only just. Naive means local.
    local = moment.astimezone()
    whole_s = int(local.replace(microsecond=0).timestamp())
    return whole_s * NS_PER_S + local.microsecond * 1_000


def first_seq_since(history: History, position: Position) -> int:
    """The position of the first event at or after a place: the end of the journal, if there is none."""
    if position.seq is not None:
        return position.seq
    assert position.time_ns is not None
    first = next(history.since(position.time_ns), None)
    return history.end.next_seq if first is None else first.seq
