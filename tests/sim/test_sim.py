"""Small worlds, each with its own misfortunes; and that a seed is a world. More: scripts/bench/sim."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.sim.invariants import COVERED
from tests.sim.run import simulate
from tests.sim.world import FAULTS
from trainstate.core import RunStatus

ROOT = Path(__file__).parents[2]
CHUNK = 100


@pytest.mark.parametrize("first", range(0, 1500, CHUNK))
def test_every_promise_holds_in(first):
    """No invariant is broken, and every run ends, whoever dies when (tests/sim/invariants.py)."""
    for seed in range(first, first + CHUNK):
        simulate(seed)


def test_everything_happens():
    """Each fault fires, each end is come to; runs restart, replace, grow, shrink, wait and make way."""
    faults: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    seen: Counter[object] = Counter()
    for seed in range(300):
        made = simulate(seed)
        faults += made.faults
        covered += made.covered
        seen[made.run.status] += 1
        seen["attempts"] += len(made.run.attempts) > 1
        seen["checkpoints"] += made.run.checkpoints_committed > 1
        seen["deleted"] += made.run.checkpoints_committed > len(made.run.checkpoints)
    assert set(FAULTS) == set(faults)
    assert set(COVERED) == set(covered)
    ends = {RunStatus.FINISHED, RunStatus.ERRORED, RunStatus.ABORTED}
    assert {*ends, "attempts", "checkpoints", "deleted"} <= {one for one in seen if seen[one] > 10}


def test_a_seed_is_a_world():
    """The same seed gives the same trace and the same events, byte for byte, under two hash seeds."""
    program = "from tests.sim.run import simulate\nfor n in range(60): print(simulate(n).digest)"
    digests = set()
    for hash_seed in ("1", "2"):
        result = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == result.returncode, result.stderr
        digests.add(result.stdout)
    assert 1 == len(digests)
    assert 60 == len(set(digests.pop().split()))
