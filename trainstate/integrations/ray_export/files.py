"""Log files as lines: rotated ones oldest first, a growing one for as long as it grows."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

# An attempt of 4,096 workers is a line of 2 MB; what is longer than this is no line of Ray's.
LINE_BYTES_MAX = 64 * 1024 * 1024
# How often a growing file is looked at.
_POLL_S = 0.2


class SourceLine(NamedTuple):
    """A line without its end, where it stands, and the offset behind it."""

    path: Path
    number: int
    raw: bytes
    end: int


def siblings(path: Path) -> list[Path]:
    """The rotated files of a log, oldest first, then the log itself: `.2`, `.1`, and the plain name."""
    pattern = re.compile(re.escape(path.name) + r"\.(\d+)")
    found = [
        (int(match[1]), path.with_name(name))
        for name in os.listdir(path.parent)
        if (match := pattern.fullmatch(name))
    ]
    return [older for _, older in sorted(found, reverse=True)] + [path]


def read(path: Path) -> Iterator[SourceLine]:
    """The lines of a file as it is now; one cut off at the end of the file is given as it stands."""
    with path.open("rb") as file:
        reader = _Lines(path, file)
        yield from reader.whole()
        yield from reader.rest()


def follow(path: Path, stop: threading.Event) -> Iterator[SourceLine | None]:
    """The lines of a file as they are written, across rotations, until `stop` is set.

    None says that there is nothing new now. A line is given when its end is there.
    """
    file: BinaryIO = path.open("rb")
    while True:
        with file:
            yield from _until_rotated(path, file, stop)
            if stop.is_set():
                return
            while (following := _successor(path, file)) is None:
                if stop.wait(_POLL_S):
                    return
        file = following


def _until_rotated(
    path: Path, file: BinaryIO, stop: threading.Event
) -> Iterator[SourceLine | None]:
    reader = _Lines(path, file)
    while not stop.is_set():
        yield from reader.whole()
        if _was_rotated(path, file):
            # Written between our last read and the rename.
            yield from reader.whole()
            yield from reader.rest()
            return
        yield None
        stop.wait(_POLL_S)


def _was_rotated(path: Path, file: BinaryIO) -> bool:
    """Whether another file stands at the path now, or this one was cut."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False  # between two renames: the next look will tell
    ours = os.fstat(file.fileno())
    return not os.path.samestat(there, ours) or there.st_size < file.tell()


def _successor(path: Path, file: BinaryIO) -> BinaryIO | None:
    """Opens the file of the log that comes after `file`; that one again if it was cut.

    Between two looks a log may rotate more than once, so that is not always the one at `path`. None if
    it rotates this very moment.
    """
    ours = os.fstat(file.fileno())
    following = None
    try:
        for one in reversed(siblings(path)):
            found = one.stat()
            if os.path.samestat(found, ours):
                following = following or (one, found)
                break
            following = (one, found)
        assert following is not None  # the log itself is the last of its siblings
        opened = following[0].open("rb")
    except FileNotFoundError:
        return None
    if os.path.samestat(os.fstat(opened.fileno()), following[1]):
        return opened
    opened.close()
    return None


class _Lines:
    """The lines of one open file."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._number = 0

    def whole(self) -> Iterator[SourceLine]:
        """Lines that have their end; the file is left at the start of one that has not."""
        while line := self._file.readline(LINE_BYTES_MAX):
            if not line.endswith(b"\n") and len(line) < LINE_BYTES_MAX:
                self._file.seek(-len(line), os.SEEK_CUR)
                return
            yield from self._line(line)

    def rest(self) -> Iterator[SourceLine]:
        """What follows the last line end."""
        while line := self._file.readline(LINE_BYTES_MAX):
            yield from self._line(line)

    def _line(self, line: bytes) -> Iterator[SourceLine]:
        self._number += 1
        raw = line.rstrip(b"\r\n")
        if raw:
            yield SourceLine(self._path, self._number, raw, self._file.tell())
