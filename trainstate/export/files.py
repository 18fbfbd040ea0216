"""Durable files: for cursors and dead letters, and for sinks that are files.

Durable means fdatasync returned, and for a name, that its folder was synced too. A failed sync is never
repeated as such: `AppendFile.cut` drops what it covered and it is written again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Self

from trainstate.errors import CursorMismatch, RefusedError, SinkUnavailable
from trainstate.journal import OS, closed_on_failure

# How much of the end of a file tells it apart from another of the same length.
_TAIL_BYTES = 4096


@contextmanager
def sink_errors(path: Path, doing: str) -> Iterator[None]:
    """Maps what the operating system raises to SinkUnavailable: a disk has space again some day."""
    try:
        yield
    except OSError as error:
        raise SinkUnavailable(
            f"cannot {doing}: {error.strerror or error}",
            path=path,
            hint=f"check that {path.parent} exists, may be written and has space; then run it again",
        ) from error


def sync_dir(path: Path) -> None:
    """Makes the names in a folder durable. Raises OSError."""
    OS.sync_dir(path)


def write_all(fd: int, data: bytes, offset: int) -> None:
    """Writes all of `data` at `offset`. Raises OSError."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


def lock(fd: int, path: Path) -> None:
    """Holds an open file or folder for this process, until `fd` is closed.

    Raises RefusedError if another holds it; `fd` is then closed.
    """
    with closed_on_failure(os.close, fd):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RefusedError(
                "another export is writing here",
                path=path,
                hint="wait for it, stop it, or export to another target",
            ) from error


class FileMark(NamedTuple):
    """How far a file is acknowledged: its size then, and a digest of its last bytes."""

    size: int
    tail: str

    def encode(self) -> bytes:
        """The mark as the cursor keeps it."""
        return json.dumps(self._asdict()).encode()

    @classmethod
    def decode(cls, mark: bytes, path: Path) -> Self:
        """Reads a mark. Raises CursorMismatch for one that is not of a file."""
        try:
            return cls(**json.loads(mark))
        except (TypeError, ValueError) as error:
            raise CursorMismatch(f"{mark!r} is no mark of a file", path=path) from error


class AppendFile:
    """A file that grows, locked by its one writer.

    Raises SinkUnavailable if it cannot be opened or written, RefusedError if another export holds it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with sink_errors(path, "open it"):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        lock(self._fd, path)
        with closed_on_failure(self.close), sink_errors(path, "make it"):
            sync_dir(path.parent)
            self.size = os.fstat(self._fd).st_size

    def mark(self) -> FileMark:
        """Where the file ends now."""
        return FileMark(self.size, self._tail(self.size))

    def holds(self, mark: FileMark) -> bool:
        """Whether the file begins with what it held at `mark`, as far as its last bytes tell."""
        return self.size >= mark.size and self._tail(mark.size) == mark.tail

    def cut(self, mark: FileMark) -> None:
        """Drops what lies behind `mark`, durably."""
        with sink_errors(self.path, "cut it"):
            os.ftruncate(self._fd, mark.size)
            os.fdatasync(self._fd)
        self.size = mark.size

    def append(self, data: bytes) -> None:
        """Appends `data`, durably.

        Raises CursorMismatch if the file has been removed or replaced since it was opened.
        """
        with sink_errors(self.path, "write it"):
            self._require_in_place()
            write_all(self._fd, data, self.size)
            os.fdatasync(self._fd)
        self.size += len(data)

    def close(self) -> None:
        """Lets go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _require_in_place(self) -> None:
        try:
            if os.path.samestat(os.stat(self.path), os.fstat(self._fd)):
                return
        except FileNotFoundError:
            pass
        raise CursorMismatch(
            "it was moved or removed while it was written to",
            path=self.path,
            hint="put it back, or remove the cursor and export to an empty target",
        )

    def _tail(self, end: int) -> str:
        start = max(0, end - _TAIL_BYTES)
        with sink_errors(self.path, "read its end"):
            data = os.pread(self._fd, end - start, start)
        return blake2b(data, digest_size=8).hexdigest()


def resume_file(file: AppendFile, mark: bytes | None) -> bytes:
    """`Exporter.resume` for a sink that is one file."""
    if mark is None:
        require_empty(file.path, file.size)
        return file.mark().encode()
    acknowledged = FileMark.decode(mark, file.path)
    if not file.holds(acknowledged):
        raise lost(file.path)
    file.cut(acknowledged)
    return mark


def require_empty(path: Path, size: int) -> None:
    """Raises RefusedError for a file that holds something although nothing was ever exported to it."""
    if size:
        raise RefusedError(
            f"it holds {size} bytes that no cursor accounts for",
            path=path,
            hint="export to another target, or move this one out of the way",
        )


def lost(path: Path) -> CursorMismatch:
    """The error for a sink that holds less than was acknowledged."""
    return CursorMismatch(
        "it does not hold what was exported to it: it was cut, changed or replaced",
        path=path,
        hint="put it back; or remove it and its cursor to export from the beginning",
    )
