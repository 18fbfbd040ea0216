"""Full replay, snapshot and tail, and the live state agree, in every process."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.proofs.folding import main
from tests.proofs.places import SEED
from tests.proofs.victims import ROOT


def test_three_folds_of_one_history_agree() -> None:
    """At random cuts, after kills and clean ends, with snapshots and archived runs between."""
    for seed in range(SEED, SEED + 3):
        _, cuts, restored = main(seed).split()
        assert int(cuts) > 0
        assert int(restored) > 0


def test_they_do_not_depend_on_the_hash_seed() -> None:
    """Processes with other hash seeds come to the same states, byte for byte."""
    command = [sys.executable, "-m", "tests.proofs.folding", str(SEED)]
    path = f"{ROOT}{os.pathsep}{ROOT / 'exporters'}"
    printed = {
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert 1 == len(printed)
    assert f"{main(SEED)}\n" in printed
