"""The reader: for it the end of the journal, as of each call, is the end.

It takes no lock and needs no writer. Frames come verified and in order; what a call has promised to
yield it yields or raises. Between two calls it keeps only the headers of segments, which never change.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from trainstate.errors import NotFound
from trainstate.journal.course import Course
from trainstate.journal.disk import OS, Disk, storage_errors
from trainstate.journal.end import End, Survey, known_chain, survey
from trainstate.journal.fence import read_fence
from trainstate.journal.frame import Frame
from trainstate.journal.layout import Layout, SegmentName, read_identity
from trainstate.journal.lock import writer_lives
from trainstate.journal.lookup import of_stream, since, through_indexes
from trainstate.journal.segment import Position, Segment


class Reader:
    """Reads the journal at `path`. Thread-safe: each call stands for itself."""

    def __init__(self, path: str | os.PathLike[str], disk: Disk = OS) -> None:
        """Raises NotAJournal, UnsupportedFormat, JournalCorrupt for a damaged IDENTITY."""
        self._layout = Layout(Path(path))
        self._disk = disk
        self._headers: dict[SegmentName, Segment] = {}
        self.uuid = read_identity(self._layout)

    @property
    def path(self) -> Path:
        return self._layout.root

    @property
    def owner(self) -> str:
        """What the newest writer called itself; empty if it gave no name, or none has ever been.

        Raises JournalCorrupt for a damaged FENCE, StorageError.
        """
        with storage_errors(self._layout.fence, "read FENCE"):
            return read_fence(self._layout, self._disk).owner

    @property
    def is_live(self) -> bool:
        """Whether a writer lives. Raises StorageError."""
        return writer_lives(self._layout.lock, self._disk)

    def survey(self) -> Survey:
        """The segments, the end, and what is wrong behind it. Raises JournalCorrupt."""
        return survey(self._layout, self.uuid, self._headers, self._disk)

    @property
    def end(self) -> End:
        """Where the journal ends now. Raises JournalCorrupt when its end is damaged."""
        found = self.survey()
        if found.damage:
            raise found.damage
        return found.end

    @property
    def first_seq(self) -> int:
        """Where history begins: 1, or more after retention."""
        segments = known_chain(self._layout, self.uuid, self._headers, self._disk)
        return first_seq(segments)

    def frames(self, from_seq: int | None = None, until_seq: int | None = None) -> Iterator[Frame]:
        """The frames that hold entries with from_seq <= seq < until_seq.

        From the beginning of history and up to the end by default. Frames are whole: the first
        and the last may hold entries outside the range. Damage raises JournalCorrupt when it is
        reached, after everything before it. Raises NotFound for a seq before history begins.
        """
        found = self.survey()
        first = self._check_begin(found, from_seq)
        for frame in self._all(found, first):
            if until_seq is not None and frame.first_seq >= until_seq:
                return
            if frame.next_seq > first:
                yield frame
        if found.damage and (until_seq is None or found.end.next_seq < until_seq):
            raise found.damage

    def _check_begin(self, found: Survey, from_seq: int | None) -> int:
        begin = first_seq(found.segments)
        if from_seq is None or from_seq >= begin:
            return from_seq or begin
        raise NotFound(
            f"seq {from_seq} is gone, history begins at {begin}",
            path=self.path,
            hint=f"read from seq {begin}",
        )

    def _all(self, found: Survey, from_seq: int) -> Iterator[Frame]:
        """Data frames from near `from_seq` to the end."""
        if not found.segments:
            return
        with closing(Course(found.segments, from_seq, self._disk)) as course:
            for frame in course.until(found.end, found.segments):
                if frame.count:
                    yield frame

    def frames_of(
        self, stream: int, from_seq: int | None = None, until_seq: int | None = None
    ) -> Iterator[Frame]:
        """The frames with entries of a stream with from_seq <= seq < until_seq, through the indexes.

        Segments outside the range are not touched. Raises like `frames`; damage to frames that are not
        of the stream may go unnoticed.
        """
        found = self.survey()
        first = self._check_begin(found, from_seq)
        until = found.end.next_seq if until_seq is None else until_seq
        for frame in through_indexes(found, first, until, of_stream(stream), self._disk):
            if stream in frame.streams and frame.next_seq > first and frame.first_seq < until:
                yield frame
        if found.damage and until >= found.end.next_seq:
            raise found.damage

    def frames_since(self, time_ns: int) -> Iterator[Frame]:
        """The frames that hold entries of that time or later. Raises like `frames_of`."""
        found = self.survey()
        begin, end = first_seq(found.segments), found.end.next_seq
        for frame in through_indexes(found, begin, end, since(time_ns), self._disk):
            if frame.count and frame.time_max >= time_ns:
                yield frame
        if found.damage:
            raise found.damage

    def position(self, seq: int) -> Position:
        """The place after the entry `seq`; 0 is the beginning. Raises NotFound, JournalCorrupt.

        The chain value is that of the whole frame: it proves everything up to its last entry.
        """
        if seq == 0:
            return Position(0, 0, 0)
        for frame in self.frames(seq, seq + 1):
            return Position(seq, frame.epoch, frame.chain)
        raise NotFound(f"seq {seq} is not recorded yet", path=self.path)


def first_seq(segments: Sequence[Segment]) -> int:
    """Where a history of these segments begins."""
    return segments[0].name.first_seq if segments else 1


def is_journal(path: str | os.PathLike[str]) -> bool:
    """Whether a directory says that it is a journal; reads nothing."""
    return Layout(Path(path)).identity.is_file()
