"""The one writer of a journal of events: check, then durable, then acknowledged.

Under one lock an append is judged (incarnation, position, the rules of core/check.py), applied to the
store's own fold and handed to the journal; outside it the caller waits until it is durable. A refusal
writes nothing. A failed write poisons the journal, and with it the store: reopen.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, Self

from trainstate.core import Run, check, evolve, initial
from trainstate.core.freeze import FOLD_VERSION, copy
from trainstate.core.mask import EventMask, Masking
from trainstate.errors import ConcurrencyError, Fenced, NotFound, TrainstateError
from trainstate.journal import SEGMENT_BYTES_MAX, Ticket, Writer, closed_on_failure, save_snapshot
from trainstate.store.archive import Archive
from trainstate.store.events import Recorded, chunks, encode, stream_of
from trainstate.store.fold import Resident
from trainstate.store.history import ARCHIVE_NAME, History
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import view_pb2 as v

# How far back a repeated append is looked for at first; each further look is twice as wide.
_LOOK_BACK_SEQS = 64


class Opened(NamedTuple):
    """A run taken up by a writer: a copy of its state, its position, and the writer's incarnation."""

    state: Run
    run_seq: int
    incarnation: int


class Pending(NamedTuple):
    """Events on their way to the disk."""

    seqs: Sequence[int]
    ticket: Ticket | None

    def wait(self) -> Sequence[int]:
        """Returns the events' positions when they are durable."""
        if self.ticket is not None:
            self.ticket.wait()
        return self.seqs


class Store:
    """Opens a journal for writing (see `trainstate.journal.Writer.open` for what that may raise)."""

    def __init__(
        self,
        writer: Writer,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        masking: Masking | None = None,
    ) -> None:
        self.writer = writer
        self.masking: Masking = masking or EventMask(os.urandom(16))
        self.history = History(writer.path)
        self._lock = threading.Lock()
        # A segment is closed a little early, so that the boundary, and with it the snapshot, is ours.
        self._roll_at = segment_bytes_max * 7 // 8
        self._fold, extent = self.history.restored()
        self._archive = Archive(writer.path / ARCHIVE_NAME, writer.uuid, extent)
        self._fold.on_archive = self._archive.append
        with closed_on_failure(self._archive.close):
            self.history.catch_up(self._fold)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        owner: str = "",
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        lock_timeout_s: float = 5.0,
        masking: Masking | None = None,
    ) -> Self:
        """Opens or creates the journal at `path`.

        `masking` takes secrets out of what is appended; by default with markers of this store alone.
        """
        writer = Writer.open(
            Path(path),
            owner=owner,
            segment_bytes_max=segment_bytes_max,
            lock_timeout_s=lock_timeout_s,
        )
        with closed_on_failure(writer.close):
            return cls(writer, segment_bytes_max, masking)

    def open_run(self, run_id: str, writer: str, time_ns: int, *, foreign: bool = False) -> Opened:
        """Takes a run up, new or not: durably records the next incarnation; it fences every lower one.

        `writer` says who: "controller", "reaper", "ray-export"; `foreign`, that it copies what another
        system recorded. `time_ns` is now, or the time of what is copied, since the Unix epoch.
        """
        with self._lock:
            resident = self._fold.take(run_id)
            run = resident.run
            opened = e.RunOpened(writer=writer, foreign=foreign)
            event = e.Event(time_unix_nano=time_ns, run_opened=opened)
            ticket = self._record(resident, run.incarnation + 1, [event])
            taken = Opened(copy(run), run.run_seq, run.incarnation)
        ticket.wait()
        return taken

    def append(
        self, run_id: str, incarnation: int, expected_run_seq: int, events: Sequence[e.Event]
    ) -> Sequence[int]:
        """`submit`, and wait until the events are durable; returns their positions."""
        return self.submit(run_id, incarnation, expected_run_seq, events).wait()

    def submit(
        self, run_id: str, incarnation: int, expected_run_seq: int, events: Sequence[e.Event]
    ) -> Pending:
        """Records events of one run, all or none; they are durable when `Pending.wait` returns.

        Of each event the caller sets time, attempt, reason and payload; identity, position, incarnation
        are stamped here, its secrets are masked, and its time is raised to that of the run's event
        before it if it is lower.
        An append that was acknowledged to nobody may be repeated: equal events at the same position are
        recognised and their positions returned.

        Raises NotFound (a run nobody opened), Fenced (a newer incarnation has it), ConcurrencyError
        (another append came first), InvalidTransition, EventTooLarge: nothing is written. `wait` raises
        StorageError, JournalPoisoned, Fenced from the journal: nothing is acknowledged; reopen.
        """
        with self._lock:
            resident = self._opened(run_id)
            _judge(resident.run, incarnation)
            if resident.run.run_seq != expected_run_seq:
                seqs = self._repeated(resident, incarnation, expected_run_seq, events)
                return Pending(seqs, None)
            if not events:
                return Pending((), None)
            first = self._fold.seq + 1
            ticket = self._record(resident, incarnation, events)
            return Pending(range(first, first + len(events)), ticket)

    def state(self, run_id: str) -> Run:
        """A copy of a run's state, all of it durable. Raises NotFound."""
        with self._lock:
            state = copy(self._opened(run_id).run)
        # Not the newest ticket: that is its appender's, and may be waited for by one thread only.
        self.writer.drain()
        return state

    def events_of(self, run_id: str) -> Iterator[Recorded]:
        """The events of one run, all of them durable. Raises NotFound as `append` does."""
        with self._lock:
            extent = self._fold.extent(run_id)
        if not extent:
            raise self._not_opened(run_id)
        self.writer.drain()
        return self.history.events_of(run_id, extent.start, extent.stop)

    def summaries(self) -> list[v.RunSummary]:
        """The list of runs, in the order they began."""
        with self._lock:
            return self._fold.summaries()

    def close(self) -> None:
        """Ends writing cleanly."""
        with self._lock:
            self._archive.close()
            self.writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self, run_id: str) -> Resident:
        if run_id in self._fold.runs or run_id in self._fold.archived:
            return self._fold.take(run_id)
        raise self._not_opened(run_id)

    def _not_opened(self, run_id: str) -> NotFound:
        return NotFound(
            "nobody opened this run", path=self.writer.path, run_id=run_id, hint="open_run first"
        )

    def _record(self, resident: Resident, incarnation: int, events: Sequence[e.Event]) -> Ticket:
        """Checks, applies and submits; the journal's promise for the last of it."""
        encoded, times = self._applied(resident, incarnation, events)
        first = self._fold.seq + 1
        for chunk in chunks(encoded, times, stream_of(resident.run.run_id)):
            ticket = self.writer.submit(chunk)
        self._fold.advance(resident, first, first + len(encoded) - 1)
        if self.writer.segment_bytes >= self._roll_at:
            self._roll()
        return ticket

    def _applied(
        self, resident: Resident, incarnation: int, events: Sequence[e.Event]
    ) -> tuple[list[bytes], list[int]]:
        run = resident.run
        before = run.run_seq
        encoded: list[bytes] = []
        times: list[int] = []
        try:
            for event in events:
                _stamp(event, run.run_id, run.run_seq + 1, incarnation, run.time_ns)
                check(run, event)
                encoded.append(self._masked(event, run))
                times.append(event.time_unix_nano)
                evolve(run, event)
        except TrainstateError:
            if run.run_seq != before:
                self._undo(resident)
            raise
        return encoded, times

    def _masked(self, event: e.Event, run: Run) -> bytes:
        """The event encoded, and masked in place if there is anything to mask."""
        encoded = encode(event)
        if self.masking.may_touch(event, encoded):
            self.masking(event, run)
            encoded = encode(event)
        return encoded

    def _undo(self, resident: Resident) -> None:
        # The events before the refused one were applied to the state; fold it again without them.
        self.writer.drain()
        if resident.last_seq:
            self._fold.rebuild(resident)
        else:
            resident.run = initial(resident.run.run_id)

    def _repeated(
        self, resident: Resident, incarnation: int, expected: int, events: Sequence[e.Event]
    ) -> Sequence[int]:
        """The positions of events that an append nobody heard of had recorded."""
        run = resident.run
        self.writer.drain()
        newest = takewhile(lambda one: one.event.run_seq >= expected, self._newest_first(resident))
        stored = [one for one in newest if one.event.run_seq <= expected + len(events)][::-1]
        time_ns = 0
        if stored and stored[0].event.run_seq == expected:
            time_ns = stored.pop(0).event.time_unix_nano
        if len(stored) != len(events):
            raise ConcurrencyError(run.run_seq, expected, run_id=run.run_id)
        for was, event in zip(stored, events, strict=True):
            _stamp(event, run.run_id, was.event.run_seq, incarnation, time_ns)
            self._masked(event, run)
            if event.SerializeToString() != was.event.SerializeToString():
                raise ConcurrencyError(run.run_seq, expected, run_id=run.run_id)
            time_ns = was.event.time_unix_nano
        return [was.seq for was in stored]

    def _newest_first(self, resident: Resident) -> Iterator[Recorded]:
        """The events of a run backwards: what is repeated is mostly its newest append."""
        begin = max(resident.first_seq, self.history.first_seq)
        end, size = resident.last_seq + 1, _LOOK_BACK_SEQS
        while end > begin:
            start = max(begin, end - size)
            events = self.history.events_of(resident.run.run_id, start, end)
            yield from reversed([one for one in events if one.seq < end])
            end, size = start, size * 2

    def _roll(self) -> None:
        """Starts the next segment, with a snapshot at its boundary."""
        self.writer.drain()
        extent = self._archive.sync()
        position = self.writer.roll()
        snapshot = self._fold.snapshot()
        snapshot.archive_size_bytes, snapshot.archive_crc32c = extent
        save_snapshot(self.writer.path, position, FOLD_VERSION, snapshot.SerializeToString())


def _judge(run: Run, incarnation: int) -> None:
    if incarnation != run.incarnation:
        raise Fenced(
            f"incarnation {incarnation} may not write, the run's writer is {run.incarnation}",
            run_id=run.run_id,
            hint="open_run gives a new incarnation; a fenced controller must stop",
        )


def _stamp(event: e.Event, run_id: str, run_seq: int, incarnation: int, not_before: int) -> None:
    event.run_id = run_id
    event.run_seq = run_seq
    event.incarnation = incarnation
    if event.time_unix_nano < not_before:
        event.time_unix_nano = not_before
