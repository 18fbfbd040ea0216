"""Two writers of one journal, one of them a zombie; and readers beside retention."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.proofs import victims
from tests.proofs.kills import HEIR, zombie
from tests.proofs.lives import chunk, numbers, plain_writer
from tests.proofs.places import SEED
from tests.proofs.victims import Nursery
from tests.proofs.volume import Unsynced
from trainstate.errors import Fenced, JournalLocked, NotFound
from trainstate.journal import Reader, Tail, Writer, retain, verify


def test_a_journal_that_another_process_writes_is_locked(shm: Path, nursery: Nursery) -> None:
    """The second opening is refused for as long as the first writer lives, and not longer."""
    victim = nursery.start(victims.write_until_fenced, shm / "journal")
    victim.lines(3)
    with pytest.raises(JournalLocked, match="writes this journal"):
        Writer.open(shm / "journal", lock_timeout_s=0)
    victim.kill()
    assert victim.killed
    plain_writer(shm / "journal").close()


def test_of_many_openings_at_once_one_succeeds(shm: Path) -> None:
    """Eight threads open a journal that is not there yet: one writer, the others are told."""

    def open_it(path: Path) -> Writer | None:
        meet.wait()
        try:
            return Writer.open(path, segment_bytes_max=1000, lock_timeout_s=0, disk=Unsynced())
        except JournalLocked:
            return None

    for cycle in range(20):
        path = shm / f"journal-{cycle}"
        for seq in (1, 2):
            meet = threading.Barrier(8)
            with ThreadPoolExecutor(8) as pool:
                opened = [writer for writer in pool.map(open_it, [path] * 8) if writer]
            (writer,) = opened
            assert seq == writer.append(chunk(seq))
            writer.close()
        assert [1, 2] == numbers(Reader(path).frames())


def test_a_zombie_is_fenced_and_loses_nothing_it_acknowledged(shm: Path, nursery: Nursery) -> None:
    """Stopped anywhere and replaced, it writes nothing that is read, and is told when it goes on."""
    draw = random.Random(SEED)
    for number in range(15):
        zombie(shm / f"journal-{number}", nursery, draw)


CALLS = ("open", "pwrite", "fdatasync", "allocate", "truncate", "rename", "sync_dir", "inode")


class Interrupted(Unsynced):
    """Before the nth call of the operating system something else happens."""

    def __init__(self, what: Callable[[], object]) -> None:
        self.left = 0
        self._what = what

    def count(self) -> None:
        self.left -= 1
        if self.left == 0:
            self._what()


def _counted(name: str) -> Any:
    def call(self: Interrupted, *args: Any) -> Any:
        self.count()
        return getattr(super(Interrupted, self), name)(*args)

    return call


for _name in CALLS:
    setattr(Interrupted, _name, _counted(_name))


@pytest.mark.parametrize("nth", range(1, 60))
def test_a_takeover_before_any_call_of_the_old_writer(shm: Path, nth: int) -> None:
    """Wherever the old one is, it is Fenced; what it was told is there, and nothing that came later."""
    heirs: list[Writer] = []
    begin = 0

    def take_over() -> None:
        nonlocal begin
        heirs.append(Writer.take_over(shm, segment_bytes_max=300, disk=Unsynced()))
        begin = heirs[0].next_seq
        heirs[0].append(chunk(HEIR))

    disk = Interrupted(take_over)
    old = Writer.open(shm, segment_bytes_max=300, disk=disk)
    disk.left = nth
    acknowledged = append_until_fenced(old, 8)
    with pytest.raises(Fenced):
        old.append(chunk(99_999_999))
    old.close()
    (heir,) = heirs
    heir.append(chunk(HEIR + 1))
    heir.close()
    assert acknowledged < begin
    assert [*range(1, begin), HEIR, HEIR + 1] == numbers(Reader(shm).frames())
    assert verify(shm).ok


def append_until_fenced(writer: Writer, count: int) -> int:
    """Append entries that say their seq; the last acknowledged one."""
    acknowledged = writer.durable_seq
    for _ in range(20):
        try:
            acknowledged = writer.append(chunk(acknowledged + 1, count)) + count - 1
        except Fenced:
            return acknowledged
    raise AssertionError("nobody fenced it")


@pytest.mark.parametrize("entries", [1, 30])
@pytest.mark.parametrize("nth", range(1, 35))
def test_an_old_writer_goes_on_before_any_call_of_a_takeover(
    shm: Path, nth: int, entries: int
) -> None:
    """It is acknowledged until FENCE is replaced and Fenced from then on; what was told is there."""
    told: list[int] = []

    def go_on() -> None:
        with suppress(Fenced):
            told.append(old.append(chunk(old.next_seq, entries)) + entries - 1)

    old = Writer.open(shm, segment_bytes_max=300, disk=Unsynced())
    go_on()
    disk = Interrupted(go_on)
    disk.left = nth
    heir = Writer.take_over(shm, segment_bytes_max=300, disk=disk)
    assert disk.left <= 0
    begin = heir.next_seq
    heir.append(chunk(HEIR))
    append_until_fenced(old, 1)
    old.close()
    heir.close()
    assert told[-1] < begin
    assert [*range(1, begin), HEIR] == numbers(Reader(shm).frames())
    assert verify(shm).ok


@pytest.mark.parametrize("durable", [True, False])
def test_a_reader_beside_a_writer_sees_what_is_durable(shm: Path, durable: bool) -> None:
    """What is written and not yet synced is not read; without DURABLE, the newest is not either."""
    seen: list[int] = []
    acknowledged = 0

    def look() -> None:
        if not durable:
            (shm / "DURABLE").unlink(missing_ok=True)
        found = numbers(Reader(shm).frames())
        assert list(range(1, len(found) + 1)) == found
        assert len(found) <= acknowledged
        seen.append(len(found))

    class Looked(Unsynced):
        def fdatasync(self, fd: int) -> None:
            if acknowledged:
                look()

    with Writer.open(shm, segment_bytes_max=300, disk=Looked()) as writer:
        for number in range(1, 20):
            acknowledged = writer.append(chunk(number))
    assert seen[-1] >= 18
    assert len(seen) > 1


def test_a_tail_beside_retention_reads_every_entry(shm: Path, nursery: Nursery) -> None:
    """One that keeps up, and one that lags and pins what it has not read, while history is forgotten."""
    removed = 0
    read: list[int] = []
    with plain_writer(shm / "journal", 400) as writer, Tail(shm / "journal") as lagging:
        victim = nursery.start(victims.follow, shm / "journal")
        for number in range(1, 200):
            writer.append(chunk(number))
            assert str(number) == victim.line()
            if number % 20 == 0:
                pins = {"tail": number + 1, "lagging tail": len(read) + 1}
                removed += len(retain(shm / "journal", 10**9, pins).removed)
            if number % 50 == 0:
                read += numbers(lagging.read(0))
        victim.kill()
        read += numbers(lagging.read(0))
    assert list(range(1, 200)) == read
    assert removed > 0
    assert verify(shm / "journal").ok


def test_readers_beside_retention_get_history_or_are_told_it_is_gone(shm: Path) -> None:
    """Without a pin a reader may come too late; it never sees a gap, and never calls it damage."""
    over = threading.Event()
    seen: list[int] = []

    def look() -> int:
        looks = 0
        while not over.is_set() or not looks:
            try:
                found = numbers(Reader(shm / "journal").frames())
            except NotFound:
                seen.append(0)
                continue
            assert list(range(found[0], found[0] + len(found))) == found
            seen.append(found[0])
            looks += 1
        return looks

    with plain_writer(shm / "journal", 400) as writer, ThreadPoolExecutor(2) as pool:
        writer.append(chunk(1))
        readers = [pool.submit(look) for _ in range(2)]
        number = 1
        while number < 300 or len(set(seen)) < 3:
            number += 1
            writer.append(chunk(number))
            if number % 20 == 0:
                retain(shm / "journal", number - 30, {})
        over.set()
        assert all(reader.result() for reader in readers)
