"""Index sidecars: sparse seq and time per block of a segment, and the frames of each stream.

An index is disposable. The writer appends a block after the frames it covers are durable and never
syncs it; a reader takes the longest valid prefix of blocks, scans the rest of the segment itself, and
verifies every frame that it finds through an index like any other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from google_crc32c import extend
from google_crc32c import value as crc32c

from trainstate.journal.disk import Disk, write_exactly
from trainstate.journal.frame import Frame
from trainstate.journal.segment import HEADER_SIZE as SEGMENT_HEADER_SIZE
from trainstate.journal.segment import Mark, Segment
from trainstate.journal.walk import Walk

MAGIC = b"\x89TSI\r\n\x1a\n"
BLOCK_MAGIC = b"TSI1"
BLOCK_BYTES = 64 << 10  # of segment that a block covers, about

_HEADER = Struct("<8sIII")  # without its CRC
_BLOCK = Struct("<4sIIIQQQQII")
_POSTING = Struct("<QI")
_STREAM = Struct("<Q")
_CRC = Struct("<I")

HEADER_SIZE = _HEADER.size + _CRC.size


class Block(NamedTuple):
    """What an index says about one stretch of its segment."""

    start: int
    end: int
    chain: int  # at the end
    first_seq: int
    next_seq: int
    time_min: int
    time_max: int
    frames: int
    postings: bytes

    @property
    def after(self) -> Mark:
        return Mark(self.end, self.chain, self.next_seq)

    @property
    def encoded_size(self) -> int:
        return _BLOCK.size + len(self.postings) + _CRC.size

    def offsets_of(self, stream: int) -> Iterator[int]:
        """Offsets of the frames that hold entries of a stream, ascending."""
        key = _STREAM.pack(stream)
        at = self.postings.find(key)
        while at >= 0:
            if at % _POSTING.size == 0:
                yield _POSTING.unpack_from(self.postings, at)[1]
            at = self.postings.find(key, at + 1)


def index_path(segment: Segment) -> Path:
    return segment.path.with_suffix(".idx")


def encode_header(segment: Segment) -> bytes:
    data = _HEADER.pack(MAGIC, 1, segment.seed, 0)
    return data + _CRC.pack(crc32c(data))


def encode_block(frames: Sequence[Frame], header: bytes) -> bytes:
    """The block for frames that follow each other; `header` is the index header's bytes."""
    first, last = frames[0], frames[-1]
    postings = sorted((stream, frame.offset) for frame in frames for stream in frame.streams)
    timed = [frame for frame in frames if frame.count]
    data = _BLOCK.pack(
        BLOCK_MAGIC,
        first.offset,
        last.end,
        last.chain,
        first.first_seq,
        last.next_seq,
        min((frame.time_min for frame in timed), default=0),
        max((frame.time_max for frame in timed), default=0),
        len(postings),
        len(frames),
    ) + b"".join(_POSTING.pack(*posting) for posting in postings)
    return data + _CRC.pack(extend(_seed(header), data))


def fits(block: Block, frames: Sequence[Frame], header: bytes) -> bool:
    """Whether a block says what it must say of exactly these frames."""
    return _decode_block(encode_block(frames, header), 0, _seed(header)) == block


def _seed(header: bytes) -> int:
    seed: int = _CRC.unpack(header[-4:])[0]
    return seed


def decode_blocks(data: bytes, segment: Segment) -> list[Block]:
    """The longest valid prefix of the blocks of an index file; none when its header is wrong."""
    header = encode_header(segment)
    if data[:HEADER_SIZE] != header:
        return []
    blocks: list[Block] = []
    at, expected = HEADER_SIZE, SEGMENT_HEADER_SIZE
    while block := _decode_block(data, at, _seed(header)):
        if block.start != expected or block.end <= block.start:
            break
        blocks.append(block)
        at, expected = at + block.encoded_size, block.end
    return blocks


def _decode_block(data: bytes, at: int, seed: int) -> Block | None:
    if len(data) - at < _BLOCK.size:
        return None
    magic, start, end, chain, *middle, n, frames = _BLOCK.unpack_from(data, at)
    stop = at + _BLOCK.size + _POSTING.size * n
    if magic != BLOCK_MAGIC or data[stop : stop + 4] != _CRC.pack(extend(seed, data[at:stop])):
        return None
    first_seq, next_seq, time_min, time_max = middle
    postings = data[at + _BLOCK.size : stop]
    return Block(start, end, chain, first_seq, next_seq, time_min, time_max, frames, postings)


def encoded_size(blocks: Sequence[Block]) -> int:
    """Bytes of an index file with these blocks."""
    return HEADER_SIZE + sum(block.encoded_size for block in blocks)


def load_index(walk: Walk) -> list[Block]:
    """The blocks for a segment that fit it; none when the file is missing or is of other bytes."""
    try:
        data = index_path(walk.segment).read_bytes()
    except OSError:
        return []  # an index is never needed: the segment is scanned instead
    blocks = decode_blocks(data, walk.segment)
    return blocks if blocks and walk.holds(blocks[-1].after) else []


class IndexWriter:
    """Appends blocks for the segment being written.

    It fails silently, and for good: the frames are durable, and what an index does not cover is
    scanned. `trainstate verify` reports a lacking index, `repair` rebuilds it.
    """

    __slots__ = ("_at", "_disk", "_fd", "_header", "_pending", "_pending_start")

    def __init__(self, segment: Segment, blocks: Sequence[Block], disk: Disk) -> None:
        """Go on after `blocks`, which are in the file; start a new file when there are none."""
        self._disk = disk
        self._header = encode_header(segment)
        self._at = encoded_size(blocks)
        self._pending: list[Frame] = []
        self._pending_start = blocks[-1].end if blocks else SEGMENT_HEADER_SIZE
        self._fd: int | None = None
        self._start(index_path(segment))

    def _start(self, path: Path) -> None:
        try:
            self._fd = self._disk.open(path, os.O_RDWR | os.O_CREAT)
            self._disk.truncate(self._fd, self._at)
            write_exactly(self._disk, self._fd, self._header, 0)
        except OSError:
            self._abandon()

    def add(self, frame: Frame) -> None:
        """Take up a durable frame."""
        self._pending.append(frame)
        if frame.end - self._pending_start >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the block under construction, if any."""
        if not self._pending:
            return
        frames, self._pending = self._pending, []
        self._pending_start = frames[-1].end
        if self._fd is None:
            return
        block = encode_block(frames, self._header)
        try:
            write_exactly(self._disk, self._fd, block, self._at)
            self._at += len(block)
        except OSError:
            self._abandon()

    def _abandon(self) -> None:
        if self._fd is not None:
            self._disk.close(self._fd)
            self._fd = None

    def close(self) -> None:
        self.flush()
        self._abandon()


def resumed_index(segment: Segment, mark: Mark, disk: Disk) -> IndexWriter:
    """The index of a segment that a writer goes on with at `mark`: what it lacks is scanned."""
    with Walk(segment, disk=disk) as walk:
        blocks = [block for block in load_index(walk) if block.end <= mark.offset]
        if blocks:
            walk.mark = blocks[-1].after
        index = IndexWriter(segment, blocks, disk)
        for frame in walk.until(mark.offset):
            index.add(frame)
    return index
