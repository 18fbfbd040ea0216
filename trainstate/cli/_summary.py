"""The list of runs, as `runs` and `replay` print it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from trainstate.cli import _render
from trainstate.cli._plain import plain_summary
from trainstate.cli._text import between, clean, count, headline, moment, short, word
from trainstate.core import Cause, RunStatus
from trainstate.store.root import Listed
from trainstate.v1 import view_pb2 as v

_COLUMNS = (
    "run", "name", "status", "cause", "started", ">duration", ">attempts", ">reports", ">odd",
    "why", "journal",
)  # fmt: skip


def show_runs(listed: Sequence[Listed], as_json: bool, lost: Collection[Path] = ()) -> None:
    """Prints the runs in the order they began; one JSON object per line for programs.

    The open runs of a `lost` journal are stale: they are over, and nobody has recorded it.
    """
    listed = sorted(listed, key=_began)
    if as_json:
        for one in listed:
            journal = {"journal": str(one.history.path), "stale": _is_stale(one, lost)}
            _render.emit({**plain_summary(one.summary), **journal})
    elif listed:
        several = len({one.history.path for one in listed}) > 1
        _render.table(_COLUMNS, [_row(one, several, lost) for one in listed])
    else:
        _render.say("no runs")


def _began(listed: Listed) -> int:
    return listed.summary.start_time_ns or listed.summary.time_ns


def _is_stale(listed: Listed, lost: Collection[Path]) -> bool:
    return listed.history.path in lost and not RunStatus(listed.summary.status).is_terminal


def _row(listed: Listed, several: bool, lost: Collection[Path]) -> tuple[Any, ...]:
    run = listed.summary
    status = RunStatus(run.status)
    stale = _is_stale(listed, lost)
    return (
        short(run.run_id),
        run.name,
        f"{status.name} (stale)" if stale else _render.status(status),
        word(Cause(run.cause)),
        moment(run.start_time_ns),
        between(run.start_time_ns, run.end_time_ns or run.time_ns),
        run.attempts,
        run.reports or "",
        run.irregular_count or "",
        headline(run.status_reason),
        listed.history.path.name if several else "",
    )


def run_line(run: v.RunSummary) -> list[str | _render.Styled]:
    """The run in one line, for the step by step replay."""
    lasted = between(run.start_time_ns, run.end_time_ns or run.time_ns)
    rest = [count(run.attempts, "attempt"), lasted, headline(run.status_reason)]
    status = RunStatus(run.status)
    return [
        f"{'':7}  {short(run.run_id)} {clean(run.name)} ",
        _render.in_colour(status.name, status),
        *(f" · {part}" for part in rest if part),
    ]
