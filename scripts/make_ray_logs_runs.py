"""One `fit()` of real Ray Train V2, for `make_ray_logs_session.py`, which starts this as a child.

    make_ray_logs_runs.py ADDRESS SCENARIO

DRIVERS says what each scenario trains; what happens to it meanwhile is the session's part. The same
file serves Ray 2.44 to 2.60: `known` drops the options that a wheel does not have. A scenario is called
with the name of the run and a folder of its own, and returns the keyword arguments of the trainer.
"""

import inspect
import os
import signal
import sys
import tempfile
import time
from pathlib import Path


def known(cls, **options):
    """An instance of `cls` from those options that this wheel's class takes."""
    names = inspect.signature(cls).parameters
    return cls(**{name: value for name, value in options.items() if name in names})


# --- what the workers run ---------------------------------------------------------------------


def report_twice(config):
    """Reports metrics twice, the second time with a checkpoint from rank 0."""
    import ray.train

    rank = ray.train.get_context().get_world_rank()
    ray.train.report({"loss": 0.5, "step": 1})
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
        ray.train.report({"loss": 0.25, "step": 2}, checkpoint=checkpoint)


def fail_once(config):
    """Rank 1 raises in the first attempt; the file it leaves lets the second one succeed."""
    import ray.train

    failed = Path(config["folder"], "failed-once")
    if ray.train.get_context().get_world_rank() == 1 and not failed.exists():
        failed.touch()
        raise RuntimeError("rank 1 gives up at step 7")
    report_twice(config)


def fail_always(config):
    raise ValueError('loss is nan: Größe \N{SNOWMAN} \N{ROCKET}, "quoted", tab\there')


def run_until_told(config):
    """Runs until the session writes the file `stop`; for ever where it never does."""
    while not Path(config["folder"], "stop").exists():
        time.sleep(0.1)


# --- what the drivers ask for -----------------------------------------------------------------


def two_workers(name, folder, loop, **failure):
    from ray.train import FailureConfig, RunConfig, ScalingConfig

    return {
        "train_loop_per_worker": loop,
        "train_loop_config": {"folder": folder},
        "scaling_config": ScalingConfig(num_workers=2),
        "run_config": RunConfig(
            name=name, storage_path=folder, failure_config=known(FailureConfig, **failure)
        ),
    }


def finishes(name, folder):
    return two_workers(name, folder, report_twice)


def retries(name, folder):
    return two_workers(name, folder, fail_once, max_failures=1)


def errored(name, folder):
    return two_workers(name, folder, fail_always)


def long_run(name, folder):
    return two_workers(name, folder, run_until_told)


def no_room(name, folder):
    """Asks for more than the cluster has; the start times out and is tried once more."""
    from ray.train import ScalingConfig

    asked = two_workers(name, folder, report_twice, controller_failure_limit=1)
    asked["scaling_config"] = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 64})
    return asked


def broken_backend(name, folder):
    """The backend fails while the worker group starts, when its workers exist already."""
    from ray.train.backend import Backend, BackendConfig

    class BrokenBackend(Backend):
        def on_start(self, worker_group, backend_config):
            raise OSError("no route to the rendezvous host")

    class BrokenConfig(BackendConfig):
        backend_cls = BrokenBackend

        def to_dict(self):
            return {"rendezvous": "tcp://example.invalid:29500", "timeout_s": float("inf")}

    return {**two_workers(name, folder, report_twice), "backend_config": BrokenConfig()}


def broken_callback(name, folder):
    """A callback of the user fails after the worker group has started."""
    from ray.train import RunConfig
    from ray.train.v2._internal.execution.callback import WorkerGroupCallback

    class BrokenCallback(WorkerGroupCallback):
        def after_worker_group_start(self, worker_group):
            raise KeyError("dashboard token")

    asked = two_workers(name, folder, report_twice)
    asked["run_config"] = RunConfig(name=name, storage_path=folder, callbacks=[BrokenCallback()])
    return asked


def elastic(name, folder):
    """One to two workers, one for each node that has a slot."""
    from ray.train import ScalingConfig

    asked = two_workers(name, folder, run_until_told, max_failures=3)
    asked["scaling_config"] = ScalingConfig(
        num_workers=(1, 2),
        resources_per_worker={"CPU": 1, "slot": 1},
        elastic_resize_monitor_interval_s=1.0,
    )
    return asked


class NoText:
    """Has no text of its own: Ray 2.55 exports its address, later versions its class name."""


ODD_LOOP_CONFIG = {
    "lr": 0.001,
    "epochs": 3,
    "big": 2**53 + 1,
    "negative": -0.0,
    "inf": float("inf"),
    "nan": float("nan"),
    "nothing": None,
    "yes": True,
    "empty": {},
    "list": [1, 2.5, "x", None, [True, {"in": "list"}]],
    "tuple": (1, "b"),
    "set": {7},
    "bytes": b"\x00\xff",
    "object": NoText(),
    "deep": {"a": {"b": {"c": {"d": 1}}}},
    1: "int key",
    "schön \N{ROCKET}": 'line\nbreak \u2028 "q" \\ </script>',
}


def settings(name, folder):
    """Every option set; the label selector and the data options are one value for all."""
    import ray.data
    from ray.train import DataConfig, ScalingConfig

    return {
        "train_loop_per_worker": report_twice,
        "train_loop_config": {"folder": folder, **ODD_LOOP_CONFIG},
        "scaling_config": known(
            ScalingConfig,
            num_workers=1,
            resources_per_worker={"CPU": 0.5, "widget": 1.5},
            placement_strategy="SPREAD",
            accelerator_type="T4",
            label_selector={"zone": "!in(mars)"},
            topology="2x2",
        ),
        "datasets": {"train": ray.data.range(8), "väl": ray.data.range(4)},
        "dataset_config": known(
            DataConfig,
            datasets_to_split=["train"],
            execution_options=data_options(),
            enable_shard_locality=False,
        ),
        "run_config": full_run_config(folder),
    }


def full_run_config(folder):
    import pyarrow.fs
    from ray.train import CheckpointConfig, FailureConfig, RunConfig

    return known(
        RunConfig,
        name="schöner name \N{SNOWMAN} \N{ROCKET}",
        storage_path=folder,
        storage_filesystem=pyarrow.fs.LocalFileSystem(),
        failure_config=known(
            FailureConfig,
            max_failures=5,
            controller_failure_limit=4,
            max_preemption_failures=3,
            relax_collectives_on_preemption=True,
            preemption_grace_s=2.5,
        ),
        checkpoint_config=CheckpointConfig(
            num_to_keep=2, checkpoint_score_attribute="loss", checkpoint_score_order="min"
        ),
        worker_runtime_env={"env_vars": {"FLAVOUR": "vanilla"}},
    )


def settings_each(name, folder):
    """Label selectors and data options one by one, for each worker and each dataset."""
    import ray.data
    from ray.train import DataConfig, ScalingConfig

    asked = two_workers(name, folder, report_twice, max_failures=-1)
    asked["train_loop_config"] = {}
    asked["scaling_config"] = ScalingConfig(
        num_workers=2,
        label_selector=[{"zone": "!mars"}, {"zone": "!in(venus)", "tier": "!spot"}],
    )
    asked["datasets"] = {"train": ray.data.range(8), "valid": ray.data.range(4)}
    asked["dataset_config"] = DataConfig(execution_options={"valid": data_options()})
    return asked


def data_options():
    from ray.data import ExecutionOptions

    options = ExecutionOptions()
    options.preserve_order = True
    options.verbose_progress = False
    return options


DRIVERS = {
    "finishes": finishes,
    "retries": retries,
    "errored": errored,
    "interrupted": long_run,
    "driver-killed": long_run,
    "cut-off": long_run,
    "no-room": no_room,
    "broken-backend": broken_backend,
    "broken-callback": broken_callback,
    "elastic": elastic,
    "settings": settings,
    "settings-each": settings_each,
}


# --- the driver -------------------------------------------------------------------------------


def rotate_at(size_bytes):
    """Ray reads these two where it opens the log; what writes and rotates stays Ray's own."""
    from ray._private import ray_constants

    ray_constants.RAY_EXPORT_EVENT_MAX_FILE_SIZE_BYTES = size_bytes
    ray_constants.RAY_EXPORT_EVENT_MAX_BACKUP_COUNT = 20


def rotation_hook():
    """A hook for every worker process: the log's writer is an actor that the driver never sees."""
    size = os.environ["ROTATION"]
    if not size.isdigit():
        return {}
    return {"worker_process_setup_hook": lambda: rotate_at(int(size))}


def main(address, scenario):
    import ray
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    # The background jobs of a shell start with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ray.init(address=address, runtime_env=rotation_hook(), log_to_driver=False)
    DataParallelTrainer(**DRIVERS[scenario](scenario, os.environ["RUN_FOLDER"])).fit()


if __name__ == "__main__":
    main(*sys.argv[1:])
