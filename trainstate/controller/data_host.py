"""Where the datasets of an attempt live: a detached actor of its own.

A streaming split belongs to the process that makes it and dies with it; in the controller it would die
with the controller, and every worker's stream with it. Ray Data does the splitting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray import cloudpickle

from trainstate.controller.job import Job
from trainstate.core import Attempt, Run
from trainstate.state.names import NAMESPACE, attempt_name


class DataHost:
    """Holds the datasets, and their shards once they are asked for."""

    def __init__(self, datasets: bytes, data_config: Any) -> None:
        made = {
            name: one() if callable(one) else one
            for name, one in cloudpickle.loads(datasets).items()
        }
        self._datasets = made
        self._config = data_config
        self._shards: list[dict[str, Any]] | None = None

    def shards(self, size: int, node_ids: Sequence[str]) -> list[dict[str, Any]]:
        """One mapping of dataset name to iterator per rank; the same whenever it is asked."""
        if self._shards is None:
            config = self._config
            if config is None:
                from ray.train import DataConfig

                config = DataConfig()
            self._shards = config.configure(
                self._datasets, world_size=size, worker_handles=None, worker_node_ids=list(node_ids)
            )
        return self._shards


async def shards(job: Job, run: Run, attempt: Attempt) -> Sequence[Mapping[str, Any]]:
    """The shards of an attempt, by rank; none if the trainer was given no datasets."""
    if not job.datasets:
        return ()
    host: Any = (
        ray.remote(DataHost)
        .options(
            name=f"{attempt_name(run.run_id, attempt.attempt_id)}/data",
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
        )
        .remote(job.datasets, job.data_config)
    )
    nodes = [worker.node_id.hex() for worker in attempt.by_rank]
    found: Sequence[Mapping[str, Any]] = await host.shards.remote(len(nodes), nodes)
    return found
