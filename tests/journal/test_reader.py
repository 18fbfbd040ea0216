"""The reader: every range, every stream, live and closed, beside rotation and retention."""

from __future__ import annotations

import errno

import pytest

from tests.journal.making import chunk, crashed, fill, flip, frames, numbers, read, segments
from trainstate.errors import JournalCorrupt, NotFound, StorageError
from trainstate.journal import End, Position, Reader, SegmentName, Writer, is_journal, retain
from trainstate.testing.disk import FaultyDisk

COUNT = 60
STREAMS = 3


@pytest.fixture
def journal(tmp_path):
    """Entries 1 to 60, of stream `n % 3` at time `n`, in several small segments."""
    with Writer.open(tmp_path, segment_bytes_max=1000) as writer:
        for number in range(1, COUNT + 1):
            writer.append(chunk(number, number % STREAMS))
    assert len(segments(tmp_path)) > 4
    return tmp_path


@pytest.mark.parametrize("from_seq", [None, 1, 2, 13, 14, 15, 30, 60, 61, 99])
@pytest.mark.parametrize("until_seq", [None, 1, 14, 31, 61, 99])
def test_any_range(journal, from_seq, until_seq):
    """from_seq <= seq < until_seq, wherever the segments begin."""
    expected = list(range(from_seq or 1, min(until_seq or 61, 61)))
    assert expected == numbers(Reader(journal).frames(from_seq, until_seq))


def test_a_range_yields_whole_frames(tmp_path):
    """A frame that holds one wanted entry comes with the others in it."""
    with Writer.open(tmp_path) as writer:
        for number in (1, 6, 11):
            writer.append(chunk(number, count=5))
    assert [6] == [frame.first_seq for frame in Reader(tmp_path).frames(8, 10)]
    assert [1, 6] == [frame.first_seq for frame in Reader(tmp_path).frames(5, 7)]


@pytest.mark.parametrize("stream", range(STREAMS + 1))
@pytest.mark.parametrize("from_seq", [None, 1, 20, 60, 61])
@pytest.mark.parametrize("indexed", [True, False])
def test_the_frames_of_a_stream(journal, stream, from_seq, indexed):
    """All of them and no others, with the indexes and without."""
    for index in (journal / "seg").glob("*.idx"):
        indexed or index.unlink()
    expected = [n for n in range(from_seq or 1, COUNT + 1) if n % STREAMS == stream]
    assert expected == numbers(Reader(journal).frames_of(stream, from_seq))


@pytest.mark.parametrize("time_ns", [0, 1, 17, 60, 61])
@pytest.mark.parametrize("indexed", [True, False])
def test_the_frames_since_a_time(journal, time_ns, indexed):
    """With the indexes and without."""
    for index in (journal / "seg").glob("*.idx"):
        indexed or index.unlink()
    assert list(range(max(1, time_ns), 61)) == numbers(Reader(journal).frames_since(time_ns))


def test_time_may_run_backwards(tmp_path):
    """Frames are judged one by one; an older one after a newer one hides nothing."""
    with Writer.open(tmp_path) as writer:
        for number, time_ns in ((1, 10), (2, 5), (3, 11), (4, 1)):
            writer.append(chunk(number, time_ns=time_ns))
    assert [1, 3] == numbers(Reader(tmp_path).frames_since(10))


def test_the_end_of_a_closed_journal(journal):
    """Behind the closing frame; no writer lives."""
    end = Reader(journal).end
    assert (61, False) == (end.next_seq, end.live)
    assert segments(journal)[-1].stat().st_size == end.offset
    assert str(end.segment) == segments(journal)[-1].name


def test_the_end_while_a_writer_lives(tmp_path):
    """What is durable, told without reading a frame; also when DURABLE is lost."""
    with Writer.open(tmp_path) as writer:
        reader = Reader(tmp_path)
        assert End(1, SegmentName(1, 1), 72, 0, True) == reader.end
        writer.append(chunk(1))
        writer.append(chunk(2))
        assert End(3, SegmentName(1, 1), writer.segment_bytes, writer.chain, True) == reader.end
        assert [1, 2] == numbers(reader.frames())
        (tmp_path / "DURABLE").unlink()
        assert 2 == reader.end.next_seq  # the newest frame proves what is before it
        assert [1] == numbers(reader.frames())


def test_a_journal_without_segments(tmp_path):
    """One whose creation was killed holds nothing."""
    fill(tmp_path, 0)
    for path in segments(tmp_path):
        path.unlink()
    (tmp_path / "DURABLE").unlink()
    reader = Reader(tmp_path)
    assert (End(1, None, 0, 0, False), 1) == (reader.end, reader.first_seq)
    assert [] == list(reader.frames()) == list(reader.frames_of(1)) == list(reader.frames_since(0))


def test_a_reader_survives_rotation_and_new_writers(tmp_path):
    """The same object reads on."""
    fill(tmp_path, 5, segment_bytes_max=300)
    reader = Reader(tmp_path)
    assert [1, 2, 3, 4, 5] == numbers(reader.frames())
    fill(tmp_path, 5, 6, segment_bytes_max=300)
    assert list(range(1, 11)) == numbers(reader.frames())


def test_damage_is_raised_where_it_is_reached(journal):
    """Everything before it is yielded first, and what is behind it in other segments can be read."""
    damaged = [frame for frame in frames(journal) if frame.segment == segments(journal)[1]][2]
    flip(damaged.segment, damaged.offset + 60)
    seen = []
    with pytest.raises(JournalCorrupt, match=f"up to seq {damaged.first_seq - 1} are") as caught:
        seen.extend(frame.first_seq for frame in iter_into(seen, Reader(journal).frames()))
    assert list(range(1, damaged.first_seq)) == seen
    assert (str(damaged.segment), damaged.offset) == (caught.value.path, caught.value.offset)
    later = int(segments(journal)[2].name[:20])
    assert list(range(later, 61)) == numbers(Reader(journal).frames(later))
    with pytest.raises(JournalCorrupt):
        list(Reader(journal).frames_of(damaged.streams[0]))
    with pytest.raises(JournalCorrupt):
        list(Reader(journal).frames_since(0))


def iter_into(seen, frames_read):
    for frame in frames_read:
        seen.append(frame.first_seq)
    return ()


def test_segments_that_do_not_continue_each_other_are_damage(journal):
    """A segment cut short by exactly a frame is noticed at its successor."""
    last = [frame for frame in frames(journal) if frame.segment == segments(journal)[0]][-1]
    last.segment.write_bytes(last.segment.read_bytes()[: last.offset])
    with pytest.raises(JournalCorrupt, match=f"must reach offset {last.end}"):
        read(journal)


def test_history_begins_where_retention_left_it(journal):
    """An older seq is NotFound and says from where to read; what a reader is in the middle of, too."""
    reader = Reader(journal)
    reading = reader.frames()
    assert 1 == next(reading).first_seq
    removed = retain(journal, 40, {}).removed
    assert len(removed) > 1
    begin = reader.first_seq
    assert 1 < begin <= 40
    assert list(range(begin, 61)) == numbers(reader.frames())
    for call in (lambda: list(reader.frames(begin - 1)), lambda: list(reader.frames_of(1, 1))):
        with pytest.raises(NotFound, match=f"history begins at {begin}") as caught:
            call()
        assert f"read from seq {begin}" == caught.value.hint
    with pytest.raises(NotFound, match=f"history begins at {begin}"):
        list(reading)


def test_positions(journal):
    """Of every entry; the beginning; what is not there yet."""
    reader = Reader(journal)
    assert Position(0, 0, 0) == reader.position(0)
    for frame in frames(journal):
        assert Position(frame.first_seq, 1, frame.chain) == reader.position(frame.first_seq)
    with pytest.raises(NotFound, match="seq 61 is not recorded"):
        reader.position(61)


def test_a_failing_disk_is_a_storage_error(journal):
    """Not a corrupt journal."""
    reader = Reader(journal, FaultyDisk("pread", 9, errno.EIO))
    with pytest.raises(StorageError, match="Input/output error"):
        list(reader.frames())


def test_is_journal(journal, tmp_path):
    """By its IDENTITY."""
    assert is_journal(journal)
    assert not is_journal(journal / "seg")
    assert not is_journal(journal / "nothing")


def test_frames_larger_than_a_block_of_reading(tmp_path):
    """Frames of the largest size, wherever the blocks are cut."""
    with Writer.open(tmp_path) as writer:
        for number in (1, 131_001, 131_002, 262_002):
            writer.append(chunk(number, count=1 if number == 131_001 else 131_000))
    found = Reader(tmp_path).frames()
    assert [131_000, 1, 131_000, 131_000] == [frame.count for frame in found]


def test_an_unclosed_journal_is_read_to_its_last_frame(tmp_path):
    """No writer lives: every valid frame counts."""
    crashed(tmp_path, 9)
    (tmp_path / "DURABLE").unlink()
    assert list(range(1, 10)) == read(tmp_path)
