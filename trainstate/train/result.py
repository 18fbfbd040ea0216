"""What `fit()` returns, and what can be read again from the run's directory later."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trainstate.controller.storage import Storage
from trainstate.errors import NotFound, UsageError
from trainstate.train.exceptions import TrainingFailedError


@dataclass
class Result:
    """The end of a run. Ray Train's names, and `run_id`, the run's name in the journal.

    `metrics` are those of the last report, with or without a checkpoint; `checkpoint` is the newest
    ray.train.Checkpoint; `best_checkpoints` are those that are kept, worst first, with their metrics;
    `path` is the run's directory on `filesystem`; `return_value` is what the training function returned
    on rank 0.
    """

    metrics: dict[str, Any] | None
    checkpoint: Any | None
    error: TrainingFailedError | None
    path: str
    best_checkpoints: list[tuple[Any, dict[str, Any]]] | None = None
    return_value: Any = None
    run_id: str | None = None
    _storage_filesystem: Any = None

    @property
    def filesystem(self) -> Any:
        """The pyarrow filesystem that `path` is on."""
        if self._storage_filesystem is not None:
            return self._storage_filesystem
        from pyarrow import fs

        return fs.LocalFileSystem()

    @cached_property
    def metrics_dataframe(self) -> Any | None:
        """The metrics of the checkpoints that are kept as a pandas DataFrame, one row each."""
        if not self.best_checkpoints:
            return None
        import pandas

        return pandas.DataFrame([metrics for _, metrics in self.best_checkpoints])

    def get_best_checkpoint(self, metric: str, mode: str) -> Any:
        """The checkpoint whose `metric` is highest ("max") or lowest ("min").

        A metric inside another is named with slashes: "eval/loss". Raises UsageError if no checkpoint
        has that metric.
        """
        if mode not in ("max", "min"):
            raise ValueError(f"mode={mode!r} must be 'max' or 'min'")
        scored = [
            (value, checkpoint)
            for checkpoint, metrics in self.best_checkpoints or ()
            if (value := _looked_up(metrics, metric)) is not None and value == value  # no NaN
        ]
        if not scored:
            known = sorted({key for _, metrics in self.best_checkpoints or () for key in metrics})
            raise UsageError(
                f"no checkpoint has a metric {metric!r}",
                path=self.path,
                run_id=self.run_id,
                hint=f"their metrics are: {', '.join(known) or 'none, there is no checkpoint'}",
            )
        choose = max if mode == "max" else min
        return choose(scored, key=lambda one: one[0])[1]

    @classmethod
    def from_path(
        cls, path: str | os.PathLike[str], storage_filesystem: Any | None = None
    ) -> Result:
        """The result of a run of ours or of Ray Train's, from its directory.

        What was only reported, without a checkpoint, and what the training function returned are not in
        it. Raises NotFound if the directory holds no run, DecodeError, StorageError.
        """
        parent, name = posixpath.split(os.fspath(path).rstrip("/"))
        storage = Storage(parent or ".", name, storage_filesystem)
        result = result_of(storage)
        if result is None:
            raise NotFound(
                "no run has left checkpoints here",
                path=path,
                hint="name the directory of a run: <storage_path>/<RunConfig.name>",
            )
        return result


def result_of(
    storage: Storage,
    *,
    metrics: Mapping[str, Any] | None = None,
    return_value: Any = None,
    run_id: str | None = None,
) -> Result | None:
    """The result that storage tells of; None if no checkpoint was ever committed there.

    `metrics` are those of the last report, if it is known; else the newest checkpoint's are shown.
    """
    snapshot = storage.read_snapshot()
    if snapshot is None:
        return None
    newest = snapshot.newest
    if metrics is None and newest is not None:
        metrics = newest.metrics
    return Result(
        metrics=None if metrics is None else dict(metrics),
        checkpoint=None if newest is None else storage.checkpoint(newest.directory),
        error=None,
        path=storage.experiment_fs_path,
        best_checkpoints=[
            (storage.checkpoint(one.directory), dict(one.metrics)) for one in snapshot.kept
        ],
        return_value=return_value,
        run_id=run_id,
        _storage_filesystem=storage.storage_filesystem,
    )


def _looked_up(metrics: Mapping[str, Any], name: str) -> Any:
    if name in metrics:
        return metrics[name]
    value: Any = metrics
    for part in name.split("/"):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
