"""How a framework is set up on the workers of a group: the hooks of Ray's Backend.

A backend has no state of its own: the controller may be another one at the next hook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol


class WorkerGroup(Protocol):
    """The workers of a group, as a backend sees them; ranks count from 0.

    `replica_group` is which of the `replica_groups` it is, in which `generation`; None for all workers.
    Actors that a backend names `<scope>/...`, in our namespace, end with the attempt.
    """

    replica_group: int | None
    replica_groups: int
    generation: int
    scope: str

    def __len__(self) -> int: ...

    def execute(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Runs a function on every worker; its results by rank."""
        ...

    def execute_async(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Starts a function on every worker; object references by rank."""
        ...

    def execute_single(
        self, rank: int, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Runs a function on one worker; its result."""
        ...


class Backend:
    """The hooks, in the order they are called; none has to be overridden.

    Of one that `has_replica_groups` each is called for every group by itself, at the same time.
    """

    has_replica_groups: bool = False

    def on_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """The workers are up."""

    def on_training_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """The workers know who they are; the training function is about to start."""

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """The workers are about to stop; some may be dead."""


class BackendConfig:
    """Static settings of a backend, pickled to the controller.

    `replica_group_size` is how many workers a replica group has, for a backend that has them.
    """

    replica_group_size: int = 1

    @property
    def backend_cls(self) -> type[Backend]:
        """The hooks."""
        return Backend

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[Any]]:
        """What the training function runs inside of."""
        return nullcontext

    @property
    def framework(self) -> str | None:
        """ "torch", "jax", "tensorflow", "xgboost", "lightgbm", or None."""
        return None

    def to_dict(self) -> Mapping[str, Any]:
        """The settings, for the record."""
        return {}
