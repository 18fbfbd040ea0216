"""What a training function talks to in local mode: rank 0 of 1, and no wire in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from trainstate.controller.hooks import UserCallback
from trainstate.controller.session import CheckpointUploadMode, Preemption, SessionInfo, stored
from trainstate.controller.storage import Storage
from trainstate.core import Run
from trainstate.core import observations as o
from trainstate.core.redact import METRICS_SIZE_MAX, sanitised_map
from trainstate.core.values import from_map
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s


class World(Protocol):
    """The local run, as its session sees it."""

    job: Any

    @property
    def run(self) -> Run: ...

    def see(self, observation: o.Observation) -> None: ...

    def settle(self) -> None: ...

    def tell(self, hook: Callable[[UserCallback], None], name: str) -> None: ...


class LocalSession:
    """The session of one attempt."""

    def __init__(self, world: World, attempt_id: str) -> None:
        self.storage: Storage = world.job.storage
        self.info = SessionInfo(
            experiment_name=world.run.name,
            run_id=world.run.run_id,
            attempt_id=attempt_id,
            world_rank=0,
            world_size=1,
            local_rank=0,
            local_world_size=1,
            node_rank=0,
            generation=0,
            gang_rank=0,
            gang_size=1,
        )
        self._world = world
        self._reports = 0

    def report(
        self,
        metrics: Mapping[str, Any],
        checkpoint: Any | None,
        checkpoint_dir_name: str | None,
        upload_mode: CheckpointUploadMode,
        delete_local: bool,
        upload_fn: Callable[[Any, str], Any] | None,
    ) -> None:
        """Records the report, and commits its checkpoint, before it returns."""
        there = None
        if checkpoint is None:
            self._record(metrics, "")
        else:
            directory = checkpoint_dir_name or self.storage.make_default_checkpoint_dir_name()
            there = stored(self.storage, checkpoint, directory, upload_mode, upload_fn)
            directory = self.storage.extract_checkpoint_dir_name_from_path(there.path)
            self._record(metrics, directory)
            self._world.settle()
            if delete_local and upload_mode is not CheckpointUploadMode.NO_UPLOAD:
                self.storage.discard(checkpoint)
        context, plain = self._world.job.context, dict(metrics)
        self._world.tell(lambda one: one.after_report(context, [plain], there), "after_report")

    def _record(self, metrics: Mapping[str, Any], directory: str) -> None:
        report = e.ReportReceived(
            rank=0,
            index=self._reports,
            metrics=sanitised_map(metrics, METRICS_SIZE_MAX),
            checkpoint=directory,
        )
        self._world.see(o.Reported(self.info.attempt_id, 0, 0, (report,)))
        self._reports += 1

    def checkpoint(self) -> Any | None:
        """The newest committed checkpoint, of this run or of the one it resumes."""
        made = self._world.run.checkpoints
        return self.storage.checkpoint(made[max(made)].directory) if made else None

    def reported_checkpoints(self) -> Sequence[tuple[Any, Mapping[str, Any]]]:
        """Every committed checkpoint that is kept, oldest first, with its metrics."""
        made = self._world.run.checkpoints
        kept = [made[index] for index in sorted(made)]
        return [
            (self.storage.checkpoint(one.directory), from_map(one.metrics or s.ValueMap()))
            for one in kept
        ]

    def preemption(self) -> Preemption | None:
        """Nobody says anything of this process being taken away."""
        return None

    def dataset_shard(self, name: str) -> Any:
        """The whole dataset. Raises KeyError if there is none of that name."""
        datasets = self._world.job.datasets
        if name not in datasets:
            known = ", ".join(sorted(datasets)) or "none"
            raise KeyError(f"no dataset {name!r}; the trainer was given: {known}")
        dataset = datasets[name]
        made = dataset() if callable(dataset) else dataset
        return made.iterator() if hasattr(made, "iterator") else made

    def barrier(self) -> None:
        """Every rank is here."""

    def broadcast(self, data: Any) -> Any:
        """What rank 0 passes."""
        return data
