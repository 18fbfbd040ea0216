"""Making what belongs to an attempt go away, and nothing else."""

from __future__ import annotations

import asyncio

import pytest
import ray
from ray.util.placement_group import placement_group

from tests.cluster import Cluster
from tests.state.making import groups_named, names_with, new_run_id, start_sleepers
from trainstate.core import Run
from trainstate.state.removal import remove


@pytest.fixture
def attempt(cluster: Cluster) -> Run:
    """A run with an attempt `a` of two workers, a replacement, a data host and a placement group."""
    run_id = new_run_id()
    group = placement_group([{"CPU": 0.01}], name=f"{run_id}/a", lifetime="detached")
    ray.get(group.ready())
    start_sleepers([f"{run_id}/a/{what}" for what in ("0/0", "1/0", "1/1", "data")])
    return Run(run_id)


def test_all_of_an_attempt_goes(attempt: Run):
    """Workers of every generation, the data host, the group: gone when it returns."""
    assert [] == list(asyncio.run(remove(attempt, "a")))
    assert [] == names_with(attempt.run_id)
    assert ["REMOVED"] == groups_named(f"{attempt.run_id}/a")


def test_another_attempts_stay(attempt: Run):
    """Attempt `a` is not attempt `ab`."""
    start_sleepers([f"{attempt.run_id}/ab/0/0"])
    asyncio.run(remove(attempt, "a"))
    assert [f"{attempt.run_id}/ab/0/0"] == names_with(attempt.run_id)
    asyncio.run(remove(attempt, "ab"))


def test_again_it_finds_nothing(attempt: Run):
    """Idempotent, also when nothing has ever been there."""
    for attempt_id in ("a", "a", "never"):
        assert [] == list(asyncio.run(remove(attempt, attempt_id)))
