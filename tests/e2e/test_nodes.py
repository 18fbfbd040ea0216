"""Runs on several nodes, and what becomes of them when nodes go away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.driving import drive
from tests.e2e.running import newest
from tests.nodes import Nodes
from trainstate import train
from trainstate.core import Attempt, Cause, RunStatus
from trainstate.testing import Faults
from trainstate.train import DataParallelTrainer, FailureConfig, RunConfig, ScalingConfig


def spread(
    function: Callable[[], None], name: str, storage: Path, max_failures: int = 0
) -> Callable[[], object]:
    """A job of two workers, each on a node of its own; to be called in a driver."""
    scaling = ScalingConfig(num_workers=2, placement_strategy="SPREAD")
    failure = FailureConfig(max_failures=max_failures)
    config = RunConfig(name=name, storage_path=str(storage), failure_config=failure)
    return DataParallelTrainer(function, scaling_config=scaling, run_config=config).fit


def nodes_of(attempt: Attempt) -> set[str]:
    return {worker.node_id.hex() for worker in attempt.workers.values()}


@pytest.mark.slow
def test_workers_are_spread(nodes: Nodes, tmp_path: Path) -> None:
    """A run on a cluster whose head has no room for workers: each is on a node of its own."""
    others = [nodes.add(), nodes.add()]

    def function() -> None:
        for step in range(5):
            train.report({"step": step})

    assert 0 == drive(nodes.address, spread(function, "spread", tmp_path))
    run = newest(nodes.cluster, "spread")
    assert (RunStatus.FINISHED, 1) == (run.status, len(run.attempts))
    assert {node.node_id for node in others} == nodes_of(run.attempts[0])


@pytest.mark.slow
def test_a_node_is_lost(nodes: Nodes, tmp_path: Path) -> None:
    """Its worker is lost with it; with a spare node the run goes on after one restart."""
    there = {nodes.add().node_id for _ in range(3)}
    faults = Faults(tmp_path / "faults").kill_node(1, 3)

    def function() -> None:
        for step in range(5):
            faults.at(step)
            train.report({"step": step})

    assert 0 == drive(nodes.address, spread(function, "lost", tmp_path, max_failures=1))
    faults.assert_all_fired()
    run = newest(nodes.cluster, "lost")
    assert (RunStatus.FINISHED, 2) == (run.status, len(run.attempts))
    assert Cause.WORKER_LOST == run.attempts[0].cause
    (lost,) = there - nodes.alive()
    assert there - {lost} == nodes_of(run.attempts[1])
