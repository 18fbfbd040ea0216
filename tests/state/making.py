"""What the tests of the state service make: controllers that do as little as one can, and their runs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import placement_group

from tests.cluster import Cluster
from trainstate.core import Cause, Run
from trainstate.core.decide import decide
from trainstate.core.freeze import thaw
from trainstate.core.observations import (
    Abort,
    Began,
    Cleared,
    Closed,
    Observation,
    Placed,
    Released,
    Reserved,
)
from trainstate.state import client
from trainstate.state.manager import TrainStateManager
from trainstate.state.names import NAMESPACE, controller_name
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

ROOT = Path(__file__).parents[2]


class Sleeper:
    """An actor that does nothing, for as long as it lives."""

    async def forever(self) -> None:
        await asyncio.Event().wait()

    async def pid(self) -> int:
        return os.getpid()


class Controller(Sleeper):
    """A controller that begins a run, and then writes what it is told to."""

    def __init__(self, run_id: str) -> None:
        self.manager = TrainStateManager(run_id, timeout_s=60)
        self.asked: list[tuple[int, str]] = []

    async def begin(self, name: str = "run", workers: int = 1) -> str:
        """Opens the run and brings it to where its workers are about to start; its attempt's id."""
        run = await self.manager.open(time.time_ns())
        await self.manager.watch(controller_name(run.run_id))
        run = await self._observe(run, Began(created(name, workers)))
        (name,) = run.placements
        group = placement_group([{"CPU": 0.01}] * workers, name=name, lifetime="detached")
        await group.ready()
        nodes = (ray.get_runtime_context().get_node_id(),) * workers
        run = await self._observe(run, Placed((Reserved(name, group.id.binary(), nodes),)))
        return run.attempts[-1].attempt_id

    async def end(self) -> None:
        """Ends the run as a controller does whose user aborts."""
        run = thaw(await client.find().state.remote(self.manager.run_id))
        run = await self._observe(run, Abort(Cause.USER_ABORT, "enough"))
        run = await self._observe(run, Cleared(run.attempts[-1].attempt_id))
        run = await self._observe(run, Released(tuple(run.placements)))
        await self._observe(run, Closed())

    async def write(self, count: int, pause_s: float = 0.0) -> list[int]:
        """Appends so many events one by one; their positions."""
        seqs = []
        for index in range(count):
            (seq, _) = await self.manager.append([skipped(f"{index}")])
            seqs.append(seq)
            await asyncio.sleep(pause_s)
        return seqs

    async def abort(self, cause: int, text: str) -> None:
        self.asked.append((cause, text))

    async def asked_to_abort(self) -> list[tuple[int, str]]:
        return self.asked

    async def _observe(self, run: Run, observation: Observation) -> Run:
        await self.manager.append(decide(run, observation, time.time_ns()).events)
        return thaw(await client.find().state.remote(run.run_id))


def created(name: str, workers: int) -> e.RunCreated:
    each = s.ResourceSet(resources=[s.Resource(name="CPU", amount=0.01)])
    scaling = s.ScalingConfig(num_workers_fixed=workers, resources_per_worker=each)
    job = bytes.fromhex(ray.get_runtime_context().get_job_id())
    return e.RunCreated(name=name, job_id=job, settings=s.RunSettings(scaling_config=scaling))


def skipped(source: str = "a") -> e.Event:
    """An event that fits any state of a created run."""
    return e.Event(time_unix_nano=time.time_ns(), sync_skipped=e.SyncSkipped(source=source))


def new_run_id() -> str:
    return uuid.uuid4().hex


def start_controller(run_id: str) -> Any:
    """A controller as `fit()` makes one: named, restarted, and owned by this driver."""
    return (
        ray.remote(Controller)
        .options(
            name=controller_name(run_id),
            namespace=NAMESPACE,
            num_cpus=0,
            max_restarts=-1,
            max_concurrency=100,
        )
        .remote(run_id)
    )


def start_sleepers(names: Sequence[str]) -> list[Any]:
    """Detached actors of those names, all of them up."""
    actors = [
        ray.remote(Sleeper)
        .options(name=name, namespace=NAMESPACE, num_cpus=0, lifetime="detached")
        .remote()
        for name in names
    ]
    ray.get([actor.pid.remote() for actor in actors])
    return actors


def names_with(prefix: str) -> list[str]:
    """The names of living actors that begin so."""
    named = ray.util.list_named_actors(all_namespaces=True)
    return sorted(one["name"] for one in named if one["name"].startswith(prefix))


def groups_named(name: str) -> list[str]:
    """The states of the placement groups of that name."""
    table = ray.util.placement_group_table()
    return [group["state"] for group in table.values() if group["name"] == name]


def eventually(holds: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Waits until it holds. Raises AssertionError after the timeout."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
        time.sleep(0.05)


def state_actor_pid(cluster: Cluster) -> int:
    """The process of the state actor: the one that has the journal's lock file open."""
    lock = cluster.journal / "writer.lock"
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and _has_open(process, lock):
            return int(process.name)
    raise AssertionError("nobody writes the journal")


def _has_open(process: Path, path: Path) -> bool:
    try:
        return any(os.readlink(fd) == str(path) for fd in (process / "fd").iterdir())
    except OSError:
        return False  # it has ended, or is not ours


def start_driver(cluster: Cluster, run_id: str, workers: int) -> subprocess.Popen[str]:
    """A driver of its own process; it has a run with workers when it has printed its attempt's id."""
    command = [sys.executable, "-m", "tests.state.driver", cluster.address, run_id, str(workers)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
