"""A run is aborted: by Ctrl-C, SIGTERM or `trainstate abort`, whatever state it is in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.running import left_behind, newest
from tests.e2e.test_orphans import driver, eventually, over, pids_of, training
from trainstate.core import Cause, Run, RunStatus
from trainstate.errors import NotFound
from trainstate.state import client


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    # Python ends a module (-m) with 1 after KeyboardInterrupt.
    [(signal.SIGINT, 1), (signal.SIGTERM, 143)],
    ids=["SIGINT", "SIGTERM"],
)
def test_a_signal_aborts_a_training_run(
    cluster: Cluster, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """The driver's signal is in the journal as the cause, at once, and its exit code is the signal's."""
    name = f"abort-{number.name}"
    with driver(cluster, name, tmp_path) as process:
        run = eventually(lambda: training(cluster, name))
        sent_ns = time.time_ns()
        process.send_signal(number)
        assert code == process.wait(20)
    ended = eventually(lambda: over(cluster, run.run_id))
    assert (RunStatus.ABORTED, Cause.USER_ABORT) == (ended.status, ended.cause)
    assert number.name in ended.status_reason
    assert 2e9 > ended.end_time_ns - sent_ns
    assert [] == left_behind(run.run_id)


@pytest.mark.slow
def test_a_waiting_run_is_aborted(cluster: Cluster, tmp_path: Path) -> None:
    """A run that waits for resources says for which, sleeps, and hears Ctrl-C at once."""
    with driver(cluster, "abort-waiting", tmp_path, workers=100) as process:
        run = eventually(lambda: in_status(cluster, "abort-waiting", RunStatus.WAITING))
        assert (100, True) == (run.need_workers, run.have_workers < 100)
        assert "waiting for 100 workers" in run.status_reason
        sent_ns = time.time_ns()
        process.send_signal(signal.SIGINT)
        process.wait(20)
    ended = eventually(lambda: over(cluster, run.run_id))
    assert (RunStatus.ABORTED, Cause.USER_ABORT) == (ended.status, ended.cause)
    assert 2e9 > ended.end_time_ns - sent_ns
    assert [] == left_behind(run.run_id)


@pytest.mark.slow
def test_the_command_line_aborts(cluster: Cluster, tmp_path: Path) -> None:
    """`trainstate abort RUN` ends a run from anywhere; its driver raises TrainingFailedError."""
    with driver(cluster, "abort-cli", tmp_path) as process:
        run = eventually(lambda: training(cluster, "abort-cli"))
        command = [sys.executable, "-m", "trainstate.cli", "abort", run.run_id[:8]]
        done = subprocess.run(
            [*command, "--address", cluster.address], capture_output=True, text=True, check=False
        )
        assert 0 == done.returncode, done.stderr
        assert 1 == process.wait(20)
    ended = eventually(lambda: over(cluster, run.run_id))
    assert (RunStatus.ABORTED, Cause.USER_ABORT) == (ended.status, ended.cause)
    assert [] == left_behind(run.run_id)


def in_status(cluster: Cluster, name: str, status: RunStatus) -> Run | None:
    try:
        run = newest(cluster, name)
    except (IndexError, NotFound):
        return None
    return run if run.status is status else None


@pytest.fixture(autouse=True)
def _state(cluster: Cluster) -> None:
    client.greet(client.ensure())


@pytest.mark.slow
def test_a_signal_while_the_controller_is_dead(cluster: Cluster, tmp_path: Path) -> None:
    """Ctrl-C reaches the controller that comes next."""
    with driver(cluster, "abort-dead", tmp_path) as process:
        run = eventually(lambda: training(cluster, "abort-dead"))
        os.kill(pids_of(cluster, run, process)["controller"], signal.SIGKILL)
        process.send_signal(signal.SIGINT)
        assert 1 == process.wait(20)
    ended = eventually(lambda: over(cluster, run.run_id))
    assert (RunStatus.ABORTED, Cause.USER_ABORT) == (ended.status, ended.cause)
    assert [] == left_behind(run.run_id)
