"""The writer: what it acknowledges is there, whoever writes next and whatever fails."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests import second_reader
from tests.journal.making import chunk, crashed, fill, frames, numbers, read, segments, stop_dead
from trainstate.errors import (
    Fenced,
    JournalCorrupt,
    JournalLocked,
    JournalPoisoned,
    NotAJournal,
    StorageError,
    UsageError,
)
from trainstate.journal import (
    FRAME_BODY_MAX,
    Chunk,
    Position,
    Reader,
    SegmentName,
    Writer,
    retain,
    verify,
    writer_lives,
)
from trainstate.journal import fence as fence_module
from trainstate.testing.disk import FaultyDisk


@pytest.mark.parametrize("exists", [False, True])
def test_open_makes_a_journal(tmp_path, exists):
    """In a new directory, and in an empty one."""
    path = tmp_path / "a" / "journal"
    if exists:
        path.mkdir(parents=True)
    with Writer.open(path, owner="me\nhere") as writer:
        assert (1, 0, 1, 0) == (writer.next_seq, writer.durable_seq, writer.epoch, writer.chain)
        assert writer.uuid == Reader(path).uuid
        assert path == writer.path
        assert "owner me here\n" in (path / "FENCE").read_text()
    assert [] == read(path)


@pytest.mark.parametrize(
    "left", [["IDENTITY.tmp"], ["writer.lock"], ["IDENTITY.tmp", "writer.lock"]]
)
def test_a_creation_that_was_killed_is_begun_anew(tmp_path, left):
    """What it left does not make the directory something else."""
    for name in left:
        (tmp_path / name).write_text("")
    fill(tmp_path, 1)
    assert [1] == read(tmp_path)


def test_what_is_something_else_is_left_alone(tmp_path):
    """A directory with a file in it, and a file."""
    file = tmp_path / "file"
    file.write_text("mine")
    for path in (tmp_path, file):
        with pytest.raises(NotAJournal):
            Writer.open(path)
    assert ["file"] == [found.name for found in tmp_path.iterdir()]


def test_entries_come_back_in_order(tmp_path):
    """Across frames, segments and openings; a clean end is continued in place."""
    for first in (1, 21, 41):
        fill(tmp_path, 20, first, segment_bytes_max=1000)
    assert list(range(1, 61)) == read(tmp_path)
    assert list(range(1, 61)) == numbers(second_reader.read_journal(tmp_path))
    assert [1, 2, 3] == sorted({frame.epoch for frame in frames(tmp_path)})
    epochs = [int(path.name[21:31]) for path in segments(tmp_path)]
    assert [1, 1, 2, 2, 3] == epochs
    assert verify(tmp_path).ok


def test_a_closed_segment_has_no_free_space(tmp_path):
    """Sealed and cleanly closed files end with their last frame."""
    fill(tmp_path, 40, segment_bytes_max=1000)
    assert all(path.stat().st_size <= 1056 for path in segments(tmp_path))
    ends = {frame.segment: frame.end for frame in frames(tmp_path)}
    *sealed, last = segments(tmp_path)
    assert [ends[path] for path in sealed] == [path.stat().st_size for path in sealed]
    assert ends[last] + 56 == last.stat().st_size


@pytest.mark.parametrize("before", [0, 1])
def test_a_frame_larger_than_a_segment_gets_its_own(tmp_path, before):
    """An empty segment grows for it, a used one is closed."""
    with Writer.open(tmp_path, segment_bytes_max=500) as writer:
        for number in range(before):
            writer.append(chunk(number))
        writer.append(chunk(before, count=200))
        writer.append(chunk(before + 200))
    assert list(range(before + 201)) == read(tmp_path)
    assert before + 2 == len(segments(tmp_path))


def test_seqs_are_given_in_the_order_of_submission(tmp_path):
    """A ticket knows its seq at once; waiting for the last is waiting for all."""
    with Writer.open(tmp_path) as writer:
        tickets = [writer.submit(chunk(number, count=2)) for number in (1, 3, 5)]
        assert [1, 3, 5] == [ticket.first_seq for ticket in tickets]
        assert (7, 0) == (writer.next_seq, writer.durable_seq)
        assert 5 == tickets[-1].wait()
        assert 6 == writer.durable_seq
        assert [1, 3] == [ticket.wait() for ticket in tickets[:-1]]
    assert 1 == len(frames(tmp_path))
    assert list(range(1, 7)) == read(tmp_path)


def test_close_waits_for_what_nobody_waited_for(tmp_path):
    """And is idempotent; afterwards nothing is taken."""
    writer = Writer.open(tmp_path)
    ticket = writer.submit(chunk(1))
    writer.close()
    writer.close()
    assert 1 == ticket.wait()
    assert [1] == read(tmp_path)
    with pytest.raises(UsageError, match="closed"):
        writer.append(chunk(2))


def test_positions_agree_with_the_reader(tmp_path):
    """The durable end, as the writer and as the reader tell it."""
    with Writer.open(tmp_path) as writer:
        assert Position(0, 1, 0) == writer.position
        writer.append(chunk(1))
        assert Reader(tmp_path).position(1) == writer.position
        assert writer.chain == writer.position.chain == Reader(tmp_path).end.chain


def test_roll_begins_a_segment_at_a_provable_position(tmp_path):
    """Once: an empty segment is not rolled again."""
    with Writer.open(tmp_path) as writer:
        assert Position(0, 0, 0) == writer.roll()
        writer.append(chunk(1))
        used = writer.segment_bytes
        assert Reader(tmp_path).position(1) == writer.roll() == writer.roll()
        assert 72 == writer.segment_bytes < used
        assert (2, True) == (Reader(tmp_path).end.next_seq, Reader(tmp_path).end.live)
        writer.append(chunk(2))
    assert 2 == len(segments(tmp_path))
    assert [1, 2] == read(tmp_path)


def test_producers_in_threads_lose_nothing(tmp_path):
    """Each sees its own entries at the seqs it was told, and groups form."""
    told: dict[int, int] = {}
    with Writer.open(tmp_path, segment_bytes_max=1 << 14) as writer:

        def produce(first: int) -> None:
            for number in range(first, first + 50):
                told[number] = writer.append(chunk(number, stream=first))

        threads = [threading.Thread(target=produce, args=(n * 50,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 800 == writer.durable_seq
    assert sorted(told) == sorted(read(tmp_path))
    assert {number: seq for seq, number in enumerate(read(tmp_path), 1)} == told
    assert verify(tmp_path).ok
    second_reader.check_indexes(tmp_path)


def test_one_writer_at_a_time(tmp_path):
    """The second is told who writes and what to do; the lock goes with the writer."""
    with Writer.open(tmp_path, owner="the first"):
        assert writer_lives(tmp_path / "writer.lock")
        with pytest.raises(JournalLocked, match="the first writes") as caught:
            Writer.open(tmp_path, lock_timeout_s=0.05)
        assert "retry later" in str(caught.value.hint)
    assert not writer_lives(tmp_path / "writer.lock")
    Writer.open(tmp_path, lock_timeout_s=0).close()


def test_open_waits_for_the_lock(tmp_path):
    """A writer that closes in time makes room."""
    first = Writer.open(tmp_path)
    timer = threading.Timer(0.05, first.close)
    timer.start()
    Writer.open(tmp_path, lock_timeout_s=30).close()
    timer.join()


def test_a_takeover_fences_the_old_writer(tmp_path):
    """Nothing acknowledged is lost, nothing the old one does afterwards is journal."""
    old = Writer.open(tmp_path)
    old.append(chunk(1))
    new = Writer.take_over(tmp_path, owner="new")
    assert (2, 2) == (new.epoch, new.next_seq)
    with pytest.raises(Fenced, match="epoch 1"):
        old.append(chunk(1000))
    with pytest.raises(Fenced):
        old.submit(chunk(1001))
    old.close()
    assert writer_lives(tmp_path / "writer.lock")
    new.append(chunk(2))
    new.close()
    assert [1, 2] == read(tmp_path) == numbers(second_reader.read_journal(tmp_path))
    assert verify(tmp_path).ok


def test_a_takeover_adopts_what_the_old_writer_wrote(tmp_path):
    """A frame written but not synced is journal for the new writer; the old one is still Fenced."""
    seen: list[Writer] = []

    class Hanging(FaultyDisk):
        """Is taken over between its write and its sync."""

        def fdatasync(self, fd: int) -> None:
            if self.op == "now":
                self.op = ""
                seen.append(Writer.take_over(tmp_path))
            super().fdatasync(fd)

    disk = Hanging("", 0, errno.EIO)
    old = Writer.open(tmp_path, disk=disk)
    disk.op = "now"
    with pytest.raises(Fenced):
        old.append(chunk(1))
    old.close()
    assert 2 == seen[0].next_seq
    seen[0].append(chunk(2))
    seen[0].close()
    assert [1, 2] == read(tmp_path)


def test_a_fenced_writer_makes_only_strays(tmp_path):
    """A segment that it was about to make when it was taken over is not journal, and is reported."""
    seen: list[Writer] = []

    class Hanging(FaultyDisk):
        """Is taken over after it checked FENCE and before it makes a segment."""

        def open(self, path, flags):
            if seen == [] and path.name.endswith("0001.seg.tmp") and self.op == "now":
                seen.append(Writer.take_over(tmp_path))
            return super().open(path, flags)

    disk = Hanging("", 0, errno.EIO)
    old = Writer.open(tmp_path, disk=disk)
    old.append(chunk(1))
    disk.op = "now"
    old.roll()
    with pytest.raises(Fenced):
        old.append(chunk(1000))
    old.close()
    seen[0].append(chunk(2))
    seen[0].close()
    assert [1, 2] == read(tmp_path) == numbers(second_reader.read_journal(tmp_path))
    report = verify(tmp_path)
    assert ([SegmentName(2, 1)], True) == (report.strays, report.ok)
    assert (SegmentName(1, 1), SegmentName(2, 1)) == retain(tmp_path, 2, {}).removed
    assert [] == verify(tmp_path).strays


def test_openings_do_not_overlap(tmp_path):
    """Nobody takes over in the middle of an opening: it would be recovering what the newer writes."""
    refused: list[JournalLocked] = []

    class Slow(FaultyDisk):
        """Somebody tries to take over while the tail is read."""

        def pread(self, fd, size, offset):
            if not refused and size > 64:
                with pytest.raises(JournalLocked, match="opening") as caught:
                    Writer.take_over(tmp_path)
                refused.append(caught.value)
            return super().pread(fd, size, offset)

    fill(tmp_path, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fence_module, "_CLAIM_TIMEOUT_S", 0.0)
        with Writer.open(tmp_path, disk=Slow("", 0, errno.EIO)) as writer:
            assert 2 == writer.append(chunk(2))
    assert refused
    assert [1, 2] == read(tmp_path)


def test_a_poisoned_writer_never_acknowledges_again(tmp_path):
    """The first failure is told as it was, later ones name it, and closing only lets go."""
    disk = FaultyDisk("fdatasync", 1, errno.EIO)
    disk.disarm()
    writer = Writer.open(tmp_path, disk=disk)
    writer.append(chunk(1))
    disk.arm()
    with pytest.raises(StorageError, match="cannot append: Input/output error"):
        writer.append(chunk(2))
    assert disk.fired
    for call in (lambda: writer.append(chunk(3)), lambda: writer.submit(chunk(3)), writer.roll):
        with pytest.raises(JournalPoisoned, match="Input/output error"):
            call()
    writer.close()
    assert not writer_lives(tmp_path / "writer.lock")


OPS = ["pwrite", "fdatasync", "allocate", "rename", "sync_dir", "truncate", "open", "inode"]


@pytest.mark.parametrize("how", [errno.EIO, errno.ENOSPC, "short"])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("nth", range(1, 14))
def test_no_failure_acknowledges_what_is_not_there(tmp_path, op, nth, how):
    """Any call of a writer's life may fail: what was acknowledged is there on reopening."""
    if how == "short" and op != "pwrite":
        how = errno.EINTR
    disk = FaultyDisk(op, nth, how)
    acknowledged = []
    try:
        with Writer.open(tmp_path, segment_bytes_max=300, disk=disk) as writer:
            for number in range(1, 8):
                writer.append(chunk(number))
                acknowledged.append(number)
    except StorageError:
        assert disk.fired
    with Writer.open(tmp_path, segment_bytes_max=300) as writer:
        writer.append(chunk(writer.next_seq))
    found = read(tmp_path)
    assert acknowledged == found[: len(acknowledged)]
    assert list(range(1, len(found) + 1)) == found
    assert verify(tmp_path).ok


def test_opening_fails_whole(tmp_path):
    """A failed opening keeps no lock and no open file, so the next one succeeds."""
    fill(tmp_path, 3)
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for op in ("open", "pwrite", "fdatasync", "rename", "sync_dir", "allocate"):
        for nth in range(1, 4):
            disk = FaultyDisk(op, nth, errno.EIO)
            with suppress(StorageError):
                Writer.open(tmp_path, disk=disk).close()
            assert not writer_lives(tmp_path / "writer.lock")
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) <= before
    fill(tmp_path, 1, 4)
    assert [1, 2, 3, 4] == read(tmp_path)


def test_a_corrupt_journal_is_not_opened(tmp_path):
    """It says where, up to which seq it is good, and what to run; nothing is changed."""
    crashed(tmp_path, 5)
    last = segments(tmp_path)[-1]
    data = bytearray(last.read_bytes())
    data[frames(tmp_path)[3].offset + 60] ^= 1
    last.write_bytes(data)
    with pytest.raises(JournalCorrupt, match="up to seq 3 are good") as caught:
        Writer.open(tmp_path)
    assert (str(last), f"trainstate verify {tmp_path}") == (caught.value.path, caught.value.hint)
    assert bytes(data) == last.read_bytes()
    assert not writer_lives(tmp_path / "writer.lock")


def test_limits(tmp_path):
    """The largest chunk is appended; a segment whose offsets do not fit is refused."""
    with Writer.open(tmp_path, segment_bytes_max=1 << 12) as writer:
        assert 1 == writer.append(Chunk(bytes(FRAME_BODY_MAX), 1, (1,), 0, 0))
        assert 2 == writer.append(Chunk(bytes(FRAME_BODY_MAX), 1, (1,), 0, 0))
    assert [1, 2] == [frame.first_seq for frame in frames(tmp_path)]
    for size in (0, 1 << 32):
        with pytest.raises(UsageError, match="segment_bytes_max"):
            Writer.open(tmp_path, segment_bytes_max=size)


def test_a_writer_that_was_killed_leaves_all_it_acknowledged(tmp_path):
    """And the next one goes on in the same segment: zeros are no tear."""
    crashed(tmp_path, 3)
    with Writer.open(tmp_path) as writer:
        assert (4, None) == (writer.next_seq, writer.recovered)
        stop_dead(writer)
    assert 1 == len(segments(tmp_path))


APPEND = """
import sys
from trainstate.journal import Chunk, Writer
with Writer.open(sys.argv[1], segment_bytes_max=2000) as writer:
    while True:
        number = writer.next_seq
        seq = writer.append(Chunk(b"%08d" % number, 1, (1,), 1, 1))
        print(seq, flush=True)
"""


def test_killed_processes_lose_nothing_they_acknowledged(tmp_path):
    """SIGKILL in the middle of appending, a few times over."""
    root = Path(__file__).parents[2]
    acknowledged = 0
    for _ in range(3):
        command = [sys.executable, "-c", APPEND, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
            assert process.stdout is not None
            for _ in range(60):
                acknowledged = int(process.stdout.readline())
            process.kill()
            acknowledged = max([acknowledged, *map(int, process.stdout.read().split("\n")[:-1])])
        found = read(tmp_path)
        assert list(range(1, len(found) + 1)) == found
        assert len(found) >= acknowledged >= 60
        assert verify(tmp_path).ok
