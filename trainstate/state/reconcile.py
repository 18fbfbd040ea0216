"""Ending the open runs of a journal whose cluster is gone: their actors and groups went with it.

The journal keeps its owner's name, so that a reconciliation that is cut short is taken up by the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainstate.core import Cause
from trainstate.core.observations import Abort
from trainstate.errors import TrainstateError
from trainstate.state.ending import end_run, is_open
from trainstate.state.home import Standing, standing
from trainstate.store import History, Store
from trainstate.v1 import view_pb2 as v

_TEXT = "the cluster it ran on is gone"


def open_runs(history: History) -> list[v.RunSummary]:
    """The runs of a journal that somebody would still have to end; what was imported has its own end."""
    return [
        summary
        for summary in history.summaries()
        if is_open(summary) and not history.run(summary.run_id).imported
    ]


def reconcile(journal: Path) -> list[str]:
    """Ends the open runs of a journal with CLUSTER_LOST; returns their ids.

    That it is lost is for the caller to know. Raises JournalLocked if a writer has it, and whatever
    else `Store.open` raises.
    """
    history = History(journal)
    ended = [run.run_id for run in open_runs(history)]
    if ended:
        with Store.open(journal, owner=history.owner, lock_timeout_s=0) as store:
            for run_id in ended:
                end_run(store, run_id, "reconcile", Abort(Cause.CLUSTER_LOST, _TEXT), _nothing_left)
    return ended


def reconcile_lost(journals: Path) -> None:
    """Reconciles every lost journal of a folder."""
    for journal in lost(journals):
        try:
            reconcile(journal)
        except TrainstateError:
            continue  # damaged, or just taken by another: `trainstate reconcile` says which


def lost(journals: Path) -> Iterator[Path]:
    """The journals of a folder whose writers are gone for good, oldest name first."""
    for path in sorted(journals.iterdir()):
        try:
            if standing(path) is Standing.LOST:
                yield path
        except TrainstateError:
            continue  # no journal, or one that cannot even be asked


def _nothing_left(run: object, effect: object) -> None:
    """The cluster has taken the workers and the placement groups with it."""
