"""Controllers are killed while they run a job: the run goes on as if nothing had been."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.killing import Killer, following
from tests.e2e.running import left_behind, run
from tests.e2e.test_orphans import driver, eventually, over, training
from trainstate import train
from trainstate.core import Cause, RunStatus
from trainstate.state import client
from trainstate.state.manager import TrainStateManager
from trainstate.store import History
from trainstate.train import Checkpoint, CheckpointConfig

KINDS = (
    "controller_started",
    "provenance_recorded",
    "run_scheduling",
    "attempt_planned",
    "placement_requested",
    "placement_ready",
    "worker_scheduled",
    "worker_started",
    "attempt_started",
    "framework_versions_recorded",
    "run_running",
    "report_received",
    "checkpoint_committed",
    "checkpoint_deleted",
    "worker_failing",
    "failure_decided",
    "run_restarting",
    "worker_died",
    "attempt_ended",
    "worker_completed",
    "run_shutting_down",
)
STEPS = 12


def job(folder: Path, *, fails: bool = False, steps: int = STEPS) -> Callable[[], int]:
    """So many steps; each is written down outside, so that a repeated one is seen."""

    def function() -> int:
        rank = train.get_context().get_world_rank()
        checkpoint = train.get_checkpoint()
        start = 0
        if checkpoint is not None:
            with checkpoint.as_directory() as kept:
                start = int((Path(kept) / "step").read_text()) + 1
        for step in range(start, steps):
            with (folder / f"steps-{rank}").open("a") as written:
                written.write(f"{step}\n")
            if step % 3:
                train.report({"step": step, "rank": rank})
                continue
            with tempfile.TemporaryDirectory() as made:
                if rank == 0:
                    (Path(made) / "step").write_text(str(step))
                train.report({"step": step, "rank": rank}, Checkpoint.from_directory(made))
            if fails and step == 6 and start == 0:
                raise RuntimeError("once")
        return rank

    return function


def steps_of(folder: Path, rank: int) -> list[int]:
    return [int(line) for line in (folder / f"steps-{rank}").read_text().split()]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_killed_after_each_kind_of_event(cluster: Cluster, tmp_path: Path, kind: str) -> None:
    """Killed right after any event, its successor takes the run up: no step twice, no report lost."""
    waiting = [kind]

    def wants(seen: str) -> bool:
        return seen in waiting and not waiting.remove(seen)  # type: ignore[func-returns-value]

    killer = Killer(cluster, f"killed-{kind}", wants)
    with following(cluster, killer.see):
        ran = run(
            cluster,
            job(tmp_path, fails=True),
            f"killed-{kind}",
            tmp_path,
            max_failures=1,
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        )
    assert [kind] == killer.killed
    assert ran.error is None
    assert (RunStatus.FINISHED, 2, 2) == (
        ran.run.status,
        ran.run.controller_starts,
        len(ran.run.attempts),
    )
    # The one failure is the train function's own; after it training goes on behind the checkpoint.
    for rank in range(2):
        assert [*range(7), *range(7, STEPS)] == steps_of(tmp_path, rank)
        assert STEPS - 7 == ran.run.attempts[1].workers[rank].reports
    assert [] == left_behind(ran.run.run_id)


@pytest.mark.slow
def test_it_is_killed_ten_times(cluster: Cluster, tmp_path: Path) -> None:
    """Ten controllers are killed in one run: every report is there once, no worker was restarted."""
    reports = 0

    def wants(kind: str) -> bool:
        nonlocal reports
        reports += kind == "report_received"
        return kind == "report_received" and len(killer.killed) < 10 and reports % 3 == 0

    killer = Killer(cluster, "killed-ten", wants)
    with following(cluster, killer.see):
        ran = run(cluster, job(tmp_path, steps=99), "killed-ten", tmp_path)
    assert 10 == len(killer.killed)
    assert (RunStatus.FINISHED, 11, 1) == (
        ran.run.status,
        ran.run.controller_starts,
        len(ran.run.attempts),
    )
    for rank in range(2):
        assert [*range(99)] == steps_of(tmp_path, rank)
        assert [*range(99)] == reported(cluster, ran.run.run_id, rank)
    assert [] == left_behind(ran.run.run_id)


def reported(cluster: Cluster, run_id: str, rank: int) -> list[int]:
    events = (one.event for one in History(cluster.journal).events_of(run_id))
    return [
        one.report_received.index
        for one in events
        if one.WhichOneof("payload") == "report_received" and one.report_received.rank == rank
    ]


@pytest.mark.slow
def test_a_second_controller_fences_the_first(cluster: Cluster, tmp_path: Path) -> None:
    """Who takes a run up is its only writer: the controller before it stops, and fit() says why."""
    client.greet(client.ensure())
    with driver(cluster, "fenced", tmp_path) as process:
        run = eventually(lambda: training(cluster, "fenced"))
        taken = asyncio.run(TrainStateManager(run.run_id).open(time.time_ns()))
        assert run.incarnation + 1 == taken.incarnation
        assert 1 == process.wait(20)
        assert process.stderr is not None
        assert "Fenced" in process.stderr.read().decode()
    # Nobody is left to go on with it, so it is ended, and nothing stays.
    ended = eventually(lambda: over(cluster, run.run_id))
    assert (RunStatus.ABORTED, Cause.CONTROLLER_LOST) == (ended.status, ended.cause)
    assert [] == left_behind(run.run_id)


@pytest.mark.slow
def test_a_large_job_outlives_its_controller(cluster: Cluster, tmp_path: Path) -> None:
    """What a train function brings along is there for the next controller too, however large it is."""
    large = os.urandom(1_000_000)

    def function() -> int:
        for step in range(20):
            train.report({"step": step})
            time.sleep(0.05)
        return len(large)

    killer = Killer(cluster, "large", lambda kind: kind == "report_received" and not killer.killed)
    with following(cluster, killer.see):
        ran = run(cluster, function, "large", tmp_path)
    assert ran.result is not None, ran.error
    assert (1_000_000, 2) == (ran.result.return_value, ran.run.controller_starts)
