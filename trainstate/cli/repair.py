"""`trainstate repair`: a damaged journal opens again."""

from __future__ import annotations

from pathlib import Path

import click

from trainstate.cli import _render
from trainstate.cli._options import journal_option, json_option, place_argument
from trainstate.cli._where import journal_paths
from trainstate.errors import NotFound
from trainstate.journal import repair as mend


@click.command()
@place_argument
@click.option(
    "--accept-loss", is_flag=True, help="Give up acknowledged events that cannot be read any more."
)
@journal_option
@json_option
def repair(place: Path | None, accept_loss: bool, journal: Path | None, as_json: bool) -> None:
    """Make a damaged journal readable again.

    What can be rebuilt is rebuilt: IDENTITY, FENCE, indexes. Events are given up only with
    --accept-loss: the journal then ends before the first damage. No byte is destroyed; what does not
    belong to the journal any more is moved to its quarantine.
    """
    path = _only(place or journal)
    done = mend(path, accept_loss=accept_loss)
    if as_json:
        _render.emit({"path": str(path), "done": done})
        return
    for sentence in done:
        _render.say(sentence)
    _render.say(f"{path}: repaired" if done else f"{path}: nothing to repair")


def _only(place: Path | None) -> Path:
    paths = journal_paths(place)
    if len(paths) == 1:
        return paths[0]
    names = ", ".join(map(str, paths[:5]))
    raise NotFound(
        f"{len(paths)} journals here, and one is repaired at a time: {names}",
        hint="name one with --journal PATH",
    )
