"""The trainer: checks what it is given, and starts a run of it with every `fit()`."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from trainstate.controller.backend import BackendConfig
from trainstate.controller.hook_env import callbacks_of
from trainstate.controller.job import Job, RunContext
from trainstate.controller.storage import Storage
from trainstate.train.concluding import concluded, opened
from trainstate.train.config import RunConfig, ScalingConfig, adopt
from trainstate.train.local import LocalJob, run_locally
from trainstate.train.pickling import pickled
from trainstate.train.provenance import code, command
from trainstate.train.result import Result
from trainstate.train.settings import settings_of
from trainstate.train.train_function import checked
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

# Nothing waits for git but training in this process, which begins at once after it.
_GIT_TIMEOUT_S, _GIT_TIMEOUT_LOCAL_S = 30.0, 0.01


class DataParallelTrainer:
    """Runs one function on every worker; each has its part of the data.

    The arguments are Ray Train's. `train_loop_per_worker` takes nothing, or `train_loop_config` (an
    empty dict if that is None). Raises ValueError for what makes no sense or is not supported.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[[], Any] | Callable[[dict[str, Any]], Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        backend_config: BackendConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: Mapping[str, Any] | None = None,
        dataset_config: Any | None = None,
        resume_from_checkpoint: Any | None = None,
        metadata: dict[str, Any] | None = None,
        validation_config: Any | None = None,
    ) -> None:
        _refuse(
            resume_from_checkpoint, "resume_from_checkpoint", "pass a path in train_loop_config"
        )
        _refuse(metadata, "metadata", "pass it in train_loop_config")
        _refuse(validation_config, "validation_config", "validate in the training function")
        self.train_loop_config = train_loop_config
        self.backend_config = _backend_config(backend_config)
        self.scaling_config = adopt(ScalingConfig, scaling_config)
        self.run_config = adopt(RunConfig, run_config)
        self.datasets = dict(datasets or {})
        self.data_config = dataset_config
        context = self.backend_config.train_func_context
        self.train_function = checked(train_loop_per_worker, train_loop_config, context)

    def fit(self) -> Result:
        """Runs the training, to its end.

        Raises, all of trainstate.errors.TrainstateError: WorkerGroupError (workers failed, and no retry
        is left), ControllerError, StateUnavailable, StorageError, UsageError (something cannot be
        pickled). Ctrl-C aborts the run and raises KeyboardInterrupt, SIGTERM SystemExit(143).
        """
        run_id = uuid.uuid4().hex
        settings = self._settings()
        storage = self._storage(settings)
        storage.prepare()
        if self.scaling_config.num_workers == 0:
            ended = run_locally(self._local_job(run_id, settings, storage))
        else:
            from trainstate.controller.launch import run

            ended = opened(run(self._job(run_id, settings, storage), partial(code, _GIT_TIMEOUT_S)))
        return concluded(ended, storage, run_id)

    def _settings(self) -> s.RunSettings:
        return settings_of(
            train_loop_config=self.train_loop_config,
            backend_config=self.backend_config,
            scaling_config=self.scaling_config,
            run_config=self.run_config,
            datasets=self.datasets,
            data_config=self.data_config,
        )

    def _storage(self, settings: s.RunSettings) -> Storage:
        return Storage(
            os.fspath(self.run_config.storage_path or ""),
            settings.run_config.name,
            self.run_config.storage_filesystem,
            settings.limits.upload_timeout_s,
        )

    def _context(self, run_id: str) -> RunContext:
        return RunContext(
            run_id=run_id,
            run_config=self.run_config,
            train_loop_config=self.train_loop_config,
            scaling_config=self.scaling_config,
            backend_config=self.backend_config,
            dataset_config=self.data_config,
        )

    def _created(self, settings: s.RunSettings, known: s.Provenance | None = None) -> e.RunCreated:
        name = settings.run_config.name
        found = command(self.train_loop_config)
        found.MergeFrom(known or s.Provenance())
        return e.RunCreated(name=name, settings=settings, provenance=found)

    def _local_job(self, run_id: str, settings: s.RunSettings, storage: Storage) -> LocalJob:
        return LocalJob(
            run_id=run_id,
            created=self._created(settings, code(_GIT_TIMEOUT_LOCAL_S)),
            train_function=self.train_function,
            framework=self.backend_config.framework,
            datasets=self.datasets,
            callbacks=tuple(self.run_config.callbacks or ()),
            storage=storage,
            context=self._context(run_id),
        )

    def _job(self, run_id: str, settings: s.RunSettings, storage: Storage) -> Job:
        """What the controller is given. Raises UsageError for what cannot be pickled."""
        name = settings.run_config.name
        callbacks = (*callbacks_of(os.environ), *(self.run_config.callbacks or ()))
        pickled(callbacks, "RunConfig(callbacks)")
        pickled(storage, "RunConfig(storage_filesystem)")
        return Job(
            run_id=run_id,
            name=name,
            created=self._created(settings).SerializeToString(),
            train_fn=pickled(self.train_function, "train_loop_per_worker"),
            backend_config=self.backend_config,
            datasets=pickled(self.datasets, "datasets") if self.datasets else b"",
            data_config=self.data_config,
            callbacks=callbacks,
            storage=storage,
            worker_runtime_env=dict(self.run_config.worker_runtime_env or {}),
            context=pickled(self._context(run_id), "the configs of the trainer"),
            restored=tuple(one.SerializeToString() for one in storage.restored()),
        )


def _backend_config(given: Any) -> BackendConfig:
    if given is None:
        return BackendConfig()
    if not isinstance(given, BackendConfig):
        raise ValueError(
            f"backend_config is a {type(given).__qualname__}; "
            "use trainstate.train.torch.TorchConfig, or derive from trainstate.train.BackendConfig"
        )
    return given


def _refuse(value: Any, name: str, instead: str) -> None:
    if value is not None:
        raise ValueError(f"{name} is not supported: {instead}")
