"""The process group of a PyTorch run: its settings, and the backend that makes it on the workers.

Every function that runs on a worker is asked again when a controller takes a set-up over, and must then
find what it did: a process group that exists is joined already.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from trainstate.controller.backend import Backend, BackendConfig, WorkerGroup
from trainstate.controller.session import current

_LEAVE_TIMEOUT_S = 30.0
_INIT_METHODS = ("env", "tcp")


@dataclass
class TorchConfig(BackendConfig):
    """How workers find each other and talk.

    `backend` is torch's ("nccl", "gloo", "cpu:gloo,cuda:nccl" ...), by default nccl for workers with
    GPUs and gloo for others. `init_method` is "env" or "tcp". A collective that takes longer than
    `timeout_s` seconds fails.
    """

    backend: str | None = None
    init_method: str = "env"
    timeout_s: float = 1800

    def __post_init__(self) -> None:
        if self.init_method not in _INIT_METHODS:
            raise ValueError(
                f"TorchConfig(init_method={self.init_method!r}) must be one of {_INIT_METHODS}"
            )
        if not self.timeout_s > 0:
            raise ValueError(f"TorchConfig(timeout_s={self.timeout_s!r}) must be positive")

    @property
    def backend_cls(self) -> type[Backend]:
        return TorchBackend

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[Any]]:
        return on_its_device

    @property
    def framework(self) -> str | None:
        return "torch"

    def to_dict(self) -> dict[str, Any]:
        return {
            "backend": self.backend,
            "init_method": self.init_method,
            "timeout_s": self.timeout_s,
        }


class TorchBackend(Backend):
    """Makes the process group before training, and takes it down after."""

    # GPUs of one node talk to each other directly only if each process sees them all.
    share_cuda_visible_devices: bool = True

    def on_start(self, worker_group: WorkerGroup, backend_config: TorchConfig) -> None:
        """Tells every worker where rank 0 will listen."""
        host, port = worker_group.execute_single(0, _free_address)
        worker_group.execute(_set_master, host, port)

    def on_training_start(self, worker_group: WorkerGroup, backend_config: TorchConfig) -> None:
        """Joins the workers in a process group; returns when all have joined."""
        worker_group.execute(_join, backend_config)

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: TorchConfig) -> None:
        """Has the workers leave; those that are dead, or do not manage to, are killed soon anyway."""
        import ray

        leaving = worker_group.execute_async(_leave)
        ray.wait(leaving, num_returns=len(leaving), timeout=_LEAVE_TIMEOUT_S)


@contextmanager
def on_its_device() -> Iterator[None]:
    """Around the training function: `tensor.cuda()` goes to the worker's own GPU."""
    import torch

    if torch.cuda.is_available():
        from trainstate.train.torch.devices import get_device

        device = get_device()
        if device.type == "cuda":
            torch.cuda.set_device(device)
    yield


# --- what runs on the workers ---------------------------------------------------------------------


def _free_address() -> tuple[str, int]:
    import ray

    host: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind(("", 0))
        return host, listener.getsockname()[1]


def _set_master(host: str, port: int) -> None:
    os.environ.update(MASTER_ADDR=host, MASTER_PORT=str(port))


def _join(config: TorchConfig) -> None:
    """Says in the environment, as torchrun does, who this worker is, and joins the process group."""
    import torch.distributed as dist

    from trainstate.train.torch.devices import get_device

    info, device = current().info, get_device()
    os.environ.update(
        RANK=str(info.gang_rank),
        WORLD_SIZE=str(info.gang_size),
        LOCAL_RANK=str(info.local_rank),
        LOCAL_WORLD_SIZE=str(info.local_world_size),
        NODE_RANK=str(info.node_rank),
        ACCELERATE_TORCH_DEVICE=str(device),  # read by Hugging Face Accelerate
    )
    if dist.is_initialized():
        return
    dist.init_process_group(
        backend=config.backend or ("nccl" if device.type == "cuda" else "gloo"),
        init_method=_init_method(config),
        rank=info.gang_rank,
        world_size=info.gang_size,
        timeout=timedelta(seconds=config.timeout_s),
    )


def _init_method(config: TorchConfig) -> str:
    if config.init_method == "env":
        return "env://"
    host, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def _leave() -> None:
    import torch
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
