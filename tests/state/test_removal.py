"""Making what belongs to an attempt, or to a run, go away, and nothing else."""

from __future__ import annotations

import asyncio

import pytest
import ray
from ray.util.placement_group import placement_group

from tests.cluster import Cluster
from tests.state.making import eventually, groups_named, names_with, new_run_id, start_sleepers
from trainstate.core.effects import Release, Stop
from trainstate.state.removal import remove, remove_leftovers


@pytest.fixture
def run_id(cluster: Cluster) -> str:
    """Of a run with two groups, and an attempt `a`: two workers, a replacement and a data host."""
    made = new_run_id()
    for slot in range(2):
        group = placement_group([{"CPU": 0.01}], name=f"{made}/{slot}.1", lifetime="detached")
        ray.get(group.ready())
    start_sleepers([f"{made}/a/{what}" for what in ("0.1.0/0", "0.1.1/0", "0.1.1/1", "data")])
    return made


def test_all_of_an_attempt_goes(run_id: str):
    """Workers of every generation and the data host are gone when it returns; the groups stay (1-02)."""
    assert [] == list(asyncio.run(remove(run_id, Stop("a"))))
    assert [] == names_with(run_id)
    assert ["CREATED"] == groups_named(f"{run_id}/0.1")
    asyncio.run(remove(run_id, Release((f"{run_id}/0.1", f"{run_id}/1.1"))))


def test_groups_go_by_their_names(run_id: str):
    """Those that are named, and no others."""
    assert [] == list(asyncio.run(remove(run_id, Release((f"{run_id}/1.1",)))))
    states = groups_named(f"{run_id}/0.1"), groups_named(f"{run_id}/1.1")
    assert (["CREATED"], ["REMOVED"]) == states
    asyncio.run(remove(run_id, Release((f"{run_id}/0.1",))))
    asyncio.run(remove(run_id, Stop("a")))


def test_another_attempts_stay(run_id: str):
    """Attempt `a` is not attempt `ab`."""
    start_sleepers([f"{run_id}/ab/0.1.0/0"])
    asyncio.run(remove(run_id, Stop("a")))
    assert [f"{run_id}/ab/0.1.0/0"] == names_with(run_id)
    asyncio.run(remove(run_id, Stop("ab")))


def test_again_it_finds_nothing(run_id: str):
    """Idempotent, also when nothing has ever been there."""
    for attempt_id in ("a", "a", "never"):
        assert [] == list(asyncio.run(remove(run_id, Stop(attempt_id))))


def test_leftovers_of_attempts_that_are_over_go(run_id: str):
    """Whatever is left of those, and earlier generations by their names; nothing of others."""
    start_sleepers([f"{run_id}/b/0.1.0/{generation}" for generation in (0, 1, 10)])
    remove_leftovers(run_id, ["never", "a"], {f"{run_id}/b/0.1.0/{one}" for one in (0, 1)})
    eventually(lambda: [f"{run_id}/b/0.1.0/10"] == names_with(run_id))
    remove_leftovers(run_id, [])
    asyncio.run(remove(run_id, Stop("b")))
