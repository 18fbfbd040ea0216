"""Local mode: the same run in this process, with a journal of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import ray.train

from trainstate import train
from trainstate.controller.storage import Storage
from trainstate.core import Cause, Run, RunStatus
from trainstate.core.tracebacks import traceback_of
from trainstate.errors import StorageError, UsageError
from trainstate.store import Root
from trainstate.train import DataParallelTrainer
from trainstate.train.callbacks import UserCallback

LOCAL = train.ScalingConfig(num_workers=0)


def fit(function, run_config, **fields):
    return DataParallelTrainer(
        function, scaling_config=LOCAL, run_config=run_config, **fields
    ).fit()


def report_checkpoint(metrics: dict, **fields) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "step").write_text(str(metrics["step"]))
        train.report(metrics, train.Checkpoint.from_directory(folder), **fields)


def step_of(checkpoint) -> int:
    return int(Path(checkpoint.path, "step").read_text())


def history(home: Path) -> tuple[Run, list[str]]:
    """The newest run of a home, folded, and its payloads in order."""
    listed = list(Root(home).runs())
    run_id = max(listed, key=lambda one: one.summary.start_time_ns).summary.run_id
    found = Root(home).find(run_id).history
    kinds = [str(one.event.WhichOneof("payload")) for one in found.events_of(run_id)]
    return found.run(run_id), kinds


def test_a_run_tells_the_whole_story(home, run_config):
    """From RunCreated to RunFinished, as on a cluster; the result has metrics without a checkpoint."""

    def function(config):
        for step in range(2):
            train.report({"step": step, "lr": config["lr"]})
        return {"done": step}

    result = fit(function, run_config(), train_loop_config={"lr": 0.5})
    assert ({"step": 1, "lr": 0.5}, {"done": 1}) == (result.metrics, result.return_value)
    assert result.checkpoint is None
    run, kinds = history(home)
    assert [
        "run_opened",
        "run_created",
        "controller_started",
        "run_scheduling",
        "placement_requested",
        "attempt_planned",
        "placement_ready",
        "worker_scheduled",
        "worker_started",
        "attempt_started",
        "framework_versions_recorded",
        "run_running",
        "report_received",
        "report_received",
        "worker_completed",
        "run_shutting_down",
        "attempt_ended",
        "placement_released",
        "run_finished",
    ] == kinds
    assert (result.run_id, RunStatus.FINISHED, "exp") == (run.run_id, run.status, run.name)
    [worker] = run.attempt.workers.values()
    assert os.getpid() == worker.pid


def test_each_run_has_a_journal_of_its_own(home, run_config):
    """Two runs never wait for each other's lock; both are in one list."""
    fit(lambda: None, run_config())
    fit(lambda: None, run_config())
    journals = [one.name for one in (home / "journals").iterdir()]
    assert (2, True) == (len(journals), all(one.startswith("local-") for one in journals))
    assert 2 == len(list(Root(home).runs()))


def test_ray_is_not_needed(tmp_path):
    """Nothing of it is loaded, nor of torch, and what cannot be pickled may be used."""
    program = """if True:
        import sys, threading
        from trainstate import train
        lock = threading.Lock()
        def function():
            with lock:
                train.report({"a": train.get_context().get_world_size()})
        result = train.DataParallelTrainer(
            function,
            scaling_config=train.ScalingConfig(num_workers=0),
            run_config=train.RunConfig(storage_path=sys.argv[1]),
        ).fit()
        assert {"a": 1} == result.metrics
        sys.exit(str({"ray", "torch", "pandas"} & set(sys.modules) or "") or 0)
    """
    command = [sys.executable, "-c", program, str(tmp_path / "results")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)


# --- checkpoints ----------------------------------------------------------------------------------


def test_checkpoints_are_committed_before_report_returns(home, run_config):
    """And are seen by the training function at once."""

    def function():
        assert train.get_checkpoint() is None
        for step in range(3):
            report_checkpoint({"step": step})
            assert step == step_of(train.get_checkpoint())
        train.report({"step": 3})
        return [one.metrics["step"] for one in train.get_all_reported_checkpoints()]

    result = fit(function, run_config())
    assert ([0, 1, 2], {"step": 3}) == (result.return_value, result.metrics)
    assert 2 == step_of(result.checkpoint)
    assert [0, 1, 2] == [metrics["step"] for _, metrics in result.best_checkpoints]
    run, kinds = history(home)
    assert (3, 3) == (kinds.count("checkpoint_committed"), len(run.checkpoints))
    assert [1, 1, 1] == [one.size_bytes for one in run.checkpoints.values()]


def test_the_best_and_the_newest_are_kept(run_config):
    """The others are deleted from storage; both readers agree on what is there."""
    keep = train.CheckpointConfig(2, "loss", "min")

    def function():
        for step, loss in enumerate([1.0, 5.0, 2.0, 9.0]):
            report_checkpoint({"step": step, "loss": loss})

    result = fit(function, run_config(checkpoint_config=keep))
    # 1.0 and 2.0 are the best two; 9.0 is worst, and the newest.
    assert [3, 2, 0] == [step_of(one) for one, _ in result.best_checkpoints]
    folders = [one for one in Path(result.path).iterdir() if one.is_dir()]
    assert {0, 2, 3} == {int((one / "step").read_text()) for one in folders}
    assert [3, 2, 0] == [
        step_of(one) for one, _ in _rays(ray.train.Result.from_path, result.path).best_checkpoints
    ]


def _rays(function, *args):
    """Ray uses pydantic as it was before version 2."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return function(*args)


def test_a_fit_of_the_same_name_goes_on(home, run_config):
    """From the newest checkpoint; what was there before is kept, and counted on."""

    def function():
        start = train.get_checkpoint()
        first = 0 if start is None else step_of(start) + 1
        for step in range(first, first + 2):
            report_checkpoint({"step": step})
        return first

    assert 0 == fit(function, run_config()).return_value
    result = fit(function, run_config())
    assert 2 == result.return_value
    assert [0, 1, 2, 3] == [metrics["step"] for _, metrics in result.best_checkpoints]
    run, _ = history(home)
    assert [0, 1, 2, 3] == sorted(run.checkpoints)


def test_ways_to_upload(run_config, tmp_path):
    """In place, by the user's own function, with a name, and with the local copy deleted."""

    def function():
        storage = train.get_context().get_storage()
        there = Path(storage.build_checkpoint_path_from_name("in-place"))
        there.mkdir()
        (there / "step").write_text("0")
        here = train.Checkpoint.from_directory(there)
        train.report({}, here, checkpoint_upload_mode=train.CheckpointUploadMode.NO_UPLOAD)

        def own(checkpoint, name):
            return storage.upload(checkpoint, f"own-{name}")

        report_checkpoint({"step": 1}, checkpoint_dir_name="named", checkpoint_upload_fn=own)
        local = tmp_path / "local"
        local.mkdir()
        (local / "step").write_text("2")
        mode = train.CheckpointUploadMode.ASYNC
        train.report({}, train.Checkpoint.from_directory(local), "last", mode)
        assert not local.exists()

    result = fit(function, run_config())
    paths = [one.path for one, _ in result.best_checkpoints]
    assert ["in-place", "own-named", "last"] == [Path(one).name for one in paths]
    assert [0, 1, 2] == [step_of(one) for one, _ in result.best_checkpoints]


def test_an_upload_function_that_returns_no_checkpoint(run_config):
    """Is told what to return."""

    def function():
        with pytest.raises(UsageError, match="returned a NoneType"):
            report_checkpoint({"step": 1}, checkpoint_upload_fn=lambda checkpoint, name: None)

    fit(function, run_config())


# --- failures -------------------------------------------------------------------------------------


def test_a_failure_is_tried_again_from_the_checkpoint(home, run_config):
    """The budget is the cluster's; the journal has both attempts."""

    def function():
        start = train.get_checkpoint()
        if start is None:
            report_checkpoint({"step": 7})
            raise ValueError("once")
        return step_of(start)

    config = run_config(failure_config=train.FailureConfig(max_failures=1))
    assert 7 == fit(function, config).return_value
    run, kinds = history(home)
    assert (2, 1) == (len(run.attempts), kinds.count("failure_decided"))
    assert Cause.WORKER_ERROR == run.attempts[0].cause


def test_a_failure_without_a_try_left_is_raised(home, run_config):
    """With the very exception, and the run's id to look it up."""
    failure = ValueError("always")

    def function():
        train.report({"a": 1})
        raise failure

    with pytest.raises(train.WorkerGroupError, match="always") as caught:
        fit(function, run_config())
    assert {0: failure} == caught.value.worker_failures
    run, _ = history(home)
    assert (run.run_id, RunStatus.ERRORED) == (caught.value.run_id, run.status)
    assert ("ValueError", "always") == (run.error.type, run.error.message)
    assert "raise failure" in traceback_of(run, run.error)


def test_backoff_is_waited_for(run_config):
    """The first restart is at once, the second after backoff_first_s."""
    failure = train.FailureConfig(max_failures=2, backoff_first_s=0.3)
    tries = []

    def function():
        import time

        tries.append(time.monotonic())
        raise ValueError(len(tries))

    with pytest.raises(train.WorkerGroupError):
        fit(function, run_config(failure_config=failure))
    first, second, third = tries
    assert second - first < 0.3 <= third - second


def test_an_upload_that_fails_has_its_own_cause(home, run_config):
    """It is not the training function's fault."""

    def function():
        checkpoint = train.Checkpoint.from_directory("/nonexistent/directory")
        train.report({}, checkpoint)

    with pytest.raises(train.WorkerGroupError, match="no such checkpoint directory") as caught:
        fit(function, run_config())
    assert isinstance(caught.value.worker_failures[0], StorageError)
    assert Cause.UPLOAD_FAILED == history(home)[0].cause


def test_what_an_earlier_run_left_is_checked_first(home, run_config):
    """Nothing begins if the newest checkpoint is gone: not even a journal."""
    result = fit(lambda: report_checkpoint({"step": 0}), run_config())
    Storage(Path(result.path).parent, "exp").delete(Path(result.checkpoint.path).name)
    with pytest.raises(StorageError, match="newest checkpoint"):
        fit(lambda: None, run_config())
    assert 1 == len(list((home / "journals").iterdir()))


# --- stopping -------------------------------------------------------------------------------------


def test_an_interrupt_aborts_the_run(home, run_config):
    """Ctrl-C in the training function: recorded, then raised."""

    def function():
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(10)

    with pytest.raises(KeyboardInterrupt):
        fit(function, run_config())
    run, kinds = history(home)
    assert (RunStatus.ABORTED, Cause.USER_ABORT) == (run.status, run.cause)
    assert ["attempt_ended", "placement_released", "run_aborted"] == kinds[-3:]
    assert "the process got SIGINT" == run.status_reason


def test_a_signal_never_breaks_the_recording(home, run_config):
    """Ctrl-C at any point of many reports: what is in the journal is a whole, ended run."""

    def function():
        timer.start()
        while True:
            train.report({"a": 1})

    for delay_s in (0.0, 0.001, 0.01, 0.05):
        timer = threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            fit(function, run_config())
        assert RunStatus.ABORTED == history(home)[0].status


def test_an_exit_in_the_training_function_is_its_failure(home, run_config):
    """As on a cluster: it is not this process that it wants to end."""
    with pytest.raises(train.WorkerGroupError, match="SystemExit: 3"):
        fit(lambda: sys.exit(3), run_config())
    assert "return from the train function" in history(home)[0].error.hint


def test_sigterm_aborts_the_run_and_exits_as_ever(home, run_config):
    """143, after the end is in the journal; the handler is put back."""
    before = signal.getsignal(signal.SIGTERM)

    def function():
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(10)

    with pytest.raises(SystemExit) as caught:
        fit(function, run_config())
    assert 143 == caught.value.code
    assert RunStatus.ABORTED == history(home)[0].status
    assert before == signal.getsignal(signal.SIGTERM)


def test_in_another_thread_signals_are_left_alone(run_config):
    """Only the main thread may listen to them."""
    results = []
    thread = threading.Thread(target=lambda: results.append(fit(lambda: 5, run_config())))
    thread.start()
    thread.join(60)
    assert [5] == [one.return_value for one in results]


# --- the rest of the session ----------------------------------------------------------------------


class Told(UserCallback):
    def __init__(self):
        self.told = []

    def after_report(self, run_context, metrics, checkpoint):
        self.told.append((run_context.get_run_config().name, metrics, checkpoint is not None))

    def after_exception(self, run_context, worker_exceptions):
        self.told.append({rank: str(one) for rank, one in worker_exceptions.items()})


class Failing(UserCallback):
    def after_report(self, run_context, metrics, checkpoint):
        raise ValueError("callback")


def test_user_callbacks_are_called(home, run_config):
    """One that fails is recorded, and changes nothing (B.3 row 12)."""
    told = Told()

    def function():
        train.report({"a": 1})
        report_checkpoint({"step": 2})
        raise ValueError("over")

    with pytest.raises(train.WorkerGroupError):
        fit(function, run_config(callbacks=[Failing(), told]))
    assert [("exp", [{"a": 1}], False), ("exp", [{"step": 2}], True), {0: "over"}] == told.told
    run, kinds = history(home)
    assert (2, 2) == (run.callback_failures, kinds.count("callback_failed"))


class Dataset:
    def iterator(self):
        return "an iterator"


def test_datasets_are_whole(run_config):
    """Made, if the trainer was given what makes them; a name that is none is named."""

    def function():
        assert "an iterator" == train.get_dataset_shard("train")
        assert [1, 2] == train.get_dataset_shard("valid")
        with pytest.raises(KeyError, match="the trainer was given: train, valid"):
            train.get_dataset_shard("test")

    fit(function, run_config(), datasets={"train": lambda: Dataset(), "valid": [1, 2]})


def test_collectives_of_one(run_config):
    """Every rank is here."""

    def function():
        train.collective.barrier()
        return train.collective.broadcast_from_rank_zero({"x": 1})

    assert {"x": 1} == fit(function, run_config()).return_value


def test_after_fit_there_is_no_session(run_config):
    """Nor after a training function that failed."""

    def function():
        raise ValueError

    with pytest.raises(train.WorkerGroupError):
        fit(function, run_config())
    with pytest.raises(RuntimeError, match="only inside"):
        train.get_context()
