"""The segment being written: append a frame, make it durable, say so; rotate when it is full.

Not thread-safe: only the leader of the group commit calls it. Any exception leaves it in an unknown
state, so its owner never calls it again.
"""

from __future__ import annotations

from pathlib import Path

from trainstate.journal.disk import Disk, closed_on_failure, storage_errors, write_exactly
from trainstate.journal.durable import Durable, DurableFile
from trainstate.journal.fence import Fence
from trainstate.journal.frame import Chunk, Frame, encode, encoded_size
from trainstate.journal.index import IndexWriter, resumed_index
from trainstate.journal.layout import Layout, SegmentName
from trainstate.journal.recover import Resume
from trainstate.journal.segment import HEADER_SIZE, Mark, Position, create

_CLOSING = Chunk(b"", 0, (), 0, 0)


class Active:
    """Writes frames at the end of the journal."""

    def __init__(
        self,
        layout: Layout,
        uuid: bytes,
        fence: Fence,
        resumed: Resume,
        segment_bytes_max: int,
        disk: Disk,
    ) -> None:
        """Go on at `resumed`, whose file descriptor is taken over. Raises OSError."""
        self._layout = layout
        self._uuid = uuid
        self._fence = fence
        self._bytes_max = segment_bytes_max
        self._disk = disk
        self._segment = resumed.segment
        self._fd = resumed.fd
        self._size = disk.size(resumed.fd)
        self._set_mark(resumed.mark)
        self._index = resumed_index(resumed.segment, resumed.mark, disk)
        with closed_on_failure(self._index.close):
            self._durable = DurableFile(layout, uuid, self.durable, disk)

    @property
    def path(self) -> Path:
        return self._segment.path

    def _set_mark(self, mark: Mark) -> None:
        """Between two commits everything written is durable."""
        self.mark = mark
        self.durable = Durable(mark.next_seq, self._segment.name, mark.offset, mark.chain)

    @property
    def boundary(self) -> Position:
        """Where the segment begins: its header holds this chain value, which proves a snapshot."""
        before = self._segment.previous
        epoch = before.epoch if before else 0
        return Position(self._segment.name.first_seq - 1, epoch, self._segment.chain)

    def roll(self) -> None:
        """Begin a new segment, unless this one is empty. Raises StorageError, Fenced."""
        if self.mark.offset > HEADER_SIZE:
            with storage_errors(self.path, "begin a segment"):
                self._rotate(self._bytes_max)

    def commit(self, chunk: Chunk) -> None:
        """Append one frame; it is durable, this writer's, and published when this returns.

        Raises StorageError, or Fenced: then the frame may be in the journal but is not acknowledged.
        """
        with storage_errors(self.path, "append"):
            size = encoded_size(chunk)
            if self.mark.offset + size > self._size:
                self._make_room(size)
            self._append(chunk)

    def _append(self, chunk: Chunk) -> None:
        offset, before, seq = self.mark
        data, chain = encode(chunk, seq, self._fence.epoch, before, self._segment.seed)
        write_exactly(self._disk, self._fd, data, offset)
        self._disk.fdatasync(self._fd)
        self._fence.check()
        body, count, streams, time_min, time_max = chunk
        end = offset + len(data)
        self._set_mark(Mark(end, chain, seq + count))
        self._durable.publish(self.durable)
        self._index.add(
            Frame(
                *(seq, count, self._fence.epoch, streams, time_min, time_max, body),
                *(self.path, offset, end, chain),
            )
        )

    def _make_room(self, size: int) -> None:
        if self.mark.offset == HEADER_SIZE:
            # A frame larger than a segment: an empty one grows.
            self._size = max(self._size, HEADER_SIZE + size)
            self._disk.allocate(self._fd, self._size)
        else:
            self._rotate(max(self._bytes_max, HEADER_SIZE + size))

    def _rotate(self, size: int) -> None:
        """Begin a segment, then cut the free space of the one before: its successor says its end."""
        self._fence.check()
        name = SegmentName(self.mark.next_seq, self._fence.epoch)
        previous = self._segment.name, self.mark
        try:
            segment, fd = create(self._layout, self._uuid, name, previous, size, self._disk)
        except FileNotFoundError:
            self._fence.check()  # a newer writer clears away what has no name yet
            raise
        self._disk.truncate(self._fd, self.mark.offset)
        self._close_segment()
        self._segment, self._fd, self._size = segment, fd, size
        self._set_mark(segment.start)
        self._index = IndexWriter(segment, (), self._disk)
        self._durable.publish(self.durable)

    def finish(self) -> None:
        """A clean end: the closing frame, and no free space. Raises StorageError, Fenced."""
        with storage_errors(self.path, "close"):
            self._fence.check()
            self._append(_CLOSING)
            self._disk.truncate(self._fd, self.mark.offset)

    def close(self) -> None:
        """Give the files back; writes no frame. Raises StorageError."""
        with storage_errors(self.path, "close"):
            self._close_segment()
            self._durable.close()

    def _close_segment(self) -> None:
        self._index.close()
        self._disk.close(self._fd)
