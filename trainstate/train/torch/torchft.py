"""Fault tolerance between replica groups, by torchft: each group is a torch process group of its own.

torchft averages gradients over the groups that are there, and heals a group that comes back from one
that stayed. Who is there they learn from a lighthouse, which belongs to an attempt: it outlives
controllers, and a group that is replaced finds the one that the others talk to, or none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from trainstate.controller.backend import Backend, WorkerGroup
from trainstate.errors import TrainstateError
from trainstate.state.names import NAMESPACE
from trainstate.train.torch.config import TorchBackend, TorchConfig

_LIGHTHOUSE = "TORCHFT_LIGHTHOUSE"
# torchft writes some ten lines for every step of every group, unless this says otherwise.
_QUIET = ("RUST_LOG", "warn")
_EVERYWHERE = ("", "::", "0.0.0.0")


@dataclass(init=False)
class TorchftConfig(TorchConfig):
    """How replica groups of `replica_group_size` workers find each other and talk.

    `lighthouse_kwargs` go to the torchft.LighthouseServer that is started; by default one group suffices
    to train ("min_replicas": 1), on a free port. None is started if `lighthouse_addr` names one to join
    ("http://host:port"), by default the TORCHFT_LIGHTHOUSE of the driver's environment.

    A training function finds in its environment what `torchft.Manager(pg=..., load_state_dict=...,
    state_dict=..., min_replica_size=...)` looks for there (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE,
    TORCHFT_LIGHTHOUSE: the ranks, the store and the process group are those of its replica group), and
    REPLICA_GROUP_ID and NUM_REPLICA_GROUPS. It wraps its model and optimizer by torchft's, not by
    prepare_model, and ends with `manager.shutdown()`, or the others wait for it. Nodes must know each
    other by host name, or the function passes Manager(hostname=..., checkpoint_transport=...).
    """

    lighthouse_kwargs: dict[str, Any] = field(default_factory=dict)
    lighthouse_addr: str | None = None
    replica_group_size: int = 1

    def __init__(
        self,
        lighthouse_kwargs: Mapping[str, Any] | None = None,
        *,
        lighthouse_addr: str | None = None,
        replica_group_size: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if replica_group_size < 1:
            raise ValueError(f"TorchftConfig({replica_group_size=}) must be at least 1")
        if lighthouse_addr is not None and lighthouse_kwargs:
            raise ValueError(
                "TorchftConfig: lighthouse_addr names one to join, lighthouse_kwargs are of a new one"
            )
        if lighthouse_addr is not None and "://" not in lighthouse_addr:
            raise ValueError(f"TorchftConfig({lighthouse_addr=}) must be a URL, http://host:port")
        self.lighthouse_kwargs = dict(lighthouse_kwargs or {})
        self.lighthouse_addr = lighthouse_addr or os.environ.get(_LIGHTHOUSE) or None
        self.replica_group_size = replica_group_size

    @property
    def backend_cls(self) -> type[Backend]:
        return TorchftBackend

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "lighthouse_kwargs": self.lighthouse_kwargs,
            "lighthouse_addr": self.lighthouse_addr,
            "replica_group_size": self.replica_group_size,
        }


class TorchftBackend(TorchBackend):
    """Makes the process group of one replica group; its hooks are called for each."""

    has_replica_groups = True

    def on_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Has the group's own store listen, and tells every worker of it and of the lighthouse."""
        lighthouse = backend_config.lighthouse_addr
        if lighthouse is None:
            lighthouse = _lighthouse(worker_group, backend_config.lighthouse_kwargs)
        host, port = worker_group.execute_single(0, _open_store)
        environment = {
            "MASTER_ADDR": host,
            "MASTER_PORT": str(port),
            "REPLICA_GROUP_ID": str(worker_group.replica_group),
            "NUM_REPLICA_GROUPS": str(worker_group.replica_groups),
            _LIGHTHOUSE: lighthouse,
        }
        worker_group.execute(_prepare, environment)


# --- the lighthouse -------------------------------------------------------------------------------


class Lighthouse:
    """A torchft lighthouse as an actor, which LighthouseServer itself cannot be."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        os.environ.setdefault(*_QUIET)
        from torchft.coordination import LighthouseServer

        settings = {"bind": "[::]:0", "min_replicas": 1, **options}
        self._server = LighthouseServer(**settings)
        self._bound = str(settings["bind"]).rpartition(":")[0].strip("[]")

    def address(self) -> str:
        """Where it is reached from other nodes: "http://host:port"."""
        import ray

        host = self._bound
        if host in _EVERYWHERE:
            host = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        port = self._server.address().rpartition(":")[2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _lighthouse(group: WorkerGroup, options: Mapping[str, Any]) -> str:
    """The address of the attempt's lighthouse, which a group that starts for the first time starts."""
    import ray

    name = f"{group.scope}/lighthouse"
    lighthouse = _found(name) if group.generation else _started(name, options)
    address: str = ray.get(lighthouse.address.remote())
    return address


def _started(name: str, options: Mapping[str, Any]) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.get_runtime_context().get_node_id()
    return (
        ray.remote(Lighthouse)
        .options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=True),
        )
        .remote(options)
    )


def _found(name: str) -> Any:
    """Another lighthouse would have the replaced group train on its own, from the beginning."""
    import ray

    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError as error:
        raise TrainstateError(
            f"the lighthouse {name} of the other replica groups is gone",
            hint="all replica groups must start anew; the log of the actor says how it ended",
        ) from error


# --- what runs on the workers ---------------------------------------------------------------------

_store: Any = None


def _open_store() -> tuple[str, int]:
    """Has this process serve a store until it ends: a group that is replaced has another one."""
    import ray
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    global _store
    host: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    if _store is None:
        # The process group, whose first rank opens a store too, shares one of several tenants.
        _store = TCPStore(host, 0, is_master=True, wait_for_workers=False, multi_tenant=True)
    return host, _store.port


def _prepare(environment: Mapping[str, str]) -> None:
    """Makes torchft ready for the training function: where it finds the others, and a mended wrapper."""
    os.environ.setdefault(*_QUIET)
    os.environ.update(environment)
    from torchft.ddp import DistributedDataParallel

    hook = DistributedDataParallel._comm_hook
    if not hasattr(hook, "__wrapped__"):
        DistributedDataParallel._comm_hook = staticmethod(_forgiving(hook))


def _forgiving(hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """torchft's hook for DDP; one that does not raise for an allreduce that failed.

    The manager has noted the failure and will not commit the step. But the hook of torchft 0.2.0 looks
    for a result where a failed allreduce leaves none, and raises: a group that is killed while the
    others wait for it would take them along (meta-pytorch/torchft#294, #304).
    """

    @wraps(hook)
    def forgiving(manager: Any, bucket: Any) -> Any:
        try:
            return hook(manager, bucket)
        except (AssertionError, AttributeError):
            if manager.errored() is None:
                raise
            return _completed(bucket.buffer())

    return forgiving


def _completed(tensor: Any) -> Any:
    import torch

    devices = [] if tensor.device.type == "cpu" else [tensor.device]
    future: torch.futures.Future[Any] = torch.futures.Future(devices=devices)
    future.set_result(tensor)
    return future
