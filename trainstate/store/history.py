"""A journal, read only: live or long dead, no server, no lock, no Ray.

A `History` holds nothing open between two calls: each reads what the journal holds at that moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

from google.protobuf.message import DecodeError

from trainstate.core import Run, evolve, initial
from trainstate.core.freeze import FOLD_VERSION
from trainstate.errors import NotFound
from trainstate.journal import End, Reader, Tail, load_snapshot
from trainstate.store import archive
from trainstate.store.archive import Extent
from trainstate.store.events import Include, Recorded, batches, recorded, stream_of, until_seq
from trainstate.store.fold import Fold
from trainstate.v1 import view_pb2 as v

Progress = Callable[[int], object]

ARCHIVE_NAME = "snap/ended"


class History:
    """Reads a journal directory. Raises NotAJournal if `path` holds none."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._reader = Reader(self.path)
        self.uuid = self._reader.uuid

    @property
    def end(self) -> End:
        """Where the journal ends now."""
        return self._reader.end

    @property
    def first_seq(self) -> int:
        """Where its history begins: 1, or more after retention."""
        return self._reader.first_seq

    @property
    def owner(self) -> str:
        """What its newest writer called itself; empty if it gave no name. Raises JournalCorrupt."""
        return self._reader.owner

    @property
    def is_live(self) -> bool:
        """Whether a writer lives now."""
        return self._reader.is_live

    def events(self, from_seq: int | None = None) -> Iterator[Recorded]:
        """Every event from a position on, or from where history begins.

        Raises NotFound for a position before that, JournalCorrupt when it comes to damage.
        """
        return recorded(self._reader.frames(from_seq), from_seq)

    def events_of(
        self, run_id: str, from_seq: int | None = None, until_seq: int | None = None
    ) -> Iterator[Recorded]:
        """The events of one run, found through the index. Raises as `events` does.

        Who knows that they are in from_seq <= seq < until_seq spares looking elsewhere.
        """
        frames = self._reader.frames_of(stream_of(run_id), from_seq, until_seq)
        return (one for one in recorded(frames, from_seq) if one.event.run_id == run_id)

    def since(self, time_ns: int) -> Iterator[Recorded]:
        """Events of that time or later, of whichever run, in journal order."""
        frames = self._reader.frames_since(time_ns)
        return (one for one in recorded(frames) if one.event.time_unix_nano >= time_ns)

    def tail(self, from_seq: int | None = None) -> Tail:
        """A tail of the journal: its end means later. Decode its frames with `recorded`."""
        return Tail(self.path, from_seq)

    def run(self, run_id: str, include: Include | None = None) -> Run:
        """The state of one run: now, or as of the last event that `include` lets through.

        Raises NotFound for a run of which nothing is recorded (or nothing yet, as of then).
        """
        run = initial(run_id)
        events = self.events_of(run_id)
        for one in events if include is None else takewhile(include, events):
            evolve(run, one.event)
        if not run.run_seq:
            raise NotFound(
                "no such run, or nothing recorded of it by then",
                path=self.path,
                run_id=run_id,
                hint=f"trainstate runs --journal {self.path}",
            )
        return run

    def fold(self, progress: Progress | None = None) -> Fold:
        """The state of every run, from the newest snapshot that fits and the events after it."""
        fold, _ = self.restored()
        self.catch_up(fold, progress)
        return fold

    def empty_fold(self) -> Fold:
        """A fold of nothing yet, that takes ended runs up again from this journal."""
        return Fold(reload=lambda summary: self.run(summary.run_id, until_seq(summary.last_seq)))

    def catch_up(self, fold: Fold, progress: Progress | None = None) -> None:
        """Applies to a fold what the journal holds after it. A fold stands at the end of a frame."""
        for batch in batches(self._reader.frames(fold.seq + 1 if fold.seq else None)):
            fold.apply_batch(batch)
            if progress is not None:
                progress(fold.seq)

    def fold_until(self, include: Include, progress: Progress | None = None) -> Fold:
        """The state of every run as of `include`: each run's own longest prefix of what it lets in."""
        fold = self.empty_fold()
        over: set[str] = set()
        for one in self.events():
            if progress is not None:
                progress(one.seq)
            if one.event.run_id in over:
                continue
            if include(one):
                fold.apply(one)
            else:
                over.add(one.event.run_id)
        return fold

    def summaries(self, progress: Progress | None = None) -> list[v.RunSummary]:
        """The list of runs, in the order they began."""
        return self.fold(progress).summaries()

    def restored(self) -> tuple[Fold, Extent | None]:
        """A fold as the newest snapshot that fits left it, and the archive's extent then.

        Without one that fits: an empty fold, and None.
        """
        fold = self.empty_fold()
        found = load_snapshot(self.path, FOLD_VERSION)
        if found is None:
            return fold, None
        try:
            snapshot = v.Snapshot.FromString(found.body)
        except DecodeError:
            return fold, None  # a cache that another program wrote
        extent = Extent(snapshot.archive_size_bytes, snapshot.archive_crc32c)
        ended = archive.read(self.path / ARCHIVE_NAME, self.uuid, extent)
        if ended is None:
            return fold, None
        fold.restore(found.seq, snapshot, ended)
        return fold, extent
