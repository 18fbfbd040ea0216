"""Journals of fixed-size entries, and what is in them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trainstate.errors import TrainstateError
from trainstate.journal import Chunk, Frame, Reader, Writer

ENTRY = 8  # bytes of each entry, so that a grouped body can be taken apart again


def chunk(number: int, stream: int = 1, time_ns: int | None = None, count: int = 1) -> Chunk:
    """Entries that say `number`, `number + 1`, ..."""
    body = b"".join(b"%08d" % n for n in range(number, number + count))
    at = number if time_ns is None else time_ns
    return Chunk(body, count, (stream,), at, at)


def numbers(frames: Iterable[Frame]) -> list[int]:
    """What the entries of frames say."""
    return [
        int(frame.body[at : at + ENTRY])
        for frame in frames
        for at in range(0, len(frame.body), ENTRY)
    ]


def fill(path: Path, count: int, first: int = 1, segment_bytes_max: int = 1 << 16) -> None:
    """Open, append `count` entries that say their seq, a frame each, and close."""
    with Writer.open(path, segment_bytes_max=segment_bytes_max) as writer:
        for number in range(first, first + count):
            assert number == writer.append(chunk(number))


def stop_dead(writer: Writer) -> None:
    """What a kill does: the files are let go of, and nothing is written."""
    writer._group.fail(TrainstateError("killed"))
    writer.close()


def crashed(path: Path, count: int, segment_bytes_max: int = 1 << 12) -> Path:
    """A journal of `count` entries whose writer was killed; returns its last segment."""
    writer = Writer.open(path, segment_bytes_max=segment_bytes_max)
    for number in range(1, count + 1):
        writer.append(chunk(number))
    stop_dead(writer)
    return segments(path)[-1]


def segments(path: Path) -> list[Path]:
    return sorted((path / "seg").glob("*.seg"))


def frames(path: Path) -> list[Frame]:
    return list(Reader(path).frames())


def read(path: Path) -> list[int]:
    """What all entries of a journal say."""
    return numbers(Reader(path).frames())


def flip(path: Path, offset: int, bit: int = 0) -> None:
    """Flip one bit of a file, in place: a file written anew is flushed on some file systems."""
    with path.open("r+b", buffering=0) as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))
