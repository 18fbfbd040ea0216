"""The one error tree of trainstate, split by whose fault it is and whether to try again.

    TrainstateError
    ├── UsageError              the caller asked for something that makes no sense: exit code 2
    │   ├── NotAJournal         the path holds no journal
    │   ├── NotFound            no such run, attempt, position; or an ambiguous prefix
    │   └── UnsupportedFormat   a newer format than this version reads
    ├── RefusedError            our rules said no, nothing was written: do not retry unchanged
    │   ├── InvalidTransition   the event does not fit the state of its run
    │   ├── ConcurrencyError    another append came first: read again, decide again
    │   ├── Fenced              a newer writer has taken over: stop
    │   ├── EventTooLarge       an event or a chunk is over its limit
    │   └── JournalLocked       another process writes this journal: retry later
    ├── StorageError            the disk said no: the journal must be reopened
    │   └── JournalPoisoned     a write or sync failed earlier; nothing more is acknowledged
    ├── JournalCorrupt          bytes at or below the durable end are damaged
    ├── DecodeError             bytes that should be ours are not a valid message
    ├── StateUnavailable        the state actor cannot be reached
    └── ExportError             a sink
        ├── SinkRejected        the sink refuses this record for good: dead letter
        ├── SinkUnavailable     the sink cannot be reached now: retry
        └── CursorMismatch      the cursor does not belong to this journal: stop

Every error carries what is needed to act: `path`, `offset`, `run_id` where they apply, and `hint`,
a command to run or a thing to do next.
"""

from __future__ import annotations

import os
from typing import Any

__all__ = [
    "ConcurrencyError",
    "CursorMismatch",
    "DecodeError",
    "EventTooLarge",
    "ExportError",
    "Fenced",
    "InvalidTransition",
    "JournalCorrupt",
    "JournalLocked",
    "JournalPoisoned",
    "NotAJournal",
    "NotFound",
    "RefusedError",
    "SinkRejected",
    "SinkUnavailable",
    "StateUnavailable",
    "StorageError",
    "TrainstateError",
    "UnsupportedFormat",
    "UsageError",
]


class TrainstateError(Exception):
    """Base of everything trainstate raises on purpose.

    `exit_code` is what the command line ends with: 1 found a problem, 2 wrong usage.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str] | None = None,
        offset: int | None = None,
        run_id: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = None if path is None else os.fspath(path)
        self.offset = offset
        self.run_id = run_id
        self.hint = hint
        if hint is not None:
            self.add_note(f"hint: {hint}")  # what Python prints below a traceback

    def __str__(self) -> str:
        at = "" if self.path is None else f"{self.path}: "
        where = "" if self.offset is None else f" at offset {self.offset}"
        run = "" if self.run_id is None else f" (run {self.run_id})"
        return f"{at}{self.message}{where}{run}"

    def __reduce__(self) -> tuple[Any, ...]:
        # An error crosses processes by pickle, which would call a subclass with `args` alone.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[TrainstateError], args: tuple[object, ...], state: dict[str, Any]
) -> TrainstateError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(TrainstateError):
    """The request itself is wrong."""

    exit_code = 2


class NotAJournal(UsageError):
    """The path holds no journal."""


class NotFound(UsageError):
    """No such run, attempt or position, or a prefix that fits several."""


class UnsupportedFormat(UsageError):
    """Written by a newer trainstate."""


class RefusedError(TrainstateError):
    """Our rules refuse it; nothing was written."""


class InvalidTransition(RefusedError):
    """The event does not fit the state of its run."""


class ConcurrencyError(RefusedError):
    """The run is at `current`, the append expected `expected`."""

    def __init__(self, current: int, expected: int, *, run_id: str) -> None:
        super().__init__(
            f"append expected run_seq {expected}, the run is at {current}",
            run_id=run_id,
            hint="read the run again and decide again",
        )
        self.current = current
        self.expected = expected


class Fenced(RefusedError):
    """A newer writer has taken over; this one must stop."""


class EventTooLarge(RefusedError):
    """An event or a chunk is over its limit."""


class JournalLocked(RefusedError):
    """Another live process writes this journal."""


class StorageError(TrainstateError):
    """The operating system refused a read, a write or a sync."""


class JournalPoisoned(StorageError):
    """An earlier write or sync failed: this writer acknowledges nothing more."""


class JournalCorrupt(TrainstateError):
    """Bytes at or below the durable end are damaged. Nothing is truncated."""


class DecodeError(TrainstateError):
    """Bytes that should be ours are not a valid message."""


class StateUnavailable(TrainstateError):
    """The state actor cannot be reached."""


class ExportError(TrainstateError):
    """A sink failed."""


class SinkRejected(ExportError):
    """The sink refuses this record and always will."""


class SinkUnavailable(ExportError):
    """The sink cannot be reached now."""


class CursorMismatch(ExportError):
    """The cursor belongs to another journal, or to a history this one does not have."""
