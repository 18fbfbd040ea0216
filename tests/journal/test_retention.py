"""Retention forgets whole old segments, and never what somebody needs."""

from __future__ import annotations

import errno

import pytest

from tests.journal.making import chunk, fill, numbers, read, segments
from trainstate.errors import StorageError
from trainstate.journal import Reader, SegmentName, Writer, retain, verify
from trainstate.testing.disk import FaultyDisk


@pytest.fixture
def journal(tmp_path):
    """Entries 1 to 60 in segments of 13 and fewer."""
    fill(tmp_path, 60, segment_bytes_max=1000)
    return tmp_path


def begins(path):
    return [int(one.name[:20]) for one in segments(path)]


@pytest.mark.parametrize("keep_from", [0, 1, 2, 12, 13, 14, 15, 40, 60, 61, 999])
def test_no_kept_entry_is_removed(journal, keep_from):
    """And no more segments stay than must; the last always does."""
    before = begins(journal)
    retained = retain(journal, keep_from, {})
    must = max([first for first in before if first <= keep_from] or [1])
    assert [first for first in before if first >= must] == begins(journal)
    assert must == retained.first_seq == Reader(journal).first_seq
    assert list(range(must, 61)) == read(journal)
    assert (len(before) - len(begins(journal)), ()) == (len(retained.removed), retained.pinned_by)
    assert verify(journal).ok


def test_what_pins_is_kept_and_named(journal):
    """The neediest first; who needs less than is kept anyway is not named."""
    pins = {"export b": 30, "run a": 20, "export c": 55}
    retained = retain(journal, 50, pins)
    assert ("run a", "export b") == retained.pinned_by
    assert [20, 21] == numbers(Reader(journal).frames(20, 22))
    assert max(first for first in begins(journal) if first <= 20) == retained.first_seq


def test_a_dry_run_removes_nothing(journal):
    """It tells the same."""
    told = retain(journal, 50, {}, dry_run=True)
    assert 1 == Reader(journal).first_seq
    sizes = {one.name: one.stat().st_size for one in segments(journal)}
    assert told == retain(journal, 50, {})
    assert sum(sizes[str(name)] for name in told.removed) == told.bytes_freed
    assert not [
        one for one in (journal / "seg").iterdir() if SegmentName.parse(one.name) in told.removed
    ]


def test_beside_a_live_writer(tmp_path):
    """It goes on, and so do openings afterwards."""
    with Writer.open(tmp_path, segment_bytes_max=500) as writer:
        for number in range(1, 30):
            writer.append(chunk(number))
        assert retain(tmp_path, 30, {}).removed
        writer.append(chunk(30))
    begin = Reader(tmp_path).first_seq
    fill(tmp_path, 1, 31)
    assert list(range(begin, 32)) == read(tmp_path)


@pytest.mark.parametrize("nth", range(1, 7))
def test_interrupted_it_leaves_a_journal(journal, nth):
    """The oldest go first, so what is left is always a chain; the next one goes on."""
    disk = FaultyDisk("unlink", nth, errno.EIO)
    with pytest.raises(StorageError):
        retain(journal, 60, {}, disk=disk)
    assert disk.fired
    begin = Reader(journal).first_seq
    assert list(range(begin, 61)) == read(journal)
    assert retain(journal, 60, {}).removed
    assert list(range(begins(journal)[0], 61)) == read(journal)


def test_a_journal_without_segments(tmp_path):
    """Has nothing to remove."""
    fill(tmp_path, 0)
    for path in (tmp_path / "seg").iterdir():
        path.unlink()
    assert ((), 1) == retain(tmp_path, 9, {})[::2]
