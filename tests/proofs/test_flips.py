"""Damage to any file of a journal is noticed, or does no harm. At full size: scripts/bench/bit-flips."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.proofs.flips import LEFT_BY, Specimen, table
from tests.proofs.lives import chunk, kill, plain_writer
from tests.proofs.places import SEED
from trainstate.errors import JournalCorrupt
from trainstate.journal import Reader

BITS, SIZES = 151, 41  # every so manieth
KINDS = {"DURABLE", "FENCE", "IDENTITY", "archive", "cursor", "idx", "seg", "snap"}


@pytest.mark.parametrize("left_by", LEFT_BY)
def test_damage_is_detected_or_harmless(shm: Path, left_by: str) -> None:
    """A flipped bit, a lost end, a lost file: a typed error that names it, or nothing is different."""
    specimen = Specimen(shm / "place", left_by)
    start = random.Random(SEED).randrange(BITS)
    found = table(specimen, specimen.harms(BITS, SIZES, start))
    found += table(specimen, specimen.harms(10**9, 10**9))
    assert KINDS - {kind for kind, _, _ in found} <= {"DURABLE"}
    for kind in ("FENCE", "IDENTITY", "cursor"):
        assert not any(found[kind, sort, "harmless"] for sort in ("bits", "truncations"))
    for kind in ("DURABLE", "archive", "idx", "snap"):
        assert not any(found[kind, sort, "detected"] for sort in ("bits", "truncations"))
    assert found["seg", "bits", "detected"] > 50


def test_a_segment_of_a_fork_is_noticed(shm: Path) -> None:
    """Put back from another history of this journal: whole, in its place, and of the right size."""
    writer = plain_writer(shm / "ours", 400)
    writer.append(chunk(1))
    writer.roll()
    kill(writer)
    shutil.copytree(shm / "ours", shm / "fork")
    for name, said in (("ours", 2), ("fork", 3)):
        with plain_writer(shm / name, 400) as writer:
            writer.append(chunk(said))
            writer.roll()
            writer.append(chunk(said))
    first, forked, last = sorted((shm / "ours/seg").glob("*.seg"))
    assert forked.read_bytes()[:72] == (shm / "fork/seg" / forked.name).read_bytes()[:72]
    shutil.copy(shm / "fork/seg" / forked.name, forked)
    with pytest.raises(JournalCorrupt, match="does not continue it"):
        list(Reader(shm / "ours").frames())
    assert first.exists()
    assert last.exists()
