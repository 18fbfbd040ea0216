"""`trainstate stats`: what a journal holds, counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from trainstate.cli import _render
from trainstate.cli._options import journal_option, json_option
from trainstate.cli._text import between, moment, payload_word, size
from trainstate.cli._where import open_root
from trainstate.core import RunStatus
from trainstate.core.views.event_json import UNKNOWN_KIND
from trainstate.journal import Frame, Reader
from trainstate.store import History, Recorded
from trainstate.store.events import recorded


class Tally:
    """Counts frames, events and runs as they go by."""

    def __init__(self) -> None:
        self.entries = self.frames = self.frame_bytes = self.body_bytes = 0
        self.events: Counter[str] = Counter()
        self.runs: Counter[str] = Counter()
        self.segments: set[Path] = set()
        self.times_ns: list[int] = []

    def add_frame(self, frame: Frame) -> None:
        """Counts a frame; a closing one holds no entries."""
        self.frames += 1
        self.frame_bytes += frame.end - frame.offset
        self.body_bytes += len(frame.body)
        self.segments.add(frame.segment)
        if frame.count:
            times = (*self.times_ns, frame.time_min, frame.time_max)
            self.times_ns = [min(times), max(times)]

    def add_event(self, one: Recorded) -> None:
        """Counts an event by its kind."""
        self.entries += 1
        self.events[one.event.WhichOneof("payload") or UNKNOWN_KIND] += 1

    def plain(self) -> dict[str, Any]:
        """All of it, as JSON."""
        first_ns, last_ns = self.times_ns or (0, 0)
        return {
            "entries": self.entries,
            "frames": self.frames,
            "segments": len(self.segments),
            "frame_bytes": self.frame_bytes,
            "event_bytes_mean": self.body_bytes / max(1, self.entries),
            "entries_per_frame": self.entries / max(1, self.frames),
            "first_time_ns": first_ns,
            "last_time_ns": last_ns,
            "events": dict(self.events.most_common()),
            "runs": dict(self.runs.most_common()),
        }


@click.command()
@journal_option
@json_option
def stats(journal: Path | None, as_json: bool) -> None:
    """Count what a journal holds.

    Entries, frames, segments and bytes; events of each kind, runs of each status, and from when to
    when. Every event is read.
    """
    root = open_root(journal)
    tally = Tally()
    with _render.progress("counting") as advance:
        for history in root.journals:
            _count(history, tally, advance)
    document = {"journals": [str(one.path) for one in root.journals], **tally.plain()}
    if as_json:
        _render.emit(document)
    else:
        _show(document)


def _count(history: History, tally: Tally, advance: _render.Advance) -> None:
    fold = history.empty_fold()
    for frame in Reader(history.path).frames(history.first_seq):
        tally.add_frame(frame)
        for one in recorded((frame,)):
            tally.add_event(one)
            fold.apply(one)
            advance(one.seq)
    tally.runs.update(RunStatus(summary.status).name for summary in fold.summaries())


def _show(found: dict[str, Any]) -> None:
    _render.facts(
        [
            *(("journal", path) for path in found["journals"]),
            ("entries", f"{found['entries']:,}"),
            ("frames", f"{found['frames']:,} of {found['entries_per_frame']:.1f} entries"),
            ("segments", f"{found['segments']:,}"),
            ("size", f"{size(found['frame_bytes'])}, {found['event_bytes_mean']:.0f} B per event"),
            ("from", moment(found["first_time_ns"])),
            ("to", moment(found["last_time_ns"])),
            ("that is", between(found["first_time_ns"], found["last_time_ns"])),
        ]
    )
    kinds = [(payload_word(kind), f"{number:,}") for kind, number in found["events"].items()]
    if kinds:
        _render.table(("event", ">count"), kinds, "events")
        _render.table(("status", ">count"), [*found["runs"].items()], "runs")
