"""The same events give the same bytes in every process, however its hashes are seeded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import hashlib, random
from pathlib import Path
from tests.core.histories import legal
from trainstate.core import evolve, initial
from trainstate.core.freeze import freeze, thaw
from trainstate.core.json_patch import diff
from trainstate.core.views.goodput import goodput
from trainstate.core.views.ray_line import run_line
from trainstate.integrations.ray_export.deltas import deltas
from trainstate.integrations.ray_export.lines import parse

digest = hashlib.sha256()
draw = random.Random(7)
for _ in range(20):
    events = legal([draw.randrange(2**16) for _ in range(80)])
    run = initial("run")
    for one in events:
        evolve(run, one)
        digest.update(one.SerializeToString())
    digest.update(freeze(run) + freeze(thaw(freeze(run))))
    digest.update(repr((run_line(run), goodput(events))).encode())
runs = {}
for raw in Path("tests/data/event_EXPORT_TRAIN_STATE.ray-2.60.0.log").read_bytes().splitlines():
    line = parse(raw)
    run = runs.setdefault(line.run_id, initial(line.run_id))
    for one in deltas(run, line):
        digest.update(one.SerializeToString())
    digest.update(repr(list(diff(line.document, {"event_data": {}}))).encode())
print(digest.hexdigest())
"""


def test_a_fold_does_not_depend_on_the_hash_seed():
    """Events, states, views, deltas and residues are equal byte for byte under two hash seeds."""
    digests = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROGRAM]
        result = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert 0 == result.returncode, result.stderr
        digests.add(result.stdout)
    assert 1 == len(digests)
