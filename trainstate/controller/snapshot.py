"""The checkpoints of an experiment as Ray Train writes them down: `checkpoint_manager_snapshot.json`.

It is how a later `fit()` of the same name, on any machine, finds the newest checkpoint, and how
`Result.from_path` (ours and Ray's) reads a finished run. What Ray keeps besides, of validations, is
written empty and not read.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from trainstate.core import Checkpoint, Run
from trainstate.core.model import PendingCheckpoint
from trainstate.core.policy import in_order_of_worth, surplus
from trainstate.core.redact import plain, sanitised_map
from trainstate.core.values import from_map
from trainstate.errors import DecodeError
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

FILE_NAME = "checkpoint_manager_snapshot.json"


@dataclass(frozen=True, slots=True)
class Kept:
    """A committed checkpoint that is not deleted: its directory below the experiment's, its metrics.

    `index` counts the checkpoints of an experiment from the first.
    """

    directory: str
    metrics: Mapping[str, Any]
    index: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The checkpoints that are kept, worst first; without a score, oldest first."""

    kept: Sequence[Kept] = ()
    latest: str = ""

    @property
    def newest(self) -> Kept | None:
        """The checkpoint to resume from."""
        return next((one for one in self.kept if one.directory == self.latest), None)

    def by_age(self) -> list[Kept]:
        """The checkpoints, oldest first, the newest last."""
        return sorted(self.kept, key=lambda one: (one.directory == self.latest, one.index))


def published(run: Run, complete: PendingCheckpoint | None = None) -> Snapshot:
    """The checkpoints of a run, with one that is about to be committed; without those about to go.

    What is to be deleted is not in it: it may be gone when somebody reads the snapshot.
    """
    made = dict(run.checkpoints)
    if complete is not None:
        index = run.checkpoints_committed
        made[index] = Checkpoint(index, complete.directory, complete.metrics)
    # Nothing of the run is changed, and nothing but its checkpoints and settings is looked at.
    after = dataclasses.replace(run, checkpoints=made)
    going = {one.index for one in surplus(after)}
    kept = [
        Kept(one.directory, from_map(one.metrics or s.ValueMap()), one.index)
        for one in in_order_of_worth(after)
        if one.index not in going
    ]
    return Snapshot(kept, made[max(made)].directory if made else "")


def committed(snapshot: Snapshot) -> tuple[e.CheckpointCommitted, ...]:
    """The checkpoints of an earlier run, as the run that resumes it records them."""
    return tuple(
        e.CheckpointCommitted(
            index=index, directory=one.directory, metrics=sanitised_map(one.metrics)
        )
        for index, one in enumerate(snapshot.by_age())
    )


def encode(snapshot: Snapshot) -> bytes:
    """The snapshot as Ray's JSON."""
    newest = snapshot.newest
    state = {
        "ray_version": _ray_version(),
        "checkpoint_results": [_result(one) for one in snapshot.kept],
        "checkpoint_report_indices": [one.index for one in snapshot.kept],
        "latest_checkpoint_result": None if newest is None else _result(newest),
        "pending_training_results": [],
        "pending_validation_specs": [],
        "current_report_index": max((one.index + 1 for one in snapshot.kept), default=0),
        "validated_checkpoint_dir_names": [],
        "timed_out_validation_checkpoint_dir_names": [],
        "failed_validation_checkpoint_dir_names": [],
    }
    return json.dumps(state, default=str).encode()


def decode(data: bytes, path: str) -> Snapshot:
    """The snapshot that `encode`, or a Ray that has one, wrote at `path`. Raises DecodeError."""
    try:
        return _read(json.loads(data))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DecodeError(
            f"not a checkpoint manager snapshot: {error}",
            path=path,
            hint="choose another RunConfig(name), or remove the file to start without checkpoints",
        ) from error


def _read(state: Mapping[str, Any]) -> Snapshot:
    results = state["checkpoint_results"]
    # Older Rays did not write which report brought a checkpoint.
    indices = state.get("checkpoint_report_indices") or range(len(results))
    kept = [
        Kept(one["checkpoint_dir_name"], one["metrics"], index)
        for one, index in zip(results, indices, strict=True)
    ]
    if not all(isinstance(one.directory, str) for one in kept):
        raise TypeError("a checkpoint's directory is no text")
    latest = state.get("latest_checkpoint_result") or {}
    return Snapshot(kept, latest.get("checkpoint_dir_name", ""))


def _result(one: Kept) -> dict[str, Any]:
    return {"version": 0, "checkpoint_dir_name": one.directory, "metrics": plain(one.metrics)}


def _ray_version() -> str:
    # Read by Ray only to explain why it could not load the rest.
    try:
        return metadata.version("ray")
    except metadata.PackageNotFoundError:
        return "0"
