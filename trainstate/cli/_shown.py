"""How a script's runs are shown: as lines, as JSON, at the foot of the terminal, or not at all.

All of it goes to standard error: standard output is the script's alone.
"""

from __future__ import annotations

import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

import click

from trainstate.cli import _live, _render
from trainstate.cli._live import Live, Lives
from trainstate.cli._region import Region
from trainstate.cli._text import moment

# A run that only goes on is told of so often, in lines.
_PROGRESS_S = 10.0
# The runs at the foot of a terminal: those that began last.
_RUNS_SHOWN = 2
_DUMB = frozenset({"", "dumb", "unknown"})


class Shown(Protocol):
    """Is told of what happens, and shows it."""

    def moved(self, live: Live) -> None:
        """A run is in another state."""

    def looked(self, lives: Lives) -> None:
        """The journals were looked at."""

    def say(self, text: str) -> None:
        """There is something to tell the person who waits."""

    def over(self, lives: Lives) -> None:
        """The script has ended; nothing follows."""


def choose(quiet: bool, as_json: bool) -> Shown:
    """What fits the wish, and standard error."""
    if quiet:
        return Nothing()
    if as_json:
        return Changes()
    drawn = sys.stderr.isatty() and os.environ.get("TERM", "") not in _DUMB
    return Foot(sys.stderr.fileno()) if drawn else Lines()


class Nothing:
    """Shows nothing."""

    def moved(self, live: Live) -> None:
        """Nothing."""

    def looked(self, lives: Lives) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def over(self, lives: Lives) -> None:
        """Nothing."""


class _Paced(ABC):
    """Tells of every change of state, and now and then of one that only goes on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, tuple[float, int]] = {}

    def moved(self, live: Live) -> None:
        """Tells it at once."""
        self.tell(live, "status")
        self._note(live)

    def looked(self, lives: Lives) -> None:
        """Tells of what has been silent for a while."""
        for live in lives.open:
            told_s, reports = self._told.get(live.run.run_id, (0.0, 0))
            if live.run.reports > reports and self._clock() - told_s >= _PROGRESS_S:
                self.tell(live, "progress")
                self._note(live)

    def _note(self, live: Live) -> None:
        self._told[live.run.run_id] = self._clock(), live.run.reports

    @abstractmethod
    def tell(self, live: Live, kind: str) -> None:
        """Tells how a run goes."""


class Lines(_Paced):
    """Plain lines, for a pipe or a log."""

    def tell(self, live: Live, kind: str) -> None:
        """One line."""
        why = _live.why(live) if kind == "status" else ""
        parts = [f"{moment(live.run.time_ns)}  ", *_live.line(live), f" · {why}" if why else ""]
        _render.line(*parts, err=True)

    def say(self, text: str) -> None:
        """One line."""
        _render.line(text, err=True)

    def over(self, lives: Lives) -> None:
        """A line per run: how it ended."""
        _summarise(lives)


class Changes(_Paced):
    """A JSON object per line."""

    def tell(self, live: Live, kind: str) -> None:
        """One object."""
        _render.emit(_live.plain(live, kind), err=True)

    def say(self, text: str) -> None:
        """One object."""
        _render.emit({"kind": "note", "text": text}, err=True)

    def over(self, lives: Lives) -> None:
        """One object per run."""
        for live in lives.all.values():
            _render.emit(_live.plain_end(live), err=True)


class Foot:
    """The newest open runs in the lowest rows of a terminal."""

    def __init__(self, fd: int) -> None:
        self._region = Region(fd)
        self._rows: list[str] = []
        self._said = ""

    def moved(self, live: Live) -> None:
        """What is drawn after the look shows it."""

    def looked(self, lives: Lives) -> None:
        """Draws the runs."""
        self._rows = []
        for live in lives.open[-_RUNS_SHOWN:]:
            self._rows += [
                self._row(_live.line(live)),
                self._row([(f"  {_live.why(live)}", "dim")]),
            ]
        more = len(lives.open) - _RUNS_SHOWN
        if more > 0:
            self._rows.append(self._row([(f"  and {more} more", "dim")]))
        self._draw()

    def say(self, text: str) -> None:
        """Below the runs, until something else is said."""
        self._said = self._row([(text, "yellow")])
        self._draw()

    def _row(self, parts: Sequence[str | _render.Styled]) -> str:
        return _render.cut(parts, self._region.columns)

    def _draw(self) -> None:
        rows = [*self._rows, *([self._said] if self._said else [])]
        if rows:
            self._region.show(rows)

    def over(self, lives: Lives) -> None:
        """Gives the rows back; a line per run, which stays."""
        self._region.close()
        _summarise(lives)


def _summarise(lives: Lives) -> None:
    for live in lives.all.values():
        _render.line(*_live.summary(live), err=True)
    if not lives.all:
        click.echo("trainstate: the script started no run that is recorded here", err=True)
