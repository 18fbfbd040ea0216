"""`trainstate verify`: whether every byte of a journal is what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trainstate.cli import _render
from trainstate.cli._options import journal_option, json_option, place_argument
from trainstate.cli._text import count, size
from trainstate.cli._where import journal_paths
from trainstate.errors import JournalCorrupt
from trainstate.journal import Damage, Report
from trainstate.journal import verify as check


@click.command()
@place_argument
@journal_option
@json_option
def verify(place: Path | None, journal: Path | None, as_json: bool) -> None:
    """Check every byte of a journal.

    Or of all journals under one root. Damage is named by segment, offset and seq range, with the
    command to run next; the exit code is then 1. A torn tail is no damage: nothing acknowledged is
    missing.
    """
    with _render.progress("verifying", every=64) as advance:
        reports = [check(path, advance) for path in journal_paths(place or journal)]
    if as_json:
        _render.emit({"journals": [plain_report(report) for report in reports]})
    else:
        for report in reports:
            show_report(report)
    for report in reports:
        require_sound(report)


def require_sound(report: Report) -> None:
    """Raises JournalCorrupt, with the command to run next, for a report of damage."""
    if not report.ok:
        raise JournalCorrupt(
            f"the journal is damaged in {count(len(report.damages), 'place')}",
            path=report.path,
            hint=f"trainstate repair --journal {report.path}",
        )


def show_report(report: Report) -> None:
    """Prints what verifying found, for a person."""
    sound = ("sound", "green") if report.ok else ("damaged", "red")
    _render.line(f"{report.path}: ", sound)
    parts = [(report.segments, "segment"), (report.frames, "frame"), (report.entries, "entry")]
    held = ", ".join(_counted(number, noun) for number, noun in parts)
    _render.say(f"  {held}, {size(report.bytes)}")
    for damage in report.damages:
        _render.say(f"  {_told(damage)}")
    if report.tear is not None:
        tear = report.tear
        _render.say(
            f"  torn tail: segment {tear.segment}, offset {tear.offset}: {tear.reason};"
            " nothing acknowledged is missing, and the next writer sets the bytes aside"
        )
    for problem in report.index_problems:
        _render.say(f"  index {problem}; it is disposable, and readers do without it")
    for stray in report.strays:
        _render.say(f"  segment {stray} belongs to no history: a fenced writer left it")


def _counted(number: int, noun: str) -> str:
    return count(number, noun).replace("entrys", "entries")


def _told(damage: Damage) -> str:
    return (
        f"damage: segment {damage.path.name}, offset {damage.offset}, {_lost(damage)}: {damage.why}"
    )


def _nothing(damage: Damage) -> bool:
    """Whether only a closing frame is damaged: the range of lost entries is empty."""
    first, last = damage.first_seq_lost, damage.last_seq_lost
    return first is not None and last is not None and last < first


def _lost(damage: Damage) -> str:
    if damage.first_seq_lost is None or _nothing(damage):
        return "no seq lost"
    if damage.last_seq_lost is None:
        return f"seq {damage.first_seq_lost} and whatever followed lost"
    return f"seq {damage.first_seq_lost}-{damage.last_seq_lost} lost"


def plain_report(report: Report) -> dict[str, Any]:
    """What verifying found, for a program."""
    tear = report.tear
    return {
        "path": str(report.path),
        "ok": report.ok,
        "segments": report.segments,
        "frames": report.frames,
        "entries": report.entries,
        "bytes": report.bytes,
        "next_seq": report.end.next_seq if report.end else None,
        "damages": [{**damage._asdict(), "path": str(damage.path)} for damage in report.damages],
        "tear": None if tear is None else {**tear._asdict(), "segment": str(tear.segment)},
        "index_problems": report.index_problems,
        "strays": [str(stray) for stray in report.strays],
        "durable_lag": report.durable_lag,
    }
