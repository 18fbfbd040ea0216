"""Events as the journal holds them: encoded once at append, grouped in chunks, parsed per frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from google.protobuf.message import DecodeError as ProtobufDecodeError

from trainstate.errors import DecodeError, EventTooLarge
from trainstate.journal import FRAME_BODY_MAX, Chunk, Frame
from trainstate.v1 import event_pb2 as e

# An event over this is refused: what is larger belongs in a file that an event names.
EVENT_BYTES_MAX = 256 * 1024

# Protobuf reads messages nested up to 100 deep, and writes deeper ones. A level takes two bytes or more,
# so an event up to this size cannot be too deep.
_SHALLOW_BYTES = 190

_BATCH_EVENTS_TAG = b"\x0a"


class Recorded(NamedTuple):
    """An event and its position in the journal: from 1, gap-free, never reused."""

    seq: int
    event: e.Event


class EventBatch(NamedTuple):
    """The events of one frame, and the position of the first."""

    first_seq: int
    events: Sequence[e.Event]


Include = Callable[[Recorded], bool]


def until_seq(seq: int) -> Include:
    """Everything up to and including that position."""
    return lambda recorded: recorded.seq <= seq


def until_time(time_ns: int) -> Include:
    """Everything up to and including that time; of one run, its longest prefix (times never fall)."""
    return lambda recorded: recorded.event.time_unix_nano <= time_ns


def stream_of(run_id: str) -> int:
    """The journal stream of a run: 64 bits of BLAKE2b of its id."""
    return int.from_bytes(
        blake2b(run_id.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little"
    )


def encode(event: e.Event) -> bytes:
    """One event as a Batch of one, so that encoded events concatenate to a Batch.

    Raises EventTooLarge for an event over EVENT_BYTES_MAX.
    """
    body = event.SerializeToString()
    if len(body) > EVENT_BYTES_MAX:
        raise _too_large(event, f"of {len(body)} bytes; the limit is {EVENT_BYTES_MAX}")
    encoded = _BATCH_EVENTS_TAG + _varint(len(body)) + body
    if len(body) > _SHALLOW_BYTES:
        try:
            e.Batch.FromString(encoded)
        except ProtobufDecodeError as error:
            raise _too_large(event, "is nested deeper than it could be read back") from error
    return encoded


def _too_large(event: e.Event, why: str) -> EventTooLarge:
    return EventTooLarge(
        f"{event.WhichOneof('payload')} {why}",
        run_id=event.run_id,
        hint="keep large values in a file and name it in the event",
    )


@lru_cache(maxsize=4096)
def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def chunks(encoded: Sequence[bytes], times: Sequence[int], stream: int) -> Iterator[Chunk]:
    """The encoded events of one run as chunks that each fit a frame; split only between events."""
    start = size = 0
    for index, body in enumerate(encoded):
        if size + len(body) > FRAME_BODY_MAX:
            yield _chunk(encoded, times, stream, start, index)
            start, size = index, 0
        size += len(body)
    if start < len(encoded):
        yield _chunk(encoded, times, stream, start, len(encoded))


def _chunk(
    encoded: Sequence[bytes], times: Sequence[int], stream: int, start: int, end: int
) -> Chunk:
    # Times of one run never fall, so the first and the last bound the rest.
    body = b"".join(encoded[start:end])
    return Chunk(body, end - start, (stream,), times[start], times[end - 1])


def recorded(frames: Iterable[Frame], from_seq: int | None = None) -> Iterator[Recorded]:
    """The events of frames, in order, from a position on.

    Raises DecodeError for a body that is no Batch or holds another number of events than it should.
    """
    for first, events in batches(frames):
        skip = max(0, (from_seq or 0) - first)
        for index in range(skip, len(events)):
            yield Recorded(first + index, events[index])


def batches(frames: Iterable[Frame]) -> Iterator[EventBatch]:
    """The events of frames, frame by frame. Raises as `recorded` does."""
    for frame in frames:
        yield EventBatch(frame.first_seq, _parse(frame))


def _parse(frame: Frame) -> Sequence[e.Event]:
    try:
        events = e.Batch.FromString(frame.body).events
    except ProtobufDecodeError as error:
        raise _undecodable(frame, str(error)) from error
    if len(events) != frame.count:
        raise _undecodable(frame, f"it holds {len(events)} events, its header says {frame.count}")
    return events


def _undecodable(frame: Frame, why: str) -> DecodeError:
    return DecodeError(
        f"frame of seq {frame.first_seq}-{frame.first_seq + frame.count - 1} is intact but holds "
        f"no batch of events: {why}",
        path=frame.segment,
        offset=frame.offset,
        hint="it was written by another program than trainstate, or by a much newer one",
    )
