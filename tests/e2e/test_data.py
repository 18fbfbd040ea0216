"""Datasets are split among the workers, and go on flowing when the controller is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import ray.data

from tests.cluster import Cluster
from tests.e2e.killing import Killer, following
from tests.e2e.running import left_behind, newest
from trainstate import train
from trainstate.controller.backend import Backend, BackendConfig
from trainstate.core import RunStatus
from trainstate.train import DataParallelTrainer, FailureConfig, RunConfig, ScalingConfig


@pytest.mark.slow
def test_shards_outlive_the_controller(cluster: Cluster, tmp_path: Path) -> None:
    """Each row goes to one worker, once, though the controller is killed in the middle."""

    def function() -> None:
        rank = train.get_context().get_world_rank()
        seen = []
        for batch in train.get_dataset_shard("numbers").iter_batches(batch_size=10):
            seen += [int(one) for one in batch["id"]]
            train.report({"rows": len(seen)})
        (tmp_path / f"seen-{rank}").write_text("\n".join(map(str, seen)))
        train.collective.barrier()
        assert "from zero" == train.collective.broadcast_from_rank_zero(
            "from zero" if rank == 0 else None
        )

    killer = Killer(cluster, "data", lambda kind: kind == "report_received" and not killer.killed)
    trainer = DataParallelTrainer(
        function,
        datasets={"numbers": ray.data.range(400, override_num_blocks=8)},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(name="data", storage_path=str(tmp_path)),
    )
    with following(cluster, killer.see):
        trainer.fit()
    run = newest(cluster, "data")
    assert (["report_received"], 2) == (killer.killed, run.controller_starts)
    assert (RunStatus.FINISHED, 1) == (run.status, len(run.attempts))
    seen = [
        int(one) for rank in range(2) for one in (tmp_path / f"seen-{rank}").read_text().split()
    ]
    assert [*range(400)] == sorted(seen)
    assert [] == left_behind(run.run_id)


class EachByItself(Backend):
    """Every worker is a replica group, and nothing is set up."""

    has_replica_groups = True


class EachByItselfConfig(BackendConfig):
    """Replica groups of one worker."""

    @property
    def backend_cls(self) -> type[Backend]:
        return EachByItself


@pytest.mark.slow
def test_a_replacement_goes_on_with_the_shard(cluster: Cluster, tmp_path: Path) -> None:
    """After a kill in mid-epoch every row is seen, none by two ranks, and the next epoch is whole."""
    rows, killed_after = 600, 100

    def function() -> None:
        rank = train.get_context().get_world_rank()
        life = len(list(tmp_path.glob(f"{rank}.*")))
        shard = train.get_dataset_shard("numbers")
        with (tmp_path / f"{rank}.{life}").open("w", buffering=1) as told:
            for epoch in range(2):
                for number, batch in enumerate(shard.iter_batches(batch_size=10), 1):
                    told.write("".join(f"{epoch} {one}\n" for one in batch["id"]))
                    if (rank, life) == (1, 0) and number * 10 == killed_after:
                        os.kill(os.getpid(), signal.SIGKILL)

    trainer = DataParallelTrainer(
        function,
        backend_config=EachByItselfConfig(),
        datasets={"numbers": ray.data.range(rows, override_num_blocks=20)},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(
            name="handover",
            storage_path=str(tmp_path / "results"),
            failure_config=FailureConfig(max_failures=-1),
        ),
    )
    trainer.fit()
    run = newest(cluster, "handover")
    assert (RunStatus.FINISHED, 1) == (run.status, len(run.attempts))
    assert [0, 1] == [worker.generation for worker in run.attempts[0].by_rank]
    survivor, had, rest = (epochs_in(tmp_path / name) for name in ("0.0", "1.0", "1.1"))
    assert killed_after == len(had[0])
    assert [*range(rows)] == sorted(survivor[0] + [*{*had[0], *rest[0]}])
    assert [*range(rows)] == sorted(survivor[1] + rest[1])
    assert [] == left_behind(run.run_id)


def epochs_in(told: Path) -> tuple[list[int], list[int]]:
    """The rows of two epochs."""
    found: tuple[list[int], list[int]] = ([], [])
    for line in told.read_text().splitlines():
        epoch, row = map(int, line.split())
        found[epoch].append(row)
    return found
