"""What a training function calls: report, and what was reported before. Ray Train's names.

Metrics are kept as plain values: Python's numbers exactly, numpy's as Python's, anything that is no
value by its class name (core/redact.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from trainstate.controller.session import CheckpointUploadMode, current
from trainstate.core.redact import METRICS_SIZE_MAX, plain

# What is larger is cut anyway, and what holds itself has no end.
_VALUES_LOOKED_AT = 20_000


class CheckpointConsistencyMode(Enum):
    """Ray's two ways to wait for checkpoints. trainstate validates none, so both are the same."""

    COMMITTED = "COMMITTED"
    VALIDATED = "VALIDATED"


class ReportedCheckpointStatus(Enum):
    """What became of a checkpoint. The others that Ray has are of validations."""

    COMMITTED = "COMMITTED"


@dataclass(frozen=True)
class ReportedCheckpoint:
    """A committed checkpoint (a ray.train.Checkpoint) and the metrics reported with it."""

    checkpoint: Any
    metrics: Mapping[str, Any]
    status: ReportedCheckpointStatus = ReportedCheckpointStatus.COMMITTED


def report(
    metrics: dict[str, Any],
    checkpoint: Any | None = None,
    checkpoint_dir_name: str | None = None,
    checkpoint_upload_mode: CheckpointUploadMode = CheckpointUploadMode.SYNC,
    delete_local_checkpoint_after_upload: bool | None = None,
    checkpoint_upload_fn: Callable[[Any, str], Any] | None = None,
    validation: bool = False,
) -> None:
    """Reports metrics, and a checkpoint to keep with them.

    Every rank makes the same number of reports. Without a checkpoint it returns at once; with one
    (uploaded SYNC) when the checkpoint is committed. The ranks' checkpoints of one report are merged
    into one directory, `checkpoint_dir_name` or one named by the time; the metrics kept with it are
    those of rank 0. `checkpoint_upload_fn(checkpoint, directory name)` does the upload if it is given
    and returns the checkpoint in storage.

    Raises ValueError for metrics that are no dict of strings to values, or hold tensors; RuntimeError
    outside a training function.
    """
    session = current()
    if validation:
        raise ValueError(
            "report(validation=...) is not supported: validate in your training function"
        )
    mode = CheckpointUploadMode(getattr(checkpoint_upload_mode, "value", checkpoint_upload_mode))
    if delete_local_checkpoint_after_upload is None:
        delete_local = mode.default_delete_local_checkpoint_after_upload()
    else:
        delete_local = delete_local_checkpoint_after_upload
    session.report(
        checked_metrics(metrics),
        checkpoint,
        checkpoint_dir_name,
        mode,
        delete_local,
        checkpoint_upload_fn,
    )


def checked_metrics(metrics: Any) -> dict[str, Any]:
    """Metrics as plain values. Raises ValueError for what is no metrics."""
    if not isinstance(metrics, dict):
        raise ValueError(f"report() takes a dict of metrics, not a {type(metrics).__name__}")
    for key in metrics:
        if not isinstance(key, str):
            raise ValueError(f"report() takes metrics with names, and {key!r} is not a str")
    _refuse_tensors(metrics, "metrics")
    made: dict[str, Any] = plain(metrics, METRICS_SIZE_MAX)
    return made


def _refuse_tensors(value: Any, where: str) -> None:
    torch = sys.modules.get("torch")
    if torch is None:  # nobody here can have made a tensor
        return
    open_values, seen = [(value, where, 0)], 0
    while open_values and seen < _VALUES_LOOKED_AT:
        one, at, depth = open_values.pop()
        seen += 1
        if isinstance(one, torch.Tensor):
            raise ValueError(
                f"{at} is a torch tensor: report a number, for example with .item(), "
                "and keep tensors in a checkpoint"
            )
        # Deeper than that, or in what holds itself, nothing is kept anyway.
        if depth < 16:
            open_values += [(item, f"{at}[{key!r}]", depth + 1) for key, item in _parts(one)]


def _parts(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list | tuple) else []


def get_checkpoint() -> Any | None:
    """The newest committed ray.train.Checkpoint: the one to resume from at the start, else None."""
    return current().checkpoint()


def get_all_reported_checkpoints(
    consistency_mode: CheckpointConsistencyMode = CheckpointConsistencyMode.VALIDATED,
    timeout_s: float | None = None,
) -> list[ReportedCheckpoint]:
    """The committed checkpoints that are kept, oldest first.

    A SYNC checkpoint is among them when its `report()` has returned, an ASYNC one some time later. Both
    arguments are Ray's and change nothing: what is committed now is returned at once.
    """
    return [ReportedCheckpoint(one, metrics) for one, metrics in current().reported_checkpoints()]


def get_dataset_shard(dataset_name: str | None = None) -> Any:
    """This worker's part (a ray.data.DataIterator) of the trainer's dataset of that name.

    Raises KeyError if the trainer was given none of that name. Without a name, the one dataset there
    is, called "train".
    """
    return current().dataset_shard("train" if dataset_name is None else dataset_name)
