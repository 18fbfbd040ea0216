"""What `fit()` hands to the controller: plain, picklable, static data.

What belongs to the user (functions, datasets, configs) is pickled already, so that a controller can be
made, and made again, without importing the user's modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainstate.controller.backend import BackendConfig
from trainstate.controller.hooks import Callback
from trainstate.controller.storage import Storage


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run as a callback sees it; the fields of Ray's TrainRunContext."""

    run_id: str
    run_config: Any
    train_loop_config: Mapping[str, Any] | None
    scaling_config: Any
    backend_config: BackendConfig
    dataset_config: Any

    def get_run_config(self) -> Any:
        """The RunConfig the trainer was given."""
        return self.run_config


@dataclass(frozen=True, slots=True)
class Job:
    """One call of `fit()`.

    `created` is a serialised RunCreated without what only the controller knows (job id, actor id, log
    path). `train_fn` is a cloudpickled callable without arguments, `datasets` a cloudpickled dict of
    name -> dataset (or function that makes one), b"" if there are none; `data_config` is a
    ray.train.DataConfig or None for the default one; `context` is a cloudpickled RunContext. `restored`
    are serialised CheckpointCommitted of the checkpoints that an earlier run of this name left.
    """

    run_id: str
    name: str
    created: bytes
    train_fn: bytes
    backend_config: BackendConfig
    datasets: bytes
    data_config: Any
    callbacks: tuple[Callback, ...]
    storage: Storage
    worker_runtime_env: Mapping[str, Any] = field(default_factory=dict)
    context: bytes = b""
    restored: tuple[bytes, ...] = ()
