"""The frame codec: exact, bounded, and bound to its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainstate.errors import EventTooLarge, UsageError
from trainstate.journal import FRAME_BODY_MAX, Chunk
from trainstate.journal.frame import (
    HEADER_SIZE,
    STREAMS_MAX,
    check_chunk,
    decode,
    encode,
    encoded_size,
    frame_size,
    merge,
)

SEGMENT = Path("s")
U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)
CHUNKS = st.builds(
    lambda body, streams, times: Chunk(
        body, len(body), tuple(sorted(streams)), min(times), max(times)
    ),
    st.binary(min_size=1, max_size=300),
    st.sets(U64, max_size=9),
    st.tuples(U64, U64),
)


def prev(chain: int) -> bytes:
    return chain.to_bytes(4, "little")


@given(CHUNKS, U64, U64, U32, U32)
def test_a_frame_comes_back_as_it_was_written(one, seq, epoch, chain, seed):
    """Every field, the chain value, and the size told before."""
    data, after = encode(one, seq, epoch, chain, seed)
    assert encoded_size(one) == len(data) == frame_size(data, 0)
    frame = decode(data, 0, prev(chain), seed, SEGMENT, 72)
    assert frame is not None
    assert (one.body, one.count, one.streams) == (frame.body, frame.count, frame.streams)
    assert (seq, epoch, after) == (frame.first_seq, frame.epoch, frame.chain)
    assert (one.time_min, one.time_max) == (frame.time_min, frame.time_max)
    assert (72, 72 + len(data)) == (frame.offset, frame.end)


def test_no_flipped_bit_is_a_frame():
    """Any one bit of a frame, wrong, makes it none."""
    data, _ = encode(Chunk(b"body", 1, (7, 9), 3, 4), 5, 6, 7, 8)
    for at in range(len(data) * 8):
        bad = bytearray(data)
        bad[at // 8] ^= 1 << at % 8
        size = frame_size(bytes(bad), 0)
        whole = 0 < size <= len(bad)
        assert not (whole and decode(bytes(bad), 0, prev(7), 8, SEGMENT, 0))


@pytest.mark.parametrize(("chain", "seed"), [(8, 8), (7, 9)])
def test_a_frame_is_valid_only_in_its_place(chain, seed):
    """Another past or another segment makes the same bytes invalid."""
    data, _ = encode(Chunk(b"body", 1, (), 3, 4), 5, 6, 7, 8)
    assert decode(data, 0, prev(7), 8, SEGMENT, 0)
    assert decode(data, 0, prev(chain), seed, SEGMENT, 0) is None


@pytest.mark.parametrize("at", [4, 12])
def test_lengths_are_bounded_before_they_are_used(at):
    """A body over 1 MiB or a table over 65,535 streams is no frame at all."""
    data, _ = encode(Chunk(b"body", 1, (), 3, 4), 5, 6, 7, 8)
    largest = {4: FRAME_BODY_MAX, 12: STREAMS_MAX}[at]
    fits = data[:at] + largest.to_bytes(4, "little") + data[at + 4 :]
    over = data[:at] + (largest + 1).to_bytes(4, "little") + data[at + 4 :]
    assert frame_size(fits, 0) > largest
    assert 0 == frame_size(over, 0)


def test_a_size_needs_its_bytes():
    """Fewer than the lengths take are no frame."""
    data, _ = encode(Chunk(b"body", 1, (), 3, 4), 5, 6, 7, 8)
    assert [0] * 16 == [frame_size(data[:n], 0) for n in range(16)]
    assert len(data) == frame_size(data[:HEADER_SIZE], 0)


@given(st.lists(CHUNKS, min_size=1, max_size=5))
def test_chunks_merge_into_one(chunks):
    """Bodies in order, counts added, streams united, times spanned."""
    one = merge(chunks)
    assert b"".join(c.body for c in chunks) == one.body
    assert sum(c.count for c in chunks) == one.count
    assert tuple(sorted({s for c in chunks for s in c.streams})) == one.streams
    assert min(c.time_min for c in chunks) == one.time_min
    assert max(c.time_max for c in chunks) == one.time_max


@pytest.mark.parametrize(
    ("bad", "error", "says"),
    [
        (Chunk(bytes(FRAME_BODY_MAX + 1), 1, (), 0, 0), EventTooLarge, "1048577 bytes"),
        (Chunk(b"x", 1, tuple(range(STREAMS_MAX + 1)), 0, 0), EventTooLarge, "65536 streams"),
        (Chunk(b"x", 0, (), 0, 0), UsageError, "0 entries"),
        (Chunk(b"x", 2, (), 0, 0), UsageError, "2 entries cannot be in 1 bytes"),
        (Chunk(b"", 1, (), 0, 0), UsageError, "1 entries cannot be in 0 bytes"),
        (Chunk(b"x", 1, (2**64,), 0, 0), UsageError, "64-bit"),
        (Chunk(b"x", 1, (-1,), 0, 0), UsageError, "64-bit"),
        (Chunk(b"x", 1, (), -1, 0), UsageError, "64-bit"),
        (Chunk(b"x", 1, (), 2, 1), UsageError, "time_min 2 is after time_max 1"),
    ],
)
def test_what_cannot_be_encoded_is_refused(bad, error, says):
    """Before it is queued, with the offending value."""
    with pytest.raises(error, match=says):
        check_chunk(bad)


def test_the_largest_chunk_fits():
    """1 MiB in 65,535 streams is a frame."""
    one = Chunk(bytes(FRAME_BODY_MAX), 1, tuple(range(STREAMS_MAX)), 0, 0)
    check_chunk(one)
    data, _ = encode(one, 1, 1, 0, 0)
    frame = decode(data, 0, prev(0), 0, SEGMENT, 0)
    assert frame is not None
    assert one.streams == frame.streams
