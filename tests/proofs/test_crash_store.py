"""A store, its snapshots, its archive and an export to a file, crashed at each change of any of them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from tests.proofs import exports
from tests.proofs.places import SEED


def test_a_crash_anywhere_loses_no_event_and_exports_each_once(shm: Path) -> None:
    """Events, folded states and the lines of the sink are whole after every sampled crash."""
    life = exports.record(shm / "life")
    draw = random.Random(SEED)
    states = list(exports.crashes(life, 3, draw))
    counts: Counter[str] = Counter()
    for done, state in draw.sample(states, 250):
        exports.check(life, done, state, counts)
    assert counts["in flight"] > 0
    assert counts["restored"] > 0
