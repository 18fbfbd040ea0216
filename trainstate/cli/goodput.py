"""`trainstate goodput`: where the time of a run went."""

from __future__ import annotations

import time
from pathlib import Path

import click

from trainstate.cli import _render
from trainstate.cli._options import journal_option, json_option, run_argument
from trainstate.cli._text import duration
from trainstate.cli._where import open_root
from trainstate.core.views.goodput import Goodput
from trainstate.core.views.goodput import goodput as spent
from trainstate.state.home import Standing, standing
from trainstate.store.root import Found

_BAR_WIDTH = 40
_COLOURS = {"productive": "green", "lost": "red"}


@click.command()
@run_argument
@journal_option
@json_option
def goodput(prefix: str, journal: Path | None, as_json: bool) -> None:
    """Show where the time of a run went.

    From its start to its end, or to now; of one that nobody writes, to its newest event. The buckets
    sum exactly to the wall time.
    """
    found = open_root(journal).find(prefix)
    with _render.progress("reading") as advance:
        events = _render.watched(found.history.events_of(found.run_id), advance)
        result = spent((one.event for one in events), _now_ns(found))
    if as_json:
        _render.emit(_plain(found.run_id, result))
    else:
        _show(result)


def _now_ns(found: Found) -> int | None:
    """Now, of a run that goes on while its journal is written; None of any other."""
    run = found.history.run(found.run_id)
    lives = standing(found.history.path) is Standing.LIVE
    return time.time_ns() if lives and not run.status.is_terminal else None


def _plain(run_id: str, result: Goodput) -> dict[str, object]:
    buckets = dict(result.buckets)
    return {"run_id": run_id, "buckets_ns": buckets, "wall_ns": result.wall_ns, "note": result.note}


def _show(result: Goodput) -> None:
    for bucket, ns in result.buckets.items():
        share = ns / result.wall_ns if result.wall_ns else 0.0
        bar = "█" * round(share * _BAR_WIDTH) or ("▏" if ns else "")
        colour = _COLOURS.get(bucket, "yellow")
        _render.line(
            f"{bucket:<10}  ",
            (f"{bar:<{_BAR_WIDTH}}", colour),
            f"  {share:6.1%}  {duration(ns):>8}",
        )
    _render.line(f"{'wall time':<10}  {'':{_BAR_WIDTH}}  {'':6}  {duration(result.wall_ns):>8}")
    if result.note:
        _render.line((f"note: {result.note}", "dim"))
