"""What `from trainstate import train` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trainstate import train
from trainstate.train import torch as train_torch


@pytest.mark.parametrize(
    "program",
    [
        "from trainstate import train",
        "from trainstate.train import report, get_context, UserCallback, Result, DataParallelTrainer",
        "from trainstate.train.torch import TorchTrainer, TorchConfig",
        "from trainstate import train; train.collective.barrier",
        """if True:
            from trainstate import train
            config = train.RunConfig(failure_config=train.FailureConfig(max_failures=1))
            train.DataParallelTrainer(print, run_config=config, scaling_config=train.ScalingConfig(2))
        """,
    ],
)
def test_the_import_is_cheap(program):
    """No Ray, torch, pandas, pyarrow or numpy is loaded, and nothing is configured."""
    check = """
import sys
heavy = {"ray", "torch", "pandas", "pyarrow", "numpy", "grpc"} & set(sys.modules)
sys.exit(f"{heavy}" if heavy else 0)
"""
    command = [sys.executable, "-c", f"exec({program!r})\n{check}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)


def test_checkpoint_and_data_config_are_rays():
    """A script may mix the two imports."""
    import ray.train

    assert ray.train.Checkpoint is train.Checkpoint
    assert ray.train.DataConfig is train.DataConfig


@pytest.mark.parametrize("module", [train, train_torch], ids=["train", "torch"])
def test_every_name_can_be_had(module):
    """`__all__` and `dir` name what is there, lazily loaded names too."""
    assert sorted(module.__all__) == sorted(dir(module))
    assert [] == [name for name in module.__all__ if getattr(module, name) is None]


@pytest.mark.parametrize(
    ("module", "name", "why"),
    [
        (train, "LoggingConfig", "logs nothing"),
        (train, "ValidationConfig", "validate in your"),
        (train_torch, "backward", "loss.backward"),
        (train, "nonsense", "has no nonsense$"),
    ],
)
def test_a_name_of_rays_that_is_not_here_says_what_to_do(module, name, why):
    """AttributeError, so that hasattr and `from ... import` work as ever."""
    with pytest.raises(AttributeError, match=why):
        getattr(module, name)


def test_outside_a_training_function_there_is_no_session():
    """Every function says so."""
    for call in (
        lambda: train.report({}),
        train.get_context,
        train.get_checkpoint,
        train.get_all_reported_checkpoints,
        train.get_dataset_shard,
        train.collective.barrier,
        lambda: train.collective.broadcast_from_rank_zero(1),
    ):
        with pytest.raises(RuntimeError, match="only inside a training function"):
            call()
