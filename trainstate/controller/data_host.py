"""Where the datasets of an attempt live: a detached actor of its own.

A streaming split belongs to the process that makes it and dies with it; in the controller it would die
with the controller, and every worker's stream with it. Ray Data does the splitting. With replica groups
the host also reads the splits, and workers take the blocks from it, so that a worker's part outlives the
worker (`data_relay`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray
from ray import cloudpickle

from trainstate.controller.data_relay import Relay, Together
from trainstate.controller.job import Job
from trainstate.controller.worker import NO_WARNING
from trainstate.core import Attempt, Run
from trainstate.state.names import NAMESPACE, attempt_name

# Every rank may wait for a block of every dataset at once, and calls of dead workers may linger.
_CONCURRENCY = 10_000


class DataHost:
    """Holds the datasets, and their shards once they are asked for."""

    def __init__(self, datasets: bytes, data_config: Any) -> None:
        os.environ.setdefault(*NO_WARNING)
        made = {
            name: one() if callable(one) else one
            for name, one in cloudpickle.loads(datasets).items()
        }
        self._datasets = made
        self._config = data_config
        self._shards: list[dict[str, Any]] = []
        self._relays: dict[tuple[str, int], Relay] = {}
        self._making = asyncio.Lock()

    async def shards(
        self, size: int, node_ids: Sequence[str], generations: Sequence[int] = ()
    ) -> list[dict[str, Any]]:
        """One mapping of dataset name to iterator per rank; the same whenever it is asked.

        With generations, by rank, workers of older ones are not listened to any more, and a rank of a
        newer one goes on where its predecessor was. It need not be up yet: from this call on the others
        do not wait for it. Without, no rank can be replaced.
        """
        async with self._making:
            if not self._shards:
                self._shards = await asyncio.to_thread(self._configure, size, list(node_ids))
        if not generations:
            return self._shards
        self._relays = self._relays or self._relayed()
        me = ray.get_runtime_context().current_actor
        return [
            {name: self._shard(me, name, rank, generation) for name in self._shards[rank]}
            for rank, generation in enumerate(generations)
        ]

    def _configure(self, size: int, node_ids: list[str]) -> list[dict[str, Any]]:
        config = self._config
        if config is None:
            from ray.train import DataConfig

            config = DataConfig()
        made: list[dict[str, Any]] = config.configure(
            self._datasets, world_size=size, worker_handles=None, worker_node_ids=node_ids
        )
        return made

    def _relayed(self) -> dict[tuple[str, int], Relay]:
        from trainstate.controller.data_shard import RaySplit, is_split  # imports Ray Data

        splits = {
            (name, rank): RaySplit(shard)
            for rank, shards in enumerate(self._shards)
            for name, shard in shards.items()
            if is_split(shard)
        }
        together = {name: Together() for name, _ in splits}
        threads = ThreadPoolExecutor(max(1, len(splits)), "split")
        return {
            (name, rank): Relay(split, together[name], threads)
            for (name, rank), split in splits.items()
        }

    def _shard(self, me: Any, name: str, rank: int, generation: int) -> Any:
        """A rank's part of a dataset; a dataset that is not split is the same for all."""
        from trainstate.controller.data_shard import RelayedShard

        relay, shard = self._relays.get((name, rank)), self._shards[rank][name]
        if relay is None:
            return shard
        relay.hand_over(generation)
        return RelayedShard(shard, me, name, rank, generation)

    # --- what a RelayedShard asks, of its relay ---------------------------------------------------

    async def begin(self, name: str, rank: int, generation: int) -> int:
        """See Relay."""
        return await self._relays[name, rank].begin(generation)

    async def take(
        self, name: str, rank: int, generation: int, number: int, rows: int, held_bytes: int
    ) -> Any | None:
        """See Relay."""
        return await self._relays[name, rank].take(generation, number, rows, held_bytes)

    async def end(self, name: str, rank: int, generation: int, number: int, rows: int) -> None:
        """See Relay."""
        self._relays[name, rank].end(generation, number, rows)


async def shards(job: Job, run: Run, attempt: Attempt) -> Sequence[Mapping[str, Any]]:
    """The shards of an attempt, by rank; none if the trainer was given no datasets.

    In a run with replica groups it is to be asked again when workers have a new generation: the sooner,
    the less do the others wait for them at the start of an epoch.
    """
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
            max_concurrency=_CONCURRENCY,
        )
        .remote(job.datasets, job.data_config)
    )
    nodes = [worker.node_id.hex() for worker in attempt.by_rank]
    generations = [worker.generation for worker in attempt.by_rank]
    found: Sequence[Mapping[str, Any]] = await host.shards.remote(
        len(nodes), nodes, generations if attempt.replica_group_size else ()
    )
    return found
