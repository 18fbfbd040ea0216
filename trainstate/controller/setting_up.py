"""Making workers ready for training: who they are, what they read, and their backend.

Of all workers of an attempt, or of the replica group that takes another's place. Everything here may be
done again by a successor, and then finds what was done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ray.exceptions import RayActorError

from trainstate.controller import data_host, gang, placement
from trainstate.controller.failure import describe, lost
from trainstate.controller.job import Job
from trainstate.controller.messages import Assignment
from trainstate.controller.observers import Observers
from trainstate.controller.session import SessionInfo
from trainstate.controller.versions import framework_versions
from trainstate.core import Attempt, Cause, Run, Worker
from trainstate.core.effects import SetUp
from trainstate.core.observations import Ready, StartFailed
from trainstate.errors import StorageError
from trainstate.state.names import attempt_name
from trainstate.v1 import state_pb2 as s

_REPORT_BUFFER = 1000


async def set_up(job: Job, run: Run, effect: SetUp, observers: Observers) -> Ready | StartFailed:
    """Tells these workers who they are, and has the backend set up. Raises StorageError."""
    attempt = run.attempt
    assert attempt is not None
    assert run.settings is not None
    workers = attempt.gang(effect.group)
    limit = asyncio.timeout(run.settings.limits.start_timeout_s)
    which = (effect.group, effect.generation)
    try:
        handles = [gang.find(run, attempt, worker) for worker in workers]
        async with limit:
            extra = await observers.extra(handles, effect.group)
            await _assign(job, run, attempt, workers, handles, extra)
        versions = await asyncio.to_thread(_prepare, job, run, attempt, effect.group)
        return Ready(attempt.attempt_id, versions, *which)
    except StorageError:
        raise
    except RayActorError as error:
        failed = _lost(error, workers)
        return StartFailed(attempt.attempt_id, Cause.START_FAILED, failed, *which)
    except Exception as error:  # whatever a hook or a dataset raises, the start fails of it
        if limit.expired():
            text = "hooks or datasets of the workers take longer than the start may"
            late = describe(TimeoutError(text))
            return StartFailed(attempt.attempt_id, Cause.START_TIMEOUT, late, *which)
        return StartFailed(attempt.attempt_id, Cause.START_FAILED, describe(error), *which)


def _lost(error: RayActorError, workers: Sequence[Worker]) -> s.Error:
    """Who died, if it was a worker: it may have been the data host."""
    dead = [one for one in workers if one.actor_id.hex() == error.actor_id]
    return lost(error, dead[0].rank, dead[0].node_id.hex()) if dead else describe(error)


# --- who they are ---------------------------------------------------------------------------------


async def _assign(
    job: Job,
    run: Run,
    attempt: Attempt,
    workers: Sequence[Worker],
    handles: Sequence[Any],
    extra: Mapping[str, Sequence[Any]],
) -> None:
    shards = await data_host.shards(job, run, attempt)
    secret_keys = tuple(run.settings.secret_keys) if run.settings is not None else ()
    calls = [
        handle.assign.remote(
            Assignment(
                info=_info(job, attempt, worker),
                storage=job.storage,
                rank_zero=_rank_zero(run, attempt, worker),
                callbacks=job.callbacks,
                shards=shards[worker.rank] if shards else {},
                extra={name: values[position] for name, values in extra.items()},
                directory_prefix=_directory_prefix(run, attempt, worker),
                report_buffer=_REPORT_BUFFER,
                secret_keys=secret_keys,
            )
        )
        for position, (worker, handle) in enumerate(zip(workers, handles, strict=True))
    ]
    await asyncio.gather(*calls)


def _rank_zero(run: Run, attempt: Attempt, worker: Worker) -> str:
    """Whom the worker's gang meets at."""
    return gang.worker_name(run, attempt, attempt.gang(attempt.group_of(worker.rank))[0])


def _info(job: Job, attempt: Attempt, worker: Worker) -> SessionInfo:
    group = attempt.group_of(worker.rank)
    size = attempt.gang_size(group)
    neighbours = sum(other.node_id == worker.node_id for other in attempt.workers.values())
    return SessionInfo(
        experiment_name=job.name,
        run_id=job.run_id,
        attempt_id=attempt.attempt_id,
        world_rank=worker.rank,
        world_size=attempt.num_workers,
        local_rank=worker.local_rank,
        local_world_size=neighbours,
        node_rank=worker.node_rank,
        generation=worker.generation,
        gang_rank=worker.rank % size,
        gang_size=size,
        replica_group=group,
        replica_groups=len(attempt.groups),
    )


def _directory_prefix(run: Run, attempt: Attempt, worker: Worker) -> str:
    """Of the run, the attempt, and the replica group: no two of them write to the same place."""
    began = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(run.first_time_ns / 1e9))
    group = attempt.group_of(worker.rank)
    of_group = "" if group is None else f"g{group}.{worker.generation}_"
    return f"checkpoint_{began}_{run.run_id[:6]}_{attempt.number:03d}_{of_group}"


# --- the backend: its hooks block, so these are for another thread ----------------------------------


def _prepare(job: Job, run: Run, attempt: Attempt, group: int | None) -> tuple[s.Version, ...]:
    """Has the backend set up; the versions of what is used, of a start of the whole attempt."""
    _each(job, run, attempt, "on_start", group)
    _each(job, run, attempt, "on_training_start", group)
    if group is not None:
        return ()
    everyone = _execution_group(run, attempt, None, "versions")
    found: tuple[s.Version, ...] = everyone.execute_single(
        0, framework_versions, job.backend_config.framework
    )
    return found


def shut_down(job: Job, run: Run, attempt: Attempt) -> None:
    """Has the backend clean up. Raises ValueError if a worker is gone."""
    _each(job, run, attempt, "on_shutdown", None)


def _each(job: Job, run: Run, attempt: Attempt, hook: str, group: int | None) -> None:
    """Calls a hook for a replica group, or for everything: once, or for each group at the same time."""
    backend = job.backend_config.backend_cls()
    gangs = [group] if group is not None else attempt.sharing

    def call(gang_: int | None) -> None:
        workers = _execution_group(run, attempt, gang_, hook)
        getattr(backend, hook)(workers, job.backend_config)

    with ThreadPoolExecutor(len(gangs)) as threads:
        list(threads.map(call, gangs))


def _execution_group(
    run: Run, attempt: Attempt, group: int | None, stage: str
) -> gang.ExecutionGroup:
    handles = [gang.find(run, attempt, worker) for worker in attempt.gang(group)]
    resources = placement.resources_of(attempt.resources_per_worker or s.ResourceSet())
    scope = attempt_name(run.run_id, attempt.attempt_id)
    if group is None:
        return gang.WorkerGroup(handles, stage, resources, scope)
    generation = attempt.groups[group].generation
    return gang.ReplicaGroup(
        group, handles, stage, resources, scope, len(attempt.groups), generation
    )
