"""Which devices a training function has."""

from __future__ import annotations

import os
import sys

import torch

from trainstate.controller.session import current


def get_device() -> torch.device:
    """The worker's device, the first if it has several: a GPU, or the CPU.

    Raises RuntimeError outside a training function.
    """
    return get_devices()[0]


def get_devices() -> list[torch.device]:
    """The worker's GPUs, as torch counts them in this process; the CPU if it has none.

    Raises RuntimeError outside a training function.
    """
    current()
    if not torch.cuda.is_available():
        return [torch.device("cpu")]
    assigned = _assigned()
    if assigned is None:
        return [torch.device("cuda", torch.cuda.current_device())]
    if not assigned:
        return [torch.device("cpu")]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    missing = [one for one in assigned if one not in visible]
    if missing:
        raise RuntimeError(
            f"CUDA_VISIBLE_DEVICES={','.join(visible)!r} hides {missing}, which Ray gave to this "
            "worker: leave the variable alone"
        )
    return [torch.device("cuda", visible.index(one)) for one in assigned]


def _assigned() -> list[str] | None:
    """The GPUs that Ray gave this worker, by index or UUID; None outside of Ray's workers."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    context = ray.get_runtime_context()
    if context.get_actor_id() is None:
        return None
    return [str(one) for one in context.get_accelerator_ids().get("GPU", [])]
