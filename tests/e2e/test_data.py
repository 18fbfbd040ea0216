"""Datasets are split among the workers, and go on flowing when the controller is killed."""

from __future__ import annotations

from pathlib import Path

import pytest
import ray.data

from tests.cluster import Cluster
from tests.e2e.killing import Killer, following
from tests.e2e.running import left_behind, newest
from trainstate import train
from trainstate.core import RunStatus
from trainstate.train import DataParallelTrainer, RunConfig, ScalingConfig


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
