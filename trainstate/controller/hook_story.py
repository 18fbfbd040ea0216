"""What the hooks' table has to know of a run: its status, and its open attempt.

Kept apart from the fold, which is ahead of the event at hand when several are recorded at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from trainstate.controller.hook_views import (
    ActorMetadata,
    DistributedContext,
    GroupView,
    WorkerGroupContext,
    WorkerView,
    amounts,
)
from trainstate.controller.report_sets import ReportSets
from trainstate.core import Attempt, AttemptStatus, Run, RunStatus, Worker, WorkerStatus
from trainstate.core.deciding import STOPPING, open_attempt
from trainstate.core.transitions import TARGETS
from trainstate.state.names import attempt_name, worker_place
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

# Gives the exception of a rank when it is asked for, in whatever thread.
Exceptions = Callable[[int, s.Error], Callable[[], Exception]]


@dataclass(slots=True)
class Seat:
    """Where a rank was scheduled to, and, once it is up, what it is."""

    generation: int = 0
    bundle: int = 0
    placement: str = ""
    started: e.WorkerStarted | None = None


@dataclass(slots=True)
class AttemptStory:
    """An attempt that has not ended. `failing` are the errors that no hook was told of yet."""

    name: str
    context: WorkerGroupContext
    replica_group_size: int = 0
    starting: bool = False
    closing: bool = False
    stopped: bool = False
    workers: dict[int, Seat] = field(default_factory=dict)
    completed: set[int] = field(default_factory=set)
    errors: dict[int, Callable[[], Exception]] = field(default_factory=dict)
    failing: dict[int, Callable[[], Exception]] = field(default_factory=dict)
    sets: ReportSets | None = None

    def group(self, run_seq: int, replica_group: int | None = None) -> GroupView:
        """Its workers that are up, or those of one replica group; `run_seq` tells views apart."""
        size = self.replica_group_size or len(self.workers)
        views = [
            self._view(rank, seat, seat.started)
            for rank, seat in sorted(self.workers.items())
            if seat.started is not None and replica_group in (None, rank // max(1, size))
        ]
        return GroupView(views, self.context, f"hook/{run_seq}")

    def _view(self, rank: int, seat: Seat, up: e.WorkerStarted) -> WorkerView:
        there = (one.started for one in self.workers.values() if one.started is not None)
        neighbours = sum(one.node_id == up.node_id for one in there)
        ranks = DistributedContext(
            rank, self.context.num_workers, up.local_rank, neighbours, up.node_rank
        )
        where = ActorMetadata(
            up.actor_id.hex(), up.node_id.hex(), up.node_ip, up.pid, tuple(up.accelerator_ids)
        )
        bundle = up.bundle if up.HasField("bundle") else seat.bundle
        of = worker_place(up.placement or seat.placement, bundle)
        return WorkerView(
            actor_name=f"{self.name}/{of}/{seat.generation}",
            distributed_context=ranks,
            metadata=where,
            resources=self.context.resources_per_worker,
            log_file_path=up.log_path,
            placement_group_bundle_index=bundle,
            generation=seat.generation,
        )


class Story:
    """A run from where it was taken up. Reports are put together only if `with_reports`."""

    def __init__(self, run: Run, with_reports: bool) -> None:
        self.status = run.status
        self.next_status = run.next_status
        self.attempt: AttemptStory | None = None
        self._run_id = run.run_id
        self._attempts = len(run.attempts)
        self._with_reports = with_reports
        self._strategy = _strategy(run.settings)
        attempt = open_attempt(run)
        if attempt is not None:
            self.attempt = self._taken_up(run, attempt)

    def take(self, event: e.Event, exception: Exceptions) -> None:
        """Makes an event part of the story."""
        kind = event.WhichOneof("payload") or ""
        target = TARGETS.get(kind)
        if isinstance(target, RunStatus):
            self.status = target
        if kind == "run_created":
            self._strategy = _strategy(event.run_created.settings)
        elif kind == "run_shutting_down":
            self.next_status = RunStatus(event.run_shutting_down.next)
        elif kind == "attempt_planned":
            self.attempt = self._planned(event)
        elif self.attempt is not None and kind in _OF_ATTEMPT:
            _OF_ATTEMPT[kind](self.attempt, event, exception)

    def turn(self, event: e.Event, told_of_failures: bool) -> None:
        """What is so only after the hooks of an event are known."""
        attempt, kind = self.attempt, event.WhichOneof("payload")
        if attempt is None:
            return
        if told_of_failures:
            attempt.failing.clear()
        if self.status in STOPPING:
            attempt.starting = False
            attempt.closing = attempt.closing or self.next_status is not RunStatus.ABORTED
            attempt.stopped = True
        if kind == "attempt_started":
            attempt.starting = False
        elif kind == "attempt_ended":
            self.attempt = None

    def _planned(self, event: e.Event) -> AttemptStory:
        planned = event.attempt_planned
        self._attempts += 1
        resources = amounts(planned.resources_per_worker)
        return self._story(
            self._context(event.attempt_id, self._attempts, planned.num_workers, resources),
            planned.replica_group_size,
            dict.fromkeys(range(planned.num_workers), 0),
        )

    def _context(
        self, attempt_id: str, number: int, workers: int, resources: Mapping[str, float]
    ) -> WorkerGroupContext:
        context = WorkerGroupContext(attempt_id, number, workers, resources)
        return replace(context, placement_strategy=self._strategy or context.placement_strategy)

    def _story(
        self, context: WorkerGroupContext, replica_group_size: int, begun: Mapping[int, int]
    ) -> AttemptStory:
        return AttemptStory(
            attempt_name(self._run_id, context.run_attempt_id),
            context,
            replica_group_size,
            starting=True,
            sets=ReportSets(begun) if self._with_reports else None,
        )

    def _taken_up(self, run: Run, attempt: Attempt) -> AttemptStory:
        """An attempt that another controller began: what it called is not called again."""
        resources = amounts(attempt.resources_per_worker or s.ResourceSet())
        begun = dict.fromkeys(range(attempt.num_workers), 0)
        begun |= {worker.rank: worker.reports for worker in attempt.workers.values()}
        story = self._story(
            self._context(attempt.attempt_id, attempt.number, attempt.num_workers, resources),
            attempt.replica_group_size,
            begun,
        )
        story.starting = attempt.status is AttemptStatus.PENDING
        story.stopped = self.status in STOPPING
        story.closing = story.stopped and self.next_status is not RunStatus.ABORTED
        for worker in attempt.workers.values():
            story.workers[worker.rank] = Seat(
                worker.generation, worker.bundle, worker.placement, _started(worker)
            )
            if worker.status is WorkerStatus.COMPLETED:
                story.completed.add(worker.rank)
                if story.sets is not None:
                    story.sets.end(worker.rank)
        return story


def _strategy(settings: s.RunSettings | None) -> str:
    return settings.scaling_config.placement_strategy if settings is not None else ""


def _started(worker: Worker) -> e.WorkerStarted | None:
    if not worker.actor_id:
        return None
    return e.WorkerStarted(
        rank=worker.rank,
        local_rank=worker.local_rank,
        node_rank=worker.node_rank,
        actor_id=worker.actor_id,
        node_id=worker.node_id,
        node_ip=worker.node_ip,
        pid=worker.pid,
        accelerator_ids=worker.accelerator_ids,
        log_path=worker.log_path,
    )


# --- events of an attempt -------------------------------------------------------------------------


def _scheduled(attempt: AttemptStory, event: e.Event, exception: Exceptions) -> None:
    scheduled = event.worker_scheduled
    if scheduled.rank in attempt.workers:  # a replacement
        attempt.errors.pop(scheduled.rank, None)
        if attempt.sets is not None:
            attempt.sets.leave(scheduled.rank)
    attempt.workers[scheduled.rank] = Seat(
        scheduled.generation, scheduled.bundle, scheduled.placement
    )


def _replaced(attempt: AttemptStory, event: e.Event, exception: Exceptions) -> None:
    first = event.replica_group_replaced.group * attempt.replica_group_size
    for rank in range(first, first + attempt.replica_group_size):
        if attempt.sets is not None:
            attempt.sets.join(rank)


def _up(attempt: AttemptStory, event: e.Event, exception: Exceptions) -> None:
    up = e.WorkerStarted()
    up.CopyFrom(event.worker_started)  # its own: the batch it came in can go
    attempt.workers[up.rank].started = up


def _failing(attempt: AttemptStory, event: e.Event, exception: Exceptions) -> None:
    failed = event.worker_failing
    found = exception(failed.rank, failed.error)
    attempt.errors[failed.rank] = attempt.failing[failed.rank] = found


def _completed(attempt: AttemptStory, event: e.Event, exception: Exceptions) -> None:
    attempt.completed.add(event.worker_completed.rank)
    if attempt.sets is not None:
        attempt.sets.end(event.worker_completed.rank)


def _reported(attempt: AttemptStory, event: e.Event, exception: Exceptions) -> None:
    if attempt.sets is not None:
        attempt.sets.add(event.report_received)


def _committed(attempt: AttemptStory, event: e.Event, exception: Exceptions) -> None:
    # Those of an earlier fit() are recorded before there is an attempt.
    if attempt.sets is not None:
        attempt.sets.commit(event.checkpoint_committed.directory)


_OF_ATTEMPT: Mapping[str, Callable[[AttemptStory, e.Event, Exceptions], None]] = {
    "worker_scheduled": _scheduled,
    "worker_started": _up,
    "replica_group_replaced": _replaced,
    "worker_failing": _failing,
    "worker_completed": _completed,
    "report_received": _reported,
    "checkpoint_committed": _committed,
}
