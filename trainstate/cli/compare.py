"""`trainstate compare`: two runs side by side, by default only where they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import click

from trainstate.cli import _render
from trainstate.cli._options import journal_option, json_option
from trainstate.cli._settings import (
    command_line,
    exact,
    flat,
    node_type,
    provenance_of,
    settings_of,
    shown,
    versions_of,
)
from trainstate.cli._text import count, duration, headline, word
from trainstate.cli._where import open_root
from trainstate.core import Budget, Run
from trainstate.core.values import from_map
from trainstate.core.views.goodput import goodput
from trainstate.store import Root
from trainstate.v1 import state_pb2 as s

_CODE = ("git_commit", "git_dirty", "entrypoint", "argv", "working_directory", "seed")
_ENVIRONMENT = ("python_version", "operating_system", "image", "runtime_env_hash", "node_types")
# Sections in which a text is never taken for a number.
_TEXTS = frozenset({"code", "versions", "environment"})
# What a person reads in the place of the value.
_WRITTEN: Mapping[str, Callable[[Any], str]] = {
    "duration_ns": duration,
    "goodput": lambda share: f"{share:.1%}",
    "argv": command_line,
    "node_types": lambda types: "; ".join(map(node_type, types)),
}


class _Absent(Enum):
    """That a run has no such field, which is not the same as None."""

    ABSENT = "-"


ABSENT = _Absent.ABSENT


class Side(NamedTuple):
    """One of the runs: where it is, and its fields by section."""

    journal: Path
    run: Run
    sections: Mapping[str, Mapping[str, Any]]


class Row(NamedTuple):
    """A field of both runs; ABSENT in the one that lacks it."""

    field: str
    first: Any
    second: Any

    @property
    def equal(self) -> bool:
        """Whether both are the same; 1 is not 1.0, and NaN is NaN."""
        return _exactly(self.first) == _exactly(self.second)


@click.command()
@click.argument("first", metavar="RUN")
@click.argument("second", metavar="RUN")
@click.option("--all", "every", is_flag=True, help="Show what is equal too.")
@journal_option
@json_option
def compare(first: str, second: str, every: bool, journal: Path | None, as_json: bool) -> None:
    """Put two runs side by side.

    How they ended, their code, versions and environment, and what was asked for in the trainer's own
    arguments: where they differ, or all of it. Equal secrets have equal markers. The exit code is 0
    whether they differ or not.
    """
    root = open_root(journal)
    one, other = _side(root, first), _side(root, second)
    found = {name: list(_rows(one.sections[name], other.sections[name])) for name in one.sections}
    if as_json:
        documents = {name: [_plain(row) for row in rows] for name, rows in found.items()}
        _render.emit({"runs": [_plain_side(one), _plain_side(other)], **documents})
    else:
        _show((one, other), found, every)


def _side(root: Root, prefix: str) -> Side:
    found = root.find(prefix)
    run = found.history.run(found.run_id)
    with _render.progress("reading") as advance:
        events = _render.watched(found.history.events_of(found.run_id), advance)
        spent = goodput(one.event for one in events)
    provenance = provenance_of(run)
    share = spent.buckets["productive"] / spent.wall_ns if spent.wall_ns else None
    sections = {
        "outcome": dict(_outcome(run, share)),
        "code": _some(provenance, _CODE),
        "versions": versions_of(run),
        "environment": _some(provenance, _ENVIRONMENT),
        "settings": dict(flat(settings_of(run))),
    }
    return Side(found.history.path, run, sections)


def _outcome(run: Run, share: float | None) -> Iterator[tuple[str, Any]]:
    yield "status", run.status.name
    if run.cause:
        yield "cause", word(run.cause)
    if run.status_reason:
        yield "why", headline(run.status_reason)
    if run.error is not None:
        yield "error", headline(f"{run.error.type}: {run.error.message}")
    if run.start_time_ns:
        yield "duration_ns", (run.end_time_ns or run.time_ns) - run.start_time_ns
    yield "attempts", len(run.attempts)
    for budget in filter(None, Budget):
        use = run.budgets.get(budget)
        yield f"restarts.{word(budget)}", use.total if use else 0
    yield "reports", run.reports
    yield "checkpoints", run.checkpoints_committed
    if run.attempt is not None:
        yield "workers", run.attempt.num_workers
    if share is not None:
        yield "goodput", share
    yield from flat(from_map(s.ValueMap.FromString(run.last_metrics)), "metrics")


def _some(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def _rows(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Row]:
    for field in dict.fromkeys([*first, *second]):
        yield Row(field, first.get(field, ABSENT), second.get(field, ABSENT))


def _exactly(value: Any) -> object:
    return value if value is ABSENT else shown(value)


def _plain(row: Row) -> dict[str, Any]:
    first, second = (None if one is ABSENT else exact(one) for one in (row.first, row.second))
    return {"field": row.field, "first": first, "second": second, "equal": row.equal}


def _plain_side(side: Side) -> dict[str, str]:
    return {"run_id": side.run.run_id, "name": side.run.name, "journal": str(side.journal)}


def _show(sides: tuple[Side, Side], found: Mapping[str, list[Row]], every: bool) -> None:
    first, second = ((side.run.run_id, side.run.name, side.journal) for side in sides)
    _render.table(("", "run", "name", "journal"), [("first", *first), ("second", *second)])
    for section, rows in found.items():
        wanted = [_cells(section, row, every) for row in rows if every or not row.equal]
        if wanted:
            _render.table(("field", "first", "second", ""), wanted, section, "fold")
    _render.line("\n" + _summary([row.equal for rows in found.values() for row in rows], every))


def _summary(equal: list[bool], every: bool) -> str:
    if every:
        return f"equal: {sum(equal):,} of {count(len(equal), 'field')}"
    nothing = "nothing differs; " if all(equal) else ""
    return f"{nothing}equal: {count(sum(equal), 'field')} (--all shows them)"


def _cells(section: str, row: Row, every: bool) -> tuple[str, ...]:
    mark = "differs" if every and not row.equal else ""
    first, second = (_written(section, row.field, one) for one in (row.first, row.second))
    return row.field, first, second, mark


def _written(section: str, field: str, value: Any) -> str:
    if value is ABSENT:
        return "-"
    if isinstance(value, str) and section in _TEXTS:
        return value
    return _WRITTEN.get(field, shown)(value)
