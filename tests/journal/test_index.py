"""Indexes are disposable: whatever is wrong with one, what is read is right."""

from __future__ import annotations

import errno

import pytest

from tests import second_reader
from tests.journal.making import chunk, crashed, fill, flip, numbers, segments
from trainstate.journal import Reader, Writer, verify
from trainstate.journal import index as index_module
from trainstate.journal.index import load_index
from trainstate.journal.segment import read_header
from trainstate.journal.walk import Walk
from trainstate.testing.disk import FaultyDisk

COUNT = 30


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Several blocks in a small segment."""
    monkeypatch.setattr(index_module, "BLOCK_BYTES", 300)


def lookups(path):
    """Everything that goes through an index."""
    reader = Reader(path)
    return (
        [numbers(reader.frames_of(stream)) for stream in range(3)],
        numbers(reader.frames_since(11)),
        numbers(reader.frames(17)),
    )


def expected(count):
    everything = range(1, count + 1)
    streams = [[n for n in everything if n % 3 == stream] for stream in range(3)]
    return streams, list(range(11, count + 1)), list(range(17, count + 1))


@pytest.fixture
def journal(tmp_path):
    with Writer.open(tmp_path) as writer:
        for number in range(1, COUNT + 1):
            writer.append(chunk(number, number % 3))
    return tmp_path


def blocks(path):
    with Walk(read_header(segments(path)[-1])) as walk:
        return load_index(walk)


def test_blocks_cover_a_closed_segment(journal):
    """Contiguous, to its end; a second reader finds the same in them."""
    found = blocks(journal)
    assert len(found) > 5
    assert [72, *(block.end for block in found[:-1])] == [block.start for block in found]
    assert segments(journal)[-1].stat().st_size == found[-1].end
    assert {found[-1].end} == set(second_reader.check_indexes(journal).values())


def test_every_damage_to_an_index_is_harmless(journal):
    """A bit of each byte flipped, the file cut: the same answers, and verify tells."""
    path = segments(journal)[-1].with_suffix(".idx")
    data = path.read_bytes()
    assert expected(COUNT) == lookups(journal)
    for at in range(len(data)):
        flip(path, at, at % 8)
        if at % 7 == 0:
            assert expected(COUNT) == lookups(journal)
        report = verify(journal)
        assert (True, 1) == (report.ok, len(report.index_problems))
        flip(path, at, at % 8)
    for at in range(0, len(data), 41):
        path.write_bytes(data[:at])
        assert expected(COUNT) == lookups(journal)
        assert 1 == len(verify(journal).index_problems)


def test_the_index_of_another_segment_is_not_used(journal, tmp_path_factory):
    """Its header names the segment that it is of."""
    other = tmp_path_factory.mktemp("other")
    fill(other, 99)
    mine = segments(journal)[-1].with_suffix(".idx")
    mine.write_bytes(segments(other)[-1].with_suffix(".idx").read_bytes())
    assert [] == blocks(journal)
    assert expected(COUNT) == lookups(journal)


def test_a_writer_completes_the_index_it_finds(tmp_path):
    """Whatever is left of it; without writing what is right again."""
    crashed(tmp_path, 20, segment_bytes_max=1 << 16)
    path = segments(tmp_path)[-1].with_suffix(".idx")
    for keep in (len(path.read_bytes()) - 30, 10, 0):
        path.write_bytes(path.read_bytes()[:keep])
        Writer.open(tmp_path).close()
        assert [] == verify(tmp_path).index_problems
        second_reader.check_indexes(tmp_path)


@pytest.mark.parametrize("how", [errno.ENOSPC, "short"])
def test_an_index_that_cannot_be_written_stops_nobody(tmp_path, how):
    """The frames are durable; the rest of the segment is scanned."""

    class NoIndex(FaultyDisk):
        """Refuses every block of an index."""

        def pwrite(self, fd, data, offset):
            if data[:4] == b"TSI1":
                self.fired = True
                return self._fail(fd, data, offset)
            return super().pwrite(fd, data, offset)

    disk = NoIndex("", 0, how)
    with Writer.open(tmp_path, disk=disk) as writer:
        for number in range(1, COUNT + 1):
            writer.append(chunk(number, number % 3))
    assert disk.fired
    assert expected(COUNT) == lookups(tmp_path)
    assert verify(tmp_path).ok


def test_a_stream_that_looks_like_another_is_not_found(tmp_path):
    """Postings are matched whole: bytes of two neighbours are no stream."""
    with Writer.open(tmp_path) as writer:
        writer.append(chunk(1, stream=0x0101010101010101))
        writer.append(chunk(2, stream=0x0101010101010100))
    assert [] == numbers(Reader(tmp_path).frames_of(0x0000000001010101))
    assert [2] == numbers(Reader(tmp_path).frames_of(0x0101010101010100))
