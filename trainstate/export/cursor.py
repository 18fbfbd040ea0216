"""How far a journal has been exported to one target, durably.

    cursor/<exporter>-<digest of target>.cursor        one line of JSON, and a line with its CRC-32C
    cursor/<exporter>-<digest of target>.cursor.lock   held by the one pump that uses it

What a pump that was killed leaves, and what the next one sees, is in the crash table of ARCHITECTURE.md.

A cursor is bound to its journal by uuid and by the chain value at its position: a journal put back from
an older backup, or written anew, is noticed, and nothing is sent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, Self

import google_crc32c

from trainstate.errors import CursorMismatch, DecodeError, StorageError, UnsupportedFormat
from trainstate.export.files import lock, sync_dir
from trainstate.journal import replace_file
from trainstate.store import History

_FORMAT = 1
_SUFFIX = ".cursor"


@dataclass(frozen=True, slots=True)
class Cursor:
    """Everything below `next_seq` is delivered or dead.

    `epoch` and `chain` are those of the frame that holds the entry before `next_seq` (0 at the start).
    `in_flight` is the range (first and last seq) that was being sent, from `next_seq` on. `mark` is the
    sink's (None: it was never asked). `needs_seq` is the oldest event without which the state of the
    runs that were open here cannot be folded again: retention keeps from there on. `dead_bytes` is how
    much of the dead letter file is committed.
    """

    journal: str
    exporter: str
    target: str
    next_seq: int
    needs_seq: int
    epoch: int = 0
    chain: int = 0
    in_flight: tuple[int, int] | None = None
    mark: bytes | None = None
    dead_bytes: int = 0

    def encode(self) -> bytes:
        """The bytes of the cursor file."""
        mark = None if self.mark is None else self.mark.hex()
        text = json.dumps({"format": _FORMAT, **asdict(self), "mark": mark}).encode() + b"\n"
        return text + _crc_line(text)

    @classmethod
    def decode(cls, data: bytes, path: Path) -> Self:
        """Reads a cursor file. Raises DecodeError for a damaged one, UnsupportedFormat for a newer."""
        text, end, crc = data.partition(b"\n")
        if crc != _crc_line(text + end):
            raise _damaged(path)
        try:
            fields: dict[str, Any] = json.loads(text)
            version = fields.pop("format")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _damaged(path) from error
        if version != _FORMAT:
            raise UnsupportedFormat(
                "a newer trainstate wrote this cursor", path=path, hint="upgrade trainstate"
            )
        try:
            return cls._of(fields)
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path) from error

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Self:
        if fields["mark"] is not None:
            fields["mark"] = bytes.fromhex(fields["mark"])
        if fields["in_flight"] is not None:
            first, last = fields["in_flight"]
            fields["in_flight"] = (first, last)
        return cls(**fields)


def _crc_line(text: bytes) -> bytes:
    return f"crc32c {google_crc32c.value(text):08x}\n".encode()


def _damaged(path: Path) -> DecodeError:
    return DecodeError(
        "the cursor is damaged, so nothing says what was exported",
        path=path,
        hint="remove it, and the target or its name, to export again from the beginning",
    )


class CursorStore(Protocol):
    """Where a pump keeps its cursor."""

    def load(self) -> Cursor | None:
        """The cursor saved last, or None."""
        ...

    def save(self, cursor: Cursor) -> None:
        """Returns when the cursor is durable."""
        ...

    def close(self) -> None:
        """Lets go of it."""
        ...


class MemoryCursor:
    """For a target that does not outlive the pump: standard output."""

    def __init__(self) -> None:
        self._cursor: Cursor | None = None

    def load(self) -> Cursor | None:
        """The cursor saved last, or None."""
        return self._cursor

    def save(self, cursor: Cursor) -> None:
        """Keeps it in memory."""
        self._cursor = cursor

    def close(self) -> None:
        """Nothing to let go of."""


class CursorFile:
    """A cursor in a file, held by one pump at a time.

    Raises RefusedError while another holds it, StorageError if it cannot be kept there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _storage_errors(path, "open"):
            if not path.parent.is_dir():
                path.parent.mkdir(parents=True)
                sync_dir(path.parent.parent)
            beside = path.with_name(path.name + ".lock")
            self._lock = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        lock(self._lock, path)

    def load(self) -> Cursor | None:
        """The cursor saved last, or None. Raises DecodeError for a damaged one."""
        return load_cursor(self.path)

    def save(self, cursor: Cursor) -> None:
        """Returns when the cursor is durable. Raises StorageError."""
        with _storage_errors(self.path, "save"):
            replace_file(self.path, cursor.encode())

    def close(self) -> None:
        """Lets another pump have it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def cursor_path(journal: Path, exporter: str, target: str) -> Path:
    """Where a journal keeps the cursor of an exporter and its target."""
    digest = blake2b(os.fsencode(target), digest_size=8).hexdigest()
    return journal / "cursor" / f"{exporter}-{digest}{_SUFFIX}"


def load_cursor(path: Path) -> Cursor | None:
    """The cursor at `path`, or None. Raises DecodeError, UnsupportedFormat, StorageError."""
    with _storage_errors(path, "read"):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
    return Cursor.decode(data, path)


def pins(journal: Path) -> dict[str, int]:
    """What the cursors of a journal keep retention from: who -> the oldest seq it still needs.

    A cursor kept outside the journal is not among them. Raises DecodeError for a damaged one.
    """
    found = {}
    for path in sorted((journal / "cursor").glob(f"*{_SUFFIX}")):
        cursor = load_cursor(path)
        if cursor is not None:
            found[f"export {cursor.exporter} to {cursor.target}"] = cursor.needs_seq
    return found


def journal_id(history: History) -> str:
    """What a cursor calls its journal: the uuid in hex."""
    return history.uuid.hex()


def require_fit(cursor: Cursor, history: History, exporter: str, target: str) -> None:
    """Raises CursorMismatch unless the cursor is one of this journal, exporter and target."""
    told = (cursor.journal, cursor.exporter, cursor.target)
    if told != (journal_id(history), exporter, target):
        raise _mismatch(
            history,
            f"the cursor is of journal {told[0]}, {told[1]} to {told[2]}; "
            f"this is {journal_id(history)}, {exporter} to {target}",
        )
    _require_position(cursor, history)


def _require_position(cursor: Cursor, history: History) -> None:
    first, end = history.first_seq, history.end.next_seq
    if cursor.next_seq < first:
        raise CursorMismatch(
            f"events {cursor.next_seq} to {first - 1} were never exported to {cursor.target} "
            f"and are gone: history begins at {first}",
            path=history.path,
            hint="remove the cursor to export what is left to an empty target",
        )
    last = cursor.in_flight[1] if cursor.in_flight else cursor.next_seq - 1
    if last >= end:
        raise _mismatch(history, f"the cursor knows event {last}, the journal ends before {end}")
    before = cursor.next_seq - 1
    if before >= first and chain_at(history, before) != (cursor.epoch, cursor.chain):
        raise _mismatch(history, f"event {before} is not the one that was exported as {before}")


def chain_at(history: History, seq: int) -> tuple[int, int]:
    """Epoch and chain value of the frame that holds an event of the journal."""
    tail = history.tail(seq)
    try:
        frame = next(frame for frame in tail.read(0) if frame.next_seq > seq)
    finally:
        tail.close()
    return frame.epoch, frame.chain


def _mismatch(history: History, what: str) -> CursorMismatch:
    return CursorMismatch(
        f"{what}; nothing was sent",
        path=history.path,
        hint="use the journal and target of that cursor, or another --cursor for another export",
    )


@contextmanager
def _storage_errors(path: Path, doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot {doing} the cursor: {error.strerror or error}",
            path=path,
            hint="if the journal cannot be written, name a place for the cursor with --cursor PATH",
        ) from error
