"""Train functions that leave marks, so that both sides are timed by what their workers see.

A mark is an empty file whose name says what, who and when: it is never half written.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import ray.train
from ray.train.backend import Backend as RayBackend
from ray.train.backend import BackendConfig as RayBackendConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer as RayDataParallelTrainer

from trainstate import train
from trainstate.controller.backend import Backend, BackendConfig

LIMIT_S = 180
_PAUSE_S = 0.005


class Side(NamedTuple):
    """Who trains: a library by its `train` module, its trainer, and its backend of replica groups."""

    api: Any
    trainer: Any
    replica_groups: Callable[[], Any]


def fit(
    side: Side, function: Callable[[], Any], storage: Path, backend: Any = None, **scaling: Any
) -> None:
    """A run, to its end."""
    side.trainer(
        function,
        backend_config=backend,
        scaling_config=side.api.ScalingConfig(resources_per_worker={"CPU": 1}, **scaling),
        run_config=side.api.RunConfig(
            name=uuid.uuid4().hex,
            storage_path=str(storage),
            failure_config=side.api.FailureConfig(max_failures=3),
        ),
    ).fit()


class Mark(NamedTuple):
    """What a worker said: `started` (its first step) or `failed`, and in a world of how many."""

    what: str
    world: int
    rank: int
    time_ns: int


class Training:
    """A run in a thread, and the marks of its workers."""

    def __init__(self, side: Side, folder: Path, *, backend: Any = None, **scaling: Any) -> None:
        self.marks = folder / uuid.uuid4().hex
        self.marks.mkdir()
        self._side, self._backend, self._scaling = side, backend, scaling
        self._pool = ThreadPoolExecutor(1)
        self._run: Future[Any] = Future()

    def __enter__(self) -> Training:
        function = _function(self._side.api, self.marks)
        self._run = self._pool.submit(
            fit, self._side, function, self.marks, self._backend, **self._scaling
        )
        return self

    def __exit__(self, *_: object) -> None:
        (self.marks / "over").touch()
        self._pool.shutdown()
        self._run.result()

    def fail(self, ranks: Collection[int]) -> None:
        """Has workers fail, at their next step."""
        for rank in ranks:
            (self.marks / f"fail-{rank}").touch()

    def all(self, what: str) -> list[Mark]:
        """The marks so far, in the order of time."""
        found = (path.name.split(".") for path in self.marks.glob(f"{what}.*"))
        marks = (Mark(one, *map(int, numbers)) for one, *numbers in found)
        return sorted(marks, key=lambda one: one.time_ns)

    def started(self, world: int, ranks: Collection[int], since_ns: int = 0) -> int:
        """When the last of these ranks made a first step since, in a world so large; waits for it."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end and not self._run.done():
            starts = [one for one in self.all("started") if one.time_ns > since_ns]
            first = {one.rank: one.time_ns for one in reversed(starts) if one.world == world}
            if first.keys() >= set(ranks):
                return max(first[rank] for rank in ranks)
            time.sleep(_PAUSE_S)
        raise TimeoutError(f"no ranks {ranks} of {world} within {LIMIT_S} s: {self.all('started')}")


# Inside functions, so that they are sent as they are, and workers need not import this module.


def _function(api: Any, marks: Path) -> Callable[[], None]:
    def function() -> None:
        context = api.get_context()
        world, rank = context.get_world_size(), context.get_world_rank()
        (marks / f"started.{world}.{rank}.{time.time_ns()}").touch()
        while not (marks / "over").exists():
            try:
                (marks / f"fail-{rank}").unlink()
            except FileNotFoundError:
                time.sleep(0.005)
                continue
            (marks / f"failed.{world}.{rank}.{time.time_ns()}").touch()
            raise RuntimeError("as it was told to")

    return function


def _our_groups() -> Any:
    class Groups(Backend):
        has_replica_groups = True

    class Config(BackendConfig):
        replica_group_size = 1
        backend_cls = Groups

    return Config()


def _rays_groups() -> Any:
    class Groups(RayBackend):
        has_replica_groups = True

    class Config(RayBackendConfig):
        backend_cls = Groups

    return Config()


OURS = Side(train, train.DataParallelTrainer, _our_groups)
RAYS = Side(ray.train, RayDataParallelTrainer, _rays_groups)
