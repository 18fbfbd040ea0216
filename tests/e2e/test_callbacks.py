"""Callbacks in a real run: called in order, isolated, and heard when they ask for the end."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.controller.test_observers import START, STATE, STOP
from tests.e2e.killing import Killer, following
from tests.e2e.running import left_behind, newest, run
from trainstate import train
from trainstate.controller.session import current
from trainstate.core import Cause, RunStatus
from trainstate.train import Checkpoint, ControllerError
from trainstate.train.callbacks import (
    ControllerCallback,
    ReportCallback,
    UserCallback,
    WorkerCallback,
    WorkerGroupCallback,
)
from trainstate.train.exceptions import TrainingFailedError


class Notes:
    """Appends lines to a file; whole lines, whoever writes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, *words: Any) -> None:
        with self.path.open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def read(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


class Watcher(ControllerCallback, WorkerGroupCallback):
    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def after_controller_start(self, train_run_context: Any) -> None:
        self.notes.add("after_controller_start")
        assert train_run_context.get_run_config().name

    def after_controller_state_update(self, previous_state: Any, current_state: Any) -> None:
        self.notes.add("after_controller_state_update", current_state.name)

    def before_controller_execute_resize_decision(self, resize_decision: Any) -> None:
        self.notes.add("before_controller_execute_resize_decision")

    def on_controller_start_worker_group(self, *, scaling_config: Any, num_workers: int) -> None:
        self.notes.add("on_controller_start_worker_group")
        assert num_workers == scaling_config.num_workers

    @contextmanager
    def on_worker_group_start(self) -> Iterator[None]:
        self.notes.add("on_worker_group_start enter")
        yield
        self.notes.add("on_worker_group_start exit")

    def before_worker_group_start(self, worker_group_context: Any) -> None:
        self.notes.add("before_worker_group_start")

    def before_init_train_context(self, workers: Sequence[Any]) -> dict[str, list[Any]]:
        self.notes.add("before_init_train_context")
        return {"pid": [one.metadata.pid for one in workers]}

    def after_worker_group_start(self, worker_group: Any) -> None:
        self.notes.add("after_worker_group_start")
        super().after_worker_group_start(worker_group)

    def after_execution_group_start(self, execution_group: Any) -> None:
        self.notes.add("after_execution_group_start")
        workers = execution_group.get_workers()
        assert [one.metadata.pid for one in workers] == execution_group.execute(os.getpid)

    def after_worker_group_training_start(self, worker_group: Any) -> None:
        self.notes.add("after_worker_group_training_start")

    def before_controller_execute_failure_decision(self, failure_decision: Any) -> None:
        self.notes.add("before_controller_execute_failure_decision")
        assert "RETRY" == failure_decision.name

    @contextmanager
    def on_worker_group_shutdown(self) -> Iterator[None]:
        self.notes.add("on_worker_group_shutdown enter")
        yield
        self.notes.add("on_worker_group_shutdown exit")

    def before_worker_group_shutdown(self, worker_group: Any) -> None:
        self.notes.add("before_worker_group_shutdown")
        super().before_worker_group_shutdown(worker_group)

    def before_execution_group_shutdown(self, execution_group: Any) -> None:
        self.notes.add("before_execution_group_shutdown")
        if self.notes.read()[-4].endswith("SHUTTING_DOWN"):  # the workers wait for this hook
            workers = execution_group.get_workers()
            assert [one.metadata.pid for one in workers] == execution_group.execute(os.getpid)

    def after_worker_group_shutdown(self, worker_group_context: Any) -> None:
        self.notes.add("after_worker_group_shutdown")

    async def before_controller_shutdown(self) -> None:
        self.notes.add("before_controller_shutdown")

    def before_controller_abort(self) -> None:
        self.notes.add("before_controller_abort")

    def after_controller_finish(self, result: Any) -> None:
        self.notes.add("after_controller_finish")
        assert result.metrics == {"step": 1, "rank": 0}
        assert result.checkpoint is not None


class User(UserCallback):
    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def after_report(
        self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any
    ) -> None:
        self.notes.add("user after_report")
        assert [0, 1] == [one["rank"] for one in metrics]
        assert 1 == len({one["step"] for one in metrics})
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                assert str(metrics[0]["step"]) == (Path(folder) / "step").read_text()

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        self.notes.add("user after_exception")
        assert "{1: ValueError('once')}" == repr(worker_exceptions)


class Reports(ReportCallback):
    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def after_report(self, training_report: Any, metrics: list[dict[str, Any]]) -> None:
        self.notes.add("report after_report")
        assert training_report.metrics == metrics[0]


def fails_once(marker: Path) -> Any:
    """A training function of two reports, the second with a checkpoint; rank 1 fails between them."""

    def function() -> int:
        rank = train.get_context().get_world_rank()
        train.report({"step": 0, "rank": rank})
        train.collective.barrier()
        if not marker.exists():
            if rank == 1:
                time.sleep(0.5)
                marker.touch()
                raise ValueError("once")
            time.sleep(600)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "step").write_text("1")
            checkpoint = Checkpoint.from_directory(folder) if rank == 0 else None
            train.report({"step": 1, "rank": rank}, checkpoint=checkpoint)
        return 7

    return function


def test_the_order_in_a_run_that_fails_once(cluster: Cluster, tmp_path: Path) -> None:
    """Every hook is called when it is due, with what it is promised; none of them fails."""
    notes = Notes(tmp_path / "notes")
    callbacks = [Watcher(notes), User(notes), Reports(notes)]
    inner = fails_once(tmp_path / "marker")

    def function() -> int:
        assert os.getpid() == current().extra("pid")
        value: int = inner()
        return value

    ran = run(cluster, function, "order", tmp_path, max_failures=1, callbacks=callbacks)
    assert (RunStatus.FINISHED, 0) == (ran.run.status, ran.run.callback_failures)
    reported = ["user after_report", "report after_report"]
    assert [
        "after_controller_start",
        f"{STATE} SCHEDULING",
        *START,
        *reported,
        "user after_exception",
        "before_controller_execute_failure_decision",
        f"{STATE} RESTARTING",
        *STOP,
        f"{STATE} SCHEDULING",
        *START,
        *reported,
        *reported,
        f"{STATE} SHUTTING_DOWN",
        *STOP,
        "before_controller_shutdown",
        f"{STATE} FINISHED",
        "after_controller_finish",
    ] == notes.read()


def broken(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise ValueError("mine alone")


EVERY = sorted(
    {
        name
        for family in (ControllerCallback, WorkerGroupCallback)
        for name in dir(family)
        if name.startswith(("after_", "before_", "on_")) and "abort" not in name
    }
)


class Breaks(ControllerCallback, WorkerGroupCallback):
    """Every hook raises, but for those that other hooks would call if they did not."""


for _name in EVERY:
    setattr(Breaks, _name, broken)


class BreaksToo(UserCallback):
    after_report = broken
    after_exception = broken


class BreaksInWorkers(WorkerCallback):
    after_init_train_context = broken


def test_hooks_that_raise(cluster: Cluster, tmp_path: Path) -> None:
    """Every hook of a run may raise: the run finishes as if there were none, and each is recorded."""
    callbacks = [Breaks(), BreaksToo(), BreaksInWorkers()]
    function = fails_once(tmp_path / "marker")
    ran = run(cluster, function, "raising", tmp_path, max_failures=1, callbacks=callbacks)
    assert ran.result is not None
    assert (RunStatus.FINISHED, 7) == (ran.run.status, ran.result.return_value)
    assert {*EVERY, *dir_of(BreaksToo), "after_init_train_context"} - {
        "after_execution_group_start",
        "before_execution_group_shutdown",
    } == hooks_that_failed(cluster, ran.run.run_id)
    assert ran.run.callback_failures > 20


def dir_of(kind: type) -> set[str]:
    return {name for name in vars(kind) if name.startswith("after_")}


def hooks_that_failed(cluster: Cluster, run_id: str) -> set[str]:
    from trainstate.store import History

    events = (one.event for one in History(cluster.journal).events())
    return {
        event.callback_failed.hook
        for event in events
        if event.run_id == run_id and event.WhichOneof("payload") == "callback_failed"
    }


class Stops(UserCallback):
    def after_report(self, run_context: Any, metrics: Any, checkpoint: Any) -> None:
        raise TrainingFailedError("the loss is no number")


def test_a_hook_asks_for_the_end(cluster: Cluster, tmp_path: Path) -> None:
    """A callback that raises TrainingFailedError ends the run, whatever may be retried."""

    def function() -> None:
        train.report({"step": 0})
        time.sleep(600)

    ran = run(cluster, function, "asking", tmp_path, max_failures=-1, callbacks=[Stops()])
    assert isinstance(ran.error, ControllerError)
    assert "the loss is no number" in str(ran.error)
    assert (RunStatus.ERRORED, Cause.CALLBACK_ERROR) == (ran.run.status, ran.run.cause)
    assert [] == left_behind(ran.run.run_id)


def test_the_order_of_an_abort(cluster: Cluster, tmp_path: Path) -> None:
    """Hooks of the abort are called; a slow one of them does not keep the workers alive."""
    notes = Notes(tmp_path / "notes")

    class Slow(Watcher):
        def before_controller_abort(self) -> None:
            time.sleep(4)
            self.notes.add("before_controller_abort", time.time())

        def after_worker_group_abort(self, worker_group_context: Any) -> None:
            self.notes.add("after_worker_group_abort")

    def function() -> None:
        (tmp_path / "training").touch()
        while True:
            (tmp_path / "alive").touch()
            time.sleep(0.05)

    def interrupt() -> None:
        while not (tmp_path / "training").exists():
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run(cluster, function, "aborted", tmp_path, callbacks=[Slow(notes)])
    thread.join()
    end = newest(cluster, "aborted")
    assert (RunStatus.ABORTED, 0) == (end.status, end.callback_failures)
    lines = notes.read()
    begun = next(n for n, one in enumerate(lines) if one.startswith("before_controller_abort"))
    assert [
        f"{STATE} SHUTTING_DOWN",
        "after_worker_group_abort",
        f"{STATE} ABORTED",
    ] == lines[begun + 1 :]
    assert (tmp_path / "alive").stat().st_mtime < float(lines[begun].split()[1]) - 2


class Hangs(ControllerCallback):
    def after_controller_start(self, train_run_context: Any) -> None:
        threading.Event().wait()


def test_a_hook_hangs(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook that never returns is waited for once, by who needs what is behind it; that is recorded."""
    monkeypatch.setenv("TRAINSTATE_HOOK_TIMEOUT_S", "2")
    notes = Notes(tmp_path / "notes")
    trained = tmp_path / "trained"
    callbacks = [Hangs(), Watcher(notes)]
    ran = run(cluster, trained.touch, "hanging", tmp_path, callbacks=callbacks)
    assert (RunStatus.FINISHED, 1) == (ran.run.status, ran.run.callback_failures)
    assert time.time() - trained.stat().st_mtime < 5
    assert [] == notes.read()


def test_a_recovered_controller_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    """After its controller was killed a run's hooks go on: after_controller_start, and then the end."""
    notes = Notes(tmp_path / "notes")

    def function() -> None:
        rank = train.get_context().get_world_rank()
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "step").write_text("0")
            train.report({"step": 0, "rank": rank}, checkpoint=Checkpoint.from_directory(folder))
        time.sleep(2)
        train.report({"step": 1, "rank": rank})

    killer = Killer(
        cluster, "recovered", lambda kind: kind == "checkpoint_committed" and not killer.killed
    )
    with following(cluster, killer.see):
        callbacks = [Watcher(notes), User(notes)]
        ran = run(cluster, function, "recovered", tmp_path, callbacks=callbacks)
    assert ["checkpoint_committed"] == killer.killed
    assert (RunStatus.FINISHED, 2) == (ran.run.status, ran.run.controller_starts)
    assert [
        "after_controller_start",
        "user after_report",
        f"{STATE} SHUTTING_DOWN",
        *STOP,
        "before_controller_shutdown",
        f"{STATE} FINISHED",
        "after_controller_finish",
    ] == notes.read()[notes.read().index("after_controller_start", 1) :]
