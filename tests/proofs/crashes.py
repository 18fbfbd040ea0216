"""From a recording to crash states, and from each of them to a journal that keeps its promises."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests import second_reader
from tests.proofs.lives import (
    JOURNAL,
    Promise,
    Recording,
    chunk,
    numbers,
    plain_writer,
    resumed_life,
)
from tests.proofs.volume import State, Volume, write_out
from trainstate.journal import Reader, Writer, is_journal, verify


class Crash(NamedTuple):
    """A state that a crash may leave, and what must hold of it."""

    state: State
    promise: Promise
    done: int  # how many changes were done
    how: str  # "killed" or "power"


class Sizes(NamedTuple):
    """How many states are looked at of each crash point, of the many there may be."""

    cuts: int  # power cuts at one point; below it, all that there are
    torn_step: int  # every so manieth byte of a write in flight is a tear; 0: none
    again: int  # of so many crash states the recovery is crashed again
    cuts_again: int  # and of each point in it so many power cuts


def crashes(recording: Recording, sizes: Sizes, draw: random.Random) -> Iterator[Crash]:
    """Every crash of a life, at each of its changes: the killed process, and the power cuts."""
    volume = Volume(recording.root, recording.initial)
    seen: set[int] = set()
    for done in range(len(recording.changes) + 1):
        if done:
            volume.apply(recording.changes[done - 1])
        promise = recording.promise(done)
        yield Crash(volume.killed(), promise, done, "killed")
        for state in volume.power_cuts(sizes.cuts, draw, sizes.torn_step):
            key = hash((promise, frozenset(state.items())))
            if key not in seen:
                seen.add(key)
                yield Crash(state, promise, done, "power")


def volume_at(recording: Recording, done: int) -> Volume:
    """The disk after so many changes."""
    volume = Volume(recording.root, recording.initial)
    for change in recording.changes[:done]:
        volume.apply(change)
    return volume


class Bench:
    """A place where crash states are put back and looked at; counts what it did."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self._folder = folder
        self._number = 0
        self.counts: Counter[str] = Counter()

    def fresh(self) -> Path:
        """A directory that is not there yet; the one before is removed."""
        shutil.rmtree(self._folder / str(self._number), ignore_errors=True)
        self._number += 1
        return self._folder / str(self._number)

    def put_back(self, state: State) -> Path:
        root = self.fresh()
        write_out(state, root)
        return root

    def check(self, crash: Crash) -> None:
        """Read what the crash left, open it, append, close, and read again; the promise holds."""
        root = self.put_back(crash.state)
        self.counts[crash.how] += 1
        path = root / JOURNAL
        try:
            found = _read(path, crash.promise) if is_journal(path) else _nothing(crash.promise)
            self._go_on(path, found)
        except BaseException as error:
            error.add_note(f"crash after change {crash.done}, {crash.how}, kept in {root}")
            raise

    def _go_on(self, path: Path, found: list[int]) -> None:
        with plain_writer(path) as writer:
            after = found[-1] + 1 if found else 1
            assert after == writer.next_seq
            if writer.recovered:
                self.counts["torn"] += 1
                _check_quarantine(path, writer)
            assert after == writer.append(chunk(after))
        assert [*found, after] == numbers(Reader(path).frames())
        report = verify(path)
        assert report.ok, report.damages
        assert report.tear is None

    def crash_again(self, recording: Recording, crash: Crash, sizes: Sizes) -> None:
        """Crash the recovery from a crash at each of its own changes, and recover from those.

        After a kill what was pending before the crash is pending still; after a power cut it is decided.
        """
        draw = random.Random(crash.done)
        volume = volume_at(recording, crash.done)
        if crash.how == "power" or JOURNAL not in crash.state:
            # (A folder above the journal that a killed process made and did not sync is synced by
            # nobody: the next creator cannot know. docs/RELIABILITY.md tells.)
            volume = Volume(recording.root, crash.state)
        again = self._recovery(crash, volume.numbers)
        volume.root = again.root
        for done, change in enumerate(again.changes, start=1):
            volume.apply(change)
            promise = again.promise(done)
            states = [(volume.killed(), "killed again")]
            states += [(one, "power again") for one in volume.power_cuts(sizes.cuts_again, draw)]
            for state, how in states:
                self.check(Crash(state, promise, done, how))

    def _recovery(self, crash: Crash, numbers_of: dict[str, int]) -> Recording:
        # Led in a place of its own: the checks of its crashes come and go meanwhile.
        root = self._folder / "again"
        shutil.rmtree(root, ignore_errors=True)
        write_out(crash.state, root)
        return resumed_life(root, crash.promise, numbers_of)


def _nothing(promise: Promise) -> list[int]:
    assert 0 == promise.acked
    return []


def _read(path: Path, promise: Promise) -> list[int]:
    """What the journal holds as it was left: by our reader, by the other one, and by `verify`."""
    report = verify(path)
    assert report.ok, report.damages
    found = numbers(Reader(path).frames())
    first = found[0] if found else 1
    assert first <= promise.first_max
    last = found[-1] if found else 0
    assert list(range(first, last + 1)) == found
    assert last >= promise.acked, f"{promise.acked} were acknowledged, {last} are there"
    assert last in promise.ends, f"a part of a frame: {last} of {sorted(promise.ends)}"
    assert found == numbers(second_reader.read_journal(path))  # type: ignore[arg-type]
    return found


def _check_quarantine(path: Path, writer: Writer) -> None:
    tear = writer.recovered
    assert tear is not None
    kept = (path / "quarantine" / f"{tear.segment}@{tear.offset}").read_bytes()
    assert tear.size == len(kept)
    assert kept.rstrip(b"\0") == kept
