"""Where checkpoints live: uploads, deletions and the snapshot, on a filesystem that may say no."""

from __future__ import annotations

import errno
import pickle
import threading
import time
from pathlib import Path

import pytest
import ray.train
from pyarrow import fs

from trainstate.controller import storage as module
from trainstate.controller.snapshot import Kept, Snapshot
from trainstate.controller.storage import Storage
from trainstate.errors import DecodeError, StorageError, UsageError


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(module, "_FIRST_DELAY_S", 0.001)


@pytest.fixture
def storage(tmp_path) -> Storage:
    made = Storage(tmp_path / "results", "exp")
    made.prepare()
    return made


@pytest.fixture
def local(tmp_path) -> ray.train.Checkpoint:
    folder = tmp_path / "local" / "sub"
    folder.mkdir(parents=True)
    (folder.parent / "model.bin").write_bytes(b"weights")
    (folder / "more").write_text("more")
    return ray.train.Checkpoint.from_directory(folder.parent)


class Flaky(Storage):
    """Its first `failures` copies fail."""

    failures: int = 0
    error: OSError = OSError(errno.EIO, "the network is having a day")
    copies = 0

    def _copy(self, checkpoint, target):
        self.copies += 1
        if self.copies <= self.failures:
            raise self.error
        super()._copy(checkpoint, target)


def flaky(tmp_path: Path, failures: int, **fields) -> Flaky:
    made = Flaky(tmp_path / "results", "exp", **fields)
    made.failures = failures
    made.prepare()
    return made


# --- where ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "filesystem", "expected"),
    [
        ("/data/results", None, "/data/results/exp"),
        ("file:///data/results", None, "/data/results/exp"),
        ("mock:///bucket/path", None, "bucket/path/exp"),
        ("bucket/path", fs.LocalFileSystem(), "bucket/path/exp"),
    ],
)
def test_paths_are_those_of_rays_storage_context(path, filesystem, expected):
    """A URI is stripped of its scheme; with a filesystem, the path is on it."""
    assert expected == Storage(path, "exp", filesystem).experiment_fs_path


def test_a_local_path_may_be_relative_or_begin_at_home(tmp_path, monkeypatch):
    """pyarrow knows neither."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert f"{tmp_path}/results/exp" == Storage("results", "exp").experiment_fs_path
    assert f"{tmp_path}/results/exp" == Storage("~/results", "exp").experiment_fs_path


def test_a_path_that_is_no_storage_is_refused():
    """With what it may be."""
    with pytest.raises(UsageError, match=r"no storage: .*nosuch") as caught:
        Storage("nosuch://bucket", "exp").prepare()
    assert caught.value.hint


def test_a_storage_is_pickled_as_its_arguments(storage, local):
    """It goes to the controller and to every worker, and works there."""
    again = pickle.loads(pickle.dumps(storage))
    assert (storage.experiment_fs_path, 1800.0) == (
        again.experiment_fs_path,
        again.upload_timeout_s,
    )
    again.upload(local, "c0")
    custom = pickle.loads(pickle.dumps(Storage("a", "exp", fs.LocalFileSystem(), 5)))
    assert ("a/exp", 5) == (custom.experiment_fs_path, custom.upload_timeout_s)


def test_names_and_paths_of_checkpoints(storage):
    """There and back; one that is elsewhere has no name."""
    path = storage.build_checkpoint_path_from_name("c0")
    assert "c0" == storage.extract_checkpoint_dir_name_from_path(path + "/")
    with pytest.raises(UsageError, match="not below") as caught:
        storage.extract_checkpoint_dir_name_from_path("/elsewhere/c0")
    assert "build_checkpoint_path_from_name" in caught.value.hint


def test_default_names_are_in_the_order_of_time(storage):
    """And start as Ray's do."""
    first, second = (storage.make_default_checkpoint_dir_name() for _ in range(2))
    assert first < second
    assert first.startswith("checkpoint_2")


# --- uploads --------------------------------------------------------------------------------------


def test_an_upload_is_the_whole_directory(storage, local):
    """What comes back is the ray.train.Checkpoint in storage."""
    stored = storage.upload(local, "c0")
    assert storage.build_checkpoint_path_from_name("c0") == stored.path
    assert b"weights" == Path(stored.path, "model.bin").read_bytes()
    assert "more" == Path(stored.path, "sub/more").read_text()
    assert len(b"weights") + len("more") == storage.size_bytes("c0")


def test_ranks_share_a_directory(storage, local, tmp_path):
    """One does not remove what another has put there."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "rank1").write_text("1")
    storage.upload(local, "c0")
    stored = storage.upload(ray.train.Checkpoint.from_directory(tmp_path / "other"), "c0")
    assert {"model.bin", "sub", "rank1"} == {one.name for one in Path(stored.path).iterdir()}


def test_a_checkpoint_that_is_there_is_not_copied_onto_itself(tmp_path, local):
    """That would truncate it."""
    storage = flaky(tmp_path, 0)
    stored = storage.upload(local, "c0")
    assert stored is storage.upload(stored, "c0")
    assert 1 == storage.copies


@pytest.mark.parametrize("failures", [1, 3])
def test_a_transfer_that_fails_is_tried_again(tmp_path, local, failures):
    """Whatever the error's text (Ray knows five of one vendor's)."""
    storage = flaky(tmp_path, failures)
    assert b"weights" == Path(storage.upload(local, "c0").path, "model.bin").read_bytes()
    assert failures + 1 == storage.copies


def test_tries_come_to_an_end(tmp_path, local):
    """The error says where, why and what to do."""
    storage = flaky(tmp_path, 99)
    with pytest.raises(StorageError, match="having a day") as caught:
        storage.upload(local, "c0")
    assert 4 == storage.copies
    assert storage.build_checkpoint_path_from_name("c0") == caught.value.path
    assert caught.value.hint


@pytest.mark.parametrize("error", [FileNotFoundError("gone"), PermissionError("no")])
def test_what_will_not_change_is_not_tried_again(tmp_path, local, error):
    """A source that is gone, a right that is missing."""
    storage = flaky(tmp_path, 99)
    storage.error = error
    with pytest.raises(StorageError):
        storage.upload(local, "c0")
    assert 1 == storage.copies


def test_a_source_that_is_gone(storage, tmp_path):
    """What is missing is the checkpoint's directory, not the storage."""
    with pytest.raises(StorageError) as caught:
        storage.upload(ray.train.Checkpoint.from_directory(tmp_path / "gone"), "c0")
    assert str(tmp_path / "gone") == caught.value.path
    assert "keep it until that returns" in caught.value.hint


def test_an_upload_has_a_time_limit(tmp_path, local):
    """It ends while the copy hangs, and what the copy does later is nobody's checkpoint."""
    release = threading.Event()

    class Hanging(Storage):
        def _copy(self, checkpoint, target):
            release.wait(10)

    storage = Hanging(tmp_path / "results", "exp", upload_timeout_s=0.2)
    storage.prepare()
    start_s = time.monotonic()
    with pytest.raises(StorageError, match=r"not done after 0\.2 s"):
        storage.upload(local, "c0")
    assert time.monotonic() - start_s < 5
    release.set()


def test_the_time_limit_is_of_all_tries_together(tmp_path, local, monkeypatch):
    """No pause that would go past it is begun."""
    monkeypatch.setattr(module, "_FIRST_DELAY_S", 60)
    storage = flaky(tmp_path, 99, upload_timeout_s=5)
    with pytest.raises(StorageError, match="having a day"):
        storage.upload(local, "c0")
    assert 1 == storage.copies


def test_a_node_that_does_not_share_the_storage_is_told(tmp_path, local):
    """A directory of the driver's node, seen from another one."""
    with pytest.raises(StorageError, match="does not see the storage") as caught:
        Storage(tmp_path / "elsewhere", "exp").upload(local, "c0")
    assert "every node reaches" in caught.value.hint


def test_a_place_where_nobody_may_write_is_said_at_once(tmp_path):
    """Before anything is started."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="said no") as caught:
        Storage(tmp_path / "file", "exp").prepare()
    assert f"{tmp_path}/file/exp" == caught.value.path


@pytest.mark.parametrize("inside", ["", "results", "results/exp", "results/exp/c0"])
def test_discarding_a_local_copy_never_takes_the_stored_one(storage, local, tmp_path, inside):
    """A checkpoint written into the storage path, or around it, is not deleted after its upload."""
    stored = storage.upload(local, "c0")
    with pytest.raises(UsageError, match="would delete"):
        storage.discard(ray.train.Checkpoint.from_directory(tmp_path / inside))
    storage.discard(local)
    assert not Path(local.path).exists()
    assert Path(stored.path, "model.bin").exists()


# --- deletions ------------------------------------------------------------------------------------


def test_a_checkpoint_is_deleted_once(storage, local):
    """One that is gone already is fine: a controller that was killed may ask again."""
    stored = storage.upload(local, "c0")
    storage.delete("c0")
    assert not Path(stored.path).exists()
    storage.delete("c0")


def test_a_deletion_that_fails_says_so(storage, monkeypatch):
    """After its tries."""
    tries = []

    def refuse(self, path):
        tries.append(path)
        raise OSError("busy")

    monkeypatch.setattr(Storage, "_delete", refuse)
    with pytest.raises(StorageError, match="busy"):
        storage.delete("c0")
    assert 4 == len(tries)


# --- the snapshot ---------------------------------------------------------------------------------


def test_no_snapshot_is_none(storage):
    """Nothing was ever committed."""
    assert storage.read_snapshot() is None
    assert () == storage.restored()


def test_a_snapshot_is_replaced_as_a_whole(storage, tmp_path, monkeypatch):
    """A write that breaks off leaves the one before; nothing else stays in the directory."""
    storage.write_snapshot(Snapshot([Kept("c0", {"a": 1})], "c0"))
    storage.write_snapshot(Snapshot([Kept("c1", {"a": 2}, 1)], "c1"))
    assert Snapshot([Kept("c1", {"a": 2}, 1)], "c1") == storage.read_snapshot()
    folder = tmp_path / "results" / "exp"
    assert {"checkpoint_manager_snapshot.json", ".validate_storage_marker"} == {
        one.name for one in folder.iterdir()
    }

    def broken(self, path, beside, data):
        Path(beside).write_bytes(data[:10])
        raise OSError("torn")

    monkeypatch.setattr(Storage, "_replace", broken)
    with pytest.raises(StorageError, match="torn"):
        storage.write_snapshot(Snapshot([Kept("c2", {}, 2)], "c2"))
    assert "c1" == storage.read_snapshot().latest


def test_a_snapshot_that_is_none_is_said_so(storage, tmp_path):
    """Training does not silently start from nothing."""
    (tmp_path / "results/exp/checkpoint_manager_snapshot.json").write_text("{")
    with pytest.raises(DecodeError, match="snapshot"):
        storage.restored()


def test_what_was_removed_by_hand_is_not_restored(storage, local):
    """But without the newest there is nothing to go on from, and that is said."""
    kept = [Kept("c0", {}, 0), Kept("c1", {}, 1), Kept("c2", {}, 2)]
    for one in kept:
        storage.upload(local, one.directory)
    storage.write_snapshot(Snapshot(kept, "c2"))
    storage.delete("c0")
    assert ["c1", "c2"] == [one.directory for one in storage.restored()]
    storage.delete("c2")
    with pytest.raises(StorageError, match="newest checkpoint of the experiment is gone"):
        storage.restored()
