"""One passage over a journal, from the cursor on. Thrown away after an error: the cursor says it all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Generic, NamedTuple

from trainstate.core import Run
from trainstate.export.cursor import Cursor, CursorStore, chain_at, journal_id, require_fit
from trainstate.export.delivery import Counters, DeadLetters, Delivery, Letter
from trainstate.export.exporter import Exporter, R
from trainstate.store import Fold, History, Recorded, until_seq
from trainstate.store.events import recorded


@dataclass(frozen=True, slots=True)
class Limits:
    """What closes a batch, whichever comes first.

    `size_bytes` counts a record that is bytes by its length, another by that of its event. `events`
    counts those without a record too: it bounds how long a record waits, and how far the cursor lags.
    """

    records: int = 1000
    size_bytes: int = 4 << 20
    events: int = 10_000


class Gear(NamedTuple, Generic[R]):
    """What a pump works with; it lives as long as the pump."""

    history: History
    exporter: Exporter[R]
    store: CursorStore
    delivery: Delivery[R]
    dead: DeadLetters
    limits: Limits
    counters: Counters
    progress: Callable[[Counters], object]


class Session(Generic[R]):
    """Where a pump is: the cursor, the state of the runs there, and the batch being filled.

    Beginning one may raise CursorMismatch, DecodeError (a damaged cursor), and what sending raises.
    """

    def __init__(self, gear: Gear[R]) -> None:
        self._gear = gear
        saved = gear.store.load()
        if saved is not None:
            require_fit(saved, gear.history, gear.exporter.name, gear.exporter.target)
        cursor = saved or _fresh(gear.history, gear.exporter)
        gear.dead.resume(cursor.dead_bytes)
        self._cursor = replace(cursor, mark=gear.delivery.resume(cursor.mark))
        self._unsaved = False
        self._batch: list[Letter[R]] = []
        self._batch_bytes = 0
        self._place = cursor.epoch, cursor.chain
        self._in_line = False
        self.next_seq = cursor.next_seq
        self.end = gear.history.end.next_seq
        self._fold = folded_before(gear.history, cursor.next_seq)
        if cursor.in_flight is not None:
            self._resend(cursor.in_flight[1])
        self._tail = gear.history.tail(self.next_seq)

    def end_now(self) -> int:
        """Where the journal ends now: the position after its newest event."""
        self.end = self._gear.history.end.next_seq
        return self.end

    def advance(self, timeout_s: float) -> bool:
        """Takes what the journal has, or waits for it; whether there was anything."""
        frames = self._tail.read(timeout_s)
        for frame in frames:
            self._place = frame.epoch, frame.chain
            self.end = max(self.end, frame.next_seq)
            for one in recorded((frame,), self.next_seq):
                self._take(one)
                if self._is_full():
                    self._send()
        return bool(frames)

    @property
    def waiting(self) -> bool:
        """Whether there are records, or dead letters, that `settle` would commit."""
        return bool(self._batch) or self._gear.dead.waiting

    def settle(self) -> None:
        """Sends what waits and commits it. Events without a record alone are not worth a sync."""
        if self.waiting:
            self._send()
        if self._unsaved:
            self._save()

    def commit(self) -> None:
        """Sends what waits and commits everything."""
        if self.next_seq > self._cursor.next_seq:
            self._send()
        self.settle()

    def close(self) -> None:
        """Lets go of the journal."""
        self._tail.close()

    def _take(self, one: Recorded) -> None:
        resident = self._fold.take(one.event.run_id)
        self._fold.apply(one)
        self.next_seq = one.seq + 1
        self._in_line = resident.run.imported and not one.event.HasField("line_imported")
        try:
            record = self._gear.exporter.encode(one, resident.run)
        # Foreign code, and the same event would end every export after this one too: it is set aside.
        except Exception as error:
            self._gear.delivery.bury(one, error)
            return
        if record is None:
            self._gear.counters.skipped += 1
            return
        self._batch.append(Letter(one, record))
        self._batch_bytes += len(record) if isinstance(record, bytes) else one.event.ByteSize()

    def _is_full(self) -> bool:
        limits = self._gear.limits
        return (
            len(self._batch) >= limits.records
            or self._batch_bytes >= limits.size_bytes
            or self.next_seq - self._cursor.next_seq >= limits.events
        )

    def _send(self) -> None:
        """Delivers everything up to `next_seq`; saved with the next announcement, or by `settle`."""
        gear = self._gear
        if self._batch:
            gear.store.save(
                replace(self._cursor, in_flight=(self._cursor.next_seq, self.next_seq - 1))
            )
            gear.delivery.send(self._batch)
        self._batch.clear()
        self._batch_bytes = 0
        epoch, chain = self._place
        self._cursor = replace(
            self._cursor,
            next_seq=self.next_seq,
            needs_seq=_needed_from(self._fold, self.next_seq, self._in_line),
            epoch=epoch,
            chain=chain,
            in_flight=None,
            mark=gear.delivery.mark,
            dead_bytes=gear.dead.flush(),
        )
        self._unsaved = True
        gear.counters.lag = self.end - self.next_seq
        gear.progress(gear.counters)

    def _save(self) -> None:
        self._gear.store.save(self._cursor)
        self._unsaved = False

    def _resend(self, last: int) -> None:
        """Sends exactly the range that was being sent when the pump before this one ended."""
        for one in takewhile(until_seq(last), self._gear.history.events(self.next_seq)):
            self._take(one)
        self._place = chain_at(self._gear.history, last)
        self._send()
        self._save()


def folded_before(history: History, seq: int) -> Fold:
    """The state of every run just before the event at `seq`."""
    fold, _ = history.restored()
    if fold.seq >= seq:
        # The snapshot is of later than that; it would show runs as they came to be.
        fold = history.empty_fold()
    first = max(fold.seq + 1, history.first_seq)
    for one in takewhile(until_seq(seq - 1), history.events(first)):
        fold.apply(one)
    return fold


def _fresh(history: History, exporter: Exporter[R]) -> Cursor:
    first = history.first_seq
    return Cursor(journal_id(history), exporter.name, exporter.target, first, first)


def _needed_from(fold: Fold, next_seq: int, in_line: bool) -> int:
    """The first event of the oldest run whose state the events from `next_seq` on may need.

    `in_line`: the event before `next_seq` belongs to an imported line whose `LineImported` is to come,
    and that will need the state of its run, even if the line has ended it.
    """
    needed = (
        resident.first_seq
        for resident in fold.runs.values()
        if not _is_over(resident.run) or (in_line and resident.last_seq == next_seq - 1)
    )
    return min(needed, default=next_seq)


def _is_over(run: Run) -> bool:
    # Another system's word may end a run before its attempts.
    return run.status.is_terminal and all(one.status.is_terminal for one in run.attempts)
