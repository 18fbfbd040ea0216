"""`trainstate show`: the story of one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trainstate.cli import _render, _story
from trainstate.cli._options import journal_option, json_option, run_argument
from trainstate.cli._plain import plain_run
from trainstate.cli._settings import plain_settings, tell_settings
from trainstate.cli._where import find_attempt, open_root, parse_position
from trainstate.core import Run
from trainstate.core.freeze import to_proto
from trainstate.core.views.event_json import message_json
from trainstate.errors import UsageError
from trainstate.state.home import stale


@click.command()
@run_argument
@click.option(
    "--attempt", metavar="A", help="Its number, or a prefix of its id.  [default: the newest]"
)
@click.option("--as-of", metavar="SEQ|TIME", help="As it was then, inclusively.")
@click.option("--traceback", "tracebacks", is_flag=True, help="Show errors with all their lines.")
@click.option("--settings", is_flag=True, help="Show what it was asked for and made with, instead.")
@journal_option
@json_option
def show(
    prefix: str,
    attempt: str | None,
    as_of: str | None,
    tracebacks: bool,
    settings: bool,
    journal: Path | None,
    as_json: bool,
) -> None:
    """Tell the story of a run.

    RUN is an id, a prefix that fits only one, or a name. What it is and how it ended; its attempts;
    of one attempt the workers, and what else there is: replica groups, placements, checkpoints,
    metrics, budgets, and every move that was out of the ordinary. While it goes on: what it waits for.
    With --settings, instead: what was asked for in the trainer's own arguments, versions, provenance.
    """
    if settings:
        _only_settings(prefix, attempt, tracebacks)
    position = parse_position(as_of) if as_of else None
    found = open_root(journal).find(prefix)
    run = found.history.run(found.run_id, position.include if position else None)
    document = {"journal": str(found.history.path)}
    if settings and as_json:
        _render.emit({**document, **plain_settings(run)})
    elif settings:
        tell_settings(run)
    elif as_json:
        _render.emit({**document, **_plain(run, attempt)})
    else:
        chosen = find_attempt(run, attempt)
        now = found.history.run(found.run_id) if position else run
        is_stale = not now.status.is_terminal and stale(found.history.path)
        _story.tell(run, chosen, is_stale, tracebacks)


def _only_settings(prefix: str, attempt: str | None, tracebacks: bool) -> None:
    """Raises UsageError for a part of the story beside what is told instead of it."""
    other = "--traceback" if tracebacks else "--attempt" if attempt is not None else ""
    if other:
        raise UsageError(
            f"--settings and {other} exclude each other",
            hint=f"trainstate show {prefix} --settings",
        )


def _plain(run: Run, attempt: str | None) -> dict[str, Any]:
    chosen = None if attempt is None else find_attempt(run, attempt)
    return plain_run(run) if chosen is None else message_json(to_proto(chosen))
