"""Running a job and reading what its journal says: what the end-to-end tests have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ray

from tests.cluster import Cluster
from trainstate.controller.backend import Backend, BackendConfig
from trainstate.core import Run
from trainstate.state.names import NAMESPACE
from trainstate.store import History
from trainstate.train import DataParallelTrainer, FailureConfig, Result, RunConfig, ScalingConfig


class Apart(Backend):
    """Replica groups, and nothing to set up."""

    has_replica_groups = True


@dataclass
class Groups(BackendConfig):
    """Replica groups of so many workers."""

    replica_group_size: int = 1

    @property
    def backend_cls(self) -> type[Backend]:
        return Apart


class Ran(NamedTuple):
    """A run that is over: what `fit()` returned or raised, and what the journal says."""

    result: Result | None
    error: BaseException | None
    run: Run


def trainer(
    function: Callable[..., Any],
    name: str,
    storage: Path,
    workers: Any = 2,
    cpus: float = 0.5,
    **more: Any,
) -> DataParallelTrainer:
    """A trainer of small workers; `more` are arguments of FailureConfig and RunConfig."""
    failure = {
        key: more.pop(key) for key in list(more) if key in FailureConfig.__dataclass_fields__
    }
    scaling = ScalingConfig(num_workers=workers, resources_per_worker={"CPU": cpus})
    backend = more.pop("backend_config", None)
    config = RunConfig(
        name=name, storage_path=str(storage), failure_config=FailureConfig(**failure), **more
    )
    return DataParallelTrainer(
        function, backend_config=backend, scaling_config=scaling, run_config=config
    )


def run(
    cluster: Cluster, function: Callable[..., Any], name: str, storage: Path, **more: Any
) -> Ran:
    """Runs a job to its end."""
    result, error = None, None
    try:
        result = trainer(function, name, storage, **more).fit()
    except Exception as raised:  # what it is, is the test's business
        error = raised
    return Ran(result, error, newest(cluster, name))


def newest(cluster: Cluster, name: str) -> Run:
    """The newest run of that name."""
    history = History(cluster.journal)
    ids = [one.run_id for one in history.summaries() if one.name == name]
    return history.run(ids[-1])


def left_behind(run_id: str) -> list[str]:
    """Actors and placement groups of a run that are still there."""
    actors = [
        one["name"]
        for one in ray.util.list_named_actors(all_namespaces=True)
        if one["namespace"] == NAMESPACE and run_id in one["name"]
    ]
    groups = [
        one["name"]
        for one in ray.util.placement_group_table().values()
        if one["name"].startswith(run_id) and one["state"] != "REMOVED"
    ]
    return actors + groups
