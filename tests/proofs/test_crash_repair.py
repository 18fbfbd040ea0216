"""A repair that crashes: what it leaves is damaged as before or sound, and it can be run again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.proofs.places import SEED
from tests.proofs.repairs import DAMAGES, Repair


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_repair_that_crashes_is_repeated(damage: str, shm: Path) -> None:
    """At each change: no good entry is lost, no byte of a bad one destroyed, writing goes on."""
    repair = Repair(damage, shm)
    for state in repair.crashes(3, random.Random(SEED)):
        repair.check(state)
    assert repair.counts["sound"] < repair.counts["crashes"]
    # How many states a change leaves depends on what is drawn; each change leaves at least one.
    assert repair.counts["crashes"] > 5
