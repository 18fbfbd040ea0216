"""The frame: one group commit, the atomic unit of the journal. Encode, and decode within bounds.

Nothing here touches a file. `decode` answers None for whatever is not exactly a frame in its place;
what that means (the end, a tear, corruption) is for `recover.judge_end` alone.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct, pack, unpack_from
from struct import error as struct_error
from typing import NamedTuple

from google_crc32c import extend

from trainstate.errors import EventTooLarge, UsageError

MAGIC = b"TSF1"
FRAME_BODY_MAX = 1 << 20
STREAMS_MAX = 65_535

_HEADER = Struct("<4sIIIQQQQ")  # without its CRC
_CRC = Struct("<I")
_LENGTHS = Struct("<4sIII")

HEADER_SIZE = _HEADER.size + _CRC.size
OVERHEAD = HEADER_SIZE + _CRC.size
FRAME_MAX = OVERHEAD + 8 * STREAMS_MAX + FRAME_BODY_MAX


class Chunk(NamedTuple):
    """What one caller appends: it is never split, so it is in one frame, whole."""

    body: bytes
    count: int  # type: ignore[assignment]  # entries in it, each at least a byte; hides tuple.count
    streams: tuple[int, ...]  # 64-bit, ascending, each once
    time_min: int  # nanoseconds since the Unix epoch
    time_max: int


class Frame(NamedTuple):
    """A verified frame, as it lies in its segment."""

    first_seq: int
    count: int  # type: ignore[assignment]  # hides tuple.count
    epoch: int
    streams: tuple[int, ...]
    time_min: int
    time_max: int
    body: bytes
    segment: Path
    offset: int
    end: int  # offset after it
    chain: int  # chain value after it

    @property
    def next_seq(self) -> int:
        return self.first_seq + self.count


def check_chunk(chunk: Chunk) -> None:
    """Refuse what cannot be encoded before it is queued: later it would harm other callers.

    Raises EventTooLarge over a limit, UsageError for a chunk that contradicts itself.
    """
    if len(chunk.body) > FRAME_BODY_MAX or len(chunk.streams) > STREAMS_MAX:
        raise EventTooLarge(
            f"a chunk of {len(chunk.body)} bytes in {len(chunk.streams)} streams, "
            f"at most {FRAME_BODY_MAX} bytes in {STREAMS_MAX} streams fit",
            hint="split it at events and append the parts",
        )
    if not 0 < chunk.count <= len(chunk.body):
        raise UsageError(f"{chunk.count} entries cannot be in {len(chunk.body)} bytes")
    try:
        pack(f"<{len(chunk.streams) + 2}Q", chunk.time_min, chunk.time_max, *chunk.streams)
    except struct_error as error:
        raise UsageError(f"times and streams are unsigned 64-bit integers: {error}") from error
    if chunk.time_min > chunk.time_max:
        raise UsageError(f"time_min {chunk.time_min} is after time_max {chunk.time_max}")


def merge(chunks: list[Chunk]) -> Chunk:
    """Many chunks as one: bodies concatenate, streams unite."""
    if len(chunks) == 1:
        only = chunks[0]
        return only if len(only.streams) < 2 else only._replace(streams=_ascending(only.streams))
    bodies, counts, streams, starts, ends = zip(*chunks, strict=True)
    united = _ascending(set().union(*streams))
    return Chunk(b"".join(bodies), sum(counts), united, min(starts), max(ends))


def _ascending(streams: set[int] | tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set(streams)))


def encoded_size(chunk: Chunk) -> int:
    """Bytes of the frame that will hold this chunk."""
    return OVERHEAD + 8 * len(chunk.streams) + len(chunk.body)


def encode(chunk: Chunk, first_seq: int, epoch: int, chain: int, seed: int) -> tuple[bytes, int]:
    """The frame's bytes and the chain value after it."""
    body, count, streams, time_min, time_max = chunk
    shape = len(body), count, len(streams)
    header = _HEADER.pack(MAGIC, *shape, first_seq, epoch, time_min, time_max)
    header_crc = extend(seed, _CRC.pack(chain) + header)
    payload = pack(f"<{len(streams)}Q", *streams) + body
    after: int = extend(header_crc, payload)
    return b"".join((header, _CRC.pack(header_crc), payload, _CRC.pack(after))), after


def frame_size(data: bytes, at: int) -> int:
    """Bytes of the frame that seems to start at `at`, bounded; 0 when none does.

    Needs 16 bytes from `at` on and trusts none of them beyond FRAME_MAX.
    """
    if len(data) - at < _LENGTHS.size:
        return 0
    magic, body, _, streams = _LENGTHS.unpack_from(data, at)
    if magic != MAGIC or body > FRAME_BODY_MAX or streams > STREAMS_MAX:
        return 0
    size: int = OVERHEAD + 8 * streams + body
    return size


def decode(
    data: bytes, at: int, chain: bytes, seed: int, segment: Path, offset: int
) -> Frame | None:
    """The frame at `data[at:]`, which lies at `offset` of its segment; None if none is valid there.

    `chain` is the chain value before it as its 4 bytes, `seed` the segment's. `data` must reach
    the end that `frame_size` told.
    """
    start = at + HEADER_SIZE
    header = data[at : start - 4]
    header_crc = extend(seed, chain + header)
    if data[start - 4 : start] != _CRC.pack(header_crc):
        return None
    _, size, count, n, first_seq, epoch, time_min, time_max = _HEADER.unpack(header)
    stop = start + 8 * n + size
    payload = data[start:stop]
    after = extend(header_crc, payload)
    if data[stop : stop + 4] != _CRC.pack(after):
        return None
    streams = unpack_from(f"<{n}Q", payload) if n else ()
    body = payload[8 * n :]
    end = offset + OVERHEAD + len(payload)
    return Frame(
        first_seq, count, epoch, streams, time_min, time_max, body, segment, offset, end, after
    )


def content_chain(data: bytes, at: int, chain: bytes, seed: int) -> int | None:
    """The chain value that a frame's content has, whatever its last 4 bytes say.

    When only those are damaged, the frame after it is still found by this value. None without a
    valid header, or when `data` does not hold all of it.
    """
    size = frame_size(data, at)
    start, stop = at + HEADER_SIZE, at + size - 4
    header_crc = extend(seed, chain + data[at : start - 4])
    if not size or stop > len(data) or data[start - 4 : start] != _CRC.pack(header_crc):
        return None
    content: int = extend(header_crc, data[start:stop])
    return content
