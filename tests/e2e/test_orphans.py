"""Any process of a run is killed, and any two at once: it ends as it should, and nothing is left."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.cluster import Cluster
from tests.e2e.running import left_behind, newest
from tests.state.making import state_actor_pid
from trainstate.core import Cause, Run, RunStatus
from trainstate.errors import NotFound
from trainstate.state import client
from trainstate.store import History

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
WHO = ("driver", "controller", "state", "worker")
VICTIMS = [*itertools.combinations(WHO, 1), *itertools.combinations(WHO, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("victims", VICTIMS, ids="-".join)
def test_processes_are_killed(cluster: Cluster, tmp_path: Path, victims: tuple[str, ...]) -> None:
    """Without its driver a run is ABORTED; otherwise it goes on to its end. No orphan either way."""
    client.greet(client.ensure())
    name = f"killed-{'-'.join(victims)}"
    with driver(cluster, name, tmp_path) as process:
        run = eventually(lambda: training(cluster, name))
        pids = pids_of(cluster, run, process)
        for victim in victims:
            os.kill(pids[victim], signal.SIGKILL)
        if "driver" in victims:
            ended = eventually(lambda: over(cluster, run.run_id))
            assert (RunStatus.ABORTED, Cause.DRIVER_EXITED) == (ended.status, ended.cause)
        else:
            eventually(lambda: on_again(cluster, run, victims))
            (tmp_path / "over").touch()
            assert 0 == process.wait(60)
            ended = eventually(lambda: over(cluster, run.run_id))
            assert (RunStatus.FINISHED, Cause.COMPLETED) == (ended.status, ended.cause)
    assert 1 + ("worker" in victims and "driver" not in victims) == len(ended.attempts)
    eventually(lambda: not left_behind(run.run_id))


@contextmanager
def driver(
    cluster: Cluster, name: str, storage: Path, workers: int = 2
) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable,
        "-m",
        "tests.e2e.driver",
        cluster.address,
        name,
        str(storage),
        str(workers),
    ]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def training(cluster: Cluster, name: str) -> Run | None:
    """The run of that name, once every worker of it has reported."""
    try:
        run = newest(cluster, name)
    except (IndexError, NotFound):
        return None
    workers = run.attempts[-1].workers.values() if run.attempts else ()
    return run if workers and all(worker.reports > 2 for worker in workers) else None


def on_again(cluster: Cluster, before: Run, victims: tuple[str, ...]) -> bool:
    """Whether the run trains on after what was done to it."""
    run = History(cluster.journal).run(before.run_id)
    took_up = run.controller_starts > before.controller_starts or "controller" not in victims
    another = len(run.attempts) > len(before.attempts) or "worker" not in victims
    return took_up and another and run.reports > before.reports + 20


def over(cluster: Cluster, run_id: str) -> Run | None:
    run = History(cluster.journal).run(run_id)
    return run if run.status.is_terminal else None


def pids_of(cluster: Cluster, run: Run, process: subprocess.Popen[bytes]) -> Mapping[str, int]:
    events = [one.event for one in History(cluster.journal).events_of(run.run_id)]
    controllers = [
        one.controller_started.pid for one in events if one.HasField("controller_started")
    ]
    return {
        "driver": process.pid,
        "controller": controllers[-1],
        "state": state_actor_pid(cluster),
        "worker": run.attempts[-1].workers[1].pid,
    }


def eventually(look: Callable[[], T], timeout_s: float = 40.0) -> T:
    """What `look` returns once that is something; it is asked again until then."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)
    return found
