"""Torn is not corrupt: what was acknowledged is never dropped, what was not is never in the way."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from tests import second_reader
from tests.journal.making import (
    chunk,
    crashed,
    fill,
    flip,
    frames,
    numbers,
    read,
    segments,
    stop_dead,
)
from trainstate.errors import JournalCorrupt, StorageError
from trainstate.journal import OS, Chunk, Reader, Tear, Writer, verify
from trainstate.journal.recover import Verdict, judge_end
from trainstate.testing.disk import Change, FaultyDisk, RecordingDisk, after_crash, put_back

SECTOR = 512


@pytest.mark.parametrize(
    ("valid_end", "durable_end", "data_end", "later", "verdict"),
    [
        (100, 0, 100, None, Verdict.CLEAN),
        (100, 100, 100, None, Verdict.CLEAN),
        (100, 100, 150, None, Verdict.TORN),
        (100, 0, 150, None, Verdict.TORN),
        (100, 101, 100, None, Verdict.CORRUPT),
        (100, 101, 150, None, Verdict.CORRUPT),
        (100, 0, 150, 120, Verdict.CORRUPT),
        (100, 100, 150, 120, Verdict.CORRUPT),
    ],
)
def test_the_verdict(valid_end, durable_end, data_end, later, verdict):
    """A table of all that may follow the last valid frame."""
    assert verdict is judge_end(valid_end, durable_end, data_end, later)[0]


def torn_write(path: Path, keep: int | None = None) -> Path:
    """Five acknowledged entries, and the bytes of a sixth frame that was being written."""
    last = crashed(path, 5)
    durable = (path / "DURABLE").read_bytes()
    writer = Writer.open(path)
    writer.append(chunk(6))
    stop_dead(writer)
    (path / "DURABLE").write_bytes(durable)
    if keep is not None:
        frame = frames(path)[-1]
        with last.open("r+b") as file:
            file.truncate(frame.offset + keep)
            file.truncate(1 << 12)
    return last


def open_and_append(path: Path) -> Tear | None:
    with Writer.open(path) as writer:
        writer.append(chunk(writer.next_seq))
        return writer.recovered


@pytest.mark.parametrize("keep", range(73))
def test_a_write_cut_anywhere_is_a_tear(tmp_path, keep):
    """Its bytes are kept, writing goes on in a new segment; a whole frame is adopted."""
    last = torn_write(tmp_path, keep)
    data = last.read_bytes().rstrip(b"\0")
    adopted = 72 == keep or read(tmp_path)[-1] == 6
    assert [1, 2, 3, 4, 5, 6][: 5 + adopted] == read(tmp_path)
    tear = open_and_append(tmp_path)
    assert list(range(1, 7 + adopted)) == read(tmp_path)
    assert numbers(second_reader.read_journal(tmp_path)) == read(tmp_path)
    if adopted or keep == 0:
        assert tear is None
        return
    assert tear is not None
    kept = tmp_path / "quarantine" / f"{tear.segment}@{tear.offset}"
    assert data[tear.offset :] == kept.read_bytes()
    assert tear.offset == last.stat().st_size
    assert 2 == len(segments(tmp_path))
    assert verify(tmp_path).ok


@pytest.mark.parametrize("lost", range(1, 8))
def test_sectors_lost_from_an_unacknowledged_frame_are_a_tear(tmp_path, lost):
    """Any subset of the sectors of a write may be missing."""
    last = crashed(tmp_path, 1)
    durable = (tmp_path / "DURABLE").read_bytes()
    writer = Writer.open(tmp_path)
    writer.append(chunk(2, count=150))
    stop_dead(writer)
    (tmp_path / "DURABLE").write_bytes(durable)
    data = bytearray(last.read_bytes())
    first = frames(tmp_path)[-1].offset // SECTOR
    for sector in range(3):
        if lost >> sector & 1:
            start = max((first + sector) * SECTOR, frames(tmp_path)[0].end)
            data[start : (first + sector + 1) * SECTOR] = bytes(
                (first + sector + 1) * SECTOR - start
            )
    last.write_bytes(data)
    assert [1] == read(tmp_path)
    open_and_append(tmp_path)
    assert [1, 2] == read(tmp_path)


def test_damage_in_the_newest_acknowledged_frame_is_corrupt(tmp_path):
    """DURABLE says that it was there."""
    last = crashed(tmp_path, 5)
    flip(last, frames(tmp_path)[-1].offset + 60)
    with pytest.raises(JournalCorrupt, match="durable up to"):
        Writer.open(tmp_path)
    with pytest.raises(JournalCorrupt, match="seq 4 are good"):
        read(tmp_path)


@pytest.mark.parametrize("at", range(72))
def test_a_closing_frame_proves_the_newest_frame(tmp_path, at):
    """Without DURABLE, damage anywhere in the last frame with entries is still corruption."""
    fill(tmp_path, 3)
    (tmp_path / "DURABLE").unlink()
    flip(segments(tmp_path)[0], frames(tmp_path)[-1].offset + at, at % 8)
    with pytest.raises(JournalCorrupt, match="valid frame at"):
        Writer.open(tmp_path)
    with pytest.raises(JournalCorrupt, match="seq 2 are good"):
        read(tmp_path)


def test_a_damaged_closing_frame_loses_nothing(tmp_path):
    """It holds no entry: without DURABLE a tear, with it corruption."""
    fill(tmp_path, 3)
    flip(segments(tmp_path)[0], frames(tmp_path)[-1].end + 20)
    with pytest.raises(JournalCorrupt):
        Writer.open(tmp_path)
    (tmp_path / "DURABLE").unlink()
    assert open_and_append(tmp_path)
    assert [1, 2, 3, 4] == read(tmp_path)


def test_a_missing_last_segment_is_corrupt(tmp_path):
    """DURABLE names it."""
    fill(tmp_path, 40, segment_bytes_max=1000)
    segments(tmp_path)[-1].unlink()
    for attempt in (lambda: Writer.open(tmp_path), lambda: read(tmp_path)):
        with pytest.raises(JournalCorrupt, match="durable up to seq 40"):
            attempt()


def test_a_missing_middle_segment_is_corrupt(tmp_path):
    """While an older one is there; without it history begins later."""
    fill(tmp_path, 40, segment_bytes_max=1000)
    segments(tmp_path)[1].unlink()
    with pytest.raises(JournalCorrupt, match="segment is missing"):
        read(tmp_path)
    segments(tmp_path)[0].unlink()
    assert Reader(tmp_path).first_seq == read(tmp_path)[0] > 1


def test_a_journal_quoted_in_an_entry_is_no_later_frame(tmp_path):
    """An entry may hold the bytes of an earlier frame of its own segment, and be torn."""
    last = crashed(tmp_path, 2)
    durable = (tmp_path / "DURABLE").read_bytes()
    quoted = last.read_bytes()[: frames(tmp_path)[1].end]
    writer = Writer.open(tmp_path)
    writer.append(Chunk(quoted + bytes(100), 1, (1,), 9, 9))
    stop_dead(writer)
    (tmp_path / "DURABLE").write_bytes(durable)
    flip(last, frames(tmp_path)[-1].end - 50)
    assert [1, 2] == read(tmp_path)
    assert open_and_append(tmp_path)
    assert [1, 2, 3] == read(tmp_path)


def test_an_adopted_frame_is_written_again_before_anything_follows(tmp_path):
    """A sync that follows a failed one proves nothing about bytes that memory calls clean."""
    crashed(tmp_path, 3)
    newest = frames(tmp_path)[-1]
    disk = RecordingDisk()
    Writer.open(tmp_path, disk=disk).close()
    writes = [
        c for c in disk.changes if c.op in {"pwrite", "fdatasync"} and c.path.suffix == ".seg"
    ]
    assert ("pwrite", newest.offset) == (writes[0].op, writes[0].offset)
    assert newest.body in writes[0].data
    assert "fdatasync" == writes[1].op


def script(path: Path, disk: RecordingDisk) -> list[tuple[int, int]]:
    """Openings, appends, rotation, a takeover, closings; (changes made, seq acknowledged) of each."""
    acknowledged = []

    def append(writer: Writer, number: int) -> None:
        writer.append(chunk(number, count=3))
        acknowledged.append((len(disk.changes), number + 2))

    with Writer.open(path, segment_bytes_max=300, disk=disk) as writer:
        for number in (1, 4, 7):
            append(writer, number)
    old = Writer.open(path, segment_bytes_max=300, disk=disk)
    append(old, 10)
    new = Writer.take_over(path, segment_bytes_max=300, disk=disk)
    append(new, 13)
    old._group.fail(StorageError("taken over"))
    old.close()
    new.close()
    return acknowledged


def tears(change: Change) -> list[list[Change]]:
    """What of one write may have reached the disk: its first half, its second, every second piece."""
    pieces = [
        change._replace(data=change.data[at : at + 16], offset=change.offset + at)
        for at in range(0, len(change.data), 16)
    ]
    half = len(pieces) // 2
    return [pieces[:half], pieces[half:], pieces[1::2]]


def test_a_crash_anywhere_loses_nothing_acknowledged(tmp_path):
    """Killed or without power after every single change, with every write torn in three ways."""
    journal = tmp_path / "journal"
    disk = RecordingDisk()
    acknowledged = script(journal, disk)
    tried = 0
    for n in range(len(disk.changes) + 1):
        done = disk.changes[:n]
        must = max((seq for at, seq in acknowledged if at <= n), default=0)
        outcomes = [after_crash(done, power_lost=lost) for lost in (False, True)]
        if done and done[-1].op == "pwrite":
            outcomes += [after_crash(done, power_lost=True, torn=t) for t in tears(done[-1])]
        for files in outcomes:
            check_crash(journal, tmp_path / "crashed", files, must)
            tried += 1
    assert tried > 200


def check_crash(was: Path, now: Path, files: dict[Path, bytes | None], must: int) -> None:
    """What a crash left opens, holds all that was acknowledged, and takes more."""
    put_back(files, was, now)
    with Writer.open(now, segment_bytes_max=300) as writer:
        writer.append(chunk(writer.next_seq))
    found = read(now)
    assert list(range(1, len(found) + 1)) == found
    assert len(found) > must
    assert found == numbers(second_reader.read_journal(now))
    report = verify(now)
    assert (True, None, []) == (report.ok, report.tear, report.strays)
    shutil.rmtree(now)


def test_a_crash_while_recovering_is_recovered_from(tmp_path):
    """A tear is set aside in steps; after any of them the next opening finishes."""
    journal, copy = tmp_path / "journal", tmp_path / "copy"
    torn_write(journal, 40)
    for op, nth in [
        (op, n) for op in ("rename", "sync_dir", "truncate", "pwrite") for n in range(1, 9)
    ]:
        shutil.copytree(journal, copy)
        disk = FaultyDisk(op, nth, errno.EIO, OS)
        try:
            Writer.open(copy, disk=disk).close()
        except StorageError:
            assert disk.fired
        open_and_append(copy)
        assert [1, 2, 3, 4, 5, 6] == read(copy)
        assert 1 == len(os.listdir(copy / "quarantine"))
        shutil.rmtree(copy)
