"""`trainstate runs`: the list of runs."""

from __future__ import annotations

from pathlib import Path

import click

from trainstate.cli import _render
from trainstate.cli._options import journal_option, json_option
from trainstate.cli._summary import show_runs
from trainstate.cli._where import open_root
from trainstate.core import RunStatus
from trainstate.state.home import stale


@click.command()
@journal_option
@json_option
def runs(journal: Path | None, as_json: bool) -> None:
    """List the runs.

    Of one journal, or of all of them under one root, in the order they began. A run that was never
    ended and whose cluster is gone is marked stale; `trainstate reconcile` ends it.
    """
    root = open_root(journal)
    with _render.progress("reading") as advance:
        listed = list(root.runs(advance))
    going = {one.history.path for one in listed if not RunStatus(one.summary.status).is_terminal}
    show_runs(listed, as_json, lost={path for path in going if stale(path)})
