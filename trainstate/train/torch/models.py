"""A model, ready for data parallel training."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from typing import Any

import torch

from trainstate.controller.session import current
from trainstate.train.torch.devices import get_device


def prepare_model(
    model: torch.nn.Module,
    move_to_device: bool | torch.device = True,
    parallel_strategy: str | None = "ddp",
    parallel_strategy_kwargs: Mapping[str, Any] | None = None,
) -> torch.nn.Module:
    """Moves a model to the worker's device, or to the one given, and wraps it.

    With several workers it is wrapped by `parallel_strategy`: "ddp" (DistributedDataParallel), "fsdp"
    (FullyShardedDataParallel, on GPUs only), or None; `parallel_strategy_kwargs` go to the wrapper. With
    replica groups that is inside the group: what goes on between them is torchft's.
    Raises RuntimeError outside a training function.
    """
    if parallel_strategy not in ("ddp", "fsdp", None):
        raise ValueError(f"parallel_strategy={parallel_strategy!r} must be 'ddp', 'fsdp' or None")
    device = move_to_device if isinstance(move_to_device, torch.device) else get_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if move_to_device:
        model = model.to(device)
    if current().info.gang_size == 1 or parallel_strategy is None:
        return model
    wrap = _ddp if parallel_strategy == "ddp" else _fsdp
    return wrap(model, device, dict(parallel_strategy_kwargs or {}))


def _ddp(model: torch.nn.Module, device: torch.device, options: dict[str, Any]) -> torch.nn.Module:
    from torch.nn.parallel import DistributedDataParallel

    if device.type == "cuda":
        options = {"device_ids": [device], "output_device": device, **options}
    return DistributedDataParallel(model, **options)


def _fsdp(model: torch.nn.Module, device: torch.device, options: dict[str, Any]) -> torch.nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel

    if device.type != "cuda":
        raise RuntimeError("parallel_strategy='fsdp' needs GPUs: set ScalingConfig(use_gpu=True)")
    return FullyShardedDataParallel(model, **options)


def enable_reproducibility(seed: int = 0) -> None:
    """Seeds Python, NumPy and torch, and has torch use deterministic algorithms only.

    Not everything can be made deterministic; see torch's notes on reproducibility.
    """
    import numpy

    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    # cuBLAS is deterministic only with a workspace of fixed size.
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
