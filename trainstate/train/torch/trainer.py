"""The trainer of PyTorch functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from trainstate.errors import UsageError
from trainstate.train.config import RunConfig, ScalingConfig
from trainstate.train.data_parallel_trainer import DataParallelTrainer
from trainstate.train.result import Result
from trainstate.train.torch.config import TorchConfig


class TorchTrainer(DataParallelTrainer):
    """A DataParallelTrainer whose workers are in one torch process group; Ray Train's arguments."""

    def __init__(
        self,
        train_loop_per_worker: Callable[[], Any] | Callable[[dict[str, Any]], Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        torch_config: TorchConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: Mapping[str, Any] | None = None,
        dataset_config: Any | None = None,
        validation_config: Any | None = None,
        metadata: dict[str, Any] | None = None,
        resume_from_checkpoint: Any | None = None,
    ) -> None:
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=TorchConfig() if torch_config is None else torch_config,
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )
        config = self.backend_config
        if isinstance(config, TorchConfig) and config.backend is None:
            backend = "nccl" if self.scaling_config.use_gpu else "gloo"
            self.backend_config = replace(config, backend=backend)

    def fit(self) -> Result:
        """Runs the training, to its end; raises as DataParallelTrainer.fit does."""
        if self.scaling_config.num_workers == 0 and int(os.environ.get("WORLD_SIZE") or 1) > 1:
            raise UsageError(
                f"num_workers=0 trains in one process, and torchrun started "
                f"{os.environ['WORLD_SIZE']}",
                hint="start the script with python, and set ScalingConfig(num_workers=...)",
            )
        return super().fit()
