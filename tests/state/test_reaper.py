"""No orphan, ever: what a controller leaves behind when it is gone for good."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
import ray

from tests.cluster import Cluster
from tests.state.making import (
    eventually,
    groups_named,
    names_with,
    new_run_id,
    start_controller,
    start_driver,
    start_sleepers,
    state_actor_pid,
)
from trainstate.core import AttemptStatus, Cause, RunStatus, WorkerStatus
from trainstate.state.reaper import Reaper
from trainstate.store import Store
from trainstate.v1 import event_pb2 as e


def test_a_killed_drivers_run_ends(cluster: Cluster):
    """Attempt before run, with the cause; workers, data host and placement group vanish in seconds."""
    run_id = new_run_id()
    with start_driver(cluster, run_id, workers=2) as driver:
        attempt_id = driver.stdout.readline().strip()
        prefix = f"{run_id}/{attempt_id}"
        assert [f"{prefix}/{what}" for what in ("0/0", "1/0", "data")] == names_with(prefix)
        assert ["CREATED"] == groups_named(f"{run_id}/0.1")
        driver.kill()
        killed = time.monotonic()
    eventually(lambda: cluster.run(run_id).status.is_terminal)
    took_s = time.monotonic() - killed
    assert [] == names_with(prefix)
    assert ["REMOVED"] == groups_named(f"{run_id}/0.1")
    run = cluster.run(run_id)
    assert (RunStatus.ABORTED, Cause.DRIVER_EXITED) == (run.status, run.cause)
    (attempt,) = run.attempts
    assert (AttemptStatus.ABORTED, Cause.DRIVER_EXITED) == (attempt.status, attempt.cause)
    assert {WorkerStatus.DEAD} == {worker.status for worker in attempt.workers.values()}
    assert "reaper" == run.writer
    assert took_s < 10


def test_a_lost_controllers_run_ends(cluster: Cluster):
    """The driver lives on, and so the cause is the controller."""
    run_id = new_run_id()
    controller = start_controller(run_id)
    attempt_id = ray.get(controller.begin.remote())
    start_sleepers([f"{run_id}/{attempt_id}/0/0"])
    ray.kill(controller)
    eventually(lambda: cluster.run(run_id).status.is_terminal)
    assert Cause.CONTROLLER_LOST == cluster.run(run_id).cause
    assert [] == names_with(run_id)


def test_a_controller_that_starts_again_keeps_its_run(cluster: Cluster):
    """A crash that Ray answers with a restart is no end; a later one for good is."""
    run_id = new_run_id()
    controller = start_controller(run_id)
    ray.get(controller.begin.remote())
    os.kill(ray.get(controller.pid.remote()), signal.SIGKILL)
    eventually(lambda: _answers(controller))
    time.sleep(1.0)
    assert not cluster.run(run_id).status.is_terminal
    ray.kill(controller)
    eventually(lambda: cluster.run(run_id).status.is_terminal)


def test_a_run_that_ended_is_left_alone(cluster: Cluster):
    """Its controller goes as it should: nobody takes the run up again."""
    run_id = new_run_id()
    controller = start_controller(run_id)
    ray.get(controller.begin.remote())
    ray.get(controller.end.remote())
    before = cluster.run(run_id)
    assert before.status.is_terminal
    ray.kill(controller)
    time.sleep(1.0)
    assert before == cluster.run(run_id)


@pytest.mark.slow
def test_what_was_lost_while_the_state_actor_was_away_is_found(cluster: Cluster):
    """A controller and the state actor die together: the next state actor finds the run and ends it."""
    run_id = new_run_id()
    controller = start_controller(run_id)
    attempt_id = ray.get(controller.begin.remote())
    start_sleepers([f"{run_id}/{attempt_id}/0/0"])
    os.kill(state_actor_pid(cluster), signal.SIGKILL)
    ray.kill(controller)
    eventually(lambda: cluster.run(run_id).status.is_terminal)
    assert [] == names_with(run_id)


def test_nothing_is_kept_of_a_run_that_ended(tmp_path, monkeypatch):
    """Watches go with their runs, however many there were."""

    async def watch_all() -> Reaper:
        reaper = Reaper(store, asyncio.to_thread)
        for run_id in runs:
            reaper.watch(run_id, "controller/nobody")
            reaper.watch(run_id, "controller/nobody")
        assert len(runs) == len(reaper._watches)
        await asyncio.gather(*reaper._watches.values())
        return reaper

    def nobody(name: str, namespace: str) -> None:
        raise ValueError(name)

    monkeypatch.setattr(ray, "get_actor", nobody)
    monkeypatch.setattr("trainstate.state.reaper._job_is_over", lambda job_id: True)
    runs = [f"run-{number}" for number in range(20)]
    with Store.open(tmp_path / "j") as store:
        for run_id in runs:
            opened = store.open_run(run_id, "controller", 1)
            created = e.Event(time_unix_nano=1, run_created=e.RunCreated(name="n"))
            store.append(run_id, opened.incarnation, opened.run_seq, [created])
        assert {} == asyncio.run(watch_all())._watches
        assert {Cause.DRIVER_EXITED} == {store.state(run_id).cause for run_id in runs}


def _answers(controller) -> bool:
    try:
        return bool(ray.get(controller.pid.remote(), timeout=5))
    except ray.exceptions.RayError:
        return False
