"""`trainstate replay`: the events again, into the table of runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from trainstate.cli import _render
from trainstate.cli._event_line import show_event
from trainstate.cli._options import journal_option, json_option
from trainstate.cli._plain import plain_summary
from trainstate.cli._summary import run_line, show_runs
from trainstate.cli._where import Position, histories_at, open_root, parse_position
from trainstate.core.views.event_json import event_json
from trainstate.store import History, Recorded, Root, summary_of
from trainstate.store.root import Listed


@click.command()
@click.option("--until", metavar="SEQ|TIME", help="Stop there, inclusively.")
@click.option("--step", is_flag=True, help="Show every event and what it makes of its run.")
@journal_option
@json_option
def replay(until: str | None, step: bool, journal: Path | None, as_json: bool) -> None:
    """Replay a journal into the table of its runs.

    As of --until, from the events alone, without a snapshot. With --step on a terminal, Enter goes to
    the next event and q ends it.
    """
    root = open_root(journal)
    position = parse_position(until) if until else None
    if step:
        _step(root.only(), position, as_json)
    else:
        show_runs(_replayed(root, position), as_json)


def _replayed(root: Root, position: Position | None) -> list[Listed]:
    include = position.include if position else lambda _: True
    with _render.progress("replaying") as advance:
        return [
            Listed(history, summary)
            for history in histories_at(root, position)
            for summary in history.fold_until(include, advance).summaries()
        ]


def _step(history: History, position: Position | None, as_json: bool) -> None:
    fold = history.empty_fold()
    waits = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    for recorded in _up_to(history, position):
        fold.apply(recorded)
        summary = summary_of(fold.runs[recorded.event.run_id])
        if as_json:
            _render.emit({"event": event_json(recorded), "run": plain_summary(summary)})
            continue
        show_event(recorded, as_json=False)
        _render.line(*run_line(summary))
        if waits and _wants_to_stop():
            return


def _up_to(history: History, position: Position | None) -> Iterator[Recorded]:
    """The events a position includes: of each run, those before the first that it does not."""
    over: set[str] = set()
    for one in history.events(history.first_seq):
        if position is not None and not position.include(one):
            over.add(one.event.run_id)
        if one.event.run_id not in over:
            yield one


def _wants_to_stop() -> bool:
    answer = sys.stdin.readline()
    return not answer or answer.strip() == "q"
