"""What a trainer is given, and what it hands to the controller. No cluster is started here."""

from __future__ import annotations

import functools
import inspect
import threading

import pytest
import ray.train
from ray import cloudpickle
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer as RaysTrainer
from ray.train.v2.torch.torch_trainer import TorchTrainer as RaysTorchTrainer

from trainstate import train
from trainstate.controller.job import Job
from trainstate.controller.outcome import Outcome
from trainstate.core import Cause, RunStatus
from trainstate.errors import UsageError
from trainstate.train import DataParallelTrainer
from trainstate.train.callbacks import UserCallback
from trainstate.train.torch import TorchConfig, TorchTrainer
from trainstate.v1 import event_pb2 as e


def the_job(trainer: DataParallelTrainer) -> Job:
    """What `fit()` would start."""
    settings = trainer._settings()
    return trainer._job("run-1", settings, trainer._storage(settings))


@pytest.mark.parametrize(
    ("theirs", "ours"), [(RaysTrainer, DataParallelTrainer), (RaysTorchTrainer, TorchTrainer)]
)
def test_signatures_are_rays(theirs, ours):
    """Names, kinds and defaults of the arguments; the order of keyword arguments is nobody's."""

    def shape(kind):
        parameters = inspect.signature(kind.__init__).parameters.values()
        return {one.name: (one.kind, one.default) for one in parameters}

    assert shape(theirs) == shape(ours)


# --- the training function ------------------------------------------------------------------------


class Callable:
    def __call__(self, config):
        return ("called", config)


def with_default(config=None):
    return ("default", config)


@pytest.mark.parametrize(
    ("function", "config", "expected"),
    [
        (lambda: "none", None, "none"),
        (lambda: "none", {"a": 1}, "none"),
        (lambda config: config, None, {}),
        (lambda config: config, {"a": 1}, {"a": 1}),
        (with_default, None, ("default", None)),
        (with_default, {"a": 1}, ("default", {"a": 1})),
        (functools.partial(lambda x, config: (x, config), 7), {"a": 1}, (7, {"a": 1})),
        (Callable(), {"a": 1}, ("called", {"a": 1})),
        (lambda *args: args, None, ()),
    ],
)
def test_a_training_function_takes_nothing_or_the_config(function, config, expected):
    """One with a default is given the config if there is one."""
    assert expected == DataParallelTrainer(function, train_loop_config=config).train_function()


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (3, "is a int, not a function"),
        (lambda a, b: None, "requires 2: a, b"),
        (lambda *, a: None, "requires 1: a"),
    ],
)
def test_any_other_function_is_refused_at_once(function, why):
    """At construction, saying what it requires."""
    with pytest.raises(ValueError, match=why):
        DataParallelTrainer(function)


# --- the other arguments --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["resume_from_checkpoint", "metadata", "validation_config"])
def test_what_we_do_not_have_is_refused(name):
    """With what to do instead."""
    with pytest.raises(ValueError, match=f"{name} is not supported: \\w"):
        DataParallelTrainer(print, **{name: {}})


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"scaling_config": {"num_workers": 2}}, "not a ScalingConfig: dict"),
        ({"run_config": "name"}, "not a RunConfig: str"),
        ({"backend_config": ray.train.BackendConfig()}, "backend_config is a BackendConfig"),
    ],
)
def test_configs_of_another_kind_are_refused(fields, why):
    """At construction."""
    with pytest.raises(ValueError, match=why):
        DataParallelTrainer(print, **fields)


# --- the job --------------------------------------------------------------------------------------


class Told(UserCallback):
    pass


def test_the_job_is_what_the_controller_needs(run_config, monkeypatch):
    """Pickled where it is the user's; the settings are recorded already."""
    monkeypatch.setenv("TRAINSTATE_UPLOAD_TIMEOUT_S", "5")
    trainer = DataParallelTrainer(
        lambda config: config["a"] + 1,
        train_loop_config={"a": 1},
        scaling_config=train.ScalingConfig(2),
        run_config=run_config(callbacks=[Told()], worker_runtime_env={"env_vars": {"A": "1"}}),
        datasets={"train": [1, 2]},
        dataset_config=train.DataConfig(),
    )
    job = cloudpickle.loads(cloudpickle.dumps(the_job(trainer)))
    created = e.RunCreated.FromString(job.created)
    assert ("exp", "exp", 2) == (
        job.name,
        created.name,
        created.settings.scaling_config.num_workers_fixed,
    )
    assert 2 == cloudpickle.loads(job.train_fn)()
    assert {"train": [1, 2]} == cloudpickle.loads(job.datasets)
    assert isinstance(job.data_config, ray.train.DataConfig)
    assert ["Told"] == [type(one).__name__ for one in job.callbacks]
    assert {"env_vars": {"A": "1"}} == job.worker_runtime_env
    assert (5.0, trainer._storage(created.settings).experiment_fs_path) == (
        job.storage.upload_timeout_s,
        job.storage.experiment_fs_path,
    )
    context = cloudpickle.loads(job.context)
    assert ("run-1", "exp", {"a": 1}) == (
        context.run_id,
        context.get_run_config().name,
        context.train_loop_config,
    )


def test_no_datasets_are_no_bytes(run_config):
    """The controller then needs no data host."""
    assert b"" == the_job(DataParallelTrainer(print, run_config=run_config())).datasets


LOCK = threading.Lock()


class Counting:
    """A training function with a state."""

    def __init__(self):
        self.lock = threading.Lock()

    def train(self):
        return self.lock


def a_closure():
    lock = threading.Lock()
    return lambda: lock


def with_lock(callback: UserCallback) -> UserCallback:
    callback.lock = threading.Lock()
    return callback


@pytest.mark.parametrize(
    ("function", "fields", "culprit"),
    [
        (a_closure(), {}, "function uses lock is a lock"),
        (Counting().train, {}, "function.__self__.lock is a lock"),
        (with_default, {"train_loop_config": {"a": [1, LOCK]}}, r"config\['a'\]\[1\] is a lock"),
        (with_default, {"datasets": {"train": LOCK}}, r"\['train'\] is a lock"),
        (with_default, {"callbacks": [with_lock(Told())]}, r"\[0\].lock is a lock"),
    ],
    ids=["closure", "method", "config", "dataset", "callback"],
)
def test_what_cannot_be_pickled_is_named(run_config, function, fields, culprit):
    """With the way to it, and a way out."""
    fields = dict(fields)
    config = run_config(callbacks=fields.pop("callbacks", None))
    with pytest.raises(UsageError, match=f"cannot be sent to the cluster: {culprit}") as caught:
        the_job(DataParallelTrainer(function, run_config=config, **fields))
    assert "inside the training function" in caught.value.hint


def test_fit_runs_the_job_and_concludes(run_config, monkeypatch):
    """The controller's outcome becomes the result."""
    from trainstate.controller import launch

    jobs = []

    def run(job: Job, code) -> Outcome:
        jobs.append(job)
        value = cloudpickle.dumps(7)
        return Outcome(RunStatus.FINISHED, Cause.COMPLETED, return_value=value, metrics={"a": 1})

    monkeypatch.setattr(launch, "run", run)
    result = DataParallelTrainer(print, run_config=run_config()).fit()
    assert (7, {"a": 1}, jobs[0].run_id) == (result.return_value, result.metrics, result.run_id)


# --- torch ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "use_gpu", "backend"),
    [
        (None, False, "gloo"),
        (None, True, "nccl"),
        (TorchConfig(backend="mpi"), True, "mpi"),
        (TorchConfig(timeout_s=5), False, "gloo"),
    ],
)
def test_the_torch_backend_follows_the_gpus(config, use_gpu, backend):
    """Unless it is given; the user's config is not changed."""
    given = None if config is None else config.backend
    trainer = TorchTrainer(
        print, torch_config=config, scaling_config=train.ScalingConfig(use_gpu=use_gpu)
    )
    assert backend == trainer.backend_config.backend
    assert config is None or given == config.backend


def test_torchrun_and_local_mode_do_not_mix(run_config, monkeypatch):
    """Each process would train alone, and nobody would notice."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    trainer = TorchTrainer(print, scaling_config=train.ScalingConfig(0), run_config=run_config())
    with pytest.raises(UsageError, match="torchrun started 2"):
        trainer.fit()
