"""Events of a journal into a sink: tail, fold, encode, batch, announce, write, commit.

The pump only reads the journal, so a slow or dead sink never slows an append, and holds at most one
batch, so it never grows memory. Before a batch is sent its range is in the cursor, durably; the save
that announces a batch also commits the one before it, so a busy export costs one save per batch.

If a pump ends in the middle, by an error or a kill, the next one sends exactly the announced range
again, after the sink resumed at the mark of that cursor (the crash table of ARCHITECTURE.md).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event
from typing import Generic, Self

from trainstate.export.cursor import CursorFile, CursorStore, cursor_path
from trainstate.export.delivery import Backoff, Counters, DeadLetters, Delivery, Stop, Stopped
from trainstate.export.exporter import Exporter, R
from trainstate.export.session import Gear, Limits, Session
from trainstate.store import History

Progress = Callable[[Counters], object]

# How long a pump that follows waits for news before it looks whether it was asked to stop.
_IDLE_S = 0.5


class Pump(Generic[R]):
    """Exports one journal to one sink; it closes the exporter and the cursor with itself.

    `progress` is told the counters after every batch.
    `run_once` and `follow` raise CursorMismatch before anything is sent, SinkUnavailable when the sink
    stayed away for all attempts, StorageError if the cursor cannot be saved, and what reading a journal
    raises. They may be called again, after an error too: then they go on from the cursor.
    """

    def __init__(
        self,
        history: History,
        exporter: Exporter[R],
        cursor: CursorStore,
        dead_letters: Path,
        *,
        limits: Limits | None = None,
        backoff: Backoff | None = None,
        progress: Progress = lambda counters: None,
    ) -> None:
        self.counters = Counters()
        self.dead_letters = dead_letters
        dead = DeadLetters(dead_letters)
        delivery = Delivery(exporter, backoff or Backoff(), dead, self.counters)
        self._gear = Gear(
            history, exporter, cursor, delivery, dead, limits or Limits(), self.counters, progress
        )
        self._session: Session[R] | None = None

    @classmethod
    def open(
        cls,
        history: History,
        exporter: Exporter[R],
        *,
        cursor: Path | None = None,
        limits: Limits | None = None,
        backoff: Backoff | None = None,
        progress: Progress = lambda counters: None,
    ) -> Self:
        """A pump with its cursor in the journal, or at the path `cursor` (for a journal read only).

        Dead letters go to the journal's quarantine, or beside that path.
        Raises RefusedError while another pump has the cursor, StorageError if it cannot be kept there.
        """
        path = cursor or cursor_path(history.path, exporter.name, exporter.target)
        folder = history.path / "quarantine" if cursor is None else path.parent
        dead = folder / f"dead-{path.stem}.jsonl"
        store = CursorFile(path)
        return cls(
            history, exporter, store, dead, limits=limits, backoff=backoff, progress=progress
        )

    def run_once(self, stop: Stop | None = None) -> Counters:
        """Exports up to where the journal ends now, or until asked to stop, and commits it."""
        return self._run(_to_the_end, stop or Event())

    def follow(self, stop: Stop) -> Counters:
        """Exports what there is and what comes, until asked to stop, and commits it."""
        return self._run(_until_stopped, stop)

    def close(self) -> None:
        """Lets go of journal, sink and cursor. May be called twice."""
        with ExitStack() as everything:
            everything.callback(self._gear.store.close)
            everything.callback(self._gear.exporter.close)
            if self._session is not None:
                everything.callback(self._session.close)
                self._session = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, work: Callable[[Session[R], Stop], None], stop: Stop) -> Counters:
        self._gear.delivery.stop = stop
        # A session is kept only after a clean end: otherwise the next begins anew, from the cursor.
        # Stopped while the sink is away: what was announced is what the next one sends first.
        with ExitStack() as undo, suppress(Stopped):
            session = self._session or Session(self._gear)
            self._session = None
            undo.callback(session.close)
            work(session, stop)
            session.commit()
            undo.pop_all()
            self._session = session
        return self.counters


def _to_the_end(session: Session[R], stop: Stop) -> None:
    end = session.end_now()
    while session.next_seq < end and not stop.wait(0):
        session.advance(_IDLE_S)


def _until_stopped(session: Session[R], stop: Stop) -> None:
    while not stop.wait(0):
        if not session.advance(0 if session.waiting else _IDLE_S):
            session.settle()
