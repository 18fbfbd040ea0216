"""Repairs of damaged journals, crashed at each change: they can be run again, and destroy no byte."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tests.proofs.lives import chunk, kill, numbers, plain_writer
from tests.proofs.volume import Recorder, State, Unsynced, Volume, read_in, write_out
from trainstate.errors import JournalCorrupt
from trainstate.journal import Reader, repair, verify

SEGMENT_BYTES = 300
ENTRIES = 40


def _flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    path.write_bytes(data)


def _frame(path: Path, seq: int) -> None:
    frame = next(Reader(path).frames(seq))
    _flip(frame.segment, frame.offset + 60)


def _header(path: Path) -> None:
    _flip(sorted((path / "seg").glob("*.seg"))[3], 20)


# What is damaged -> how, and the last entry that a repair keeps.
DAMAGES: dict[str, tuple[Callable[[Path], None], range]] = {
    "a frame": (lambda path: _frame(path, 22), range(22)),
    "the first frame": (lambda path: _frame(path, 1), range(1)),
    "a frame of the last segment": (lambda path: _frame(path, 39), range(36, 39)),
    "a segment header": (_header, range(1, ENTRIES)),
    "FENCE": (lambda path: _flip(path / "FENCE", 3), range(ENTRIES, ENTRIES + 1)),
    "IDENTITY": (lambda path: _flip(path / "IDENTITY", 3), range(ENTRIES, ENTRIES + 1)),
    "FENCE, and no cache": (lambda path: _without_caches(path), range(ENTRIES, ENTRIES + 1)),
}


def _without_caches(path: Path) -> None:
    _flip(path / "FENCE", 3)
    for cache in (path / "seg").glob("*.idx"):
        cache.unlink()


class _Small(Unsynced):
    """`repair` opens with segments of the usual size: here, a page is enough."""

    def allocate(self, fd: int, size: int) -> None:
        super().allocate(fd, min(size, 4096))


class _SmallRecorder(Recorder):
    def allocate(self, fd: int, size: int) -> None:
        super().allocate(fd, min(size, 4096))


class Repair:
    """A damaged journal, and the recording of its repair."""

    def __init__(self, damage: str, folder: Path) -> None:
        break_it, self.kept = DAMAGES[damage]
        self.folder = folder
        self.counts: Counter[str] = Counter()
        root = folder / "damaged"
        root.mkdir(parents=True)
        writer = plain_writer(root, SEGMENT_BYTES)
        for number in range(1, ENTRIES + 1):
            writer.append(chunk(number))
        kill(writer)
        break_it(root)
        self.initial = read_in(root)
        with suppress(JournalCorrupt):
            assert not verify(root).ok
        disk = _SmallRecorder(root)
        disk.adopt(Volume(root, self.initial).numbers)
        repair(root, accept_loss=True, disk=disk)
        self.changes = disk.changes
        self.root = root

    def crashes(self, cuts: int, draw: random.Random) -> Iterator[State]:
        """Every crash of the repair: killed, and power cuts, up to `cuts` at each change."""
        volume = Volume(self.root, self.initial)
        seen = set()
        for change in self.changes:
            volume.apply(change)
            for state in (volume.killed(), *volume.power_cuts(cuts, draw)):
                key = hash(frozenset(state.items()))
                if key not in seen:
                    seen.add(key)
                    yield state

    def check(self, state: State) -> None:
        """Run the repair again, and write on: what was good is there, and no entry's bytes are gone."""
        self.counts["crashes"] += 1
        root = self.folder / str(self.counts["crashes"])
        write_out(state, root)
        self._check_nothing_destroyed(state)
        with suppress(JournalCorrupt):
            # What a crash left is either damaged as before, or sound.
            self._check_entries(numbers(Reader(root).frames()))
            self.counts["sound"] += verify(root).ok
        repair(root, accept_loss=True, disk=_Small())
        found = numbers(Reader(root).frames())
        self._check_entries(found)
        with plain_writer(root) as writer:
            assert len(found) + 1 == writer.append(chunk(len(found) + 1))
        assert [*found, len(found) + 1] == numbers(Reader(root).frames())
        assert verify(root).ok
        self._check_nothing_destroyed(read_in(root))

    def _check_entries(self, found: list[int]) -> None:
        assert list(range(1, len(found) + 1)) == found
        assert len(found) in self.kept

    def _check_nothing_destroyed(self, state: State) -> None:
        everything = b"\n".join(data for data in state.values() if data)
        before = b"\n".join(data for data in self.initial.values() if data)
        entries = [b"%08d" % number for number in range(1, ENTRIES + 1)]
        missing = [one for one in entries if one in before and one not in everything]
        assert not missing
