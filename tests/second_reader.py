"""A second reader of the journal, written from the docstring of `trainstate.journal` alone.

It shares no code with the implementation, so what both read the same way is what the text says, and
not what one program happens to do. It is slow and reads whole files; it only ever reads.

    read_journal(path)   the data frames, oldest first
    examine(path)        the same, and the tear
    check_fence(path)    FENCE, which only writers need
    check_indexes(path)  the sidecars, which are disposable, cross-checked against the frames
    entries(body)        the raw messages in a protobuf `Batch`
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple

import google_crc32c

SEGMENT_HEADER = struct.Struct("<8sI16sQQQQIII")
FRAME_HEADER = struct.Struct("<4sIIIQQQQI")
DURABLE_RECORD = struct.Struct("<8s16sQQQIIII")
INDEX_HEADER = struct.Struct("<8sIIII")
INDEX_BLOCK = struct.Struct("<4sIIIQQQQII")
POSTING = struct.Struct("<QI")
U32 = struct.Struct("<I")
FLOCK = struct.Struct("hhqqi0q")  # type, whence, start, length, pid

SEGMENT_MAGIC = b"\x89TSJ\r\n\x1a\n"
FRAME_MAGIC = b"TSF1"
BODY_BYTES_MAX, STREAMS_MAX = 1_048_576, 65_535


class SecondReaderError(Exception):
    """The bytes at `offset` of `file` break a rule of the format; `why` says which."""

    def __init__(self, why: str, file: Path, offset: int = 0) -> None:
        super().__init__(f"{file}: {why} at offset {offset}")
        self.why, self.file, self.offset = why, file, offset


class SegmentKey(NamedTuple):
    """What orders segments."""

    epoch: int
    first_seq: int


@dataclass(frozen=True)
class SecondFrame:
    """A frame and where it stands; `count` is 0 in a closing frame."""

    first_seq: int
    count: int
    epoch: int
    streams: tuple[int, ...]
    time_min: int
    time_max: int
    body: bytes
    segment: str
    offset: int
    end: int
    chain: int


class SecondTear(NamedTuple):
    """What an interrupted write left: the bytes from `offset` to the last that is not zero."""

    segment: str
    offset: int
    data: bytes


class Segment(NamedTuple):
    file: Path
    data: bytes
    key: SegmentKey
    predecessor: SegmentKey | None
    predecessor_end: int
    chain: int
    seed: int


class Walk(NamedTuple):
    """The valid frames of a segment; their end; the chain value, next seq and epoch there."""

    segment: Segment
    frames: list[SecondFrame]
    end: int
    chain: int
    next_seq: int
    epoch: int


class Durable(NamedTuple):
    """Everything below `end` of the segment is durable; the chain value and next seq there."""

    segment: SegmentKey
    end: int
    chain: int
    next_seq: int


def crc(data: bytes, seed: int = 0) -> int:
    return int(google_crc32c.extend(seed, data))


def read_journal(path: Path) -> list[SecondFrame]:
    """The data frames a reader may see. Raises SecondReaderError if the journal is corrupt."""
    return examine(path)[0]


def examine(path: Path) -> tuple[list[SecondFrame], SecondTear | None]:
    """The frames, and the tear behind them. Raises SecondReaderError if the journal is corrupt."""
    is_live = writer_lives(path / "writer.lock")
    uuid = read_identity(path / "IDENTITY")
    durable = read_durable(path / "DURABLE", uuid)
    walks = walk_segments(path / "seg", uuid)
    if not walks and durable:
        raise SecondReaderError(f"the durable segment {durable.segment} is missing", path / "seg")
    if not walks:
        return [], None
    last = walks[-1]
    durable_end = find_durable_end(last, durable)
    tear = None if is_live else find_tear(last)
    old = [frame for walk in walks[:-1] for frame in walk.frames]
    new = [frame for frame in last.frames if frame.end <= durable_end or not is_live]
    return [frame for frame in old + new if frame.count], tear


def writer_lives(file: Path) -> bool:
    """Ask for the lock without taking it."""
    if not file.exists():
        return False
    query = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    with file.open("rb") as lock:
        answer = fcntl.fcntl(lock, fcntl.F_OFD_GETLK, query)
    return bool(FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def read_text(file: Path, pattern: bytes) -> re.Match[bytes]:
    """Match the lines of a text file, less the last, which must be their CRC."""
    data = file.read_bytes() if file.exists() else b""
    size = max(len(data) - len("crc32c 01234567\n"), 0)
    if data[size:] != b"crc32c %08x\n" % crc(data[:size]):
        raise SecondReaderError("the last line is not the crc of the lines before", file)
    if match := re.fullmatch(pattern, data[:size]):
        return match
    raise SecondReaderError("the lines are not those of this format", file)


def read_identity(file: Path) -> bytes:
    return bytes.fromhex(read_text(file, rb"format 1\nuuid ([0-9a-f]{32})\n")[1].decode())


def check_fence(path: Path) -> None:
    """No epoch is above that of the newest writer."""
    match = read_text(path / "FENCE", rb"epoch ([1-9][0-9]*|0)\nowner ([^\n]*)\n")
    for walk in walk_segments(path / "seg", read_identity(path / "IDENTITY")):
        if walk.epoch > int(match[1]):
            raise SecondReaderError(f"epoch {walk.epoch} is above the fence", walk.segment.file)


def read_durable(file: Path, uuid: bytes) -> Durable | None:
    """The record, or None if it says nothing."""
    data = file.read_bytes() if file.exists() else b""
    if len(data) != DURABLE_RECORD.size or crc(data[:60]) != U32.unpack(data[60:])[0]:
        return None
    magic, journal, next_seq, first_seq, epoch, end, chain, _, _ = DURABLE_RECORD.unpack(data)
    is_ours = (magic, journal) == (b"\x89TSD\r\n\x1a\n", uuid)
    return Durable(SegmentKey(epoch, first_seq), end, chain, next_seq) if is_ours else None


# --- segments -------------------------------------------------------------------------------------


def walk_segments(folder: Path, uuid: bytes) -> list[Walk]:
    """Every frame of the segments that are journal, oldest first."""
    segments = find_segments(folder, uuid)
    walks: list[Walk] = []
    for segment, successor in zip_longest(segments, segments[1:]):
        if walks and segment.key.first_seq != walks[-1].next_seq:
            raise SecondReaderError(f"first_seq is not {walks[-1].next_seq}", segment.file, 36)
        if walks and segment.key.epoch < walks[-1].epoch:
            raise SecondReaderError(f"epoch is below {walks[-1].epoch}", segment.file, 28)
        limit = successor.predecessor_end if successor else len(segment.data)
        walk = walk_frames(segment, limit)
        if successor and (walk.end, walk.chain) != (limit, successor.chain):
            why = f"valid frames do not end at {limit}, where the successor says"
            raise SecondReaderError(why, segment.file, walk.end)
        walks.append(walk)
    return walks


def find_segments(folder: Path, uuid: bytes) -> list[Segment]:
    """Follow the predecessors from the last segment. What they do not name is a stray."""
    files = {}
    for file in folder.iterdir() if folder.exists() else ():
        if match := re.fullmatch(r"(\d{20})-(\d{10})\.seg", file.name):
            files[SegmentKey(epoch=int(match[2]), first_seq=int(match[1]))] = file
    found: list[Segment] = []
    key = max(files, default=None)
    while key in files:
        segment = read_segment(files[key], key, uuid)
        found.insert(0, segment)
        key = segment.predecessor
    if key is not None and any(other < key for other in files):
        raise SecondReaderError(f"the predecessor {key} is missing", found[0].file, 44)
    return found


def read_segment(file: Path, key: SegmentKey, uuid: bytes) -> Segment:
    data = file.read_bytes()
    if len(data) < SEGMENT_HEADER.size or data[68:72] != U32.pack(crc(data[:68])):
        raise SecondReaderError("not a segment header", file)
    magic, version, journal, epoch, first_seq, *rest, seed = SEGMENT_HEADER.unpack_from(data)
    if (magic, version, journal, (epoch, first_seq)) != (SEGMENT_MAGIC, 1, uuid, key):
        raise SecondReaderError("the header of another format, journal or segment", file)
    before_seq, before_epoch, before_end, chain = rest
    predecessor = SegmentKey(before_epoch, before_seq) if any(rest[:3]) else None
    if predecessor is None and (first_seq, chain) != (1, 0):
        raise SecondReaderError("the first segment starts with seq 1 and chain 0", file, 36)
    if predecessor is not None and predecessor >= key:
        raise SecondReaderError(f"the predecessor {predecessor} is not older", file, 44)
    return Segment(file, data, key, predecessor, before_end, chain, seed)


def walk_frames(segment: Segment, limit: int) -> Walk:
    """The valid frames of a segment that start below `limit`."""
    frames: list[SecondFrame] = []
    offset, chain = SEGMENT_HEADER.size, segment.chain
    next_seq, epoch = segment.key.first_seq, segment.key.epoch
    while offset < limit:
        frame = read_frame(segment, offset, chain)
        if not frame or not is_whole(frame, segment):
            break
        check_frame(frame, next_seq, epoch, segment.file)
        frames.append(frame)
        offset, chain = frame.end, frame.chain
        next_seq, epoch = next_seq + frame.count, frame.epoch
    return Walk(segment, frames, offset, chain, next_seq, epoch)


def read_frame(segment: Segment, offset: int, chain: int) -> SecondFrame | None:
    """The frame at `offset` if its header is valid and follows `chain`; see also is_whole."""
    data = segment.data
    table = offset + FRAME_HEADER.size
    if table > len(data):
        return None
    header = FRAME_HEADER.unpack_from(data, offset)
    magic, size, count, streams, first_seq, epoch, time_min, time_max, header_crc = header
    body = table + 8 * streams
    end = body + size + 4
    is_bounded = size <= BODY_BYTES_MAX and streams <= STREAMS_MAX and end <= len(data)
    own_crc = crc(data[offset : table - 4], crc(U32.pack(chain), segment.seed))
    if not is_bounded or (magic, header_crc) != (FRAME_MAGIC, own_crc):
        return None
    body_crc = crc(data[table : end - 4], header_crc)
    table_items = struct.unpack_from(f"<{streams}Q", data, table)
    numbers = (first_seq, count, epoch, table_items, time_min, time_max)
    return SecondFrame(*numbers, data[body : end - 4], segment.file.name, offset, end, body_crc)


def is_whole(frame: SecondFrame, segment: Segment) -> bool:
    return segment.data[frame.end - 4 : frame.end] == U32.pack(frame.chain)


def check_frame(frame: SecondFrame, next_seq: int, epoch: int, file: Path) -> None:
    """The rules that no CRC knows."""
    closing = (frame.streams, frame.body, frame.time_min, frame.time_max) == ((), b"", 0, 0)
    if frame.first_seq != next_seq:
        raise SecondReaderError(f"first_seq is not {next_seq}", file, frame.offset)
    if frame.epoch < epoch:
        raise SecondReaderError(f"epoch is below {epoch}", file, frame.offset)
    if any(a >= b for a, b in pairwise(frame.streams)):
        raise SecondReaderError("streams do not ascend", file, frame.offset)
    if not frame.count and not closing:
        raise SecondReaderError("no entries, yet no closing frame", file, frame.offset)


# --- where the journal ends -----------------------------------------------------------------------


def find_durable_end(last: Walk, durable: Durable | None) -> int:
    """Everything below this offset of the last segment is durable; valid frames must reach it."""
    file, start = last.segment.file, (SEGMENT_HEADER.size, last.segment.chain)
    proven = last.frames[-1].offset if last.frames else start[0]
    if durable is None or durable.segment < last.segment.key:
        return proven
    if durable.segment > last.segment.key:
        raise SecondReaderError(f"the durable segment {durable.segment} is missing", file)
    if durable.end > last.end:
        raise SecondReaderError(f"durable up to {durable.end}, yet damaged", file, last.end)
    ends = {(frame.end, frame.chain, frame.first_seq + frame.count) for frame in last.frames}
    if durable[1:] not in ends | {(*start, last.segment.key.first_seq)}:
        raise SecondReaderError("DURABLE tells of another history", file, durable.end)
    return max(proven, durable.end)


def find_tear(last: Walk) -> SecondTear | None:
    """What follows the valid frames, which are known to reach the durable end."""
    segment, offset = last.segment, last.end
    rest = segment.data[offset:].rstrip(b"\0")
    computed = {offset: last.chain}  # chain values computed from the frame that ends at the offset
    while (offset := segment.data.find(FRAME_MAGIC, offset)) >= 0:
        # Frames are back to back: the 4 bytes before one are the body CRC of its predecessor.
        stored = U32.unpack_from(segment.data, offset - 4)[0]
        for chain in {stored, computed.get(offset, stored)}:
            frame = read_frame(segment, offset, chain)
            if frame and frame.first_seq >= last.next_seq and is_whole(frame, segment):
                why = f"damaged: a valid frame follows at {offset}"
                raise SecondReaderError(why, segment.file, last.end)
            if frame:
                computed[frame.end] = frame.chain
        offset += 1
    return SecondTear(segment.file.name, last.end, rest) if rest else None


def check_indexes(path: Path) -> dict[str, int]:
    """Sidecar name -> where its valid blocks end. Raises if a valid block tells of other frames."""
    walks = walk_segments(path / "seg", read_identity(path / "IDENTITY"))
    files = [(walk, walk.segment.file.with_suffix(".idx")) for walk in walks]
    return {file.name: check_index(file, walk) for walk, file in files if file.exists()}


def check_index(file: Path, walk: Walk) -> int:
    data = file.read_bytes()
    end, at = SEGMENT_HEADER.size, INDEX_HEADER.size
    if len(data) < INDEX_HEADER.size or data[20:24] != U32.pack(crc(data[:20])):
        return end
    magic, version, seed, reserved, own_crc = INDEX_HEADER.unpack_from(data)
    if (magic, version, seed, reserved) != (b"\x89TSI\r\n\x1a\n", 1, walk.segment.seed, 0):
        raise SecondReaderError("the index of another segment", file)
    while block := read_block(data, at, own_crc):
        end, size = check_block(block, end, walk, file, at)
        at += size
    return end


def read_block(data: bytes, at: int, seed: int) -> bytes | None:
    """The block at `at`, without its CRC."""
    if at + INDEX_BLOCK.size > len(data):
        return None
    postings = INDEX_BLOCK.unpack_from(data, at)[8]
    end = at + INDEX_BLOCK.size + POSTING.size * postings
    if end + 4 > len(data) or U32.unpack_from(data, end)[0] != crc(data[at:end], seed):
        return None
    return data[at:end]


def check_block(block: bytes, start: int, walk: Walk, file: Path, at: int) -> tuple[int, int]:
    """Cross-check a block with its frames -> (end offset in the segment, size in the index)."""
    end = INDEX_BLOCK.unpack_from(block)[2]
    offsets = [frame.offset for frame in walk.frames]
    frames = walk.frames[bisect_left(offsets, start) : bisect_left(offsets, end)]
    if not frames or (start, end) != (frames[0].offset, frames[-1].end):
        raise SecondReaderError(f"no frames reach from {start} to {end}", file, at)
    data = [frame for frame in frames if frame.count]
    postings = sorted((stream, frame.offset) for frame in data for stream in frame.streams)
    place = (start, end, frames[-1].chain)
    seqs = (frames[0].first_seq, frames[-1].first_seq + frames[-1].count)
    first_time = min((frame.time_min for frame in data), default=0)
    times = (first_time, max((frame.time_max for frame in data), default=0))
    head = INDEX_BLOCK.pack(b"TSI1", *place, *seqs, *times, len(postings), len(frames))
    if block != head + b"".join(POSTING.pack(*posting) for posting in postings):
        raise SecondReaderError("the block does not tell what its frames do", file, at)
    return end, len(block) + 4


def entries(body: bytes) -> list[bytes]:
    """Split a protobuf message whose only field is `repeated <message> = 1`. Raises ValueError."""
    found, at = [], 0
    while at < len(body):
        tag, at = read_varint(body, at)
        if tag != 1 << 3 | 2:
            raise ValueError(f"tag {tag} is not that of field 1, length-delimited")
        size, at = read_varint(body, at)
        if at + size > len(body):
            raise ValueError(f"an entry of {size} bytes reaches past the end of the body")
        found.append(body[at : at + size])
        at += size
    return found


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The base-128 number at `at` -> (number, offset behind it)."""
    number = 0
    for shift, byte in enumerate(data[at : at + 10]):
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return number, at + shift + 1
    raise ValueError(f"the varint at offset {at} ends neither in the body nor within 10 bytes")
