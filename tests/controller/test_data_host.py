"""A replaced rank goes on with its part of a dataset, on Ray: what is lost, what comes twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import ray
import ray.data
import ray.train
from ray import cloudpickle

from tests.cluster import Cluster
from trainstate.controller.data_host import DataHost
from trainstate.controller.data_shard import RelayedShard
from trainstate.errors import Fenced

pytestmark = pytest.mark.slow

ROWS, BLOCKS, BATCH = 1200, 24, 10


@ray.remote(num_cpus=0, max_concurrency=4)
class Consumer:
    """A worker that goes through a shard; the rows of each loop are those its function has had."""

    def __init__(self, shard: Any) -> None:
        self.shard = shard
        self.loops: list[list[int]] = []
        self.more = threading.Condition()

    def go(self, epochs: int, stop_at: int | None = None) -> list[list[int]]:
        """Ends after so many epochs, or never: then it stands still at that many rows."""
        for _ in range(epochs):
            self.loops.append([])
            for batch in self.shard.iter_batches(batch_size=BATCH):
                with self.more:
                    self.loops[-1] += map(int, batch["id"])
                    self.more.notify_all()
                if stop_at is not None and len(self.loops[-1]) >= stop_at:
                    threading.Event().wait()
        return self.loops

    def after(self, rows: int) -> list[list[int]]:
        """The loops so far, when the newest one has so many rows."""
        with self.more:
            self.more.wait_for(lambda: self.loops and len(self.loops[-1]) >= rows)
            return self.loops

    def call(self, function: Any) -> Any:
        """What a function makes of the shard."""
        return function(self.shard)


class Watched(DataHost):
    """A data host that says what it is about."""

    async def reads(self, name: str, rank: int) -> None:
        """Returns when a split is being read, or is about to meet the others."""
        while self._relays[name, rank]._reading is None:
            await asyncio.sleep(0)


class Hosted:
    """A data host, and the workers that use it, by rank."""

    def __init__(self, size: int, config: Any = None, **datasets: Any) -> None:
        options = {"num_cpus": 0, "max_concurrency": 1000}
        made = ray.remote(Watched).options(**options)
        self.host = made.remote(cloudpickle.dumps(datasets), config)
        self.generations = [0] * size
        self.name = next(iter(datasets))
        self.workers = [self.start(rank) for rank in range(size)]

    def shards(self, relayed: bool = True) -> list[dict[str, Any]]:
        size, node = len(self.generations), ray.get_runtime_context().get_node_id()
        generations = self.generations if relayed else ()
        found: list[dict[str, Any]] = ray.get(
            self.host.shards.remote(size, [node] * size, generations)
        )
        return found

    def start(self, rank: int) -> Any:
        return Consumer.remote(self.shards()[rank][self.name])

    def kill(self, rank: int) -> None:
        ray.kill(self.workers[rank])
        with suppress(ray.exceptions.RayActorError):
            ray.get(self.workers[rank].after.remote(0))

    def replace(self, rank: int) -> None:
        self.generations[rank] += 1
        self.workers[rank] = self.start(rank)


@pytest.fixture
def host(cluster: Cluster) -> Iterator[Any]:
    made: list[Hosted] = []

    def make(size: int, config: Any = None, **datasets: Any) -> Hosted:
        made.append(Hosted(size, config, **datasets))
        return made[-1]

    yield make
    for one in made:
        for actor in (*one.workers, one.host):
            ray.kill(actor)


def numbers() -> Any:
    return ray.data.range(ROWS, override_num_blocks=BLOCKS)


def go(hosted: Hosted, rank: int, epochs: int) -> list[list[int]]:
    loops: list[list[int]] = ray.get(hosted.workers[rank].go.remote(epochs), timeout=120)
    return loops


@pytest.mark.parametrize("late", [False, True], ids=["meanwhile", "after two epochs"])
def test_the_replacement_goes_on_with_the_rest(host, late):
    """No row is lost, none comes to two ranks; twice come only rows of blocks that were under way."""
    hosted = host(3, numbers=numbers())
    first, second, dead = hosted.workers
    survivors = [first.go.remote(3), second.go.remote(3)]
    dead.go.remote(3, stop_at=300)
    (had,) = ray.get(dead.after.remote(300), timeout=120)
    hosted.kill(2)
    if late:
        hosted.generations[2] += 1
        hosted.shards()
        ray.get(survivors, timeout=120)
        hosted.workers[2] = hosted.start(2)
    else:
        hosted.replace(2)
    rest, *later = go(hosted, 2, 3)
    others = ray.get(survivors, timeout=120)
    assert [[ROWS // 3] * 3] * 2 == [[len(loop) for loop in loops] for loops in others]
    assert 300 == len(had)
    twice = set(had) & set(rest)
    assert ROWS // 3 == len(had) + len(rest) - len(twice)
    assert len(twice) <= 4 * ROWS // BLOCKS
    for epoch, mine in enumerate([had + [one for one in rest if one not in twice], *later]):
        assert [*range(ROWS)] == sorted(others[0][epoch] + others[1][epoch] + mine)


def test_one_killed_while_it_waits_for_the_others(host):
    """Killed at the start of an epoch, it has not come for two: everybody gets whole epochs."""
    hosted = host(2, numbers=numbers())
    hosted.workers[1].go.remote(1)
    ray.get(hosted.host.reads.remote("numbers", 1), timeout=120)
    hosted.kill(1)
    hosted.replace(1)
    mine = hosted.workers[1].go.remote(2)
    loops = [go(hosted, 0, 2), ray.get(mine, timeout=120)]
    for epoch in range(2):
        assert [*range(ROWS)] == sorted(loops[0][epoch] + loops[1][epoch])


def test_what_was_materialized_is_materialized_again(host):
    """The others are not asked to read once more."""

    def ids(shard: Any) -> list[int]:
        return [int(row["id"]) for row in shard.materialize().take_all()]

    hosted = host(2, numbers=numbers())
    before = ray.get([worker.call.remote(ids) for worker in hosted.workers], timeout=120)
    hosted.kill(1)
    hosted.replace(1)
    assert before[1] == ray.get(hosted.workers[1].call.remote(ids), timeout=120)
    assert [*range(ROWS)] == sorted(before[0] + before[1])


def test_a_relayed_shard_is_a_data_iterator(host):
    """What Ray documents of an iterator works, with torch too."""
    pytest.importorskip("torch")

    def tried(shard: Any) -> tuple[Any, ...]:
        names = shard.schema().names
        torch = sum(int(batch["id"].sum()) for batch in shard.iter_torch_batches(batch_size=64))
        rows = sum(row["id"] for row in shard.iter_rows())
        shuffled = [
            int(one)
            for batch in shard.iter_batches(local_shuffle_buffer_size=100, local_shuffle_seed=1)
            for one in batch["id"]
        ]
        stats = shard.stats()
        return isinstance(shard, ray.data.DataIterator), names, torch, rows, shuffled, stats

    hosted = host(1, numbers=numbers())
    (found,) = ray.get([worker.call.remote(tried) for worker in hosted.workers], timeout=120)
    *known, shuffled, stats = found
    total = sum(range(ROWS))
    assert [True, ["id"], total, total] == known
    assert [*range(ROWS)] == sorted(shuffled) != shuffled
    assert "ReadRange" in stats
    assert "Dataset iterator time breakdown" in stats


def test_what_a_dataset_raises_reaches_the_function(host):
    """As the exception that it is."""

    def refuse(batch: Any) -> Any:
        raise LookupError("no such column")

    hosted = host(1, numbers=numbers().map_batches(refuse))
    with pytest.raises(ray.exceptions.RayTaskError, match="no such column"):
        go(hosted, 0, 1)


def test_only_splits_are_relayed(host):
    """A dataset that is not split is the iterator that Ray makes, and every rank's own."""
    config = ray.train.DataConfig(datasets_to_split=["numbers"])
    hosted = host(1, config, numbers=numbers(), whole=numbers())
    (shards,) = hosted.shards()
    assert isinstance(shards["numbers"], RelayedShard)
    assert not isinstance(shards["whole"], RelayedShard)
    assert ROWS == sum(1 for _ in shards["whole"].iter_rows())


def test_without_generations_shards_are_those_of_ray(host):
    """A run without replica groups reads as it would on Ray alone."""
    (shards,) = host(1, numbers=numbers()).shards(relayed=False)
    assert not isinstance(shards["numbers"], RelayedShard)
    assert isinstance(shards["numbers"], ray.data.DataIterator)


def test_an_older_generation_is_refused(host):
    """A worker that was replaced and lives on gets no block."""
    hosted = host(1, numbers=numbers())
    old = hosted.workers[0]
    hosted.replace(0)
    with pytest.raises(Fenced, match="generation 0 of the rank was replaced by 1"):
        ray.get(old.go.remote(1), timeout=120)
    ray.kill(old)
    assert ROWS == sum(map(len, go(hosted, 0, 1)))
