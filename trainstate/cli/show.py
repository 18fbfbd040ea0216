"""`trainstate show`: the story of one run."""

from __future__ import annotations

from pathlib import Path

import click

from trainstate.cli import _render, _story
from trainstate.cli._options import journal_option, json_option, run_argument
from trainstate.cli._plain import plain_run
from trainstate.cli._where import find_attempt, open_root, parse_position
from trainstate.core.freeze import to_proto
from trainstate.core.views.event_json import message_json
from trainstate.state.home import stale


@click.command()
@run_argument
@click.option(
    "--attempt", metavar="A", help="Its number, or a prefix of its id.  [default: the newest]"
)
@click.option("--as-of", metavar="SEQ|TIME", help="As it was then, inclusively.")
@click.option("--traceback", "tracebacks", is_flag=True, help="Show errors with all their lines.")
@journal_option
@json_option
def show(
    prefix: str,
    attempt: str | None,
    as_of: str | None,
    tracebacks: bool,
    journal: Path | None,
    as_json: bool,
) -> None:
    """Tell the story of a run.

    RUN is an id, a prefix that fits only one, or a name. What it is and how it ended; its attempts;
    of one attempt the workers, and what else there is: replica groups, placements, checkpoints,
    metrics, budgets, and every move that was out of the ordinary. While it goes on: what it waits for.
    """
    position = parse_position(as_of) if as_of else None
    found = open_root(journal).find(prefix)
    run = found.history.run(found.run_id, position.include if position else None)
    chosen = find_attempt(run, attempt)
    if not as_json:
        now = found.history.run(found.run_id) if position else run
        is_stale = not now.status.is_terminal and stale(found.history.path)
        _story.tell(run, chosen, is_stale, tracebacks)
    elif attempt is None:
        _render.emit({"journal": str(found.history.path), **plain_run(run)})
    else:
        _render.emit({"journal": str(found.history.path), **message_json(to_proto(chosen))})
