"""Where a run's checkpoints live: a directory per experiment on a filesystem that every node reaches.

The layout is Ray Train's: `<storage_path>/<name>/` holds one directory per checkpoint and the snapshot
that names them (controller/snapshot.py). A checkpoint exists for others once the journal says it is
committed; what an upload that failed or timed out has left in its directory is named by nothing.

pyarrow is loaded at the first use. A Storage is pickled as its arguments.
"""

from __future__ import annotations

import os
import posixpath
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from trainstate.controller.snapshot import (
    FILE_NAME,
    Snapshot,
    committed,
    decode,
    encode,
    published,
)
from trainstate.core.model import PendingCheckpoint, Run
from trainstate.errors import StorageError, UsageError
from trainstate.v1 import event_pb2 as e

T = TypeVar("T")

UPLOAD_TIMEOUT_S = 1800.0
# Made by the driver, looked for by the workers: they all see the same storage (Ray's name for it).
_MARKER = ".validate_storage_marker"
_TRIES = 4
_FIRST_DELAY_S = 0.5
_CHUNK_BYTES = 64 * 1024 * 1024
# Trying these again brings the same answer.
_FINAL = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError)
_NOT_SHARED = (
    "set RunConfig(storage_path) to what every node reaches: s3://bucket/path, or a shared mount"
)


class Storage:
    """The directory `name` below `path`: a local path, a URI, or a path on a pyarrow `filesystem`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str,
        filesystem: Any = None,
        upload_timeout_s: float = UPLOAD_TIMEOUT_S,
    ) -> None:
        self.path = os.fspath(path)
        self.experiment_dir_name = name
        self.custom_filesystem = filesystem
        self.upload_timeout_s = upload_timeout_s

    def __reduce__(self) -> tuple[Any, ...]:
        made_from = (self.path, self.experiment_dir_name, self.custom_filesystem)
        return type(self), (*made_from, self.upload_timeout_s)

    @cached_property
    def _resolved(self) -> tuple[Any, str]:
        if self.custom_filesystem is not None:
            return self.custom_filesystem, self.path
        from pyarrow import fs

        local = "://" not in self.path
        where = os.path.abspath(os.path.expanduser(self.path)) if local else self.path
        try:
            filesystem, path = fs.FileSystem.from_uri(where)
        except (ValueError, OSError) as error:
            raise UsageError(
                f"no storage: {error}",
                path=self.path,
                hint="RunConfig(storage_path) is a directory, a URI that pyarrow knows, "
                "or a path on RunConfig(storage_filesystem)",
            ) from error
        return filesystem, path

    @property
    def storage_filesystem(self) -> Any:
        """The pyarrow filesystem."""
        return self._resolved[0]

    @property
    def storage_fs_path(self) -> str:
        """The storage path as that filesystem has it: without scheme."""
        return self._resolved[1]

    @property
    def experiment_fs_path(self) -> str:
        """The experiment's directory."""
        return posixpath.join(self.storage_fs_path, self.experiment_dir_name)

    def build_checkpoint_path_from_name(self, checkpoint_name: str) -> str:
        """The directory of the checkpoint of that name."""
        return posixpath.join(self.experiment_fs_path, checkpoint_name)

    def extract_checkpoint_dir_name_from_path(self, checkpoint_path: str) -> str:
        """The name of the checkpoint in that directory. Raises UsageError if it is elsewhere."""
        start = self.experiment_fs_path + "/"
        if not checkpoint_path.startswith(start):
            raise UsageError(
                f"the checkpoint is not below {self.experiment_fs_path}",
                path=checkpoint_path,
                hint="a checkpoint that is not uploaded must be in the experiment's directory: "
                "train.get_context().get_storage().build_checkpoint_path_from_name(...)",
            )
        return checkpoint_path.removeprefix(start).rstrip("/")

    @staticmethod
    def make_default_checkpoint_dir_name() -> str:
        """A name that no checkpoint has, in the order of time."""
        return f"checkpoint_{datetime.now().astimezone():%Y-%m-%d_%H-%M-%S.%f}"

    def checkpoint(self, directory: str) -> Any:
        """The ray.train.Checkpoint in that directory."""
        from ray.train import Checkpoint

        path = self.build_checkpoint_path_from_name(directory)
        return Checkpoint(path, filesystem=self.storage_filesystem)

    # --- what is written and removed --------------------------------------------------------------

    def prepare(self) -> None:
        """Makes the experiment's directory and the marker in it. Raises StorageError."""
        with self._named(self.experiment_fs_path, "check the storage path and who may write there"):
            self.storage_filesystem.create_dir(self.experiment_fs_path, recursive=True)
            with self.storage_filesystem.open_output_stream(self._marker):
                pass

    def check(self) -> None:
        """Raises StorageError unless what the driver prepared is seen here too."""
        with self._named(self.experiment_fs_path, _NOT_SHARED):
            seen = self._exists(self._marker)
        if not seen:
            raise StorageError(
                "this node does not see the storage that the driver prepared",
                path=self.experiment_fs_path,
                hint=_NOT_SHARED,
            )

    def persist_current_checkpoint(self, checkpoint: Any, checkpoint_dir_name: str) -> Any:
        """Copies a checkpoint into its directory, beside what other ranks put there.

        A transfer that fails is tried again, until `upload_timeout_s` is over: then the copying thread
        is left behind and nothing refers to what it writes. Returns the checkpoint in storage. Raises
        StorageError.
        """
        self.check()
        self._there(checkpoint)
        target = self.build_checkpoint_path_from_name(checkpoint_dir_name)
        if checkpoint.filesystem == self.storage_filesystem and checkpoint.path == target:
            return checkpoint
        hint = "a checkpoint's directory must stay until report() returns"
        with self._named(target, hint):
            _within(self.upload_timeout_s, lambda end: self._copied(checkpoint, target, end))
        return self.checkpoint(checkpoint_dir_name)

    upload = persist_current_checkpoint

    def _there(self, checkpoint: Any) -> None:
        """Raises StorageError for a checkpoint of files that are not there."""
        from pyarrow import fs

        hint = "write the checkpoint's directory before report(), and keep it until that returns"
        with self._named(checkpoint.path, hint):
            found = checkpoint.filesystem.get_file_info(checkpoint.path).type
        if found == fs.FileType.NotFound:
            raise StorageError("no such checkpoint directory", path=checkpoint.path, hint=hint)

    def _copied(self, checkpoint: Any, target: str, deadline: float) -> None:
        _repeated(lambda: self._copy(checkpoint, target), deadline)

    def _copy(self, checkpoint: Any, target: str) -> None:
        from pyarrow import fs

        self.storage_filesystem.create_dir(target, recursive=True)
        fs.copy_files(
            checkpoint.path,
            target,
            source_filesystem=checkpoint.filesystem,
            destination_filesystem=self.storage_filesystem,
            chunk_size=_CHUNK_BYTES,
            # Several uploads to S3 at a time can lock each other up (apache/arrow#32372).
            use_threads=self.storage_filesystem.type_name != "s3",
        )

    def discard(self, checkpoint: Any) -> None:
        """Removes the copy that was uploaded. Raises UsageError if the run's storage is in it."""
        path = posixpath.normpath(checkpoint.path)
        here = posixpath.normpath(self.experiment_fs_path)
        same = checkpoint.filesystem == self.storage_filesystem
        if same and posixpath.commonpath([path, here]) in (path, here):
            raise UsageError(
                "deleting this checkpoint would delete what the run has stored",
                path=path,
                hint="write checkpoints to a temporary directory, or report them with "
                "delete_local_checkpoint_after_upload=False",
            )
        with self._named(path, "remove the directory by hand; it is stored"):
            checkpoint.filesystem.delete_dir(path)

    def delete(self, directory: str) -> None:
        """Removes a checkpoint; one that is gone already is fine. Raises StorageError."""
        path = self.build_checkpoint_path_from_name(directory)
        with self._named(path, "remove the directory by hand; nothing refers to it"):
            deadline = time.monotonic() + self.upload_timeout_s
            _repeated(lambda: self._delete(path), deadline)

    def _delete(self, path: str) -> None:
        if self._exists(path):
            self.storage_filesystem.delete_dir(path)

    def size_bytes(self, directory: str) -> int:
        """How large a checkpoint is. Raises StorageError."""
        from pyarrow import fs

        path = self.build_checkpoint_path_from_name(directory)
        with self._named(path, "the checkpoint was removed, or storage cannot be read"):
            files = self.storage_filesystem.get_file_info(fs.FileSelector(path, recursive=True))
        return sum(one.size or 0 for one in files)

    # --- the snapshot -----------------------------------------------------------------------------

    def read_snapshot(self) -> Snapshot | None:
        """The checkpoints of the experiment; None if none was ever committed.

        Raises StorageError, and DecodeError for a file that is none of Ray's or ours.
        """
        path = self._snapshot_path
        with self._named(path, "check the storage path and who may read there"):
            if not self._exists(path):
                return None
            with self.storage_filesystem.open_input_stream(path) as stream:
                data = stream.read()
        return decode(data, path)

    def restored(self) -> tuple[e.CheckpointCommitted, ...]:
        """The checkpoints that an earlier run of this experiment left, oldest first.

        One that somebody removed is left out. Raises StorageError if that is the newest, from which
        training would go on, and as `read_snapshot` does.
        """
        snapshot = self.read_snapshot() or Snapshot()
        path = self.build_checkpoint_path_from_name(snapshot.latest)
        with self._named(path, "check the storage path and who may read there"):
            kept = [
                one
                for one in snapshot.kept
                if self._exists(self.build_checkpoint_path_from_name(one.directory))
            ]
        if snapshot.newest is not None and snapshot.newest not in kept:
            raise StorageError(
                "the newest checkpoint of the experiment is gone",
                path=path,
                hint="choose another RunConfig(name), or remove the snapshot to start anew: "
                + self._snapshot_path,
            )
        return committed(Snapshot(kept, snapshot.latest))

    def publish(self, run: Run, complete: PendingCheckpoint | None) -> int:
        """Has a checkpoint that is complete found by later runs; its size. Raises StorageError."""
        size = 0 if complete is None else self.size_bytes(complete.directory)
        self.write_snapshot(published(run, complete))
        return size

    def write_snapshot(self, snapshot: Snapshot) -> None:
        """Replaces the snapshot as a whole: readers see the one before or this. Raises StorageError."""
        path = self._snapshot_path
        beside = f"{path}.{secrets.token_hex(4)}.tmp"
        with self._named(path, "check the storage path and who may write there"):
            deadline = time.monotonic() + self.upload_timeout_s
            _repeated(lambda: self._replace(path, beside, encode(snapshot)), deadline)

    def _replace(self, path: str, beside: str, data: bytes) -> None:
        self.storage_filesystem.create_dir(self.experiment_fs_path, recursive=True)
        with self.storage_filesystem.open_output_stream(beside) as stream:
            stream.write(data)
        self.storage_filesystem.move(beside, path)

    # --- inside -----------------------------------------------------------------------------------

    @property
    def _marker(self) -> str:
        return posixpath.join(self.experiment_fs_path, _MARKER)

    @property
    def _snapshot_path(self) -> str:
        return posixpath.join(self.experiment_fs_path, FILE_NAME)

    def _exists(self, path: str) -> bool:
        from pyarrow import fs

        return bool(self.storage_filesystem.get_file_info(path).type != fs.FileType.NotFound)

    @contextmanager
    def _named(self, path: str, hint: str) -> Iterator[None]:
        """Turns what a filesystem raises into a StorageError that says where."""
        try:
            yield
        except OSError as error:
            raise StorageError(f"storage said no: {error}", path=path, hint=hint) from error


def _repeated(work: Callable[[], T], deadline: float) -> T:
    """Does `work`, again after failures that may pass, with growing pauses; raises the last."""
    for attempt in range(1, _TRIES):
        try:
            return work()
        except _FINAL:
            raise
        except OSError:
            pause_s = _FIRST_DELAY_S * 2.0**attempt * (1 + random.random()) / 2
            if time.monotonic() + pause_s > deadline:
                raise
            time.sleep(pause_s)
    return work()


def _within(timeout_s: float, work: Callable[[float], T]) -> T:
    """What `work(deadline)` returns or raises, or TimeoutError if that takes too long."""
    future: Future[T] = Future()
    deadline = time.monotonic() + timeout_s

    def run() -> None:
        try:
            future.set_result(work(deadline))
        except BaseException as error:  # whatever it is, it belongs to who waits
            future.set_exception(error)

    threading.Thread(target=run, name="upload", daemon=True).start()
    try:
        return future.result(timeout_s)
    except TimeoutError as error:
        if future.done():  # a timeout of the filesystem's own
            raise
        raise TimeoutError(f"not done after {timeout_s:g} s") from error
