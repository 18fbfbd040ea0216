"""A snapshot is used only if all of it fits this journal, here and now."""

from __future__ import annotations

import errno

import pytest

from tests.journal.making import chunk, fill, flip
from trainstate.errors import StorageError
from trainstate.journal import Position, Snapshot, Writer, load_snapshot, retain, save_snapshot
from trainstate.testing.disk import FaultyDisk

FOLD = 3


@pytest.fixture
def journal(tmp_path):
    """Snapshots at three boundaries: after 5, 10 and 15 entries."""
    path = tmp_path / "journal"
    with Writer.open(path) as writer:
        for number in range(1, 18):
            writer.append(chunk(number))
            if number % 5 == 0:
                save_snapshot(path, writer.roll(), FOLD, b"state at %d" % number)
    return path


def saved(path):
    return sorted((path / "snap").iterdir())


def test_the_newest_comes_back(journal):
    """Two are kept."""
    assert Snapshot(15, b"state at 15") == load_snapshot(journal, FOLD)
    assert [10, 15] == [int(path.stem) for path in saved(journal)]


@pytest.mark.parametrize(("upto", "seq"), [(99, 15), (15, 15), (14, 10), (10, 10), (9, None)])
def test_up_to_a_position(journal, upto, seq):
    """The newest at or before it."""
    found = load_snapshot(journal, FOLD, upto)
    assert seq == (found.seq if found else None)


def test_every_damage_is_noticed(journal):
    """With any bit wrong or cut anywhere, the one before it is taken."""
    newest = saved(journal)[-1]
    data = newest.read_bytes()
    for at in range(len(data)):
        flip(newest, at, at % 8)
        assert Snapshot(10, b"state at 10") == load_snapshot(journal, FOLD)
        newest.write_bytes(data[:at])
        assert Snapshot(10, b"state at 10") == load_snapshot(journal, FOLD)
        newest.write_bytes(data)


def test_another_fold_has_no_use_for_it(journal):
    """What a state means is the caller's version."""
    assert load_snapshot(journal, FOLD + 1) is None


def test_another_history_has_no_use_for_it(journal, tmp_path):
    """Another journal, or the same seqs with other entries."""
    other = tmp_path / "other"
    fill(other, 5)
    with Writer.open(other) as writer:
        at = writer.roll()
        (other / "snap" / saved(journal)[0].name).write_bytes(saved(journal)[0].read_bytes())
        assert load_snapshot(other, FOLD) is None
        save_snapshot(other, at._replace(chain=at.chain ^ 1), FOLD, b"x")
        assert load_snapshot(other, FOLD) is None
        save_snapshot(other, Position(at.seq - 1, at.epoch, at.chain), FOLD, b"x")
        assert load_snapshot(other, FOLD) is None
        save_snapshot(other, at, FOLD, b"x")
        assert Snapshot(5, b"x") == load_snapshot(other, FOLD)


def test_it_outlives_what_it_stands_for(journal):
    """Retention may remove everything before its boundary, and not the segment that proves it."""
    retain(journal, 16, {})
    assert Snapshot(15, b"state at 15") == load_snapshot(journal, FOLD)


def test_none_was_saved(tmp_path):
    """Nothing comes back; a stranger's file is not looked at."""
    fill(tmp_path, 1)
    (tmp_path / "snap" / "ended").write_bytes(b"not ours")
    (tmp_path / "snap" / "x.snap").write_bytes(b"not ours")
    assert load_snapshot(tmp_path, FOLD) is None


@pytest.mark.parametrize("op", ["open", "pwrite", "fdatasync", "rename", "sync_dir"])
def test_a_failed_save_leaves_the_older_ones(journal, op):
    """It says so."""
    with Writer.open(journal) as writer:
        at = writer.roll()
        disk = FaultyDisk(op, 1, errno.ENOSPC)
        with pytest.raises(StorageError, match="save the snapshot"):
            save_snapshot(journal, at, FOLD, b"new", disk)
    assert disk.fired
    found = load_snapshot(journal, FOLD)
    assert found in {Snapshot(15, b"state at 15"), Snapshot(17, b"new")}
