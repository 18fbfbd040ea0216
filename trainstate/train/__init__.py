"""Training, with the names of `ray.train` (V2): changing the import line is enough.

    from trainstate import train
    from trainstate.train.torch import TorchTrainer

Importing it is cheap: what needs Ray, torch or pyarrow is loaded when it is first used. `Checkpoint` and
`DataConfig` are the classes of ray.train themselves.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trainstate.controller.session import CheckpointUploadMode
from trainstate.train.callbacks import UserCallback
from trainstate.train.config import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from trainstate.train.context import (
    PreemptionInfo,
    TrainContext,
    get_context,
    get_preemption_info,
)
from trainstate.train.exceptions import ControllerError, TrainingFailedError, WorkerGroupError
from trainstate.train.reporting import (
    CheckpointConsistencyMode,
    ReportedCheckpoint,
    ReportedCheckpointStatus,
    get_all_reported_checkpoints,
    get_checkpoint,
    get_dataset_shard,
    report,
)

if TYPE_CHECKING:
    from trainstate.controller.backend import BackendConfig
    from trainstate.train import collective
    from trainstate.train._ray import Checkpoint, DataConfig
    from trainstate.train.data_parallel_trainer import DataParallelTrainer
    from trainstate.train.result import Result

__all__ = [
    "BackendConfig",
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointConsistencyMode",
    "CheckpointUploadMode",
    "ControllerError",
    "DataConfig",
    "DataParallelTrainer",
    "FailureConfig",
    "PreemptionInfo",
    "ReportedCheckpoint",
    "ReportedCheckpointStatus",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "TrainContext",
    "TrainingFailedError",
    "UserCallback",
    "WorkerGroupError",
    "collective",
    "get_all_reported_checkpoints",
    "get_checkpoint",
    "get_context",
    "get_dataset_shard",
    "get_preemption_info",
    "report",
]

_LAZY = {
    "BackendConfig": "trainstate.controller.backend",
    "Checkpoint": "trainstate.train._ray",
    "DataConfig": "trainstate.train._ray",
    "DataParallelTrainer": "trainstate.train.data_parallel_trainer",
    "Result": "trainstate.train.result",
}
_SUBMODULES = ("collective", "torch")
# Names of ray.train that somebody may look for here, and what to do without them.
_WITHOUT = {
    "LoggingConfig": "trainstate logs nothing; `trainstate tail` shows what happens",
    "SyncConfig": "checkpoints are uploaded where they are reported",
    "ValidationConfig": "validate in your training function",
    "ValidationTaskConfig": "validate in your training function",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    why = f": {_WITHOUT[name]}" if name in _WITHOUT else ""
    raise AttributeError(f"trainstate.train has no {name}{why}")


def __dir__() -> list[str]:
    return __all__
