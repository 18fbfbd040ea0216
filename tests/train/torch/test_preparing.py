"""Models, loaders and devices as a training function gets them."""

from __future__ import annotations

import collections
import dataclasses
import inspect

import pytest
import ray.train.torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from trainstate.errors import UsageError
from trainstate.train import torch as train_torch
from trainstate.train.torch import devices
from trainstate.train.torch.loaders import _to

DATA = TensorDataset(torch.arange(10))
KEPT = (
    "batch_size",
    "drop_last",
    "num_workers",
    "collate_fn",
    "timeout",
    "worker_init_fn",
    "generator",
    "prefetch_factor",
    "persistent_workers",
    "multiprocessing_context",
    "pin_memory",
)


@pytest.mark.parametrize(
    "name", ["prepare_model", "prepare_data_loader", "get_device", "get_devices"]
)
def test_signatures_are_rays(name):
    """Names and defaults."""

    def shape(module):
        parameters = inspect.signature(getattr(module, name)).parameters.values()
        return [(one.name, one.default) for one in parameters]

    assert shape(ray.train.torch) == shape(train_torch)


def rank_of(session, rank: int, size: int) -> None:
    session.info = dataclasses.replace(
        session.info, world_rank=rank, world_size=size, gang_rank=rank, gang_size=size
    )


def values(loader) -> list[int]:
    return [int(value) for batch in loader for value in batch[0]]


# --- loaders --------------------------------------------------------------------------------------


def test_alone_a_loader_stays_as_it_is(session):
    """Every sample, in its order; it is still a DataLoader with the same attributes."""
    loader = DataLoader(DATA, batch_size=3)
    prepared = train_torch.prepare_data_loader(loader)
    assert list(range(10)) == values(prepared) == values(prepared)
    assert isinstance(prepared, DataLoader)
    assert (4, 3, DATA) == (len(prepared), prepared.batch_size, prepared.dataset)
    assert loader is train_torch.prepare_data_loader(loader, move_to_device=False)


def test_ranks_share_the_samples(session):
    """Each has its part, and all together have all."""
    seen = []
    for rank in range(2):
        rank_of(session, rank, 2)
        seen.append(values(train_torch.prepare_data_loader(DataLoader(DATA, batch_size=2))))
    assert [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]] == seen


def test_shuffling_is_kept(session):
    """A loader that shuffled does, differently in each epoch; one that did not does not."""
    rank_of(session, 0, 2)
    loader = train_torch.prepare_data_loader(DataLoader(DATA, shuffle=True))
    epochs = []
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        epochs.append(values(loader))
    assert epochs[0] != epochs[1]
    assert not train_torch.prepare_data_loader(DataLoader(DATA)).sampler.shuffle


def test_what_a_loader_was_made_with_is_kept(session):
    """Ray loses persistent_workers, prefetch_factor and multiprocessing_context."""
    rank_of(session, 0, 2)
    generator = torch.Generator()
    loader = DataLoader(
        DATA,
        batch_size=3,
        drop_last=True,
        num_workers=1,
        collate_fn=torch.utils.data.default_convert,
        timeout=5,
        worker_init_fn=print,
        generator=generator,
        prefetch_factor=4,
        persistent_workers=True,
        multiprocessing_context="spawn",
    )
    prepared = train_torch.prepare_data_loader(loader)
    for name in KEPT:
        assert (name, getattr(loader, name)) == (name, getattr(prepared, name))


def test_a_loader_without_batches(session):
    """batch_size=None means single samples, in either case."""
    rank_of(session, 1, 2)
    loader = DataLoader(DATA, batch_size=None)
    assert [1, 3, 5, 7, 9] == [int(one[0]) for one in train_torch.prepare_data_loader(loader)]


class Stream(IterableDataset):
    def __iter__(self):
        return iter([torch.tensor([7])])


def test_who_splits_already_is_left_alone(session):
    """A DistributedSampler, an iterable dataset, or a caller who says so."""
    rank_of(session, 0, 2)
    sampler = DistributedSampler(DATA, 2, 1, shuffle=False)
    split = train_torch.prepare_data_loader(DataLoader(DATA, sampler=sampler))
    assert [1, 3, 5, 7, 9] == values(split)
    stream = train_torch.prepare_data_loader(DataLoader(Stream()))
    assert [[7]] == [one[0].tolist() for one in stream]
    whole = train_torch.prepare_data_loader(DataLoader(DATA), add_dist_sampler=False)
    assert list(range(10)) == values(whole)


@pytest.mark.parametrize(
    "how",
    [
        {"sampler": WeightedRandomSampler([1.0] * 10, 10)},
        {"batch_sampler": BatchSampler(SequentialSampler(DATA), 2, drop_last=False)},
    ],
    ids=["sampler", "batch_sampler"],
)
def test_a_sampler_of_the_users_is_not_replaced_in_silence(session, how):
    """Ray replaces it, with a line in a log."""
    rank_of(session, 0, 2)
    with pytest.raises(UsageError, match="draws by its own") as caught:
        train_torch.prepare_data_loader(DataLoader(DATA, **how))
    assert "add_dist_sampler=False" in caught.value.hint
    train_torch.prepare_data_loader(DataLoader(DATA, **how), add_dist_sampler=False)


def test_a_random_sampler_given_by_hand_is_shuffling(session):
    """As `shuffle=True` is, which makes the same one."""
    rank_of(session, 0, 2)
    loader = DataLoader(DATA, sampler=RandomSampler(DATA))
    assert train_torch.prepare_data_loader(loader).sampler.shuffle


def test_batches_of_every_shape_are_moved():
    """Mappings, sequences, named tuples, and what has a `to` of its own; the rest stays."""
    Pair = collections.namedtuple("Pair", "x y")

    class Own:
        def to(self, device, non_blocking):
            return ("moved", str(device))

    meta = torch.device("meta")
    one = torch.ones(1)
    batch = {"a": [one, (one, "text")], "b": Pair(one, 3), "c": Own(), "d": None}
    moved = _to(batch, meta, False)
    assert ("meta", "meta", "text") == (
        moved["a"][0].device.type,
        moved["a"][1][0].device.type,
        moved["a"][1][1],
    )
    assert ("meta", 3) == (moved["b"].x.device.type, moved["b"].y)
    assert (("moved", "meta"), None) == (moved["c"], moved["d"])


def test_a_batch_that_is_none_does_not_end_the_epoch(session):
    """It ends Ray's."""
    loader = DataLoader(DATA, batch_size=5, collate_fn=lambda samples: None)
    assert [None, None] == list(train_torch.prepare_data_loader(loader))


# --- models ---------------------------------------------------------------------------------------


@pytest.fixture
def group(session, tmp_path):
    """A process group of one, in a session of two."""
    rank_of(session, 0, 2)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_a_model_is_wrapped_if_there_are_others(group):
    """By DistributedDataParallel, with the options given; or not at all."""
    model = torch.nn.Linear(2, 1)
    wrapped = train_torch.prepare_model(
        model, parallel_strategy_kwargs={"find_unused_parameters": True}
    )
    assert isinstance(wrapped, DistributedDataParallel)
    assert (model, True) == (wrapped.module, wrapped.find_unused_parameters)
    assert model is train_torch.prepare_model(model, parallel_strategy=None)


def test_alone_a_model_is_not_wrapped(session):
    """It is moved: to the worker's device, to another one, or not."""
    model = torch.nn.Linear(2, 1)
    assert model is train_torch.prepare_model(model)
    assert "cpu" == model.weight.device.type
    moved = train_torch.prepare_model(model, move_to_device=torch.device("meta"))
    assert "meta" == moved.weight.device.type
    assert model is train_torch.prepare_model(model, move_to_device=False)


def test_strategies_that_do_not_work_are_refused(group):
    """FSDP without GPUs, and what is none."""
    with pytest.raises(RuntimeError, match="use_gpu=True"):
        train_torch.prepare_model(torch.nn.Linear(2, 1), parallel_strategy="fsdp")
    with pytest.raises(ValueError, match="'ddp', 'fsdp' or None"):
        train_torch.prepare_model(torch.nn.Linear(2, 1), parallel_strategy="tp")


def test_reproducibility():
    """The same numbers again."""
    before = torch.are_deterministic_algorithms_enabled()
    train_torch.enable_reproducibility(3)
    first = torch.rand(2).tolist()
    train_torch.enable_reproducibility(3)
    assert first == torch.rand(2).tolist()
    torch.use_deterministic_algorithms(before)


# --- devices --------------------------------------------------------------------------------------


@pytest.fixture
def gpus(monkeypatch):
    """A machine with GPUs, as torch and Ray show them."""

    def make(assigned, visible="", current=0):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: current)
        monkeypatch.setattr(devices, "_assigned", lambda: assigned)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return make


@pytest.mark.parametrize(
    ("assigned", "visible", "expected"),
    [
        (["2"], "2,3", ["cuda:0"]),
        (["3"], "2,3", ["cuda:1"]),
        (["2", "3"], "0,1,2,3", ["cuda:2", "cuda:3"]),
        (["GPU-8f3a"], "GPU-1111,GPU-8f3a", ["cuda:1"]),
        ([], "0", ["cpu"]),
        (None, "0", ["cuda:0"]),
    ],
)
def test_devices_are_counted_as_torch_does(session, gpus, assigned, visible, expected):
    """By their place among the visible ones, whatever they are called (row 0-13)."""
    gpus(assigned, visible)
    assert expected == [str(one) for one in train_torch.get_devices()]
    assert expected[0] == str(train_torch.get_device())


def test_a_hidden_device_is_said_so(session, gpus):
    """Somebody changed CUDA_VISIBLE_DEVICES."""
    gpus(["2"], "0")
    with pytest.raises(RuntimeError, match=r"hides \['2'\], which Ray gave"):
        train_torch.get_device()


def test_without_gpus_it_is_the_cpu(session):
    """And outside of a training function there is no device."""
    assert torch.device("cpu") == train_torch.get_device()


def test_outside_a_training_function_there_is_no_device():
    """As for every other question about the worker."""
    with pytest.raises(RuntimeError, match="only inside a training function"):
        train_torch.get_devices()
