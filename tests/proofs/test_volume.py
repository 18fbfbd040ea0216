"""The model of the disk itself: what it calls legal, spelled out on a few changes."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

from tests.proofs.volume import SECTOR, State, Volume
from trainstate.testing.disk import Change

ROOT = Path("/model")
DRAW = random.Random(1)


def volume(*changes: Change, initial: State | None = None) -> Volume:
    made = Volume(ROOT, initial)
    for change in changes:
        made.apply(change)
    return made


def cuts(made: Volume) -> list[State]:
    return list(made.power_cuts(10_000, DRAW))


def on(name: str, op: str, data: bytes = b"", offset: int = 0, file: int = 1) -> Change:
    return Change(op, file, ROOT / name, data, offset)


def renamed(name: str, target: str) -> Change:
    return Change("rename", 0, ROOT / name, target=ROOT / target)


def directory(name: str, op: str) -> Change:
    return Change(op, 0, ROOT / name if name else ROOT)


def test_each_sector_in_flight_is_there_or_not():
    """Three sectors that were written and not synced: eight contents, and nothing else."""
    old, new = (letter * SECTOR for letter in (b"a", b"b"))
    made = volume(on("f", "pwrite", new * 3, file=1_000_000), initial={"f": old * 3})
    assert {b"".join(one) for one in product((old, new), repeat=3)} == {
        state["f"] for state in cuts(made)
    }
    made.apply(on("f", "fdatasync", file=1_000_000))
    assert [{"f": new * 3}] == cuts(made)


def test_a_sector_written_twice_has_each_of_its_contents():
    """In the order of its writes: never the second without the first."""
    made = volume(
        on("f", "pwrite", b"x", 0, 1_000_000),
        on("f", "pwrite", b"y", 1, 1_000_000),
        initial={"f": b"--"},
    )
    assert {b"--", b"x-", b"xy"} == {state["f"] for state in cuts(made)}


def test_a_size_may_lag_behind_or_lead():
    """A file that grows has the old size, or the new one with or without the data."""
    made = volume(on("f", "pwrite", b"xyz", 1, 1_000_000), initial={"f": b"-"})
    assert {b"-", b"-xyz", b"-\0\0\0"} == {state["f"] for state in cuts(made)}


def test_a_name_needs_the_sync_of_its_directory():
    """The sync of a file says nothing of its name, and that of a directory nothing of contents."""
    made = volume(on("f", "create"), on("f", "pwrite", b"x"), on("f", "fdatasync"))
    assert [{}, {"f": b"x"}] == cuts(made)
    made = volume(on("f", "create"), on("f", "pwrite", b"x"), directory("", "sync_dir"))
    assert {b"", b"x", b"\0"} == {state["f"] for state in cuts(made)}


def test_names_are_lost_in_any_order_that_each_allows():
    """Of two files the second may be there alone; a rename comes only after the creation."""
    made = volume(on("f", "create"), on("g", "create", file=2), renamed("f", "h"))
    assert {frozenset(names) for names in ((), ("f",), ("h",), ("g",), ("f", "g"), ("h", "g"))} == {
        frozenset(state) for state in cuts(made)
    }


def test_a_replaced_file_is_the_old_or_the_new():
    """A rename over a file is atomic, and the old content comes back when it is lost."""
    made = volume(
        on("f.tmp", "create"),
        on("f.tmp", "pwrite", b"new"),
        on("f.tmp", "fdatasync"),
        renamed("f.tmp", "f"),
        initial={"f": b"old"},
    )
    assert {b"old", b"new"} == {state["f"] for state in cuts(made)}
    made.apply(directory("", "sync_dir"))
    assert [{"f": b"new"}] == cuts(made)


def test_a_folder_takes_what_is_in_it_along():
    """A file in a folder whose own name is lost is lost, synced or not."""
    made = volume(
        directory("d", "mkdir"),
        on("d/f", "create"),
        on("d/f", "fdatasync"),
        directory("d", "sync_dir"),
    )
    assert [{}, {"d": None, "d/f": b""}] == cuts(made)


def test_what_a_failed_sync_left_is_not_written_by_the_next():
    """Memory calls it clean: only writing it again and syncing makes it durable."""
    made = volume(
        on("f", "pwrite", b"x", file=1_000_000),
        on("f", "failed_sync", file=1_000_000),
        on("f", "fdatasync", file=1_000_000),
        initial={"f": b"-"},
    )
    assert ({"f": b"x"}, {b"-", b"x"}) == (made.killed(), {state["f"] for state in cuts(made)})
    made.apply(on("f", "pwrite", b"x", file=1_000_000))
    made.apply(on("f", "fdatasync", file=1_000_000))
    assert [{"f": b"x"}] == cuts(made)


def test_a_write_in_flight_may_be_torn_inside_a_sector():
    """A prefix, or a suffix, of what changes."""
    made = volume(on("f", "pwrite", b"xyz", file=1_000_000), initial={"f": b"---"})
    torn = {state["f"] for state in made.power_cuts(10_000, DRAW, torn_step=1)}
    assert {b"---", b"xyz", b"x--", b"xy-", b"-yz", b"--z"} == torn
