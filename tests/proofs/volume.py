"""What a crash may leave on a disk: every state that the recorded changes and syncs allow.

A `Volume` takes the changes that a RecordingDisk recorded, one by one, and knows at every moment what
memory shows (what a killed process leaves) and what the medium may hold (what a power cut leaves):

    data     per sector of 512 bytes, every content it had since its last sync, each sector by itself;
             a write in flight may also be torn inside a sector (a prefix, or a suffix, of its new bytes)
    size     every size the file had since its last sync, whatever became of its sectors
    names    of the creations, renames and removals since the last sync of their directory every subset
             in which the changes of one name keep their order; a rename is atomic
    syncs    fdatasync makes a file's data and size durable and says nothing of its name; a directory
             sync makes names durable and says nothing of contents; a failed fdatasync makes nothing
             durable, and what it was to write is never written by a later one: memory calls it clean
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, count, product
from math import prod
from pathlib import Path

from trainstate.journal import Disk
from trainstate.testing.disk import Change, RecordingDisk

SECTOR = 512
_ZEROS = bytes(SECTOR)
_NAMES_WHOLE = 10  # of so many pending name changes every subset is looked at, of more a sample

State = dict[str, bytes | None]  # path below the root -> content; None is a directory


class Unsynced(Disk):
    """The real disk without waiting for it: power cuts are the model's, not the machine's."""

    def fdatasync(self, fd: int) -> None:
        pass

    def sync_dir(self, path: Path) -> None:
        pass


class Recorder(RecordingDisk):
    """Records changes below a root; knows the files that were there before."""

    def __init__(self, root: Path) -> None:
        super().__init__(Unsynced())
        self.root = root
        self.fail_next_sync = False

    def fdatasync(self, fd: int) -> None:
        if self.fail_next_sync:
            self.fail_next_sync = False
            self._note("failed_sync", fd)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().fdatasync(fd)

    def adopt(self, numbers: dict[str, int]) -> None:
        """Call the files that are there by the numbers a volume knows them by."""
        self._numbers = count(2_000_000)  # of new files: none that a volume uses already
        for name, number in numbers.items():
            stat = (self.root / name).stat()
            self._files[stat.st_dev, stat.st_ino] = number


class _File:
    """One file: what memory shows, and what each of its sectors may hold on the medium."""

    def __init__(self, data: bytes) -> None:
        self.cache = bytearray(data)
        self.sizes = [len(data)]
        self.sectors = {n: [_sector(data, n)] for n in range(-(-len(data) // SECTOR))}
        self.dirty: set[int] = set()

    def write(self, offset: int, data: bytes) -> None:
        self.grow(offset + len(data))
        self.cache[offset : offset + len(data)] = data
        self._note(offset, offset + len(data))

    def grow(self, size: int) -> None:
        if size > len(self.cache):
            self.cache.extend(bytes(size - len(self.cache)))
            self.sizes.append(size)

    def cut(self, size: int) -> None:
        was = len(self.cache)
        if size < was:
            del self.cache[size:]
            self.sizes.append(size)
            self._note(size, was)
        self.grow(size)

    def _note(self, start: int, end: int) -> None:
        for number in range(start // SECTOR, -(-end // SECTOR)):
            options = self.sectors.setdefault(number, [_ZEROS])
            content = _sector(self.cache, number)
            if content != options[-1]:
                options.append(content)
            # Written again as it was, it is dirty all the same: this is what adopting a frame is for.
            self.dirty.add(number)

    def sync(self) -> None:
        for number in self.dirty:
            self.sectors[number] = [_sector(self.cache, number)]
        self.dirty.clear()
        self.sizes = [len(self.cache)]

    def fail_sync(self) -> None:
        self.dirty.clear()

    def content(self, size: int, pick: dict[int, bytes]) -> bytes:
        numbers = range(-(-size // SECTOR))
        return b"".join(pick.get(n) or self.sectors.get(n, [_ZEROS])[0] for n in numbers)[:size]

    @property
    def is_settled(self) -> bool:
        return len(self.sizes) == 1 and all(len(one) == 1 for one in self.sectors.values())


def _sector(data: bytes | bytearray, number: int) -> bytes:
    return bytes(data[number * SECTOR : (number + 1) * SECTOR]).ljust(SECTOR, b"\0")


class Volume:
    """A directory tree on a medium that keeps what was synced, and perhaps more."""

    def __init__(self, root: Path, initial: State | None = None) -> None:
        self.root = root
        self.files: dict[int, _File] = {}
        self.names: dict[str, int | None] = {}
        for number, (name, data) in enumerate(sorted((initial or {}).items()), start=1_000_000):
            self.names[name] = None if data is None else number
            if data is not None:
                self.files[number] = _File(data)
        self.durable_names = dict(self.names)
        self.pending: list[Change] = []
        self.in_flight: Change | None = None

    @property
    def numbers(self) -> dict[str, int]:
        """The number of every file that memory shows."""
        return {name: number for name, number in self.names.items() if number is not None}

    def apply(self, change: Change) -> None:
        """Take in the next change."""
        if not change.path.is_relative_to(self.root):
            return
        change = change._replace(
            path=change.path.relative_to(self.root),
            target=change.target and change.target.relative_to(self.root),
        )
        self.in_flight = change if change.op == "pwrite" else None
        getattr(self, "_" + change.op)(change)

    def _create(self, change: Change) -> None:
        self.files[change.file] = _File(b"")
        self._change_names(change)

    def _pwrite(self, change: Change) -> None:
        self.files[change.file].write(change.offset, change.data)

    def _allocate(self, change: Change) -> None:
        self.files[change.file].grow(change.offset)

    def _truncate(self, change: Change) -> None:
        self.files[change.file].cut(change.offset)

    def _fdatasync(self, change: Change) -> None:
        self.files[change.file].sync()

    def _failed_sync(self, change: Change) -> None:
        self.files[change.file].fail_sync()

    def _rename(self, change: Change) -> None:
        self._change_names(change)

    _unlink = _mkdir = _rename

    def _change_names(self, change: Change) -> None:
        _enact(self.names, change)
        self.pending.append(change)

    def _sync_dir(self, change: Change) -> None:
        """Every pending change of a name in this directory is durable, and what it needs."""
        kept: list[Change] = []
        needed: set[Path] = set()
        for one in reversed(self.pending):
            touched = _touched(one)
            if needed & touched or any(path.parent == change.path for path in touched):
                needed |= touched
            else:
                kept.append(one)
        kept.reverse()
        for one in self.pending:
            if one not in kept:
                _enact(self.durable_names, one)
        self.pending = kept

    # --- what may be left -------------------------------------------------------------------------

    def killed(self) -> State:
        """What is left when the process ends and the machine goes on."""
        return {
            name: None if file is None else bytes(self.files[file].cache)
            for name, file in self.names.items()
            if _has_place(name, self.names)
        }

    def power_cuts(self, limit: int, draw: random.Random, torn_step: int = 0) -> Iterator[State]:
        """What may be left when power fails now; all of it if that is at most `limit` states.

        Otherwise up to that many: all old, all new, regular ones (one piece alone old or new, a prefix
        or a suffix of the pieces new) and random ones. `torn_step`: the write in flight is also torn
        inside each of its sectors, at every so manieth byte.
        """
        names = list(self._name_sets(draw))
        files = sorted({file for one in names for file in one.values() if file is not None})
        pieces: list[tuple[int, int, Sequence[object]]] = []
        for file in files:
            if len(self.files[file].sizes) > 1:
                pieces.append((file, -1, list(dict.fromkeys(self.files[file].sizes))))
            pieces += [
                (file, number, options)
                for number, options in sorted(self.files[file].sectors.items())
                if len(options) > 1
            ]
        settled = {
            file: self.files[file].content(self.files[file].sizes[-1], {})
            for file in files
            if self.files[file].is_settled
        }
        counts = [len(names), *(len(options) for *_, options in pieces)]
        for choice in _choices(counts, limit, draw):
            yield self._state(names[choice[0]], settled, pieces, choice[1:])
        if torn_step and self.in_flight is not None:
            yield from self._torn(settled, pieces, torn_step)

    def _state(
        self,
        names: dict[str, int | None],
        settled: dict[int, bytes],
        pieces: Sequence[tuple[int, int, Sequence[object]]],
        choice: Sequence[int],
        torn: dict[tuple[int, int], bytes] | None = None,
    ) -> State:
        sizes: dict[int, int] = {}
        picks: dict[int, dict[int, bytes]] = {}
        for (file, number, options), at in zip(pieces, choice, strict=True):
            if number < 0:
                sizes[file] = options[at]  # type: ignore[assignment]
            else:
                picks.setdefault(file, {})[number] = options[at]  # type: ignore[assignment]
        for (file, number), content in (torn or {}).items():
            picks.setdefault(file, {})[number] = content
        state: State = {}
        for name, file in names.items():
            if not _has_place(name, names):
                continue
            if file is None or file in settled:
                state[name] = None if file is None else settled[file]
            else:
                one = self.files[file]
                state[name] = one.content(sizes.get(file, one.sizes[-1]), picks.get(file, {}))
        return state

    def _torn(
        self,
        settled: dict[int, bytes],
        pieces: Sequence[tuple[int, int, Sequence[object]]],
        step: int,
    ) -> Iterator[State]:
        assert self.in_flight is not None
        file = self.in_flight.file
        newest = [len(options) - 1 for *_, options in pieces]
        for number, options in self.files[file].sectors.items():
            for content in _torn_sectors(options, step):
                torn = {(file, number): content}
                yield self._state(self.names, settled, pieces, newest, torn)

    def _name_sets(self, draw: random.Random) -> Iterator[dict[str, int | None]]:
        for subset in _down_closed(self.pending, draw):
            names = dict(self.durable_names)
            for change in subset:
                _enact(names, change)
            yield names


def _torn_sectors(options: Sequence[bytes], step: int) -> Iterator[bytes]:
    if len(options) < 2:
        return
    old, new = options[-2], options[-1]
    changed = [at for at in range(SECTOR) if old[at] != new[at]]
    for at in changed[1::step]:
        yield new[:at] + old[at:]
        yield old[:at] + new[at:]


def _touched(change: Change) -> set[Path]:
    return {change.path} | ({change.target} if change.target else set())


def _enact(names: dict[str, int | None], change: Change) -> None:
    name = str(change.path)
    if change.op == "create":
        names[name] = change.file
    elif change.op == "mkdir":
        names[name] = None
    elif change.op == "unlink":
        names.pop(name, None)
    elif name in names:
        names[str(change.target)] = names.pop(name)


def _has_place(name: str, names: dict[str, int | None]) -> bool:
    """Whether every directory above a name is there; the root always is."""
    return all(str(above) in names for above in list(Path(name).parents)[:-1])


def _down_closed(pending: Sequence[Change], draw: random.Random) -> Iterator[list[Change]]:
    """The subsets in which every change comes with the earlier ones of the same names."""
    size = len(pending)
    before = [
        {at for at in range(index) if _touched(pending[at]) & _touched(pending[index])}
        for index in range(size)
    ]
    if size <= _NAMES_WHOLE:
        chosen: Iterable[tuple[int, ...]] = (
            one for taken in range(size + 1) for one in combinations(range(size), taken)
        )
    else:
        sample = [tuple(at for at in range(size) if draw.random() < 0.7) for _ in range(200)]
        chosen = sample + [tuple(range(taken)) for taken in range(size + 1)]
    seen = set()
    for one in chosen:
        if one not in seen and all(before[index] <= set(one) for index in one):
            seen.add(one)
            yield [pending[index] for index in one]


def _choices(counts: Sequence[int], limit: int, draw: random.Random) -> Iterator[tuple[int, ...]]:
    """Of the product of `range(count)`, all; or all old, all new, regular ones and random ones."""
    if prod(counts) <= limit:
        yield from product(*map(range, counts))
        return
    regular = list(dict.fromkeys(_regular(counts)))
    chosen = dict.fromkeys(regular[:2])
    chosen |= dict.fromkeys(draw.sample(regular[2:], min(len(regular) - 2, limit // 2)))
    while len(chosen) < limit:
        chosen[tuple(draw.randrange(count) for count in counts)] = None
    yield from chosen


def _regular(counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    old, new = tuple(0 for _ in counts), tuple(count - 1 for count in counts)
    yield old
    yield new
    for index in range(1, len(counts)):
        yield new[:index] + old[index:]
        yield old[:index] + new[index:]
    for index, options in enumerate(counts):
        for option in range(options):
            yield (*new[:index], option, *new[index + 1 :])
            yield (*old[:index], option, *old[index + 1 :])


def write_out(state: State, root: Path) -> None:
    """Make the directory `root`, which is not there, hold exactly `state`."""
    root.mkdir(parents=True)
    for name in sorted(state):
        content = state[name]
        if content is None:
            (root / name).mkdir()
        else:
            fd = os.open(root / name, os.O_WRONLY | os.O_CREAT, 0o644)
            os.write(fd, content)
            os.close(fd)


def read_in(root: Path) -> State:
    """The state that a directory holds."""
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes()
        for path in sorted(root.rglob("*"))
    }
