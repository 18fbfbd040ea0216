"""`trainstate abort`: whom it reaches, and what it says when there is nobody."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.conftest import Cli
from tests.cluster import Cluster
from trainstate.core import Cause


def abort(*args: str) -> tuple[int, str, str]:
    """Runs the verb as a process of its own, as it must not take this one's Ray away."""
    command = [sys.executable, "-m", "trainstate.cli", "abort", *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_the_controller_is_asked(cluster: Cluster):
    """By the run's name: its controller hears the cause and a text."""
    import ray

    from tests.state.making import new_run_id, start_controller

    run_id = new_run_id()
    controller = start_controller(run_id)
    ray.get(controller.begin.remote(name=f"name-{run_id}"))
    code, out, err = abort(f"name-{run_id}", "--address", cluster.address)
    assert (0, f"{run_id}: asked to end\n", "") == (code, out, err)
    asked = ray.get(controller.asked_to_abort.remote())
    assert [(Cause.USER_ABORT, "aborted by a user (trainstate abort)")] == asked
    ray.kill(controller)


@pytest.mark.slow
def test_a_controller_that_is_gone_is_said_so(cluster: Cluster):
    """The run is open, and there is nobody to ask."""
    import asyncio

    from tests.state.making import new_run_id
    from trainstate.state.manager import TrainStateManager
    from trainstate.v1 import event_pb2 as e

    async def begin() -> None:
        manager = TrainStateManager(run_id)
        await manager.open(1)
        await manager.append([e.Event(time_unix_nano=1, run_created=e.RunCreated(name="n"))])

    run_id = new_run_id()
    asyncio.run(begin())
    code, out, err = abort(run_id, "--address", cluster.address)
    assert (1, "") == (code, out)
    assert "its controller is gone" in err
    assert f"hint: trainstate show {run_id}" in err


@pytest.mark.slow
def test_no_such_run(cluster: Cluster):
    """A run that is not open is not found."""
    code, _, err = abort("nobody", "--address", cluster.address)
    assert 2 == code
    assert "no open run fits 'nobody'" in err


def test_no_cluster(cli: Cli, monkeypatch):
    """Without a cluster there is nobody to ask; the error says which one was looked for."""
    ray = pytest.importorskip("ray")

    def refuse(**options: object) -> None:
        raise ConnectionError("Could not find any running Ray instance.\nMore of it.")

    monkeypatch.setattr(ray, "init", refuse)
    outcome = cli("abort", "any")
    assert (1, "") == (outcome.code, outcome.out)
    assert "error: no Ray cluster at 'auto': Could not find any running Ray inst" in outcome.err
    assert "hint: name one with --address HOST:PORT" in outcome.err


def test_without_ray(cli: Cli, monkeypatch):
    """The base installation has no Ray: what to install is said."""
    monkeypatch.setitem(sys.modules, "ray", None)
    outcome = cli("abort", "any")
    assert 2 == outcome.code
    assert "trainstate[train]" in outcome.err
