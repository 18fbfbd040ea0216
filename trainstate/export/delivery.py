"""Records to a sink that may be away, and that may refuse some of them for good.

A write that failed is repeated whole, after the sink resumed at the last acknowledged mark. A batch with
a refused record is halved until the record is alone; it goes to the dead letters, the others go on.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Generic, NamedTuple, Protocol, TypeVar

from trainstate.errors import SinkRejected, SinkUnavailable, StorageError
from trainstate.export.exporter import Exporter, R
from trainstate.export.files import sync_dir, write_all
from trainstate.store import Recorded

T = TypeVar("T")


class Stop(Protocol):
    """Asks a pump to end: a threading.Event."""

    def wait(self, timeout: float, /) -> bool:
        """Waits that many seconds, or until asked; returns whether it was asked."""
        ...


class Stopped(Exception):
    """The pump was asked to end while the sink was away."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds between the tries of a write: doubling, with jitter, up to `max_s`.

    `attempts_max` is how often it is tried before the pump gives up; None: for ever.
    """

    first_s: float = 0.1
    max_s: float = 30.0
    attempts_max: int | None = 8
    random: Callable[[], float] = random.random

    def delay_s(self, attempt: int) -> float:
        """How long to wait after the given failed attempt, counted from 1."""
        # 2.0 ** 64 is far past any max_s, and an exponent without bound would overflow one day.
        full = min(self.max_s, self.first_s * 2.0 ** min(attempt - 1, 64))
        return full * (1 + self.random()) / 2


@dataclass(slots=True)
class Counters:
    """What a pump has done: records written, events without one, writes repeated, dead letters.

    `lag` is the number of events known to be in the journal and not delivered.
    """

    written: int = 0
    skipped: int = 0
    retried: int = 0
    dead: int = 0
    lag: int = 0


class Letter(NamedTuple, Generic[R]):
    """A record, and the event it is of."""

    recorded: Recorded
    record: R


class DeadLetters:
    """The file of the records a sink refused: one JSON object per line (seq, run_id, run_seq, why)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: list[bytes] = []
        self.size = 0

    def resume(self, size: int) -> None:
        """Drops what was added and never committed."""
        self._lines.clear()
        try:
            self.size = min(size, os.path.getsize(self.path))
            os.truncate(self.path, self.size)
        except FileNotFoundError:
            self.size = 0
        except OSError as error:
            raise self._cannot("cut", error) from error

    @property
    def waiting(self) -> bool:
        """Whether there are any that `flush` would write."""
        return bool(self._lines)

    def add(self, recorded: Recorded, why: str) -> None:
        """Takes one in; it is durable after `flush`."""
        seq, event = recorded
        told = {"seq": seq, "run_id": event.run_id, "run_seq": event.run_seq, "why": why}
        self._lines.append(json.dumps(told).encode() + b"\n")

    def flush(self) -> int:
        """Makes everything durable; the size of the file then. Raises StorageError."""
        if self._lines:
            data = b"".join(self._lines)
            try:
                self._append(data)
            except OSError as error:
                raise self._cannot("write", error) from error
            self._lines.clear()
            self.size += len(data)
        return self.size

    def _append(self, data: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            write_all(fd, data, self.size)
            os.fdatasync(fd)
        finally:
            os.close(fd)
        sync_dir(self.path.parent)

    def _cannot(self, doing: str, error: OSError) -> StorageError:
        return StorageError(
            f"cannot {doing} the dead letters: {error.strerror or error}",
            path=self.path,
            hint="give the disk space or permission, then run the export again",
        )


class Delivery(Generic[R]):
    """The way to one sink. `mark` is what it acknowledged last."""

    def __init__(
        self, exporter: Exporter[R], backoff: Backoff, dead: DeadLetters, counters: Counters
    ) -> None:
        self.mark: bytes | None = None
        self.stop: Stop = Event()
        self._exporter = exporter
        self._backoff = backoff
        self._dead = dead
        self._counters = counters

    def resume(self, mark: bytes | None) -> bytes:
        """Puts the sink back to `mark`; the mark to go on from. Raises what `send` does."""
        self.mark = self._until_available(lambda: self._exporter.resume(mark), lambda: None)
        return self.mark

    def send(self, letters: Sequence[Letter[R]]) -> None:
        """Returns when each is acknowledged, or a dead letter; `mark` is then the new one.

        Raises SinkUnavailable after the last attempt, Stopped if asked to stop between two.
        """
        records = [letter.record for letter in letters]
        try:
            self.mark = self._until_available(lambda: self._exporter.write(records), self._clean)
            self._counters.written += len(letters)
        except SinkRejected as refused:
            self.resume(self.mark)
            if len(letters) == 1:
                self.bury(letters[0].recorded, refused)
                return
            half = len(letters) // 2
            self.send(letters[:half])
            self.send(letters[half:])

    def bury(self, recorded: Recorded, error: Exception) -> None:
        """Sets an event aside for good."""
        self._dead.add(recorded, f"{type(error).__name__}: {error}")
        self._counters.dead += 1

    def _clean(self) -> None:
        """Drops what a write that failed has left."""
        self.mark = self._exporter.resume(self.mark)

    def _until_available(self, action: Callable[[], T], before_repeat: Callable[[], None]) -> T:
        attempt = 0
        while True:
            try:
                if attempt:
                    before_repeat()
                return action()
            except SinkUnavailable:
                attempt += 1
                if attempt == self._backoff.attempts_max:
                    raise
            self._counters.retried += 1
            self._pause(self._backoff.delay_s(attempt))

    def _pause(self, delay_s: float) -> None:
        if self.stop.wait(delay_s):
            raise Stopped
