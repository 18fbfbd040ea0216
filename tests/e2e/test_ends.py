"""Every way a train function can end: the right status, and who, where, why and what to do."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.cluster import Cluster
from tests.e2e.running import left_behind, newest, run, trainer
from trainstate import train
from trainstate.controller.backend import Backend, BackendConfig
from trainstate.core import AttemptStatus, Cause, RunStatus, WorkerStatus
from trainstate.core.tracebacks import traceback_of
from trainstate.errors import UsageError
from trainstate.store import History
from trainstate.train import Checkpoint, ControllerError, WorkerGroupError


def test_it_returns(cluster: Cluster, tmp_path: Path) -> None:
    """A run that returns is FINISHED: metrics and value of rank 0, every report, nothing left."""

    def function() -> dict[str, int]:
        context = train.get_context()
        for step in range(5):
            train.report({"step": step, "rank": context.get_world_rank()})
        return {"size": context.get_world_size()}

    ran = run(cluster, function, "returns", tmp_path)
    assert ran.result is not None
    assert {"size": 2} == ran.result.return_value
    assert {"step": 4, "rank": 0} == ran.result.metrics
    assert (RunStatus.FINISHED, Cause.COMPLETED, 10) == (
        ran.run.status,
        ran.run.cause,
        ran.run.reports,
    )
    assert [5, 5] == [worker.reports for worker in ran.run.attempts[0].workers.values()]
    assert [] == left_behind(ran.run.run_id)


def test_it_raises(cluster: Cluster, tmp_path: Path) -> None:
    """A rank that raises is blamed, with node, cause and traceback; the exception reaches fit()."""

    def function() -> None:
        if train.get_context().get_world_rank() == 1:
            raise ValueError("bad batch 17")
        time.sleep(600)

    ran = run(cluster, function, "raises", tmp_path)
    assert isinstance(ran.error, WorkerGroupError)
    assert isinstance(ran.error.worker_failures[1], ValueError)
    assert (RunStatus.ERRORED, Cause.WORKER_ERROR) == (ran.run.status, ran.run.cause)
    worker = ran.run.attempts[0].workers[1]
    assert WorkerStatus.DEAD == worker.status
    assert worker.error is not None
    assert "bad batch 17" in traceback_of(ran.run, worker.error)
    assert (worker.error.node_id, [1]) == (worker.node_id.hex(), list(worker.error.ranks))
    assert worker.error.hint
    assert [] == left_behind(ran.run.run_id)


def test_it_exits(cluster: Cluster, tmp_path: Path) -> None:
    """A process that ends is a lost worker, not an error of the controller."""

    def function() -> None:
        if train.get_context().get_world_rank() == 0:
            os._exit(7)
        time.sleep(600)

    ran = run(cluster, function, "exits", tmp_path)
    assert isinstance(ran.error, WorkerGroupError)
    assert Cause.WORKER_LOST == ran.run.cause
    error = ran.run.attempts[0].workers[0].error
    assert error is not None
    assert "os._exit" in error.hint


def test_it_exits_politely(cluster: Cluster, tmp_path: Path) -> None:
    """sys.exit in a train function is an error of that rank, and says what to do instead."""

    def function() -> None:
        raise SystemExit(3)

    ran = run(cluster, function, "sysexit", tmp_path)
    assert Cause.WORKER_ERROR == ran.run.cause
    assert ran.run.error is not None
    assert "return from the train function" in ran.run.error.hint


def test_it_hangs(cluster: Cluster, tmp_path: Path) -> None:
    """A rank that reports nothing for too long is hung; the traceback is where it hangs."""

    def function() -> None:
        train.report({"step": 0})
        if train.get_context().get_world_rank() == 1:
            threading.Event().wait()
        while True:
            train.report({"step": 1})
            time.sleep(0.05)

    ran = run(cluster, function, "hangs", tmp_path, report_timeout_s=2.0)
    assert Cause.WORKER_HUNG == ran.run.cause
    assert ran.run.error is not None
    assert [1] == list(ran.run.error.ranks)
    assert "wait()" in traceback_of(ran.run, ran.run.error)


def test_it_runs_out_of_memory(cluster: Cluster, tmp_path: Path) -> None:
    """An allocation that the system refuses is an error with a hint on memory."""

    def function() -> None:
        bytearray(1 << 55)  # more than any machine can address

    ran = run(cluster, function, "memory", tmp_path)
    assert ran.run.error is not None
    assert ("MemoryError", Cause.WORKER_ERROR) == (ran.run.error.type, ran.run.cause)
    assert "memory" in ran.run.error.hint


def test_one_rank_reports_metrics(cluster: Cluster, tmp_path: Path) -> None:
    """Metrics may come from one rank only: nothing waits, nothing is lost."""

    def function() -> None:
        if train.get_context().get_world_rank() == 0:
            for step in range(3):
                train.report({"step": step})

    ran = run(cluster, function, "one_rank", tmp_path)
    assert (RunStatus.FINISHED, 3) == (ran.run.status, ran.run.reports)


def test_one_rank_reports_a_checkpoint(cluster: Cluster, tmp_path: Path) -> None:
    """A checkpoint in a report that another rank never makes can not be committed, and says so."""

    def function() -> None:
        if train.get_context().get_world_rank() == 0:
            with tempfile.TemporaryDirectory() as folder:
                train.report({"step": 0}, checkpoint=Checkpoint.from_directory(folder))

    ran = run(cluster, function, "one_sided", tmp_path)
    assert RunStatus.ERRORED == ran.run.status
    assert ran.run.error is not None
    assert ("ReportMismatch", [1]) == (ran.run.error.type, list(ran.run.error.ranks))
    assert "every rank" in ran.run.error.hint


def test_an_upload_fails(cluster: Cluster, tmp_path: Path) -> None:
    """A checkpoint that cannot be uploaded fails the rank that has it, and no other."""

    def function() -> None:
        if train.get_context().get_world_rank() == 1:
            missing = Checkpoint.from_directory("/nonexistent/checkpoint")
            train.report({"step": 0}, checkpoint=missing)
        else:
            train.report({"step": 0})
            time.sleep(600)

    ran = run(cluster, function, "upload", tmp_path)
    assert Cause.UPLOAD_FAILED == ran.run.cause
    assert ran.run.error is not None
    assert [1] == list(ran.run.error.ranks)


def test_it_cannot_be_pickled(cluster: Cluster, tmp_path: Path) -> None:
    """A train function that cannot be sent says what in it cannot, before anything is started."""
    lock = threading.Lock()

    def function() -> None:
        with lock:
            train.report({})

    with pytest.raises(UsageError, match="lock") as raised:
        run_of_nothing(function, tmp_path)
    assert raised.value.hint is not None


def run_of_nothing(function: Any, storage: Path) -> None:
    trainer(function, "unpicklable", storage).fit()


def test_its_environment_makes_no_sense(cluster: Cluster, tmp_path: Path) -> None:
    """A runtime_env that Ray refuses ends the run at once: trying again would not help."""
    env = {"working_dir": "/nonexistent"}
    ran = run(cluster, lambda: None, "noenv", tmp_path, worker_runtime_env=env)
    assert isinstance(ran.error, ControllerError)
    assert (RunStatus.ERRORED, Cause.CONTROLLER_ERROR) == (ran.run.status, ran.run.cause)
    assert "/nonexistent" in ran.run.status_reason


def test_it_is_never_up(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that are not up in time fail their attempt, which is tried again to its limit."""
    monkeypatch.setenv("TRAINSTATE_START_TIMEOUT_S", "1")
    (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(6)")
    env = {"env_vars": {"PYTHONPATH": str(tmp_path)}}
    more = {"worker_runtime_env": env, "controller_failure_limit": 1}
    ran = run(cluster, lambda: None, "neverup", tmp_path, **more)
    assert (RunStatus.ERRORED, Cause.START_TIMEOUT) == (ran.run.status, ran.run.cause)
    assert 2 == len(ran.run.attempts)
    assert [] == left_behind(ran.run.run_id)


def test_a_failure_is_retried(cluster: Cluster, tmp_path: Path) -> None:
    """After a failure that the budget allows training goes on from the last committed checkpoint."""

    def function() -> int:
        checkpoint = train.get_checkpoint()
        start = 0
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                start = int((Path(folder) / "step").read_text()) + 1
        for step in range(start, 4):
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "step").write_text(str(step))
                train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder))
            if step == 1 and start == 0:
                raise RuntimeError("once")
        return start

    ran = run(cluster, function, "retried", tmp_path, max_failures=1)
    assert ran.result is not None
    assert (RunStatus.FINISHED, 2) == (ran.run.status, ran.result.return_value)
    assert [AttemptStatus.ERRORED, AttemptStatus.FINISHED] == [
        one.status for one in ran.run.attempts
    ]
    assert 4 == ran.run.checkpoints_committed
    assert ran.result.checkpoint is not None
    assert [] == left_behind(ran.run.run_id)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["surrogate", "evil"])
def test_it_raises_what_cannot_be_told(cluster: Cluster, tmp_path: Path, kind: str) -> None:
    """An exception that no stream prints, or that raises when looked at, ends its run all the same."""

    class Hostile(Exception):
        hint = property(lambda self: (_ for _ in ()).throw(SystemExit("no hint")))

        def __str__(self) -> str:
            raise KeyboardInterrupt

    error = RuntimeError("a\udc80b") if kind == "surrogate" else Hostile()

    def function() -> None:
        raise error

    ran = run(cluster, function, f"untold-{kind}", tmp_path, workers=1)
    assert isinstance(ran.error, WorkerGroupError)
    assert (RunStatus.ERRORED, Cause.WORKER_ERROR) == (ran.run.status, ran.run.cause)


@pytest.mark.slow
def test_a_failed_upload_cannot_be_ignored(cluster: Cluster, tmp_path: Path) -> None:
    """Who catches the error of report() and goes on has failed all the same."""

    def function() -> None:
        for step in range(3):
            with contextlib.suppress(Exception):
                train.report({"step": step}, Checkpoint.from_directory("/nonexistent/checkpoint"))
        time.sleep(600)

    ran = run(cluster, function, "ignored", tmp_path)
    assert Cause.UPLOAD_FAILED == ran.run.cause
    assert ran.run.error is not None
    assert "no such checkpoint directory" in ran.run.error.message


@pytest.mark.slow
def test_a_long_set_up_is_no_orphan(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that no controller talks to stay as long as there is one."""
    monkeypatch.setenv("TRAINSTATE_ORPHAN_TIMEOUT_S", "1")

    class Slow(Backend):
        def on_start(self, worker_group: Any, backend_config: Any) -> None:
            time.sleep(3)

    class SlowConfig(BackendConfig):
        backend_cls = Slow

    made = trainer(lambda: "done", "slow-start", tmp_path)
    made.backend_config = SlowConfig()
    assert "done" == made.fit().return_value
    assert 1 == len(newest(cluster, "slow-start").attempts)


@pytest.mark.slow
@pytest.mark.parametrize("raises", [False, True], ids=["clean", "raising"])
def test_the_hooks_of_a_backend(cluster: Cluster, tmp_path: Path, raises: bool) -> None:
    """Each runs once, in order, with all workers; one that raises at the end changes nothing else."""
    said = tmp_path / "said"

    class Telling(Backend):
        def tell(self, worker_group: Any, hook: str) -> None:
            ranks = worker_group.execute(lambda: train.get_context().get_world_rank())
            with said.open("a") as file:
                file.write(f"{hook} {ranks}\n")

        def on_start(self, worker_group: Any, backend_config: Any) -> None:
            self.tell(worker_group, "on_start")

        def on_training_start(self, worker_group: Any, backend_config: Any) -> None:
            self.tell(worker_group, "on_training_start")

        def on_shutdown(self, worker_group: Any, backend_config: Any) -> None:
            self.tell(worker_group, "on_shutdown")
            if raises:
                raise RuntimeError("not tidy")

    class TellingConfig(BackendConfig):
        backend_cls = Telling

    made = trainer(lambda: None, f"hooks-{raises}", tmp_path)
    made.backend_config = TellingConfig()
    made.fit()
    hooks = ("on_start", "on_training_start", "on_shutdown")
    assert [f"{hook} [0, 1]" for hook in hooks] == said.read_text().splitlines()
    ended = newest(cluster, f"hooks-{raises}")
    assert (RunStatus.FINISHED, int(raises)) == (ended.status, ended.callback_failures)


@pytest.mark.slow
def test_workers_go_where_their_labels_are(cluster: Cluster, tmp_path: Path) -> None:
    """Label selectors are asked of the cluster as the journal has them."""
    here = ray.get_runtime_context().get_node_id()
    made = trainer(lambda: "done", "labelled", tmp_path)
    made.scaling_config.label_selector = {"ray.io/node-id": here}
    assert "done" == made.fit().return_value
    asked = [
        one.event.placement_requested.label_selectors.selectors
        for one in History(cluster.journal).events_of(newest(cluster, "labelled").run_id)
        if one.event.HasField("placement_requested")
    ]
    assert [[("ray.io/node-id", here)]] * 2 == [
        [(label.key, label.value) for label in each.labels] for each in asked[0]
    ]
