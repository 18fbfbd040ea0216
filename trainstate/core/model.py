"""The state of a run: what a fold over its events knows.

The classes mirror `proto/trainstate/v1/view.proto` field by field (core/freeze.py turns one into the
other by name; a test holds them equal). They are slotted and mutable, written only by `evolve`, in
place: a change of one worker costs the same among 2 and among 4,096. They keep no list that grows with
reports. What is handed out of a store is a copy.

A message-valued field (settings, error, resources) holds a copy of its own, never a part of an event:
a part would keep the whole batch it was parsed from in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Self

from trainstate.v1 import state_pb2 as s


class Status(IntEnum):
    """A state of a machine, numbered as in the schema; it knows whether it is terminal."""

    is_terminal: bool

    def __new__(cls, number: int, is_terminal: bool = False) -> Self:
        self = int.__new__(cls, number)
        self._value_ = number
        self.is_terminal = is_terminal
        return self

    def __str__(self) -> str:
        return self.name


class RunStatus(Status):
    """The one run machine (design section 5); Ray's run statuses are a projection of it."""

    UNSPECIFIED = 0
    INITIALIZING = 1
    SCHEDULING = 2
    WAITING = 3
    RUNNING = 4
    PREEMPTING = 5
    RESTARTING = 6
    RESIZING = 7
    SHUTTING_DOWN = 8
    FINISHED = 9, True
    ERRORED = 10, True
    ABORTED = 11, True


class AttemptStatus(Status):
    """One start of the whole worker group."""

    UNSPECIFIED = 0
    PENDING = 1
    RUNNING = 2
    FINISHED = 3, True
    ERRORED = 4, True
    ABORTED = 5, True


class WorkerStatus(Status):
    """One rank of an attempt (row 1-09)."""

    UNSPECIFIED = 0
    SCHEDULING = 1
    RUNNING = 2
    FAILING = 3
    COMPLETED = 4, True
    DEAD = 5, True


class ReplicaGroupStatus(Status):
    """A part of an attempt that is replaced on its own."""

    UNSPECIFIED = 0
    RUNNING = 1
    FAILED = 2
    REPLACING = 3
    ENDED = 4, True


class PlacementStatus(Status):
    """A gang of bundles asked of the cluster."""

    UNSPECIFIED = 0
    REQUESTED = 1
    READY = 2
    TIMED_OUT = 3
    RELEASED = 4, True


class SyncStatus(Status):
    """One transfer to storage."""

    UNSPECIFIED = 0
    RUNNING = 1
    SUCCEEDED = 2, True
    FAILED = 3, True


class Cause(IntEnum):
    """Why something ended, restarted or was replaced: from the decision, never guessed."""

    UNSPECIFIED = 0
    COMPLETED = 1
    WORKER_ERROR = 2
    WORKER_LOST = 3
    WORKER_HUNG = 4
    NODE_PREEMPTED = 5
    RESIZE = 6
    REPLACEMENT_FAILED = 7
    CONTROLLER_ERROR = 8
    CALLBACK_ERROR = 9
    UPLOAD_FAILED = 10
    START_FAILED = 11
    START_TIMEOUT = 12
    USER_ABORT = 13
    DRIVER_EXITED = 14
    CONTROLLER_LOST = 15
    STATE_LOST = 16
    CLUSTER_LOST = 17
    FENCED = 18


class Budget(IntEnum):
    """What a failure is counted against."""

    UNSPECIFIED = 0
    FAILURES = 1
    PREEMPTIONS = 2
    CONTROLLER = 3


@dataclass(slots=True)
class Worker:
    """One rank: its newest generation."""

    rank: int
    generation: int = 0
    status: WorkerStatus = WorkerStatus.UNSPECIFIED
    status_reason: str = ""
    cause: Cause = Cause.UNSPECIFIED
    error: s.Error | None = None
    local_rank: int = 0
    node_rank: int = 0
    actor_id: bytes = b""
    node_id: bytes = b""
    node_ip: str = ""
    pid: int = 0
    accelerator_ids: tuple[str, ...] = ()
    resources: s.ResourceSet | None = None
    log_path: str = ""
    placement: str = ""
    bundle: int = 0
    reports: int = 0
    start_time_ns: int = 0
    end_time_ns: int = 0
    first_report: int = 0


@dataclass(slots=True)
class PendingCheckpoint:
    """A checkpoint of which some rank has uploaded its part; `ranks` have reported its index."""

    report_index: int
    directory: str = ""
    metrics: s.ValueMap | None = None
    ranks: int = 0


@dataclass(slots=True)
class ReplicaGroup:
    """Consecutive ranks of an attempt that are replaced together."""

    group: int
    generation: int = 0
    status: ReplicaGroupStatus = ReplicaGroupStatus.UNSPECIFIED
    status_reason: str = ""
    cause: Cause = Cause.UNSPECIFIED
    replacements: int = 0
    failed_replacements: int = 0
    error: s.Error | None = None
    pending: dict[int, PendingCheckpoint] = field(default_factory=dict)
    committed: int = 0
    restart_time_ns: int = 0
    visible: int = 0


@dataclass(slots=True)
class Attempt:
    """One start of the worker group. `number` counts from 1."""

    attempt_id: str
    number: int = 0
    status: AttemptStatus = AttemptStatus.UNSPECIFIED
    status_reason: str = ""
    cause: Cause = Cause.UNSPECIFIED
    error: s.Error | None = None
    num_workers: int = 0
    resources: list[s.ResourceSet] = field(default_factory=list)
    replica_group_size: int = 0
    start_time_ns: int = 0
    end_time_ns: int = 0
    workers: dict[int, Worker] = field(default_factory=dict)
    replaced: list[Worker] = field(default_factory=list)
    groups: dict[int, ReplicaGroup] = field(default_factory=dict)
    resources_per_worker: s.ResourceSet | None = None
    pending: dict[int, PendingCheckpoint] = field(default_factory=dict)
    committed: int = 0

    @property
    def by_rank(self) -> list[Worker]:
        """Its workers, by rank."""
        return [self.workers[rank] for rank in sorted(self.workers)]

    def group_of(self, rank: int) -> int | None:
        """The replica group of a rank; None without replica groups."""
        return rank // self.replica_group_size if self.replica_group_size else None

    def gang(self, group: int | None) -> list[Worker]:
        """The workers of a replica group, by rank; of the whole attempt for None."""
        if group is None:
            return self.by_rank
        first = group * self.replica_group_size
        ranks = range(first, min(first + self.replica_group_size, self.num_workers))
        return [self.workers[rank] for rank in ranks if rank in self.workers]

    def gang_size(self, group: int | None) -> int:
        """How many workers `gang` has when all are there."""
        return self.num_workers if group is None else self.replica_group_size

    def keeper(self, group: int | None) -> Attempt | ReplicaGroup:
        """What keeps the checkpoints that these workers make together."""
        return self if group is None else self.groups[group]

    @property
    def is_waited_for(self) -> bool:
        """Whether a worker that took another's place has not reported yet."""
        replaced = (one for one in self.workers.values() if one.generation)
        return any(one.reports == one.first_report for one in replaced)

    @property
    def sharing(self) -> list[int | None]:
        """What makes checkpoints of its own: every replica group, or the attempt as a whole."""
        return list(self.groups) if self.replica_group_size else [None]

    @property
    def has_pending(self) -> bool:
        """Whether a checkpoint is on its way."""
        return any(self.keeper(group).pending for group in self.sharing)


@dataclass(slots=True)
class Placement:
    """A placement group, by the name it was requested under."""

    name: str
    attempt_id: str = ""
    status: PlacementStatus = PlacementStatus.UNSPECIFIED
    bundles: list[s.ResourceSet] = field(default_factory=list)
    strategy: str = ""
    placement_group_id: bytes = b""
    status_reason: str = ""
    node_ids: list[str] = field(default_factory=list)
    label_selectors: list[s.LabelSelector] = field(default_factory=list)
    slot: int = 0

    def node_of(self, bundle: int) -> str:
        """The node of a bundle; "" for one that has none."""
        return self.node_ids[bundle] if bundle < len(self.node_ids) else ""


@dataclass(slots=True)
class Checkpoint:
    """A committed checkpoint that has not been deleted."""

    index: int
    directory: str = ""
    metrics: s.ValueMap | None = None
    time_ns: int = 0
    size_bytes: int = 0
    report_index: int = 0
    group: int | None = None


@dataclass(slots=True)
class Sync:
    """A transfer that is running, or the last of its kind that failed."""

    sync_id: str
    status: SyncStatus = SyncStatus.UNSPECIFIED
    source: str = ""
    target: str = ""
    start_time_ns: int = 0
    error: s.Error | None = None
    status_reason: str = ""


@dataclass(slots=True)
class BudgetUse:
    """Failures counted against one budget: since the last progress, and ever."""

    budget: Budget
    used: int = 0
    total: int = 0
    reports: int = 0
    time_ns: int = 0


@dataclass(slots=True)
class Resize:
    """A decision on how many workers to train with; from 0, the first."""

    time_ns: int
    from_workers: int = 0
    to_workers: int = 0
    reason: str = ""


@dataclass(slots=True)
class Irregularity:
    """A recorded move outside the tables: applied, and said."""

    run_seq: int
    text: str = ""


@dataclass(slots=True)
class Run:
    """A training run. `run_seq` is the newest event applied; times are ns since the Unix epoch."""

    run_id: str
    run_seq: int = 0
    incarnation: int = 0
    status: RunStatus = RunStatus.UNSPECIFIED
    status_reason: str = ""
    cause: Cause = Cause.UNSPECIFIED
    name: str = ""
    job_id: bytes = b""
    controller_actor_id: bytes = b""
    controller_log_path: str = ""
    first_time_ns: int = 0
    time_ns: int = 0
    status_time_ns: int = 0
    start_time_ns: int = 0
    end_time_ns: int = 0
    framework_versions: list[s.Version] = field(default_factory=list)
    settings: s.RunSettings | None = None
    provenance: s.Provenance | None = None
    error: s.Error | None = None
    attempts: list[Attempt] = field(default_factory=list)
    placements: dict[str, Placement] = field(default_factory=dict)
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict)
    syncs: dict[str, Sync] = field(default_factory=dict)
    budgets: dict[int, BudgetUse] = field(default_factory=dict)
    irregular: list[Irregularity] = field(default_factory=list)
    irregular_count: int = 0
    reports: int = 0
    checkpoints_committed: int = 0
    last_metrics: bytes = b""
    have_workers: int = 0
    need_workers: int = 0
    preemption_deadline_ns: int | None = None
    controller_starts: int = 0
    callback_failures: int = 0
    syncs_skipped: int = 0
    return_value: s.Value | None = None
    writer: str = ""
    imported: bool = False
    preempted_nodes: list[str] = field(default_factory=list)
    run_panels: list[s.Panel] = field(default_factory=list)
    worker_panels: list[s.Panel] = field(default_factory=list)
    next_status: RunStatus = RunStatus.UNSPECIFIED
    restart_time_ns: int = 0
    scaling_time_ns: int = 0
    preempted_ranks: list[int] = field(default_factory=list)
    resizes: list[Resize] = field(default_factory=list)
    tracebacks: list[s.Traceback] = field(default_factory=list)

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    def find_attempt(self, attempt_id: str) -> Attempt | None:
        """The attempt of that id; the newest is found at once."""
        for attempt in reversed(self.attempts):
            if attempt.attempt_id == attempt_id:
                return attempt
        return None


def initial(run_id: str) -> Run:
    """The state of a run of which nothing is recorded yet."""
    return Run(run_id)
