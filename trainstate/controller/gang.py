"""The workers of an attempt as actors: starting them, finding them again, and working with many at once.

An actor's name says which it is: `<run>/<attempt>/<its bundle>/<generation>`. A name that exists is
adopted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import ray
from ray import cloudpickle
from ray._raylet import PlacementGroupID
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from trainstate.controller.failure import describe
from trainstate.controller.placement import resources_of
from trainstate.controller.worker import Worker as WorkerActor
from trainstate.core import Attempt, Cause, Run, Worker, WorkerStatus
from trainstate.core.effects import StartGang
from trainstate.core.observations import GangUp, StartFailed, WorkerFacts
from trainstate.state import removal
from trainstate.state.names import NAMESPACE, attempt_name, controller_name, worker_place
from trainstate.v1 import state_pb2 as s

# Every rank may wait in a collective at once, and calls of dead controllers may linger.
_CONCURRENCY = 10_000


def worker_name(run: Run, attempt: Attempt, worker: Worker) -> str:
    """The name of a worker's actor."""
    return _name(run, attempt, worker, worker.generation)


def _name(run: Run, attempt: Attempt, worker: Worker, generation: int) -> str:
    scope = attempt_name(run.run_id, attempt.attempt_id)
    return f"{scope}/{worker_place(worker.placement, worker.bundle)}/{generation}"


def find(run: Run, attempt: Attempt, worker: Worker) -> Any:
    """The handle of a worker's actor. Raises ValueError if it is gone."""
    return ray.get_actor(worker_name(run, attempt, worker), namespace=NAMESPACE)


async def start(
    run: Run,
    attempt: Attempt,
    effect: StartGang,
    runtime_env: Mapping[str, Any],
    limits: s.Limits,
    make: Callable[..., Awaitable[Any]] = asyncio.to_thread,
) -> GangUp | StartFailed:
    """Has these workers up; those they replace are killed. `make` calls in a thread what makes them."""
    gang = attempt.gang(effect.group)
    waiting = [one for one in gang if one.status is WorkerStatus.SCHEDULING]
    await asyncio.to_thread(_kill_earlier, run, attempt, waiting)
    handles = await make(_make, run, attempt, waiting, runtime_env, limits)
    calls = [
        _up(handle, worker, limits.start_timeout_s)
        for handle, worker in zip(handles, waiting, strict=True)
    ]
    results = await asyncio.gather(*calls, return_exceptions=True)
    which = (effect.group, effect.generation)
    for worker, result in zip(waiting, results, strict=True):
        if isinstance(result, BaseException):
            cause, error = _not_up(worker, result, limits.start_timeout_s)
            return StartFailed(attempt.attempt_id, cause, error, *which)
    facts = tuple(result for result in results if isinstance(result, WorkerFacts))
    return GangUp(attempt.attempt_id, facts, *which)


def _kill_earlier(run: Run, attempt: Attempt, workers: Sequence[Worker]) -> None:
    """Kills what is left of earlier attempts and generations: their bundles are taken over."""
    over = [one.attempt_id for one in run.attempts if one.status.is_terminal]
    earlier = {
        _name(run, attempt, worker, generation)
        for worker in workers
        for generation in range(worker.generation)
    }
    removal.remove_leftovers(run.run_id, over, earlier)


async def _up(handle: Any, worker: Worker, timeout_s: float) -> WorkerFacts:
    async with asyncio.timeout(timeout_s):
        where = (worker.placement, worker.bundle, worker.generation)
        facts: WorkerFacts = await handle.facts.remote(*where)
        return facts


def _not_up(worker: Worker, error: BaseException, limit_s: float) -> tuple[Cause, s.Error]:
    described = describe(error, worker.rank)
    if isinstance(error, TimeoutError):
        described.message = f"worker {worker.rank} was not up after {limit_s:g} s"
    described.hint = "`ray status` and the worker's log say why; the runtime_env may not install"
    cause = Cause.START_TIMEOUT if isinstance(error, TimeoutError) else Cause.START_FAILED
    return cause, described


def _make(
    run: Run,
    attempt: Attempt,
    workers: Sequence[Worker],
    runtime_env: Mapping[str, Any],
    limits: s.Limits,
) -> list[Any]:
    actor = ray.remote(WorkerActor)
    return [
        actor.options(**_options(run, attempt, worker, runtime_env)).remote(
            limits.orphan_timeout_s, controller_name(run.run_id)
        )
        for worker in workers
    ]


def _options(
    run: Run, attempt: Attempt, worker: Worker, runtime_env: Mapping[str, Any]
) -> dict[str, Any]:
    placement = run.placements[worker.placement]
    resources = resources_of(placement.bundles[worker.bundle])
    group = PlacementGroup(PlacementGroupID(placement.placement_group_id))
    return {
        "name": worker_name(run, attempt, worker),
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "get_if_exists": True,
        "max_restarts": 0,
        "max_task_retries": 0,
        "max_concurrency": _CONCURRENCY,
        "num_cpus": resources.pop("CPU", 0),
        "num_gpus": resources.pop("GPU", 0),
        "memory": resources.pop("memory", None),
        "resources": resources,
        "runtime_env": dict(runtime_env) or None,
        "scheduling_strategy": PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=worker.bundle
        ),
    }


class ExecutionGroup:
    """Workers that work together, by rank, as a backend sees them. Blocks: not for the loop's thread.

    Calls are numbered within `stage`. A controller that repeats a stage makes the same calls, and is
    given the results of those that were made before it: so a set-up that was interrupted goes on. Actors
    that a backend names `<scope>/...` in our namespace end with the attempt.
    """

    replica_group: int | None = None

    def __init__(
        self,
        handles: Sequence[Any],
        stage: str,
        resources: Mapping[str, float],
        scope: str = "",
        replica_groups: int = 0,
        generation: int = 0,
    ) -> None:
        self.scope = scope
        self.replica_groups = replica_groups
        self.generation = generation
        self._handles = handles
        self._stage = stage
        self._resources = resources
        self._calls = 0

    def __len__(self) -> int:
        return len(self._handles)

    def get_workers(self) -> Sequence[Any]:
        """The handles, by rank."""
        return self._handles

    def get_resources_per_worker(self) -> Mapping[str, float]:
        """What each worker has reserved."""
        return self._resources

    def execute_async(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Starts a function on every worker; object references by rank."""
        key, call = self._next(function, args, kwargs)
        return [handle.execute.remote(key, call) for handle in self._handles]

    def execute(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Runs a function on every worker; its results by rank."""
        results: list[Any] = ray.get(self.execute_async(function, *args, **kwargs))
        return results

    def execute_single_async(
        self, rank: int, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Starts a function on one worker; an object reference."""
        key, call = self._next(function, args, kwargs)
        return self._handles[rank].execute.remote(key, call)

    def execute_single(
        self, rank: int, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Runs a function on one worker; its result."""
        return ray.get(self.execute_single_async(rank, function, *args, **kwargs))

    def _next(self, function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[str, bytes]:
        self._calls += 1
        call: bytes = cloudpickle.dumps((function, args, kwargs))  # type: ignore[no-untyped-call]
        return f"{self._stage}/{self._calls}", call


class WorkerGroup(ExecutionGroup):
    """All workers of an attempt."""


class ReplicaGroup(ExecutionGroup):
    """The workers of one replica group, in one generation (row 2-01)."""

    def __init__(self, replica_group: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.replica_group = replica_group
