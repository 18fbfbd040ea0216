"""Replica groups that torchft keeps in step: each has a store of its own, all have one lighthouse."""

from __future__ import annotations

import dataclasses
import inspect
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray import cloudpickle
from ray.train.v2.torch.torchft_config import TorchftConfig as RaysTorchftConfig

from tests.cluster import Cluster
from trainstate.controller.gang import ReplicaGroup
from trainstate.controller.session import SessionInfo, set_current
from trainstate.errors import TrainstateError
from trainstate.state.names import NAMESPACE
from trainstate.train import ScalingConfig
from trainstate.train.torch import TorchftConfig, TorchTrainer
from trainstate.train.torch.config import _leave
from trainstate.train.torch.torchft import Lighthouse, _forgiving

GROUPS, SIZE = 2, 2
KNOWN = (
    "MASTER_ADDR",
    "RANK",
    "WORLD_SIZE",
    "REPLICA_GROUP_ID",
    "NUM_REPLICA_GROUPS",
    "TORCHFT_LIGHTHOUSE",
)


# --- the config -----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_lighthouse(monkeypatch):
    """None that this machine's environment names."""
    monkeypatch.delenv("TORCHFT_LIGHTHOUSE", raising=False)


def test_what_ray_takes_it_takes():
    """The lighthouse's arguments first, the rest by name; TorchTrainer fills in the backend."""
    assert ["lighthouse_kwargs", "kwargs"] == list(inspect.signature(RaysTorchftConfig).parameters)
    config = TorchftConfig({"min_replicas": 2}, timeout_s=9)
    assert ({"min_replicas": 2}, 9, None, "env") == (
        config.lighthouse_kwargs,
        config.timeout_s,
        config.backend,
        config.init_method,
    )
    trainer = TorchTrainer(
        print, torch_config=config, scaling_config=ScalingConfig(num_workers=2, use_gpu=True)
    )
    assert dataclasses.replace(config, backend="nccl") == trainer.backend_config
    assert config.backend_cls.has_replica_groups


def test_its_record():
    """Everything that was asked for."""
    for asked in ({"lighthouse_kwargs": {"min_replicas": 2}}, {"lighthouse_addr": "http://a:1"}):
        config = TorchftConfig(**asked, replica_group_size=4)
        assert dataclasses.asdict(config) == config.to_dict()


@pytest.mark.parametrize(
    ("named", "variable", "expected"),
    [
        (None, "", None),
        (None, "http://theirs:1", "http://theirs:1"),
        ("http://ours:1", "http://theirs:1", "http://ours:1"),
    ],
)
def test_which_lighthouse_is_joined(monkeypatch, named, variable, expected):
    """The one named, else that of the driver's environment, else none."""
    monkeypatch.setenv("TORCHFT_LIGHTHOUSE", variable)
    assert expected == TorchftConfig(lighthouse_addr=named).lighthouse_addr


@pytest.mark.parametrize("fields", [{"replica_group_size": 0}, {"timeout_s": 0}])
def test_a_config_that_makes_no_sense_is_refused(fields):
    """At construction."""
    with pytest.raises(ValueError, match=r"Torch\w*Config\(\w+=0\) must be"):
        TorchftConfig(**fields)


# --- what is mended of torchft ---------------------------------------------------------------------


class Bucket:
    def buffer(self) -> Any:
        import torch

        return torch.ones(2)


class Manager:
    """torchft's, after an allreduce: what it returned, and whether that failed."""

    def __init__(self, work: Any, error: Exception | None) -> None:
        self.allreduce = lambda tensor: work
        self.errored = lambda: error


def failed_wait() -> Any:
    """What an allreduce returns whose peer goes away while it is waited for."""
    return SimpleNamespace(wait=lambda: False, get_future=lambda: SimpleNamespace(_fut=None))


def after_a_failure() -> Any:
    """What every other allreduce of that step returns."""
    import torch
    from torchft.work import _DummyWork

    return _DummyWork(torch.zeros(2))


@pytest.mark.parametrize("work", [failed_wait, after_a_failure])
def test_a_failed_allreduce_does_not_end_the_survivors(work):
    """torchft's hook raises (if it does not, nothing is to be mended any more); ours goes on.

    What the manager did not notice is raised still.
    """
    from torchft.ddp import DistributedDataParallel

    hook = DistributedDataParallel._comm_hook
    failed = Manager(work(), ConnectionError("closed by peer"))
    with pytest.raises((AssertionError, AttributeError)):
        hook(failed, Bucket())
    assert [1.0, 1.0] == _forgiving(hook)(failed, Bucket()).wait().tolist()
    with pytest.raises((AssertionError, AttributeError)):
        _forgiving(hook)(Manager(work(), None), Bucket())


def test_an_allreduce_that_does_not_fail_is_left_alone():
    """Its own future is what DDP gets."""
    work = SimpleNamespace(wait=lambda: True, get_future=lambda: SimpleNamespace(_fut="the sum"))
    hook = _forgiving(lambda manager, bucket: manager.allreduce(bucket.buffer()).get_future()._fut)
    assert "the sum" == hook(Manager(work, None), Bucket())


# --- the backend, on actors that do what it asks --------------------------------------------------


class Process:
    """A worker as a backend sees it; unlike ours it does what it is asked twice, twice."""

    def __init__(self, info: SessionInfo) -> None:
        set_current(SimpleNamespace(info=info))

    def execute(self, key: str, call: bytes) -> Any:
        function, args, kwargs = cloudpickle.loads(call)
        return function(*args, **kwargs)


@pytest.fixture
def scope(cluster: Cluster) -> Iterator[str]:
    """A name for an attempt; what is still called by it is killed in the end."""
    name = uuid.uuid4().hex
    yield name
    for one in ray.util.list_named_actors(all_namespaces=True):
        if one["name"].startswith(f"{name}/"):
            ray.kill(ray.get_actor(one["name"], namespace=NAMESPACE))


def group(scope: str, number: int, generation: int = 0) -> ReplicaGroup:
    ranks = range(number * SIZE, (number + 1) * SIZE)
    infos = [
        SessionInfo(
            "exp",
            "run",
            "attempt",
            world_rank=rank,
            world_size=GROUPS * SIZE,
            local_rank=rank,
            local_world_size=GROUPS * SIZE,
            node_rank=0,
            generation=generation,
            gang_rank=rank - ranks[0],
            gang_size=SIZE,
            replica_group=number,
            replica_groups=GROUPS,
        )
        for rank in ranks
    ]
    handles = [ray.remote(Process).options(num_cpus=0).remote(info) for info in infos]
    return ReplicaGroup(number, handles, "stage", {}, scope, GROUPS, generation)


def at_once(function: Callable[[ReplicaGroup], Any], groups: list[ReplicaGroup]) -> list[Any]:
    with ThreadPoolExecutor(len(groups)) as threads:
        return list(threads.map(function, groups))


def environment() -> Mapping[str, str]:
    return {name: os.environ[name] for name in (*KNOWN, "MASTER_PORT")}


def sum_of(number: int) -> int:
    """Over the process group, which this also shows to be there."""
    import torch

    total = torch.tensor([number])
    torch.distributed.all_reduce(total)
    return int(total)


def managers_address(rank: int) -> str:
    """As torchft.Manager tells it: by a store that somebody else opened."""
    from torch.distributed import TCPStore

    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    if rank == 0:
        store.set("manager_addr", os.environ["REPLICA_GROUP_ID"])
    found: bytes = store.get("manager_addr")
    return found.decode()


def times_mended() -> int:
    from torchft.ddp import DistributedDataParallel

    times, hook = 0, DistributedDataParallel._comm_hook
    while hasattr(hook, "__wrapped__"):
        times, hook = times + 1, hook.__wrapped__
    return times


@pytest.mark.slow
def test_groups_are_set_up_at_once_and_apart(scope):
    """Each has its ranks, its store and its process group; the lighthouse is the same for all.

    A controller that takes the set-up over finds all that, and one that replaces a group makes a new
    store and finds the lighthouse.
    """
    config = TorchftConfig(replica_group_size=SIZE, backend="gloo", timeout_s=60)
    backend = config.backend_cls()

    def set_up(one: ReplicaGroup) -> list[Mapping[str, str]]:
        backend.on_start(one, config)
        backend.on_training_start(one, config)
        return one.execute(environment)

    groups = [group(scope, number) for number in range(GROUPS)]
    first = at_once(set_up, groups)
    host = ray.util.get_node_ip_address()
    lighthouse = first[0][0]["TORCHFT_LIGHTHOUSE"]
    assert lighthouse.startswith(f"http://{host}:")
    for number, ranks in enumerate(first):
        for rank, seen in enumerate(ranks):
            expected = (host, str(rank), str(SIZE), str(number), str(GROUPS), lighthouse)
            assert expected == tuple(seen[name] for name in KNOWN)
    ports = [ranks[0]["MASTER_PORT"] for ranks in first]
    assert GROUPS == len(set(ports))
    assert [[2, 2], [4, 4]] == [
        one.execute(sum_of, number) for number, one in enumerate(groups, start=1)
    ]
    for number, one in enumerate(groups):
        calls = [one.execute_single_async(rank, managers_address, rank) for rank in range(SIZE)]
        assert [str(number)] * SIZE == ray.get(calls)
    assert first == at_once(set_up, groups)  # a controller that takes the set-up over
    assert [1] * SIZE == groups[0].execute(times_mended)
    again = set_up(group(scope, 1, generation=1))
    assert again[0]["MASTER_PORT"] not in ports
    assert lighthouse == again[1]["TORCHFT_LIGHTHOUSE"]
    backend.on_shutdown(groups[0], config)
    assert [None, None] == groups[0].execute(_leave)


@pytest.mark.slow
def test_a_group_is_not_replaced_without_the_others_lighthouse(scope):
    """A new one would have it train from the beginning, alone; a new attempt starts a new one."""
    config = TorchftConfig(replica_group_size=SIZE)
    backend = config.backend_cls()
    with pytest.raises(TrainstateError, match=r"lighthouse .* is gone") as caught:
        backend.on_start(group(scope, 1, generation=1), config)
    assert "start anew" in caught.value.hint


@pytest.mark.slow
def test_a_lighthouse_that_is_there_is_joined(scope):
    """And none is started."""
    config = TorchftConfig(lighthouse_addr="http://theirs:1", replica_group_size=SIZE)
    one = group(scope, 0)
    config.backend_cls().on_start(one, config)
    seen = one.execute(os.getenv, "TORCHFT_LIGHTHOUSE")
    assert ["http://theirs:1"] * SIZE == seen
    with pytest.raises(ValueError, match="Failed to look up actor"):
        ray.get_actor(f"{scope}/lighthouse", namespace=NAMESPACE)


@pytest.mark.slow
def test_a_lighthouse_is_reached_where_it_is_bound(scope):
    """By the node's address if it listens everywhere."""
    here = ray.util.get_node_ip_address()
    for bind, expected in (("[::]:0", here), ("0.0.0.0:0", here), ("127.0.0.1:0", "127.0.0.1")):
        actor = ray.remote(Lighthouse).options(num_cpus=0).remote({"bind": bind})
        assert f"http://{expected}" == ray.get(actor.address.remote()).rpartition(":")[0]
