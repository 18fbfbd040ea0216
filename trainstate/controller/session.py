"""What the training function's thread talks to: `train.report` and its kin are thin wrappers over it.

One training function runs in a process at a time, and threads that it starts belong to it, so the
current session is a fact of the process and not of a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from trainstate.controller.storage import Storage
from trainstate.errors import UsageError


class CheckpointUploadMode(Enum):
    """How a reported checkpoint gets to storage; the names and values of Ray's."""

    ASYNC = "ASYNC"  # behind the training function's back
    SYNC = "SYNC"  # before `report` returns
    NO_UPLOAD = "NO_UPLOAD"  # it is there already

    def default_delete_local_checkpoint_after_upload(self) -> bool:
        """Whether the local copy goes once it is uploaded, if the caller does not say."""
        return self is CheckpointUploadMode.ASYNC


def stored(
    storage: Storage,
    checkpoint: Any,
    directory: str,
    mode: CheckpointUploadMode,
    upload_fn: Callable[[Any, str], Any] | None,
) -> Any:
    """The ray.train.Checkpoint in storage, put there if it is not. Raises StorageError, UsageError."""
    if mode is CheckpointUploadMode.NO_UPLOAD:
        return checkpoint
    if upload_fn is None:
        return storage.upload(checkpoint, directory)
    there = upload_fn(checkpoint, directory)
    if not (hasattr(there, "path") and hasattr(there, "filesystem")):
        raise UsageError(
            f"checkpoint_upload_fn returned a {type(there).__qualname__}",
            hint="return the ray.train.Checkpoint of where it has put the files",
        )
    return there


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """Who this worker is: fixed as long as its training function runs.

    Its gang is what it meets in collectives: its replica group, or all workers if there are none.
    """

    experiment_name: str
    run_id: str
    attempt_id: str
    world_rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int
    generation: int
    gang_rank: int
    gang_size: int
    replica_group: int | None = None
    replica_groups: int = 0


@dataclass(frozen=True, slots=True)
class Preemption:
    """Nodes that are about to be taken away: the ranks on each, by node id in hex.

    `deadline_ns` is when, in ns since the Unix epoch; None if nobody said.
    """

    node_ranks: Mapping[str, tuple[int, ...]]
    deadline_ns: int | None = None


class Session(Protocol):
    """One training function's way to the outside."""

    info: SessionInfo
    storage: Storage

    def report(
        self,
        metrics: Mapping[str, Any],
        checkpoint: Any | None,
        checkpoint_dir_name: str | None,
        upload_mode: CheckpointUploadMode,
        delete_local: bool,
        upload_fn: Callable[[Any, str], Any] | None,
    ) -> None:
        """Takes one report; returns as soon as losing it would be nobody's surprise."""
        ...

    def checkpoint(self) -> Any | None:
        """The newest committed ray.train.Checkpoint, of this run or of the one it resumes."""
        ...

    def reported_checkpoints(self) -> Sequence[tuple[Any, Mapping[str, Any]]]:
        """Every committed checkpoint that is kept, oldest first, with its metrics."""
        ...

    def preemption(self) -> Preemption | None:
        """What is about to be taken away, if anything is."""
        ...

    def dataset_shard(self, name: str) -> Any:
        """This worker's part of a dataset. Raises KeyError if there is none of that name."""
        ...

    def barrier(self) -> None:
        """Returns when every rank of the gang is here."""
        ...

    def broadcast(self, data: Any) -> Any:
        """What the gang's rank 0 passes, on every rank of it."""
        ...


_session: Session | None = None


def current() -> Session:
    """The session of the training function that runs here. Raises RuntimeError if none does."""
    if _session is None:
        raise RuntimeError(
            "no training function runs in this process: report(), get_context() and the like work "
            "only inside a training function that a trainer's fit() started"
        )
    return _session


def set_current(session: Session | None) -> Session | None:
    """Makes `session` what `current` returns; returns what that was before."""
    global _session
    before, _session = _session, session
    return before
