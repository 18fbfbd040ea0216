"""Exporters that are wrong in one way each; the contract must find it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trainstate_exporters.jsonl import JsonLines

from trainstate.core.model import Run
from trainstate.export import Guarantee, Recorded
from trainstate.export.files import AppendFile, FileMark

OUT = "out.jsonl"


def read_lines(folder: Path) -> list[bytes]:
    """What a JSON Lines sink in that folder holds."""
    path = folder / OUT
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


def tear_line(folder: Path) -> None:
    """The process ended in the middle of a write."""
    with (folder / OUT).open("ab") as file:
        file.write(b'{"seq": 1, "run_id": "torn')


class AcknowledgesBeforeWriting(JsonLines):
    """Holds the records back until the next write, or close."""

    _held: Sequence[bytes] = ()

    def write(self, records: Sequence[bytes]) -> bytes:
        held, self._held = self._held, records
        return super().write(held)

    def close(self) -> None:
        if self._held:
            super().write(self._held)
            self._held = ()
        super().close()


class KeepsWhatWasNotAcknowledged(JsonLines):
    """Resumes without cutting."""

    def resume(self, mark: bytes | None) -> bytes:
        return b"" if mark is not None else super().resume(None)


class CutsAtTheLastLineEnd(JsonLines):
    """Takes every whole line for acknowledged."""

    def resume(self, mark: bytes | None) -> bytes:
        file = self._sink
        assert isinstance(file, AppendFile)
        whole = file.path.read_bytes().rfind(b"\n") + 1
        file.cut(FileMark(whole, ""))
        return b""


class Reorders(JsonLines):
    """Writes the last record of a batch first."""

    def write(self, records: Sequence[bytes]) -> bytes:
        return super().write(list(reversed(records)))


class SkipsTheFirstAfterResume(JsonLines):
    """Takes the record after the mark for the one before it."""

    _resumed = False

    def resume(self, mark: bytes | None) -> bytes:
        self._resumed = mark is not None
        return super().resume(mark)

    def write(self, records: Sequence[bytes]) -> bytes:
        skip, self._resumed = self._resumed, False
        return super().write(records[1:] if skip else records)


class CountsInEncode(JsonLines):
    """Numbers its records as it encodes them, so that one sent again has another number."""

    _count = 0

    def encode(self, recorded: Recorded, run: Run) -> bytes:
        self._count += 1
        return json.dumps(self._count).encode() + b"\n"


class ChangesTheRun(JsonLines):
    """Marks in the state what it has seen."""

    def encode(self, recorded: Recorded, run: Run) -> bytes:
        run.reports += 1
        return super().encode(recorded, run)


class FillsTwice(JsonLines):
    """Takes whatever the file holds for its own."""

    def resume(self, mark: bytes | None) -> bytes:
        if mark is not None:
            return super().resume(mark)
        assert isinstance(self._sink, AppendFile)
        return self._sink.mark().encode()


class WritesOnOpening(JsonLines):
    """Begins a file with a header each time."""

    def __init__(self, target: str, sink) -> None:  # type: ignore[no-untyped-def]
        super().__init__(target, sink)
        sink.append(b"# header\n")


class ClosesOnce(JsonLines):
    """Fails when it is closed again."""

    _closed = False

    def close(self) -> None:
        assert not self._closed, "closed twice"
        self._closed = True
        super().close()


def opening(kind: type[JsonLines]) -> Callable[[Path], JsonLines]:
    """Opens an exporter of that kind in a folder."""
    return lambda folder: kind.open(str(folder / OUT))


def at_least_once(folder: Path) -> JsonLines:
    """What does not cut, and promises no more."""
    exporter = KeepsWhatWasNotAcknowledged.open(str(folder / OUT))
    exporter.guarantee = Guarantee.AT_LEAST_ONCE
    return exporter


# Which promise each breaks.
BROKEN: Mapping[type[JsonLines], str] = {
    AcknowledgesBeforeWriting: "write returns when the sink holds the records",
    KeepsWhatWasNotAcknowledged: "a kill at any step loses nothing",
    CutsAtTheLastLineEnd: "a kill at any step loses nothing",
    Reorders: "records arrive in order",
    SkipsTheFirstAfterResume: "the next pump goes on where the last one ended",
    CountsInEncode: "encode is pure",
    ChangesTheRun: "encode is pure",
    FillsTwice: "an exactly-once sink refuses to be filled twice",
    WritesOnOpening: "an empty journal",
    ClosesOnce: "close may be called twice",
}
