"""`trainstate reconcile`: ending the runs of a cluster that is gone."""

from __future__ import annotations

from pathlib import Path

import click

from trainstate.cli import _render
from trainstate.cli._options import journal_option, json_option
from trainstate.cli._text import count
from trainstate.cli._where import open_root
from trainstate.errors import RefusedError
from trainstate.state.home import Standing, standing
from trainstate.state.reconcile import open_runs
from trainstate.state.reconcile import reconcile as end_open_runs
from trainstate.store import History


@click.command()
@click.option(
    "--yes", is_flag=True, help="Also where it cannot be known from here that the writer is gone."
)
@journal_option
@json_option
def reconcile(yes: bool, journal: Path | None, as_json: bool) -> None:
    """End the open runs of clusters that are gone.

    They end as ABORTED, with the cause cluster_lost. The next cluster at the same home does this by
    itself. A journal whose writer lives, or will be back, is left alone; one that was written on
    another machine, or before this one was restarted, needs --yes.
    """
    unsure: list[Path] = []
    ended = 0
    for history in open_root(journal).journals:
        stands = standing(history.path)
        if stands is Standing.LOST or (stands is Standing.UNKNOWN and yes):
            ended += _end(history, as_json)
        elif stands is Standing.UNKNOWN and open_runs(history):
            unsure.append(history.path)
    if not as_json:
        _render.say(f"{count(ended, 'run')} ended" if ended else "no run to end")
    if unsure:
        raise RefusedError(
            f"{count(len(unsure), 'journal')} left alone, {Standing.UNKNOWN.value}:"
            f" {', '.join(map(str, unsure[:5]))}",
            hint="where you know that it is gone: trainstate reconcile --yes --journal PATH",
        )


def _end(history: History, as_json: bool) -> int:
    """Ends what is open in a journal, and says so; how many runs that were."""
    names = {run.run_id: run.name for run in open_runs(history)}
    ended = end_open_runs(history.path)
    for run_id in ended:
        if as_json:
            _render.emit({"run_id": run_id, "journal": str(history.path)})
        else:
            _render.line(f"{run_id}  {names.get(run_id, '')}  {history.path.name}")
    return len(ended)
