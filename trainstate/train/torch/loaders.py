"""A DataLoader, ready for data parallel training: each worker sees its part, on its device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from trainstate.controller.session import current
from trainstate.errors import UsageError
from trainstate.train.torch.devices import get_device

# What a loader is made of, besides its sampler; those a torch does not have are left out.
_KEPT = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
    "prefetch_factor",
    "persistent_workers",
    "pin_memory_device",
    "in_order",
)


def prepare_data_loader(
    data_loader: DataLoader[Any],
    add_dist_sampler: bool = True,
    move_to_device: bool = True,
    auto_transfer: bool = True,
) -> DataLoader[Any]:
    """A loader like `data_loader` for one of several workers.

    With several workers it gets a DistributedSampler, unless it has one or reads an IterableDataset. It
    shuffles if `data_loader` did; call `loader.sampler.set_epoch(epoch)` before each epoch, or every
    epoch has the same order. Its batches are moved to the worker's device; with `auto_transfer` and a
    GPU, the next batch while the current one is used.

    Raises RuntimeError outside a training function, UsageError for a loader with a sampler of its own
    that a DistributedSampler would silently replace.
    """
    session = current()
    if add_dist_sampler and session.info.world_size > 1 and _takes_sampler(data_loader):
        data_loader = _split(data_loader, session.info.world_rank, session.info.world_size)
    return _OnDevice(data_loader, get_device(), auto_transfer) if move_to_device else data_loader


def _takes_sampler(loader: DataLoader[Any]) -> bool:
    if isinstance(loader.dataset, IterableDataset) or isinstance(
        loader.sampler, DistributedSampler
    ):
        return False
    own_batches = loader.batch_size is None and loader.batch_sampler is not None
    if own_batches or not isinstance(loader.sampler, SequentialSampler | RandomSampler):
        own = loader.batch_sampler if own_batches else loader.sampler
        raise UsageError(
            f"the loader draws by its own {type(own).__name__}, and each worker would see all of it",
            hint="give the loader a sampler that knows the rank, and pass add_dist_sampler=False; "
            "or leave the sampler out",
        )
    return True


def _split(loader: DataLoader[Any], rank: int, size: int) -> DataLoader[Any]:
    shuffle = isinstance(loader.sampler, RandomSampler)
    sampler: Any = DistributedSampler(loader.dataset, size, rank, shuffle=shuffle)
    kept = {name: getattr(loader, name) for name in _KEPT if hasattr(loader, name)}
    if not kept.get("pin_memory_device"):
        kept.pop("pin_memory_device", None)  # deprecated where it says nothing
    if loader.batch_size is not None:
        kept["drop_last"] = loader.drop_last
    return DataLoader(loader.dataset, batch_size=loader.batch_size, sampler=sampler, **kept)


class _OnDevice(DataLoader[Any]):
    """A loader whose batches are on a device; in everything else the loader it was made from."""

    def __init__(self, loader: DataLoader[Any], device: torch.device, ahead: bool) -> None:
        # Not made anew: two loaders would start two sets of worker processes.
        self.__dict__.update(loader.__dict__)
        self.__dict__.update(_loader=loader, _device=device)
        self.__dict__["_stream"] = _copy_stream(device) if ahead else None

    def __len__(self) -> int:
        return len(self.__dict__["_loader"])

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # torch has a private class here
        stream = self.__dict__["_stream"]
        moved = map(self._moved, iter(self.__dict__["_loader"]))
        return moved if stream is None else _one_ahead(moved, stream)

    def _moved(self, batch: Any) -> Any:
        stream = self.__dict__["_stream"]
        with nullcontext() if stream is None else torch.cuda.stream(stream):
            return _to(batch, self.__dict__["_device"], stream is not None)


def _copy_stream(device: torch.device) -> Any | None:
    """Where batches are copied beside the computation; a CPU has no such thing."""
    if device.type != "cuda":
        return None
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _one_ahead(batches: Iterator[Any], stream: Any) -> Iterator[Any]:
    """The batches, each handed out when its copy is complete and the next one's has begun."""
    missing = object()
    following = next(batches, missing)
    while following is not missing:
        batch = following
        here = torch.cuda.current_stream()
        here.wait_stream(stream)
        # Memory that another stream allocated must not be given away while this one uses it.
        _recorded(batch, here)
        following = next(batches, missing)
        yield batch


def _to(value: Any, device: torch.device, beside: bool) -> Any:
    """A batch on a device: tensors, what can be moved like one, and what holds such."""
    if hasattr(value, "to") and callable(value.to):
        return value.to(device, non_blocking=beside)
    if isinstance(value, Mapping):
        return {key: _to(item, device, beside) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_to(item, device, beside) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(_to(item, device, beside) for item in value)
    return value


def _recorded(value: Any, stream: Any) -> None:
    if isinstance(value, torch.Tensor):
        if value.device.type == "cuda":
            value.record_stream(stream)
    elif isinstance(value, Mapping):
        for item in value.values():
            _recorded(item, stream)
    elif isinstance(value, list | tuple):
        for item in value:
            _recorded(item, stream)
