"""Lines of Ray's log into a store: each exactly once, in their order; the unusable ones set aside.

Appends are handed in without waiting, so that the journal groups them; `flush` waits for all of them. A
crash between two leaves a prefix of the lines (of the last one perhaps a part of its events): the next
import finds the state they left, and goes on from there.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import orjson

from trainstate.core import Run, initial
from trainstate.core.markers import Mask
from trainstate.core.secrets import begin_of
from trainstate.core.units import NS_PER_S
from trainstate.errors import EventTooLarge, NotFound, UsageError
from trainstate.integrations.ray_export.deltas import deltas
from trainstate.integrations.ray_export.files import SourceLine
from trainstate.integrations.ray_export.lines import Line, LineRefused, masked, parse
from trainstate.store import Pending, Store
from trainstate.v1 import event_pb2 as e

_WRITER = "ray-export"


class Counts(NamedTuple):
    """What an import did, in lines."""

    imported: int
    known: int
    rejected: int
    flagged: int


# Of a line that cannot be used, this much is kept.
_TEXT_BYTES_MAX = 64 * 1024


class Rejects:
    """A file of the lines that could not be used, one JSON object each; made when the first comes.

    It is added to, never emptied, and a line that is in it is not added again. Raises UsageError for a
    file that holds something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept: list[str] = []
        self._file: BinaryIO | None = None
        self._had = _rejects_in(path)

    def add(self, line: SourceLine, why: str, mask: Mask | None = None) -> None:
        """Keeps a line, with its file, number and what is wrong with it; without its secrets."""
        name = os.fsencode(line.path).decode("utf-8", "backslashreplace")
        begin = line.raw[: 2 * _TEXT_BYTES_MAX].decode("utf-8", "backslashreplace")
        text = begin_of(begin, _TEXT_BYTES_MAX)
        if mask is not None:
            text, why = mask.text(text), mask.text(why)
        if len(self.kept) < 10:
            self.kept.append(f"{name}:{line.number}: {why}")
        kept = {"file": name, "line": line.number, "why": why, "text": text}
        if len(line.raw) > _TEXT_BYTES_MAX:
            kept["bytes"] = len(line.raw)
        self._write(orjson.dumps(kept, option=orjson.OPT_APPEND_NEWLINE))

    def _write(self, record: bytes) -> None:
        if record in self._had:
            return
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab")
        self._file.write(record)
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()


def _rejects_in(path: Path) -> set[bytes]:
    """The records of a reject file; empty if there is none. Raises UsageError for another file."""
    try:
        with path.open("rb") as file:
            records = list(file)
    except FileNotFoundError:
        return set()
    if records and not records[0].startswith(b'{"file":'):
        raise UsageError(
            "it is no reject file of an import, and stays as it is",
            path=path,
            hint="name a file that does not exist with --rejects",
        )
    return set(records)


class _Taken:
    """A run of the log: its state as the importer sees it, and the lines the journal has of it."""

    def __init__(self, run: Run, lines: Sequence[e.LineImported]) -> None:
        self.run = run
        self.opened = False
        self.known = {line.ray_event_id: line.line_crc32c for line in lines}
        # Of the lines recorded before this import: within it, the order of the file counts.
        self.newest_s = lines[-1].timestamp_s if lines else 0


class Importer:
    """Takes lines in. Use it as a context manager: what was taken is durable when it ends.

    A store that masks secrets has them masked in what makes the lines, and in the rejects.
    """

    def __init__(self, store: Store, rejects: Rejects) -> None:
        self._store = store
        self._rejects = rejects
        self._runs: dict[str, _Taken] = {}
        self._counts: Counter[str] = Counter()
        self._pending: Pending | None = None

    @property
    def counts(self) -> Counts:
        """What has been done so far."""
        return Counts(*(self._counts[name] for name in Counts._fields))

    def take(self, source: SourceLine) -> None:
        """Takes one line in, or sets it aside. It is durable after `flush`."""
        mask = self._store.masking.mask
        try:
            line = parse(source.raw)
            self._counts[self._record(masked(line, mask) if mask else line)] += 1
        except LineRefused as refused:
            self._rejects.add(source, str(refused), mask)
            self._counts["rejected"] += 1

    def flush(self) -> None:
        """Returns when everything taken is durable."""
        if self._pending is not None:
            self._pending.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._rejects.close()
        if kind is None:
            self.flush()

    def _record(self, line: Line) -> str:
        taken = self._runs.get(line.run_id) or self._take_run(line.run_id)
        known = taken.known.get(line.event_id)
        if known == line.crc:
            return "known"
        _refuse_unfit(taken, line, known)
        if not taken.opened:
            deltas(initial(line.run_id), line)  # a run is not opened for a line that is refused
            self._open(taken, line)
        before = taken.run.run_seq
        events = deltas(taken.run, line)
        self._submit(taken, before, events)
        taken.known[line.event_id] = line.crc
        self._counts["flagged"] += any(one.HasField("foreign_status_observed") for one in events)
        return "imported"

    def _submit(self, taken: _Taken, before: int, events: Sequence[e.Event]) -> None:
        run = taken.run
        try:
            self._pending = self._store.submit(run.run_id, run.incarnation, before, events)
        except EventTooLarge as error:
            # The store has taken none of the line's events, but ours is the state after them.
            del self._runs[run.run_id]
            raise LineRefused(error.message) from error

    def _take_run(self, run_id: str) -> _Taken:
        self.flush()
        try:
            run = self._store.state(run_id)
        except NotFound:
            taken = _Taken(initial(run_id), ())
        else:
            events = [one.event for one in self._store.events_of(run_id)]
            lines = [one.line_imported for one in events if one.HasField("line_imported")]
            taken = _Taken(run, lines)
        self._runs[run_id] = taken
        return taken

    def _open(self, taken: _Taken, line: Line) -> None:
        time_ns = line.timestamp_s * NS_PER_S
        opened = self._store.open_run(line.run_id, _WRITER, time_ns, foreign=True)
        taken.run = opened.state
        taken.opened = True


def _refuse_unfit(taken: _Taken, line: Line, known: int | None) -> None:
    if known is not None:
        raise LineRefused(
            f"event id {line.event_id} is known, with another content: another line, or the same one"
            " imported with --keep-secrets and without, or at another home; take another --journal"
        )
    if taken.run.run_seq and not taken.run.imported:
        raise LineRefused(f"run {line.run_id} was recorded by trainstate itself in this journal")
    if line.timestamp_s < taken.newest_s:
        raise LineRefused(
            f"it is older (timestamp {line.timestamp_s}) than the run's newest imported line "
            f"({taken.newest_s}); rotated files are imported oldest first"
        )
