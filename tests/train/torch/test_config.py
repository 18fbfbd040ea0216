"""The process group of a PyTorch run: made on the workers, and taken down."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os

import pytest
import ray
import ray.train.torch
import torch
import torch.distributed as dist

from tests.train.torch.joining import join_and_sum
from trainstate import train
from trainstate.train.torch import TorchConfig, TorchTrainer
from trainstate.train.torch import config as module


@pytest.fixture(autouse=True)
def one_host(monkeypatch):
    """No Ray to ask where we are, and no trace in the environment of the tests."""
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "127.0.0.1")
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "")
    for name in ("LOCAL_WORLD_SIZE", "NODE_RANK", "ACCELERATE_TORCH_DEVICE"):
        monkeypatch.setenv(name, "")


class Alone:
    """A worker group of one, in this process."""

    def __len__(self) -> int:
        return 1

    def execute(self, function, *args):
        return [function(*args)]

    def execute_single(self, rank, function, *args):
        return function(*args)


@pytest.mark.parametrize("init_method", ["env", "tcp"])
def test_the_backend_joins_the_workers(session, init_method):
    """In the environment they are who they are, as under torchrun."""
    config = TorchConfig(backend="gloo", init_method=init_method, timeout_s=30)
    backend = config.backend_cls()
    backend.on_start(Alone(), config)
    try:
        backend.on_training_start(Alone(), config)
        assert (1, 0) == (dist.get_world_size(), dist.get_rank())
        assert ["0", "1", "0", "1", "0", "cpu"] == [
            os.environ[name]
            for name in (
                "RANK",
                "WORLD_SIZE",
                "LOCAL_RANK",
                "LOCAL_WORLD_SIZE",
                "NODE_RANK",
                "ACCELERATE_TORCH_DEVICE",
            )
        ]
        backend.on_training_start(Alone(), config)  # a controller that takes the set-up over
    finally:
        module._leave()
    assert not dist.is_initialized()
    module._leave()


@pytest.mark.slow
def test_two_processes_meet():
    """Each learns its rank from its session alone."""
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    port = module._free_address()[1]
    config = TorchConfig(timeout_s=60)
    processes = [
        spawn.Process(target=join_and_sum, args=(rank, 2, port, config, results))
        for rank in range(2)
    ]
    for one in processes:
        one.start()
    assert [3, 3] == [results.get(timeout=60) for _ in processes]
    for one in processes:
        one.join(60)


def test_workers_that_are_gone_do_not_hold_up_the_end(monkeypatch):
    """Their errors are nobody's business any more; there is a bound on the wait."""
    waited = []
    monkeypatch.setattr(ray, "wait", lambda refs, **how: waited.append((refs, how)))

    class Gone(Alone):
        def execute_async(self, function, *args):
            return ["a", "b"]

    TorchConfig().backend_cls().on_shutdown(Gone(), TorchConfig())
    assert [(["a", "b"], {"num_returns": 2, "timeout": 30.0})] == waited


@pytest.mark.parametrize(
    ("host", "expected"), [("10.0.0.1", "tcp://10.0.0.1:9"), ("::1", "tcp://[::1]:9")]
)
def test_tcp_addresses(monkeypatch, host, expected):
    """Of either kind."""
    monkeypatch.setenv("MASTER_ADDR", host)
    monkeypatch.setenv("MASTER_PORT", "9")
    assert expected == module._init_method(TorchConfig(init_method="tcp"))


@pytest.mark.parametrize("fields", [{"init_method": "file"}, {"timeout_s": 0}])
def test_a_config_that_makes_no_sense_is_refused(fields):
    """At construction."""
    with pytest.raises(ValueError, match=r"TorchConfig\(\w+=.*\) must be"):
        TorchConfig(**fields)


def test_fields_and_record_are_rays():
    """Names, order and defaults, and what is recorded of them."""
    theirs, ours = ray.train.torch.TorchConfig(), TorchConfig()
    assert dataclasses.asdict(theirs) == dataclasses.asdict(ours)
    assert list(dataclasses.asdict(theirs)) == list(dataclasses.asdict(ours))
    assert theirs.to_dict() == ours.to_dict()
    assert theirs.framework.value == ours.framework


def test_training_in_this_process(tmp_path):
    """Local mode: a model, a loader and a device, without a process group."""

    def function():
        model = train.torch.prepare_model(torch.nn.Linear(2, 1))
        data = torch.utils.data.TensorDataset(torch.ones(4, 2))
        loader = train.torch.prepare_data_loader(torch.utils.data.DataLoader(data, batch_size=2))
        loss = sum(model(batch).sum() for (batch,) in loader)
        loss.backward()
        train.report({"loss": loss.item(), "device": str(train.torch.get_device())})
        return dist.is_initialized()

    trainer = TorchTrainer(
        function,
        scaling_config=train.ScalingConfig(num_workers=0),
        run_config=train.RunConfig(storage_path=tmp_path),
    )
    result = trainer.fit()
    assert result.return_value is False
    assert isinstance(result.metrics["loss"], float)
