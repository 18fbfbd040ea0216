"""`trainstate runs`: the list of runs."""

from __future__ import annotations

from pathlib import Path

import click

from trainstate.cli import _render
from trainstate.cli._options import journal_option, json_option
from trainstate.cli._summary import show_runs
from trainstate.cli._where import open_root


@click.command()
@journal_option
@json_option
def runs(journal: Path | None, as_json: bool) -> None:
    """List the runs.

    Of one journal, or of all of them under one root, in the order they began.
    """
    root = open_root(journal)
    with _render.progress("reading") as advance:
        listed = list(root.runs(advance))
    show_runs(listed, as_json)
