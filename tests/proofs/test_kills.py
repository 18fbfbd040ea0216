"""Real processes under SIGKILL. The small size of scripts/bench/kill-cycles."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.proofs import victims
from tests.proofs.kills import WriterKills, killed_export, killed_import, run_to_end
from tests.proofs.places import SEED
from tests.proofs.victims import ROOT, Nursery

LOGS = [
    ROOT / "tests/data/event_EXPORT_TRAIN_STATE.ray-2.60.0.log",
    ROOT / "tests/data/ray_logs/schema-1.ray-2.44.1.log",
]


def test_a_writer_killed_anywhere_loses_nothing_it_acknowledged(
    shm: Path, nursery: Nursery
) -> None:
    """Twenty writers of one journal, each killed: all acknowledged events are there, without a gap."""
    draw = random.Random(SEED)
    kills = WriterKills(shm, nursery)
    for _ in range(20):
        kills.cycle(draw)
    assert 20 == kills.counts["kills"]
    assert kills.counts["acknowledgements"] > 0


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_an_import_killed_anywhere_is_finished_by_the_next(
    shm: Path, nursery: Nursery, log: Path
) -> None:
    """Four imports were killed on the way, and the export equals that of one left in peace."""
    assert killed_import(shm, nursery, log, 4, random.Random(SEED))


def test_a_pump_killed_anywhere_exports_each_event_once(shm: Path, nursery: Nursery) -> None:
    """Twelve pumps were killed on the way, and the sink holds every event once, in order."""
    journal = shm / "journal"
    assert 0 == run_to_end(nursery.start(victims.import_log, journal, LOGS[0]))
    draw = random.Random(SEED)
    assert sum(killed_export(shm, nursery, journal, 4, draw) for _ in range(3))
