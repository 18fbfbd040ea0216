"""One way to run a job on trainstate and on Ray Train V2, and to read the journal afterwards."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ray.train
import ray.train.torch
from measuring import Seconds, timed
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer as RayDataParallelTrainer

from trainstate import train
from trainstate.store import History
from trainstate.train.torch import TorchTrainer
from trainstate.v1 import event_pb2 as e

Fit = Callable[..., Any]
WORKERS = 2


def ours(
    function: Callable[..., Any], storage: Path, *, torch: bool = False, **failure: Any
) -> Any:
    """A run on trainstate."""
    trainer = TorchTrainer if torch else train.DataParallelTrainer
    return _fit(train, trainer, function, storage, failure)


def rays(
    function: Callable[..., Any], storage: Path, *, torch: bool = False, **failure: Any
) -> Any:
    """The same run on Ray Train V2."""
    trainer = ray.train.torch.TorchTrainer if torch else RayDataParallelTrainer
    return _fit(ray.train, trainer, function, storage, failure)


def _fit(api: Any, trainer: Any, function: Any, storage: Path, failure: dict[str, Any]) -> Any:
    workers = failure.pop("num_workers", WORKERS)
    config = failure.pop("config", None)
    return trainer(
        function,
        train_loop_config=config,
        scaling_config=api.ScalingConfig(num_workers=workers, resources_per_worker={"CPU": 1}),
        run_config=api.RunConfig(
            name=uuid.uuid4().hex,
            storage_path=str(storage),
            failure_config=api.FailureConfig(**failure),
        ),
    ).fit()


def fit_time(fit: Fit, *args: Any, **kwargs: Any) -> Callable[[], Seconds]:
    """Times a whole `fit()`."""
    return lambda: timed(lambda: fit(*args, **kwargs))


def journal() -> History:
    """The journal of this cluster."""
    (path,) = (Path(os.environ["TRAINSTATE_HOME"]) / "journals").glob("session_*")
    return History(path)


def newest_events() -> Iterator[e.Event]:
    """The events of the run that began last."""
    history = journal()
    return (one.event for one in history.events_of(history.summaries()[-1].run_id))
