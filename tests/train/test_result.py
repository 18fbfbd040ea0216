"""A run's directory, read by us and by Ray Train: whichever of the two wrote it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import ray.train
from pyarrow import fs
from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2._internal.execution.training_report import _TrainingReport

from trainstate import train
from trainstate.controller.snapshot import Kept, Snapshot
from trainstate.controller.storage import Storage
from trainstate.errors import NotFound, UsageError

# Ray uses pydantic as it was before version 2.
pytestmark = pytest.mark.filterwarnings("ignore:The `.*` method is deprecated:DeprecationWarning")

METRICS = [{"loss": 3.0, "eval": {"acc": 0.1}}, {"loss": 1.0}, {"loss": 2.0, "nan": float("nan")}]


def checkpoint(folder: Path) -> ray.train.Checkpoint:
    folder.mkdir(parents=True)
    (folder / "model").write_text(folder.name)
    return ray.train.Checkpoint.from_directory(folder)


@pytest.fixture
def ours(tmp_path) -> str:
    """An experiment that trainstate left."""
    storage = Storage(tmp_path / "results", "ours")
    storage.prepare()
    for index in range(3):
        storage.upload(checkpoint(tmp_path / f"c{index}"), f"c{index}")
    kept = [Kept(f"c{index}", METRICS[index], index) for index in (0, 2, 1)]
    storage.write_snapshot(Snapshot(kept, "c2"))
    return storage.experiment_fs_path


@pytest.fixture
def theirs(tmp_path) -> str:
    """An experiment that Ray Train left."""
    config = ray.train.CheckpointConfig(
        checkpoint_score_attribute="loss", checkpoint_score_order="min"
    )
    context = StorageContext(str(tmp_path / "results"), "theirs")

    async def register():
        manager = CheckpointManager(config, context)
        for index, metrics in enumerate(METRICS):
            path = Path(context.experiment_fs_path, f"c{index}")
            report = _TrainingReport(checkpoint(path), metrics, validation=False)
            manager.register_checkpoint(report)
        await asyncio.sleep(0)

    asyncio.run(register())
    return context.experiment_fs_path


def shape(result) -> list:
    """What a result says, comparable: NaN is not equal to itself."""
    paths = [(one.path, repr(metrics)) for one, metrics in result.best_checkpoints]
    newest = (result.checkpoint.path, repr(result.metrics))
    return [paths, newest, result.path, result.filesystem, result.error]


@pytest.mark.parametrize("written_by", ["ours", "theirs"])
def test_both_read_the_same_result(written_by, request):
    """`Result.from_path` of Ray's and of ours agree on both directories."""
    path = request.getfixturevalue(written_by)
    read_by_us, read_by_ray = train.Result.from_path(path), ray.train.Result.from_path(path)
    assert shape(read_by_ray) == shape(read_by_us)
    assert ["c0", "c2", "c1"] == [Path(one.path).name for one, _ in read_by_us.best_checkpoints]
    assert "c2" == Path(read_by_us.checkpoint.path).name
    assert read_by_ray.metrics_dataframe.equals(read_by_us.metrics_dataframe)
    assert [2, 1] == [
        int(Path(read.get_best_checkpoint("loss", mode).path).name == "c1") + 1
        for read, mode in ((read_by_us, "min"), (read_by_us, "max"))
    ]


def test_ray_goes_on_from_our_directory(ours, tmp_path):
    """Its checkpoint manager finds our newest checkpoint, and adds its own."""
    context = StorageContext(str(tmp_path / "results"), "ours")

    async def register():
        manager = CheckpointManager(ray.train.CheckpointConfig(), context)
        assert "c2" == Path(manager.latest_checkpoint_result.checkpoint.path).name
        one = checkpoint(Path(context.experiment_fs_path, "c3"))
        manager.register_checkpoint(_TrainingReport(one, {"loss": 0.5}, validation=False))
        await asyncio.sleep(0)

    asyncio.run(register())
    restored = Storage(tmp_path / "results", "ours").restored()
    assert ["c0", "c1", "c2", "c3"] == [one.directory for one in restored]


def test_we_go_on_from_rays_directory(theirs, tmp_path):
    """In the order in which they were reported."""
    restored = Storage(tmp_path / "results", "theirs").restored()
    assert ["c0", "c1", "c2"] == [one.directory for one in restored]


def test_the_best_by_a_metric_inside_another(ours):
    """Named with slashes; a checkpoint without it, or with NaN, is no candidate."""
    result = train.Result.from_path(ours)
    assert "c0" == Path(result.get_best_checkpoint("eval/acc", "max").path).name
    for metric in ("nan", "nothing"):
        with pytest.raises(UsageError, match=f"no checkpoint has a metric '{metric}'") as caught:
            result.get_best_checkpoint(metric, "max")
        assert "eval, loss, nan" in caught.value.hint
    with pytest.raises(ValueError, match="'max' or 'min'"):
        result.get_best_checkpoint("loss", "best")


def test_paths_may_end_in_a_slash_be_relative_or_on_a_filesystem(ours, monkeypatch):
    """They name the same run."""
    expected = shape(train.Result.from_path(ours))
    assert expected == shape(train.Result.from_path(ours + "/"))
    assert expected == shape(train.Result.from_path(Path(ours)))
    assert expected == shape(train.Result.from_path(f"file://{ours}"))
    assert expected == shape(train.Result.from_path(ours, fs.LocalFileSystem()))
    monkeypatch.chdir(Path(ours).parent)
    assert expected == shape(train.Result.from_path("ours"))


def test_a_directory_without_a_run(tmp_path):
    """Says what to name."""
    with pytest.raises(NotFound, match="no run has left checkpoints here") as caught:
        train.Result.from_path(tmp_path)
    assert "<storage_path>" in caught.value.hint


def test_a_result_without_checkpoints_has_no_table():
    """And a local filesystem, as Ray's."""
    result = train.Result({"a": 1}, None, None, "path")
    assert result.metrics_dataframe is None
    assert "local" == result.filesystem.type_name
    with pytest.raises(UsageError, match="no checkpoint") as caught:
        result.get_best_checkpoint("a", "max")
    assert "there is no checkpoint" in caught.value.hint
