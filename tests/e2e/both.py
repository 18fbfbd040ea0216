"""One script for two libraries: `-m tests.e2e.both LIBRARY FOLDER`, LIBRARY being ray or trainstate.

It starts a small cluster of its own below FOLDER, and runs the same trainings one after the other. What
differs is the import line.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Ray's state tracking and its export are read by processes that the driver does not start.
CLUSTER_ENV = {
    "RAY_TRAIN_V2_ENABLED": "1",
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "1",
    "RAY_enable_export_api_write": "1",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.3",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def main(library: str, folder: Path) -> None:
    """Runs every training of SCRIPTS with that library."""
    os.environ.update(CLUSTER_ENV)
    import ray

    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        _temp_dir=str(folder / "r"),
        log_to_driver=False,
    )
    try:
        for name, (function, failure) in SCRIPTS.items():
            _fit(library, name, function, failure, folder)
    finally:
        ray.shutdown()


def _fit(
    library: str, name: str, function: Callable[..., None], failure: dict[str, int], folder: Path
) -> None:
    if library == "ray":
        from ray import train
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
    else:
        from trainstate import train
        from trainstate.train import DataParallelTrainer

    trainer = DataParallelTrainer(
        function,
        train_loop_config={
            "library": library,
            "folder": str(folder),
            "lr": 0.1,
            "sizes": (1, 2),
            "nested": {"a": {"b": {"c": 1}}},
            "inf": float("inf"),
        },
        scaling_config=train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
        run_config=train.RunConfig(
            name=name,
            storage_path=str(folder / "storage"),
            failure_config=train.FailureConfig(**failure),
            worker_runtime_env={"env_vars": {"SOME": "thing"}},
        ),
    )
    if function is forever:
        threading.Thread(target=_interrupt, args=(folder / "training",), daemon=True).start()
    try:
        trainer.fit()
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        print(name, type(error).__name__)


def _interrupt(begun: Path) -> None:
    while not begun.exists():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)


def _report(config: dict[str, Any], **metrics: float) -> int:
    """Reports with the library of the script; the rank."""
    if config["library"] == "ray":
        from ray import train
    else:
        from trainstate import train  # type: ignore[no-redef]
    train.report(metrics)
    rank: int = train.get_context().get_world_rank()
    return rank


def finishes(config: dict[str, Any]) -> None:
    for step in range(3):
        _report(config, step=step)


def fails_once(config: dict[str, Any]) -> None:
    failed = Path(config["folder"], "failed")
    if _report(config, step=0) == 1 and not failed.exists():
        failed.touch()
        raise RuntimeError("rank 1 gives up")
    if not failed.exists():
        time.sleep(600)  # it is stopped when rank 1 fails


def fails(config: dict[str, Any]) -> None:
    raise ValueError(f"no data for rank {_report(config, step=0)}")


def forever(config: dict[str, Any]) -> None:
    if _report(config, step=0) == 0:
        Path(config["folder"], "training").touch()
    time.sleep(600)


SCRIPTS: dict[str, tuple[Callable[..., None], dict[str, int]]] = {
    "finishes": (finishes, {}),
    "retried": (fails_once, {"max_failures": 1}),
    "errs": (fails, {}),
    "aborted": (forever, {}),
}

if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
