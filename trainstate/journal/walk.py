"""Walking over the frames of one segment: reads in large blocks, verifies each frame in its place."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from trainstate.errors import JournalCorrupt
from trainstate.journal.disk import OS, Disk, storage_errors
from trainstate.journal.frame import FRAME_MAX, Frame, decode, frame_size
from trainstate.journal.layout import verify_hint
from trainstate.journal.segment import Mark, Segment, open_segment

_READ_BYTES = 1 << 20
_LENGTHS_SIZE = 16  # what `frame_size` looks at
_CRC = Struct("<I")


class Walk:
    """A place in a segment that moves forward over valid frames. Holds a file descriptor."""

    __slots__ = ("_disk", "_fd", "mark", "segment")

    def __init__(self, segment: Segment, mark: Mark | None = None, disk: Disk = OS) -> None:
        self.segment = segment
        self.mark = mark or segment.start
        self._disk = disk
        self._fd = open_segment(segment.path, disk)

    def close(self) -> None:
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def until(self, limit: int) -> Iterator[Frame]:
        """Yield the frames up to offset `limit`; ends earlier at what is not a valid frame.

        Closing frames are yielded too. `mark` is after the frame yielded last, and says at the
        end how far the frames reach.
        """
        offset, chain, next_seq = self.mark
        prev = _CRC.pack(chain)
        seed, path = self.segment.seed, self.segment.path
        data, base = b"", offset
        while True:
            at = offset - base
            size = frame_size(data, at)
            if not size or at + size > len(data):
                data, base, at = self.read(offset, limit), offset, 0
                size = frame_size(data, 0)
                if not size or size > len(data):
                    return
            frame = decode(data, at, prev, seed, path, offset)
            if frame is None or frame.first_seq != next_seq:
                return
            offset = frame.end
            next_seq = frame.next_seq
            prev = _CRC.pack(frame.chain)
            self.mark = Mark(offset, frame.chain, next_seq)
            yield frame

    def all_until(self, limit: int) -> Iterator[Frame]:
        """Yield the frames up to `limit`, which they must reach: JournalCorrupt where they do not."""
        yield from self.until(limit)
        if self.mark.offset != limit:
            raise self.damage(f"damaged frame, valid ones must reach offset {limit}")

    def damage(self, what: str) -> JournalCorrupt:
        """The error for damage at the mark."""
        offset, _, next_seq = self.mark
        return JournalCorrupt(
            f"{what}; entries up to seq {next_seq - 1} are good",
            path=self.segment.path,
            offset=offset,
            hint=verify_hint(self.segment.path.parent.parent),
        )

    def read(self, offset: int, limit: int) -> bytes:
        """A block of the file from `offset`, enough for any frame there, and not past `limit`."""
        size = min(limit - offset, _READ_BYTES)
        data = self.block(offset, size)
        wanted = min(frame_size(data, 0), limit - offset, FRAME_MAX)
        return data if wanted <= len(data) else self.block(offset, wanted)

    def block(self, offset: int, size: int) -> bytes:
        """The bytes at an offset, fewer at the end of the file."""
        if size <= 0:
            return b""
        with storage_errors(self.segment.path, "read the segment"):
            return self._disk.pread(self._fd, size, offset)

    def size(self) -> int:
        """Length of the file, free space included."""
        with storage_errors(self.segment.path, "measure the segment"):
            return self._disk.size(self._fd)

    def frame_at(self, offset: int, prev: bytes | None = None) -> Frame | None:
        """The frame at an offset, whatever is before it; None when none is valid there.

        Its predecessor's chain value, unless given, is the 4 bytes before it: how a frame found
        through an index, or behind damage, is verified without reading what is before it.
        """
        if prev is None:
            prev = _CRC.pack(self.chain_before(offset))
        data = self.read(offset, FRAME_MAX + offset)
        size = frame_size(data, 0)
        if not size or size > len(data):
            return None
        return decode(data, 0, prev, self.segment.seed, self.segment.path, offset)

    def chain_before(self, offset: int) -> int:
        """The chain value in the file before the frame at an offset."""
        start = self.segment.start
        if offset <= start.offset:
            return start.chain
        return int.from_bytes(self.block(offset - 4, 4), "little")

    def holds(self, mark: Mark) -> bool:
        """Whether the chain value that a hint (index, DURABLE) gives for a place is in the file."""
        return self.chain_before(mark.offset) == mark.chain
