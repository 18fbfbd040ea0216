"""Crash states: whatever a kill or a power cut leaves of a journal keeps what was acknowledged.

The small size of scripts/bench/crash-states: of every crash point a handful of states, drawn anew by the
seed below. What is legal is in tests/proofs/volume.py, what must hold in tests/proofs/crashes.py.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.proofs.crashes import Bench, Sizes, crashes
from tests.proofs.lives import LIVES, Recording, record
from tests.proofs.places import SEED

SMALL = Sizes(cuts=6, torn_step=100, again=6, cuts_again=2)


@pytest.fixture(scope="module", params=LIVES)
def recording(request: pytest.FixtureRequest, shm_module: Path) -> Recording:
    return record(request.param, shm_module / request.param)


def test_every_crash_state_recovers(recording: Recording, shm: Path) -> None:
    """At each change: no acknowledged entry lost, none invented, no gap, and writing goes on."""
    bench = Bench(shm)
    for crash in crashes(recording, SMALL, random.Random(SEED)):
        bench.check(crash)
    assert len(recording.changes) + 1 == bench.counts["killed"]
    assert bench.counts["power"] > len(recording.changes)


def test_a_recovery_that_crashes_recovers(recording: Recording, shm: Path) -> None:
    """A sample of the crash states: their recovery is crashed at each of its own changes."""
    bench = Bench(shm)
    draw = random.Random(SEED)
    states = list(crashes(recording, SMALL, draw))
    for crash in draw.sample(states, SMALL.again):
        bench.crash_again(recording, crash, SMALL)
    assert min(bench.counts["power again"], bench.counts["killed again"]) > 0
