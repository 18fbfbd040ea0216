"""Verifying finds every damage, names what is lost, and repairing destroys nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests import second_reader
from tests.journal.making import chunk, crashed, fill, flip, frames, numbers, read, segments
from trainstate.errors import JournalCorrupt, JournalLocked, NotAJournal, TrainstateError
from trainstate.journal import Reader, SegmentName, Writer, repair, retain, verify


@pytest.fixture
def journal(tmp_path):
    """Entries 1 to 30 in three segments, closed."""
    path = tmp_path / "journal"
    fill(path, 30, segment_bytes_max=900)
    assert 3 == len(segments(path))
    return path


def lost(path):
    return [(one.first_seq_lost, one.last_seq_lost) for one in verify(path).damages]


def test_a_sound_journal(journal):
    """Everything is counted; nothing is wrong."""
    reached: list[int] = []
    report = verify(journal, reached.append)
    assert (True, 3, 31, 30) == (report.ok, report.segments, report.frames, report.entries)
    assert sum(frame.end - frame.offset for frame in frames(journal)) + 56 == report.bytes
    assert Reader(journal).end == report.end
    assert (None, [], [], [], 0) == (
        report.tear,
        report.damages,
        report.index_problems,
        report.strays,
        report.durable_lag,
    )
    assert [*range(1, 31), 30] == reached


def test_a_live_journal(tmp_path):
    """Up to the durable end; what the writer is doing behind it is no damage."""
    with Writer.open(tmp_path) as writer:
        assert verify(tmp_path).ok
        writer.append(chunk(1))
        report = verify(tmp_path)
        assert (True, 1, True) == (report.ok, report.entries, report.end and report.end.live)
        with segments(tmp_path)[0].open("r+b") as file:
            file.seek(writer.segment_bytes)
            file.write(b"half a frame")
        assert (True, None) == (verify(tmp_path).ok, verify(tmp_path).tear)


def test_no_journal(tmp_path):
    """The one thing that is raised."""
    with pytest.raises(NotAJournal):
        verify(tmp_path)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("which", [0, 2, -1])
def test_a_damaged_frame_is_named_alone(journal, place, which):
    """The search goes on behind it: nothing else is reported lost."""
    frame = [one for one in frames(journal) if one.segment == segments(journal)[place]][which]
    flip(frame.segment, frame.offset + 60)
    assert [(frame.first_seq, frame.first_seq)] == lost(journal)
    report = verify(journal)
    assert (frame.segment, frame.offset) == report.damages[0][:2]
    assert frame.first_seq == (report.end.next_seq if report.end else 0)
    assert 29 == report.entries


def test_several_damages_are_named_each(journal):
    """In one segment and in others."""
    sound = frames(journal)
    for seq in (3, 5, 6, 14, 29):
        flip(sound[seq - 1].segment, sound[seq - 1].offset + 60)
    assert [(3, 3), (5, 6), (14, 14), (29, 29)] == lost(journal)


def test_a_cut_segment(journal):
    """What is missing up to its successor is lost; at the end of the journal, up to DURABLE."""
    first, _, last = segments(journal)
    cut = frames(journal)[4]
    first.write_bytes(first.read_bytes()[: cut.offset + 10])
    end = int(segments(journal)[1].name[:20])
    assert [(5, end - 1)] == lost(journal)
    last.write_bytes(last.read_bytes()[:100])
    assert [(5, end - 1), (int(last.name[:20]), 30)] == lost(journal)


def test_lost_segments(journal):
    """In the middle and at the end; what DURABLE says tells how much was there."""
    _, middle, last = segments(journal)
    begin = int(middle.name[:20])
    saved = last.read_bytes()
    last.unlink()
    assert [(int(last.name[:20]), 30)] == lost(journal)
    last.write_bytes(saved)
    middle.unlink()
    assert [(begin, 30)] == lost(journal)


def test_damaged_headers(journal):
    """A segment whose header is damaged is not read, nor is what names it as predecessor."""
    for place in (2, 1, 0):
        path = segments(journal)[place]
        flip(path, 30)
        assert [(int(path.name[:20]), 30)] == lost(journal)
        flip(path, 30)
    assert verify(journal).ok


@pytest.mark.parametrize("name", ["IDENTITY", "FENCE"])
def test_damaged_text_files(journal, name):
    """No entry is lost; repairing restores them from the segments."""
    was = (journal / name).read_text()
    flip(journal / name, 9)
    assert [(None, None)] == lost(journal)
    assert 31 == (verify(journal).end or pytest.fail("no end")).next_seq
    done = repair(journal)
    assert done[0].startswith(f"{name}: restored")
    assert verify(journal).ok
    assert name == "FENCE" or was == (journal / name).read_text()
    fill(journal, 1, 31)
    assert list(range(1, 32)) == read(journal) == numbers(second_reader.read_journal(journal))


def test_a_tear_is_no_damage(tmp_path):
    """It is told, and repairing sets it aside."""
    last = crashed(tmp_path, 3)
    end = frames(tmp_path)[-1].end
    with last.open("r+b") as file:
        file.seek(end)
        file.write(b"torn")
    report = verify(tmp_path)
    assert (True, end, 4) == (report.ok, report.tear and report.tear.offset, report.tear.size)
    assert [f"{last.name}: 4 torn bytes at {end} in quarantine"] == repair(tmp_path)
    assert (True, None) == (verify(tmp_path).ok, verify(tmp_path).tear)
    assert b"torn" == next((tmp_path / "quarantine").iterdir()).read_bytes()
    fill(tmp_path, 1, 4)
    assert [1, 2, 3, 4] == read(tmp_path)


def test_repair_leaves_a_sound_journal_alone(journal):
    """Nothing to do, twice."""
    assert [] == repair(journal) == repair(journal)
    assert list(range(1, 31)) == read(journal)


def test_repair_rebuilds_indexes(journal):
    """Missing, damaged, and of the last segment too."""
    for path, keep in zip(segments(journal), (0, 30, 60), strict=True):
        index = path.with_suffix(".idx")
        index.write_bytes(index.read_bytes()[:keep]) if keep else index.unlink()
    assert 3 == len(verify(journal).index_problems)
    repair(journal)
    assert [] == verify(journal).index_problems
    second_reader.check_indexes(journal)


def test_repair_refuses_a_live_journal(journal):
    """It says so."""
    with Writer.open(journal), pytest.raises(JournalLocked, match="a writer lives"):
        repair(journal)


def kept_bytes(journal: Path, name: str) -> bytes:
    """What there is of a segment: in its place or moved to quarantine, and what was cut off it."""
    quarantine = journal / "quarantine"
    whole = next(one for one in (journal / "seg" / name, quarantine / name) if one.exists())
    return b"".join([whole.read_bytes(), *(p.read_bytes() for p in quarantine.glob(f"{name}@*"))])


def damage_frame(journal):
    frame = frames(journal)[14]
    flip(frame.segment, frame.offset + 60)
    return 14


def damage_header(journal):
    flip(segments(journal)[1], 30)
    return int(segments(journal)[1].name[:20]) - 1


def lose_segment(journal):
    kept = int(segments(journal)[1].name[:20]) - 1
    segments(journal)[1].unlink()
    return kept


def damage_first_header(journal):
    flip(segments(journal)[0], 30)
    return 0


DAMAGES = [damage_frame, damage_header, lose_segment, damage_first_header]


@pytest.mark.parametrize("damage", DAMAGES)
def test_repair_gives_up_entries_only_when_told(journal, damage):
    """Refused with the flag, nothing changed; told so, the journal ends before the damage."""
    kept = damage(journal)
    files = {path: path.read_bytes() for path in (journal / "seg").iterdir()}
    with pytest.raises(JournalCorrupt, match=f"every entry after seq {kept}") as caught:
        repair(journal)
    assert "--accept-loss" in str(caught.value.hint)
    assert files == {path: path.read_bytes() for path in (journal / "seg").iterdir()}
    before = {path.name: path.read_bytes() for path in segments(journal)}
    done = repair(journal, accept_loss=True)
    assert f"the journal ends after seq {kept}; what was behind it is in quarantine" in done
    assert list(range(1, kept + 1)) == read(journal)
    assert verify(journal).ok
    assert before == {name: kept_bytes(journal, name)[: len(data)] for name, data in before.items()}
    fill(journal, 3, kept + 1)
    assert list(range(1, kept + 4)) == read(journal) == numbers(second_reader.read_journal(journal))


def test_seqs_go_on_when_nothing_is_left(tmp_path):
    """A retained journal whose only segment is damaged does not begin at 1 again."""
    fill(tmp_path, 30, segment_bytes_max=900)
    retain(tmp_path, 30, {})
    begin = Reader(tmp_path).first_seq
    flip(segments(tmp_path)[0], 30)
    repair(tmp_path, accept_loss=True)
    fill(tmp_path, 2, begin)
    assert [begin, begin + 1] == read(tmp_path)
    assert read(tmp_path) == numbers(second_reader.read_journal(tmp_path))


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_accepted_loss_begins_a_new_epoch(journal, damage):
    """Seqs are given out again, so the chain values must differ: cursors notice."""
    old = {frame.first_seq: frame.chain for frame in frames(journal)}
    kept = damage(journal)
    repair(journal, accept_loss=True)
    fill(journal, 3, kept + 1)
    for frame in frames(journal):
        assert (frame.first_seq <= kept) == (old[frame.first_seq] == frame.chain)


def test_every_flipped_bit_is_noticed_or_harmless(tmp_path):
    """Of every file but the index (test_index.py): damage is told, or every entry is there unchanged."""
    journal = tmp_path / "journal"
    fill(journal, 2)
    (journal / "writer.lock").write_bytes(b"x")
    for path in sorted(p for p in journal.rglob("*") if p.is_file() and p.suffix != ".idx"):
        for bit in range(len(path.read_bytes()) * 8):
            flip(path, bit // 8, bit % 8)
            check_bit(journal, path)
            flip(path, bit // 8, bit % 8)
    assert verify(journal).ok


def check_bit(journal: Path, path: Path) -> None:
    report = verify(journal)
    try:
        found = read(journal)
    except TrainstateError:
        found = None
    if path.suffix == ".seg" or path.name == "IDENTITY":
        assert (False, None) == (report.ok, found)
    else:
        assert [1, 2] == found
        assert report.ok == (path.name != "FENCE")
        assert [] == report.index_problems


def test_strays_are_told(journal, tmp_path):
    """A segment that no other names is not journal."""
    copy = tmp_path / "copy"
    shutil.copytree(journal, copy)
    Writer.take_over(journal).close()
    last = segments(copy)[-1]
    os.link(last, journal / "seg" / f"{31:020d}-{1:010d}.seg")
    assert [SegmentName(31, 1)] == verify(journal).strays
    assert verify(journal).ok
    assert list(range(1, 31)) == read(journal)
