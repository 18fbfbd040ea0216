"""Replica groups that torchft keeps in step: one is killed again and again, and the others go on."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cluster import Cluster
from tests.e2e.running import left_behind, newest
from tests.e2e.test_orphans import eventually
from trainstate import train
from trainstate.core import RunStatus
from trainstate.train import FailureConfig, RunConfig, ScalingConfig
from trainstate.train.torch import TorchftConfig, TorchTrainer

GROUPS, SIZE = 3, 2
VICTIM = 1
SURVIVORS = (0, 1, 4, 5)
# The lives of one rank may take as long as this to start and to heal.
SLOW_S = 120.0


def job(folder: Path) -> Callable[[], None]:
    """Trains to the step that the file `last` names; every life of a rank tells its steps in a file."""

    def function() -> None:
        import torch
        import torchft

        torch.set_num_threads(1)
        rank = train.get_context().get_world_rank()
        life = len(list(folder.glob(f"{rank}.*")))
        draw = torch.Generator().manual_seed(rank)
        model = torch.nn.Linear(2, 1)  # every life begins elsewhere
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

        def load(state: dict[str, Any]) -> None:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])

        manager = torchft.Manager(
            pg=torchft.ProcessGroupGloo(timeout=timedelta(seconds=30)),
            load_state_dict=load,
            state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
            min_replica_size=1,
        )
        wrapped = torchft.DistributedDataParallel(manager, model)
        steps = torchft.Optimizer(manager, optimizer)
        last = folder / "last"
        with (folder / f"{rank}.{life}").open("w", buffering=1) as told:
            while not (last.exists() and manager.current_step() >= int(last.read_text())):
                x = torch.randn(8, 2, generator=draw)
                steps.zero_grad()
                noise = torch.randn(8, 1, generator=draw)
                loss = (wrapped(x) - x.sum(1, keepdim=True) - noise).square().mean()
                loss.backward()
                steps.step()
                told.write(f"{manager.current_step()} {manager.num_participants()} {os.getpid()}\n")
                train.report({"step": manager.current_step(), "loss": loss.item()})
        manager.shutdown()
        parameters = [one.flatten().tolist() for one in model.parameters()]
        (folder / f"end-{rank}").write_text(json.dumps([manager.current_step(), parameters]))

    return function


class Told(NamedTuple):
    """A step: the counter after it, how many groups took part in it, and the process."""

    step: int
    groups: int
    pid: int


def told(folder: Path, rank: int, life: int) -> list[Told]:
    path = folder / f"{rank}.{life}"
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    return [Told(*map(int, line.split())) for line in lines if line.endswith("\n")]


def kill_twice(folder: Path) -> None:
    """Kills both ranks of the group, then the first rank of what replaced it; ends the training."""
    ranks = range(VICTIM * SIZE, (VICTIM + 1) * SIZE)
    step = 0
    try:
        for life, victims in enumerate((ranks, ranks[:1])):
            alive = [eventually(lambda r=r, n=life: told(folder, r, n)[10:], SLOW_S) for r in ranks]
            pids = [steps[0].pid for steps in alive]
            for rank in victims:
                os.kill(pids[rank - ranks[0]], signal.SIGKILL)
        step = eventually(lambda: told(folder, ranks[0], 2)[10:], SLOW_S)[-1].step
    finally:
        # They are in step, and the file is there long before any of them has made so many more.
        (folder / "written").write_text(str(step + 100))
        (folder / "written").rename(folder / "last")


@pytest.mark.slow
def test_a_group_is_killed_twice(cluster: Cluster, tmp_path: Path) -> None:
    """The others go on without it, from step to step; it heals, and ends with the same parameters."""
    trainer = TorchTrainer(
        job(tmp_path),
        torch_config=TorchftConfig(
            replica_group_size=SIZE,
            lighthouse_kwargs={"min_replicas": 1, "join_timeout_ms": 10_000},
        ),
        scaling_config=ScalingConfig(num_workers=GROUPS * SIZE, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(
            name="torchft", storage_path=tmp_path, failure_config=FailureConfig(max_failures=-1)
        ),
    )
    killer = threading.Thread(target=kill_twice, args=(tmp_path,))
    killer.start()
    try:
        trainer.fit()
    finally:
        killer.join()
    run = newest(cluster, "torchft")
    assert (RunStatus.FINISHED, 1) == (run.status, len(run.attempts))
    assert [0, 2, 0] == [run.attempts[0].workers[n * SIZE].generation for n in range(GROUPS)]
    lives = [told(tmp_path, VICTIM * SIZE, life) for life in range(3)]
    for rank in SURVIVORS:
        assert [] == told(tmp_path, rank, 1)  # never started again
        steps = told(tmp_path, rank, 0)
        assert sorted(one.step for one in steps) == [one.step for one in steps]
        for before, after in pairwise(lives):  # it healed: its first step is the next of theirs
            assert before[-1].step <= after[0].step <= steps[-1].step
    ends = [json.loads((tmp_path / f"end-{n}").read_text()) for n in range(GROUPS * SIZE)]
    assert ends[:SIZE] * GROUPS == ends
    assert ends[0][1] != ends[1][1]  # torchft averages over groups, not inside of one
    assert [] == left_behind(run.run_id)
