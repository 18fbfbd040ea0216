"""The tail: for it the end of the journal means later.

In the writer's process it sleeps on the writer's condition; in another it looks at DURABLE and at the
lock every 10 ms. While a writer lives it hands out durable frames only. When none does, it hands out
what is there, and waits for the next writer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Protocol

from trainstate.errors import NotFound
from trainstate.journal.course import Course
from trainstate.journal.disk import OS, Disk
from trainstate.journal.durable import Durable, read_durable
from trainstate.journal.end import durable_end
from trainstate.journal.frame import Frame
from trainstate.journal.layout import Layout
from trainstate.journal.lock import writer_lives
from trainstate.journal.reader import Reader
from trainstate.journal.writer import Writer

_POLL_S = 0.010
_BATCH_BYTES = 4 << 20  # of bodies, about, that one read returns


class _News(Protocol):
    """How a tail hears that the journal has grown."""

    durable: Durable | None  # the durable end at the last news, while a writer lives

    def wait(self, deadline: float | None) -> bool:
        """Sleep until something may have changed since the last news; False at the deadline."""
        ...


class _FileNews:
    """From another process: what DURABLE says, and whether a writer lives."""

    def __init__(self, reader: Reader, disk: Disk) -> None:
        self.durable: Durable | None = None
        self._layout = Layout(reader.path)
        self._uuid = reader.uuid
        self._disk = disk
        self._seen: tuple[bool, Durable | None] | None = None

    def wait(self, deadline: float | None) -> bool:
        while (now := self._look()) == self._seen:
            left_s = _left_s(deadline)
            if left_s is not None and left_s <= 0:
                return False
            time.sleep(_POLL_S if left_s is None else min(_POLL_S, left_s))
        self._seen = now
        self.durable = now[1] if now[0] else None
        return True

    def _look(self) -> tuple[bool, Durable | None]:
        lives = writer_lives(self._layout.lock, self._disk)
        return lives, read_durable(self._layout, self._uuid, self._disk)


class _WriterNews:
    """From the writer itself, for as long as it is open; then from the files."""

    def __init__(self, writer: Writer, files: _FileNews) -> None:
        self.durable: Durable | None = None
        self._writer = writer
        self._files = files

    def wait(self, deadline: float | None) -> bool:
        durable = self._writer.wait_durable(self.durable, _left_s(deadline))
        if not self._writer.is_over:
            changed = durable != self.durable
            self.durable = durable
            return changed
        changed = self._files.wait(deadline)
        self.durable = self._files.durable
        return changed


class Tail:
    """Follows a journal from a seq on. For one thread. Survives rotation, retention and takeover."""

    def __init__(
        self,
        source: str | os.PathLike[str] | Writer,
        from_seq: int | None = None,
        disk: Disk = OS,
    ) -> None:
        """`source` is a path, or the writer when it is in this process.

        `from_seq` None is the beginning of history; a seq that is not written yet is waited for.
        Raises what `Reader` raises; NotFound for a seq before history begins.
        """
        self._reader = Reader(source.path if isinstance(source, Writer) else source, disk)
        files = _FileNews(self._reader, disk)
        self._news: _News = _WriterNews(source, files) if isinstance(source, Writer) else files
        self._disk = disk
        self._course: Course | None = None
        self._frames: Iterator[Frame] = iter(())
        self._from_seq = self._checked(from_seq)

    def _checked(self, from_seq: int | None) -> int:
        begin = self._reader.first_seq
        if from_seq is not None and from_seq < begin:
            raise NotFound(
                f"seq {from_seq} is gone, history begins at {begin}",
                path=self._reader.path,
                hint=f"read from seq {begin}",
            )
        return from_seq or begin

    def read(self, timeout_s: float | None = None) -> list[Frame]:
        """The next frames, waiting for the first; [] at the timeout. None waits for ever.

        Raises JournalCorrupt, NotFound when retention overtook it, StorageError.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            if batch := self._batch():
                return batch
            if not self._news.wait(deadline):
                return []
            self._frames = self._new_frames()

    def _batch(self) -> list[Frame]:
        batch: list[Frame] = []
        size = 0
        for frame in self._frames:
            if frame.count and frame.next_seq > self._from_seq:
                batch.append(frame)
                size += len(frame.body)
            if size >= _BATCH_BYTES:
                break
        return batch

    def _new_frames(self) -> Iterator[Frame]:
        """What is between the course's place and the end of the journal as of now."""
        durable, course = self._news.durable, self._course
        if durable and course and durable.segment == course.segment.name:
            # The common case: the segment grows, and nothing needs to be looked up.
            yield from course.until(durable_end(durable), [course.segment])
            return
        found = self._reader.survey()
        if found.segments:
            self._course = course or Course(found.segments, self._from_seq, self._disk)
            yield from self._course.until(found.end, found.segments)
        if found.damage:
            raise found.damage

    def close(self) -> None:
        """Let go of the files."""
        if self._course is not None:
            self._course.close()

    def __enter__(self) -> Tail:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _left_s(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
