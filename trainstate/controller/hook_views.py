"""What hooks are given: small views that do not change, with the names people know from Ray Train.

A view is made of recorded events, so it says what was so at that event, however late its hook is called.
Only what reaches into a worker (`actor`, `execute`) is of now, and fails if the worker is gone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from trainstate.core import Cause
from trainstate.state.names import NAMESPACE
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s


class FailureChoice(Enum):
    """What can be decided on a failure."""

    RETRY = "RETRY"
    REPLACE = "REPLACE"
    RAISE = "RAISE"


@dataclass(frozen=True, slots=True)
class FailureDecision:
    """What was decided on a failure, and why. `name` and `value` are those of the choice."""

    decision: FailureChoice
    cause: Cause
    error: s.Error
    reason: str

    @property
    def name(self) -> str:
        """The choice's name."""
        return self.decision.name

    @property
    def value(self) -> str:
        """The choice's value: its name."""
        return self.decision.value


@dataclass(frozen=True, slots=True)
class ResizeDecision:
    """How many workers are to be started, and what each reserves."""

    num_workers: int
    resources_per_worker: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class WorkerGroupContext:
    """An attempt; `number` counts the attempts of a run from 1."""

    run_attempt_id: str
    number: int
    num_workers: int
    resources_per_worker: Mapping[str, float]
    placement_strategy: str = ""


@dataclass(frozen=True, slots=True)
class DistributedContext:
    """The ranks of a worker."""

    world_rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int


@dataclass(frozen=True, slots=True)
class ActorMetadata:
    """Where a worker's process is; ids are hexadecimal."""

    actor_id: str
    node_id: str
    node_ip: str
    pid: int
    accelerator_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker, as it was started."""

    actor_name: str
    distributed_context: DistributedContext
    metadata: ActorMetadata
    resources: Mapping[str, float]
    log_file_path: str
    placement_group_bundle_index: int
    generation: int

    @property
    def actor(self) -> Any:
        """The handle of its actor. Raises ValueError if that is gone."""
        import ray

        return ray.get_actor(self.actor_name, namespace=NAMESPACE)

    def execute_async(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Starts a function on it; an object reference."""
        from trainstate.controller.gang import WorkerGroup

        alone = WorkerGroup([self.actor], f"hook/{uuid.uuid4().hex}", self.resources)
        return alone.execute_single_async(0, function, *args, **kwargs)


@dataclass(frozen=True)
class GroupView:
    """The workers of an attempt, or of a replica group of it, by rank.

    `stage` tells the calls that are made through this view from all others.
    """

    workers: Sequence[WorkerView]
    context: WorkerGroupContext
    stage: str

    def __len__(self) -> int:
        return len(self.workers)

    def get_workers(self) -> Sequence[WorkerView]:
        """The workers, by rank."""
        return self.workers

    def get_resources_per_worker(self) -> Mapping[str, float]:
        """What each worker has reserved."""
        return self.context.resources_per_worker

    def get_worker_group_context(self) -> WorkerGroupContext:
        """The attempt."""
        return self.context

    @cached_property
    def _alive(self) -> Any:
        from trainstate.controller.gang import WorkerGroup

        handles = [one.actor for one in self.workers]
        return WorkerGroup(handles, self.stage, self.get_resources_per_worker())

    def execute_async(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Starts a function on every worker; object references by rank."""
        references: list[Any] = self._alive.execute_async(function, *args, **kwargs)
        return references

    def execute(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Runs a function on every worker; its results by rank."""
        results: list[Any] = self._alive.execute(function, *args, **kwargs)
        return results

    def execute_single_async(
        self, rank: int, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Starts a function on one worker; an object reference."""
        return self._alive.execute_single_async(rank, function, *args, **kwargs)

    def execute_single(
        self, rank: int, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Runs a function on one worker; its result."""
        return self._alive.execute_single(rank, function, *args, **kwargs)


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """What a rank, or the ranks together, reported; the checkpoint is committed."""

    checkpoint: Any | None
    metrics: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WorkerStatusView:
    """What is known of a worker."""

    running: bool
    error: Exception | None = None
    training_report: TrainingReport | None = None


@dataclass(frozen=True, slots=True)
class WorkerGroupPollStatus:
    """What is known of the workers of an attempt, by world rank."""

    worker_statuses: Mapping[int, WorkerStatusView]

    @property
    def errors(self) -> dict[int, Exception]:
        """The exceptions of the ranks that failed."""
        known = self.worker_statuses.items()
        return {rank: one.error for rank, one in known if one.error is not None}

    @property
    def finished(self) -> bool:
        """Whether no worker trains any more."""
        return not any(one.running for one in self.worker_statuses.values())


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended: the fields of the Result that `fit()` returns; `error` if it failed."""

    metrics: Mapping[str, Any] | None
    checkpoint: Any | None
    error: Exception | None
    path: str
    best_checkpoints: Sequence[tuple[Any, Mapping[str, Any]]] = ()
    return_value: Any = None
    run_id: str | None = None
    filesystem: Any = field(default=None, repr=False)


def amounts(resources: s.ResourceSet) -> dict[str, float]:
    """Resources by name."""
    return {one.name: one.amount for one in resources.resources}


def failure_decision(event: e.Event) -> FailureDecision:
    """The view of a FailureDecided."""
    decided = event.failure_decided
    name = e.FailureDecision.Name(decided.decision).removeprefix("FAILURE_DECISION_")
    error = s.Error()
    error.CopyFrom(decided.error)  # its own: the event, and the batch it came in, can go
    return FailureDecision(FailureChoice[name], Cause(decided.cause), error, event.reason)
