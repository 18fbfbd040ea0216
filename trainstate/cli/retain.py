"""`trainstate retain`: forgetting the oldest part of a journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trainstate.cli import _render
from trainstate.cli._options import journal_option, json_option
from trainstate.cli._text import count, short, size
from trainstate.cli._where import (
    Position,
    first_seq_since,
    histories_at,
    open_root,
    parse_position,
)
from trainstate.core import RunStatus
from trainstate.errors import UsageError
from trainstate.export import pins as export_pins
from trainstate.journal import Retained
from trainstate.journal import retain as drop
from trainstate.store import History


@click.command()
@click.option("--keep-from", metavar="SEQ|TIME", help="Keep what was recorded from there on.")
@click.option("--keep-days", metavar="N", type=click.IntRange(min=0), help="Keep the last N days.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and drop nothing.")
@journal_option
@json_option
def retain(
    keep_from: str | None, keep_days: int | None, dry_run: bool, journal: Path | None, as_json: bool
) -> None:
    """Drop the oldest part of a journal.

    Whole segments, oldest first, and never what an export has still to send or a run that goes on
    still needs: what keeps it from dropping more is named. May run beside a live writer.
    """
    position = _position(keep_from, keep_days)
    for history in histories_at(open_root(journal), position):
        from_seq = first_seq_since(history, position)
        retained = drop(history.path, from_seq, _pins(history), dry_run=dry_run)
        if as_json:
            _render.emit(_plain(history, retained, dry_run))
        else:
            _show(history, retained, dry_run)


def _position(keep_from: str | None, keep_days: int | None) -> Position:
    if (keep_from is None) == (keep_days is None):
        raise UsageError(
            "one of --keep-from and --keep-days says what to keep",
            hint="trainstate retain --keep-days 30 --dry-run",
        )
    return parse_position(f"-{keep_days}d" if keep_from is None else keep_from)


def _pins(history: History) -> dict[str, int]:
    """Who needs events from which seq on: exports, and the runs that go on."""
    return export_pins(history.path) | {
        f"run {short(run.run_id)} {run.name} ({RunStatus(run.status).name})": run.first_seq
        for run in history.summaries()
        if not RunStatus(run.status).is_terminal
    }


def _plain(history: History, retained: Retained, dry_run: bool) -> dict[str, Any]:
    return {
        "path": str(history.path),
        "dry_run": dry_run,
        "removed": [str(name) for name in retained.removed],
        "bytes_freed": retained.bytes_freed,
        "first_seq": retained.first_seq,
        "pinned_by": list(retained.pinned_by),
    }


def _show(history: History, retained: Retained, dry_run: bool) -> None:
    would = "would drop" if dry_run else "dropped"
    dropped = count(len(retained.removed), "segment")
    _render.say(
        f"{history.path}: {would} {dropped} ({size(retained.bytes_freed)}),"
        f" history begins at seq {retained.first_seq}"
    )
    for who in retained.pinned_by:
        _render.say(f"  kept for {who}")
