"""`trainstate diff`: what changed in the state of runs between two positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import click

from trainstate.cli import _render
from trainstate.cli._options import journal_option, json_option
from trainstate.cli._plain import Change, changes, plain_run
from trainstate.cli._text import clean, count, field, instant
from trainstate.cli._where import open_journal
from trainstate.core import evolve, initial
from trainstate.errors import UsageError
from trainstate.store import History, until_seq

# They change with every event; they are in the title of a run, not among its changes.
_ALWAYS = frozenset({"run_id", "run_seq", "time_ns"})


class RunDiff(NamedTuple):
    """A run that had events in between: its state before the first and after the last."""

    before: dict[str, Any]
    after: dict[str, Any]

    @property
    def changes(self) -> list[Change]:
        """What differs, without what always does."""
        return [one for one in changes(self.before, self.after) if one.field not in _ALWAYS]


@click.command()
@click.argument("first", metavar="SEQ", type=click.IntRange(min=0))
@click.argument("last", metavar="SEQ", type=click.IntRange(min=0))
@journal_option
@json_option
def diff(first: int, last: int, journal: Path | None, as_json: bool) -> None:
    """Show what changed between two positions.

    For every run with events after the first SEQ, up to and including the second: each field of its
    state that is another now. Position 0 is before everything.
    """
    if first > last:
        raise UsageError(f"{first} is after {last}", hint=f"trainstate diff {last} {first}")
    found = list(_diffs(open_journal(journal), first, last))
    if as_json:
        _render.emit({"from_seq": first, "to_seq": last, "runs": [_plain(one) for one in found]})
    elif found:
        _show(found)
    else:
        _render.say(f"no events after {first} up to {last}")


def _diffs(history: History, first: int, last: int) -> Iterator[RunDiff]:
    with _render.progress("reading", last) as advance:
        events = takewhile(until_seq(last), history.events(max(first + 1, history.first_seq)))
        touched = dict.fromkeys(one.event.run_id for one in _render.watched(events, advance))
    for run_id in touched:
        yield _diff_of(history, run_id, first, last)


def _diff_of(history: History, run_id: str, first: int, last: int) -> RunDiff:
    run = initial(run_id)
    before: dict[str, Any] | None = None
    for one in takewhile(until_seq(last), history.events_of(run_id)):
        if before is None and one.seq > first:
            before = plain_run(run)
        evolve(run, one.event)
    assert before is not None  # the run has an event in between
    return RunDiff(before, plain_run(run))


def _plain(one: RunDiff) -> dict[str, Any]:
    return {
        "run_id": one.after["run_id"],
        "run_seq": [one.before["run_seq"], one.after["run_seq"]],
        "time_ns": [one.before["time_ns"], one.after["time_ns"]],
        "changes": [change._asdict() for change in one.changes],
    }


def _show(found: Sequence[RunDiff]) -> None:
    for number, one in enumerate(found):
        events = count(one.after["run_seq"] - one.before["run_seq"], "event")
        until = instant(one.after["time_ns"])
        title = f"{one.after['run_id']} {one.after['name']}: {events}, the last at {until}"
        _render.line(("\n" if number else "") + clean(title))
        rows = [_row(change) for change in one.changes]
        _render.table(("field", "before", "after"), rows)


def _row(change: Change) -> tuple[str, str, str]:
    name = change.field.rpartition(".")[2]
    return change.field, field(name, change.before) or "-", field(name, change.after) or "-"
