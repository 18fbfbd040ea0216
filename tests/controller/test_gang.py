"""Workers that work together, as a backend sees them."""

from __future__ import annotations

import inspect

import pytest
from ray.train.v2._internal.execution.worker_group.execution_group import (
    ExecutionGroup as RaysExecutionGroup,
)

from trainstate.controller.gang import ExecutionGroup, ReplicaGroup, WorkerGroup


def test_groups_are_execution_groups():
    """All workers, or those of a replica group: the same methods, and which group it is (2-01)."""
    whole = WorkerGroup(["a", "b"], "on_start", {"CPU": 1}, "run/attempt")
    part = ReplicaGroup(1, ["c"], "on_start", {"CPU": 1}, "run/attempt", 3, 2)
    assert all(isinstance(one, ExecutionGroup) for one in (whole, part))
    assert (2, ["a", "b"], None, 0, 0) == (
        len(whole), whole.get_workers(), whole.replica_group, whole.replica_groups, whole.generation
    )  # fmt: skip
    assert (1, ["c"], 1, 3, 2) == (
        len(part), part.get_workers(), part.replica_group, part.replica_groups, part.generation
    )  # fmt: skip
    assert {"CPU": 1} == part.get_resources_per_worker()


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, _ in inspect.getmembers(RaysExecutionGroup, inspect.isfunction)
        if name[0] != "_"
    ],
)
def test_what_rays_can_do_ours_can(name: str):
    """Backends written for Ray call these."""
    assert callable(getattr(ExecutionGroup, name, None)), name
