"""A course: a place in the journal that moves forward over frames, from segment to segment.

What `Reader` and `Tail` have in common. It never finds out where the journal ends: it is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainstate.errors import CursorMismatch
from trainstate.journal.disk import OS, Disk
from trainstate.journal.end import End
from trainstate.journal.frame import Frame
from trainstate.journal.index import load_index
from trainstate.journal.layout import verify_hint
from trainstate.journal.segment import Mark, Segment, gone
from trainstate.journal.walk import Walk


class Course:
    """Begins at the frame that holds `from_seq`, or at the end of what its segment's index covers."""

    def __init__(self, segments: Sequence[Segment], from_seq: int, disk: Disk = OS) -> None:
        """Raises NotFound when retention has just removed the segment, StorageError."""
        self._disk = disk
        at = max(i for i, one in enumerate(segments) if i == 0 or one.name.first_seq <= from_seq)
        self._walk = Walk(segments[at], disk=disk)
        self._walk.mark = _mark_before(self._walk, from_seq)

    @property
    def segment(self) -> Segment:
        return self._walk.segment

    def close(self) -> None:
        self._walk.close()

    def until(self, end: End, segments: Sequence[Segment]) -> Iterator[Frame]:
        """Yield every frame up to the end, closing frames too; `segments` must reach there.

        Raises JournalCorrupt where the frames do not reach as far as they must, CursorMismatch
        when the journal has been cut below what was read here, NotFound, StorageError.
        """
        if end.segment is None or end.segment.age < self.segment.name.age:
            return  # DURABLE lags behind what a reader may take while no writer lives
        for following in self._ahead(segments):
            if self.segment.name == end.segment:
                break
            yield from self._to(following.previous_end)
            self._enter(following)
        if self._walk.mark.offset < end.offset:
            yield from self._to(end.offset)

    def _ahead(self, segments: Sequence[Segment]) -> Sequence[Segment]:
        """The segments after this one, which retention may have removed once it was read."""
        here = self.segment.name
        for place, segment in enumerate(segments):
            if here in (segment.name, segment.previous):
                return segments[place + int(segment.name == here) :]
        if segments and segments[0].name.age > here.age:
            raise gone(segments[0].path)
        raise self._cut_off()

    def _to(self, limit: int) -> Iterator[Frame]:
        if self._walk.mark.offset > limit:
            raise self._cut_off()
        yield from self._walk.all_until(limit)

    def _enter(self, following: Segment) -> None:
        if self._walk.mark[1:] != following.start[1:]:
            raise self._walk.damage(f"{following.path.name} does not continue it")
        self._walk.close()
        self._walk = Walk(following, disk=self._disk)

    def _cut_off(self) -> CursorMismatch:
        return CursorMismatch(
            "the journal was cut below what was read of it",
            path=self.segment.path,
            offset=self._walk.mark.offset,
            hint=verify_hint(self.segment.path.parent.parent),
        )


def _mark_before(walk: Walk, seq: int) -> Mark:
    """The last place before `seq` that the index knows and the segment agrees with."""
    marks = [block.after for block in load_index(walk) if block.next_seq <= seq]
    return next((mark for mark in reversed(marks) if walk.holds(mark)), walk.segment.start)
