"""The ways a checkpoint gets to storage from workers on Ray, and what a worker knows of itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.e2e.running import run
from trainstate import train
from trainstate.train import Checkpoint, CheckpointUploadMode


def parts(directory: Path) -> list[str]:
    """The files of a checkpoint."""
    return sorted(one.name for one in directory.iterdir())


@pytest.mark.slow
def test_every_way_a_checkpoint_is_uploaded(cluster: Cluster, tmp_path: Path) -> None:
    """SYNC, ASYNC, by a function of the user's, and there already: all are committed, in order."""
    local = tmp_path / "local"
    local.mkdir()

    def function() -> None:
        rank = train.get_context().get_world_rank()
        storage = train.get_context().get_storage()

        def made(name: str) -> Checkpoint:
            folder = Path(tempfile.mkdtemp(dir=local))
            (folder / f"{name}-{rank}").touch()
            return Checkpoint.from_directory(folder)

        def upload(checkpoint: Any, directory: str) -> Any:
            return storage.upload(checkpoint, f"{directory}-by-me")

        train.report({"n": 0}, made("sync"), checkpoint_dir_name="named")
        train.report({"n": 1}, made("async"), checkpoint_upload_mode=CheckpointUploadMode.ASYNC)
        train.report({"n": 2}, made("mine"), checkpoint_upload_fn=upload)
        there = storage.upload(made("there"), "there")
        train.report({"n": 3}, there, checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD)
        gone = made("gone")
        train.report({"n": 4}, gone, delete_local_checkpoint_after_upload=True)
        assert not Path(gone.path).exists()
        assert [0, 1, 2, 3, 4] == [one.metrics["n"] for one in train.get_all_reported_checkpoints()]

    ran = run(cluster, function, "ways", tmp_path)
    assert ran.result is not None, ran.error
    committed = [ran.run.checkpoints[index].directory for index in range(5)]
    assert ("named", "there") == (committed[0], committed[3])
    assert committed[2].endswith("-by-me")
    for directory, name in zip(committed, ("sync", "async", "mine", "there", "gone"), strict=True):
        assert [f"{name}-0", f"{name}-1"] == parts(tmp_path / "ways" / directory)


@pytest.mark.slow
def test_a_worker_knows_itself_and_is_heard(cluster: Cluster, tmp_path: Path) -> None:
    """Every accessor of the context; what a worker prints is in the file that its view names."""

    def function() -> dict[str, Any]:
        context = train.get_context()
        print(f"rank {context.get_world_rank()} says hello", flush=True)
        return {
            "name": context.get_experiment_name(),
            "world": (context.get_world_rank(), context.get_world_size()),
            "local": (context.get_local_rank(), context.get_local_world_size()),
            "node": context.get_node_rank(),
            "path": context.get_storage().experiment_fs_path,
        }

    ran = run(cluster, function, "knows", tmp_path)
    assert ran.result is not None, ran.error
    assert {
        "name": "knows",
        "world": (0, 2),
        "local": (0, 2),
        "node": 0,
        "path": str(tmp_path / "knows"),
    } == ran.result.return_value
    for rank, worker in ran.run.attempts[0].workers.items():
        assert f"rank {rank} says hello" in Path(worker.log_path).read_text()
