"""What a callback may be told: the hook families of Ray Train (reference A7), as classes to derive from.

A callback is made on the driver, pickled, and called elsewhere: keep no thread, lock, file or connection
in its constructor. Every hook does nothing unless it is overridden; an object may belong to several
families. A hook that fails is recorded and changes nothing else. `trainstate.train.callbacks` is where
users find these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any


class Callback:
    """Base of every family."""


class UserCallback(Callback):
    """For users: called in the controller's process."""

    def after_report(
        self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any | None
    ) -> None:
        """Every rank has made its n-th report; `metrics` is by rank, `checkpoint` is committed."""

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        """Workers have failed; the exceptions are by world rank."""


class ControllerCallback(Callback):
    """The controller's own life."""

    def after_controller_start(self, train_run_context: Any) -> None:
        """Before the loop, and again in a controller that takes a run up."""

    def on_controller_start_worker_group(
        self, *, scaling_config: Any, num_workers: int
    ) -> Mapping[str, str] | None:
        """Before workers are placed; labels their nodes must have, or None."""
        return None

    async def before_controller_shutdown(self) -> None:
        """After the workers are gone, before the run ends."""

    def after_controller_state_update(self, previous_state: Any, current_state: Any) -> None:
        """The run's status changed."""

    def before_controller_execute_failure_decision(self, failure_decision: Any) -> None:
        """A failure is about to be retried or raised."""

    def before_controller_execute_resize_decision(self, resize_decision: Any) -> None:
        """Workers are about to be started, or their number is about to change."""

    def after_controller_finish(self, result: Any) -> None:
        """The run finished or failed."""

    def before_controller_abort(self) -> None:
        """The run is being aborted."""


class ExecutionGroupCallback(Callback):
    """What worker groups and replica groups have in common."""

    def before_init_train_context(self, workers: Sequence[Any]) -> dict[str, list[Any]]:
        """Before workers are told who they are; more of it, one value per worker."""
        return {}

    def after_execution_group_start(self, execution_group: Any) -> None:
        """Its workers can run tasks."""

    def before_execution_group_shutdown(self, execution_group: Any) -> None:
        """Its workers are about to be stopped; some may be dead."""


class WorkerGroupCallback(ExecutionGroupCallback):
    """All workers of an attempt."""

    def on_worker_group_start(self) -> AbstractContextManager[None]:
        """Around the start."""
        return nullcontext()

    def before_worker_group_start(self, worker_group_context: Any) -> None:
        """Before workers are asked for."""

    def after_worker_group_start(self, worker_group: Any) -> None:
        """Its workers can run tasks."""
        self.after_execution_group_start(worker_group)

    def after_worker_group_training_start(self, worker_group: Any) -> None:
        """The training function runs."""

    def on_worker_group_shutdown(self) -> AbstractContextManager[None]:
        """Around the stop."""
        return nullcontext()

    def before_worker_group_shutdown(self, worker_group: Any) -> None:
        """Its workers are about to be stopped; some may be dead."""
        self.before_execution_group_shutdown(worker_group)

    def after_worker_group_shutdown(self, worker_group_context: Any) -> None:
        """Its workers are gone."""

    def after_worker_group_poll_status(self, worker_group_status: Any) -> None:
        """Something was heard of its workers."""

    def before_worker_group_abort(self, worker_group_context: Any) -> None:
        """Its workers are about to be killed."""

    def after_worker_group_abort(self, worker_group_context: Any) -> None:
        """Its workers were killed."""


class ReplicaGroupCallback(ExecutionGroupCallback):
    """A replica group that is replaced on its own."""

    def after_replica_group_start(self, replica_group: Any) -> None:
        """Its workers can run tasks."""
        self.after_execution_group_start(replica_group)

    def before_replica_group_shutdown(self, replica_group: Any) -> None:
        """Its workers are about to be stopped; some may be dead."""
        self.before_execution_group_shutdown(replica_group)


class ReportCallback(Callback):
    """Reports, in the controller's process."""

    def after_report(self, training_report: Any, metrics: list[dict[str, Any]]) -> None:
        """Every rank has made its n-th report."""


class WorkerCallback(Callback):
    """A worker's life, in the worker's process."""

    def after_init_train_context(self) -> None:
        """The worker knows who it is."""

    def before_worker_shutdown(self) -> None:
        """The worker is about to stop."""


class TrainContextCallback(Callback):
    """A report, in the thread of the training function."""

    def on_report(self) -> AbstractContextManager[None]:
        """Around the whole report."""
        return nullcontext()

    def on_checkpoint_sync(self) -> AbstractContextManager[None]:
        """Around the agreement of all ranks on a directory."""
        return nullcontext()

    def on_checkpoint_transfer(self) -> AbstractContextManager[None]:
        """Around the upload."""
        return nullcontext()
