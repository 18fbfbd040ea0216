"""Lives of a journal, recorded: what was done to the disk, and what was promised to whom by then.

An entry says its own seq in 8 digits, so that what is lost, doubled, invented or out of place shows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.proofs.volume import Recorder, State, Unsynced, read_in
from trainstate.errors import Fenced, StorageError
from trainstate.journal import Chunk, Frame, Writer, retain, save_snapshot
from trainstate.testing.disk import Change

ENTRY = 8
SEGMENT_BYTES = 1200
JOURNAL = "above/journal"  # in the root of a life; both folders are made by its first writer
ROGUE = 90_000_000  # what a fenced writer says: never to be read


class Promise(NamedTuple):
    """What must hold of a journal: `acked` entries are there, and it ends at one of `ends`."""

    acked: int
    ends: frozenset[int]
    first_max: int = 1  # history begins no later than here


_NOTHING = Promise(0, frozenset([0]))


class Recording(NamedTuple):
    """A life: what the directory held, every change, and the promises by the number of changes."""

    root: Path
    initial: State
    changes: list[Change]
    acks: list[tuple[int, int]]
    begun: list[tuple[int, int]]
    kept_from: list[tuple[int, int]]

    def promise(self, done: int) -> Promise:
        """What was promised when that many changes were done."""
        return Promise(
            max(seq for at, seq in self.acks if at <= done),
            frozenset(seq for at, seq in self.begun if at <= done),
            max(seq for at, seq in self.kept_from if at <= done),
        )


def chunk(number: int, count: int = 1) -> Chunk:
    """Entries that say `number`, `number + 1`, ..."""
    body = b"".join(b"%08d" % one for one in range(number, number + count))
    return Chunk(body, count, (number % 3,), number, number + count)


def numbers(frames: Iterable[Frame]) -> list[int]:
    """What the entries of frames say."""
    bodies = (frame.body for frame in frames)
    return [int(body[at : at + ENTRY]) for body in bodies for at in range(0, len(body), ENTRY)]


def kill(writer: Writer) -> None:
    """What the end of its process does to a writer: its files are closed, and nothing else."""
    active = writer._active
    for fd in (writer._lock_fd, writer._fence._fd, active._fd, active._durable._fd):
        os.close(fd)
    if active._index._fd is not None:
        os.close(active._index._fd)


class Life:
    """A journal that does things, one writer after the other."""

    def __init__(self, root: Path, promise: Promise = _NOTHING) -> None:
        self.root = root
        self.path = root / JOURNAL
        self.disk = Recorder(root)
        self.next_seq = promise.acked + 1
        self.segment_bytes = SEGMENT_BYTES
        self.recording = Recording(
            root,
            read_in(root),
            self.disk.changes,
            [(0, promise.acked)],
            [(0, end) for end in promise.ends],
            [(0, promise.first_max)],
        )

    def open(self) -> Writer:
        return Writer.open(self.path, segment_bytes_max=self.segment_bytes, disk=self.disk)

    def take_over(self) -> Writer:
        return Writer.take_over(self.path, segment_bytes_max=self.segment_bytes, disk=self.disk)

    def begin(self, count: int) -> int:
        """Note that a frame that ends with so many entries more may be found from here on."""
        first = self.next_seq
        self.next_seq += count
        self.recording.begun.append((len(self.disk.changes), self.next_seq - 1))
        return first

    def acknowledge(self) -> None:
        """Note that everything begun so far has been acknowledged."""
        self.recording.acks.append((len(self.disk.changes), self.next_seq - 1))

    def append(self, writer: Writer, *counts: int) -> None:
        """Append entries, durably: one append of each count, grouped in one frame."""
        first = self.begin(sum(counts))
        for count in counts[:-1]:
            writer.submit(chunk(first, count))
            first += count
        writer.append(chunk(first, counts[-1]))
        self.acknowledge()

    def fail_to_append(self, writer: Writer, count: int) -> None:
        """Append with a sync that fails: nothing is acknowledged."""
        self.disk.fail_next_sync = True
        with suppress(StorageError):
            writer.append(chunk(self.begin(count), count))
            raise AssertionError("a failed sync was acknowledged")


# --- the lives ------------------------------------------------------------------------------------


def whole_life(life: Life) -> None:
    """Create, appends of all sizes, groups, rotation, snapshots, closing, kills, a takeover."""
    writer = life.open()
    life.append(writer, 1)
    life.append(writer, 3, 1, 2)
    life.append(writer, 90)
    for count in (1, 40, 30, 30):
        life.append(writer, count)
    save_snapshot(life.path, writer.roll(), 1, b"folded" * 9, life.disk)
    life.append(writer, 2)
    writer.close()
    writer = life.open()
    life.append(writer, 150)
    save_snapshot(life.path, writer.roll(), 1, b"folded" * 200, life.disk)
    life.append(writer, 5)
    save_snapshot(life.path, writer.roll(), 1, b"folded", life.disk)
    life.append(writer, 5)
    kill(writer)
    writer = life.open()
    life.append(writer, 1)
    heir = life.take_over()
    life.append(heir, 4)
    with suppress(Fenced):
        writer.append(chunk(ROGUE, 20))
        raise AssertionError("a fenced writer was acknowledged")
    kill(writer)
    life.append(heir, 90)
    heir.close()


def short_life(life: Life) -> None:
    """Create, three appends, a rotation, a clean end, and one append more: small enough for all."""
    life.segment_bytes = 300
    writer = life.open()
    life.append(writer, 1)
    life.append(writer, 2)
    life.append(writer, 20)
    writer.close()
    writer = life.open()
    life.append(writer, 1)
    kill(writer)


def failed_sync(life: Life) -> None:
    """A sync fails; memory shows the frame, the medium does not have it; the next writer adopts it."""
    life.segment_bytes = 4000
    writer = life.open()
    life.append(writer, 3)
    life.fail_to_append(writer, 150)
    kill(writer)
    writer = life.open()
    life.append(writer, 2)
    writer.close()


def forgetting(life: Life) -> None:
    """Segments come and the oldest go, beside the writer."""
    life.segment_bytes = 300
    writer = life.open()
    for _ in range(8):
        life.append(writer, 12)
    for keep_from in (20, 60):
        life.recording.kept_from.append((len(life.disk.changes), keep_from))
        retain(life.path, keep_from, {}, disk=life.disk)
        life.append(writer, 12)
    writer.close()


LIVES: dict[str, Callable[[Life], None]] = {
    "whole life": whole_life,
    "short life": short_life,
    "failed sync": failed_sync,
    "forgetting": forgetting,
}


def record(name: str, root: Path) -> Recording:
    """Lead the life of that name in the directory `root`, which is made; return its recording."""
    root.mkdir(parents=True)
    life = Life(root)
    LIVES[name](life)
    return life.recording


def resumed_life(root: Path, promise: Promise, numbers_of: dict[str, int]) -> Recording:
    """What the next writer does in a directory that a crash left: open, append, close. Recorded.

    `numbers_of`: what the volume calls the files that are there.
    """
    life = Life(root, promise)
    life.disk.adopt(numbers_of)
    writer = life.open()
    # A frame above what was acknowledged may have been found and adopted.
    life.next_seq = writer.next_seq
    life.append(writer, 2)
    writer.close()
    return life.recording


def plain_writer(path: Path, segment_bytes: int = SEGMENT_BYTES) -> Writer:
    """A writer of the journal at `path`, on a disk that nobody records."""
    return Writer.open(path, segment_bytes_max=segment_bytes, disk=Unsynced())
