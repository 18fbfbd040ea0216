from trainstate.v1 import state_pb2 as _state_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Run(_message.Message):
    __slots__ = ("run_id", "run_seq", "incarnation", "status", "status_reason", "cause", "name", "job_id", "controller_actor_id", "controller_log_path", "first_time_ns", "time_ns", "status_time_ns", "start_time_ns", "end_time_ns", "framework_versions", "settings", "provenance", "error", "attempts", "placements", "checkpoints", "syncs", "budgets", "irregular", "irregular_count", "reports", "checkpoints_committed", "last_metrics", "have_workers", "need_workers", "preemption_deadline_ns", "controller_starts", "callback_failures", "syncs_skipped", "return_value", "writer", "imported", "preempted_nodes", "run_panels", "worker_panels", "next_status", "restart_time_ns", "scaling_time_ns", "preempted_ranks", "resizes", "tracebacks")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_SEQ_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STATUS_REASON_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_LOG_PATH_FIELD_NUMBER: _ClassVar[int]
    FIRST_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    STATUS_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    END_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    SYNCS_FIELD_NUMBER: _ClassVar[int]
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    IRREGULAR_FIELD_NUMBER: _ClassVar[int]
    IRREGULAR_COUNT_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    LAST_METRICS_FIELD_NUMBER: _ClassVar[int]
    HAVE_WORKERS_FIELD_NUMBER: _ClassVar[int]
    NEED_WORKERS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_DEADLINE_NS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_STARTS_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_FAILURES_FIELD_NUMBER: _ClassVar[int]
    SYNCS_SKIPPED_FIELD_NUMBER: _ClassVar[int]
    RETURN_VALUE_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    IMPORTED_FIELD_NUMBER: _ClassVar[int]
    PREEMPTED_NODES_FIELD_NUMBER: _ClassVar[int]
    RUN_PANELS_FIELD_NUMBER: _ClassVar[int]
    WORKER_PANELS_FIELD_NUMBER: _ClassVar[int]
    NEXT_STATUS_FIELD_NUMBER: _ClassVar[int]
    RESTART_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    SCALING_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTED_RANKS_FIELD_NUMBER: _ClassVar[int]
    RESIZES_FIELD_NUMBER: _ClassVar[int]
    TRACEBACKS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    run_seq: int
    incarnation: int
    status: _state_pb2.RunStatus
    status_reason: str
    cause: _state_pb2.Cause
    name: str
    job_id: bytes
    controller_actor_id: bytes
    controller_log_path: str
    first_time_ns: int
    time_ns: int
    status_time_ns: int
    start_time_ns: int
    end_time_ns: int
    framework_versions: _containers.RepeatedCompositeFieldContainer[_state_pb2.Version]
    settings: _state_pb2.RunSettings
    provenance: _state_pb2.Provenance
    error: _state_pb2.Error
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    placements: _containers.RepeatedCompositeFieldContainer[Placement]
    checkpoints: _containers.RepeatedCompositeFieldContainer[Checkpoint]
    syncs: _containers.RepeatedCompositeFieldContainer[Sync]
    budgets: _containers.RepeatedCompositeFieldContainer[BudgetUse]
    irregular: _containers.RepeatedCompositeFieldContainer[Irregularity]
    irregular_count: int
    reports: int
    checkpoints_committed: int
    last_metrics: bytes
    have_workers: int
    need_workers: int
    preemption_deadline_ns: int
    controller_starts: int
    callback_failures: int
    syncs_skipped: int
    return_value: _state_pb2.Value
    writer: str
    imported: bool
    preempted_nodes: _containers.RepeatedScalarFieldContainer[str]
    run_panels: _containers.RepeatedCompositeFieldContainer[_state_pb2.Panel]
    worker_panels: _containers.RepeatedCompositeFieldContainer[_state_pb2.Panel]
    next_status: _state_pb2.RunStatus
    restart_time_ns: int
    scaling_time_ns: int
    preempted_ranks: _containers.RepeatedScalarFieldContainer[int]
    resizes: _containers.RepeatedCompositeFieldContainer[Resize]
    tracebacks: _containers.RepeatedCompositeFieldContainer[_state_pb2.Traceback]
    def __init__(self, run_id: _Optional[str] = ..., run_seq: _Optional[int] = ..., incarnation: _Optional[int] = ..., status: _Optional[_Union[_state_pb2.RunStatus, str]] = ..., status_reason: _Optional[str] = ..., cause: _Optional[_Union[_state_pb2.Cause, str]] = ..., name: _Optional[str] = ..., job_id: _Optional[bytes] = ..., controller_actor_id: _Optional[bytes] = ..., controller_log_path: _Optional[str] = ..., first_time_ns: _Optional[int] = ..., time_ns: _Optional[int] = ..., status_time_ns: _Optional[int] = ..., start_time_ns: _Optional[int] = ..., end_time_ns: _Optional[int] = ..., framework_versions: _Optional[_Iterable[_Union[_state_pb2.Version, _Mapping]]] = ..., settings: _Optional[_Union[_state_pb2.RunSettings, _Mapping]] = ..., provenance: _Optional[_Union[_state_pb2.Provenance, _Mapping]] = ..., error: _Optional[_Union[_state_pb2.Error, _Mapping]] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., placements: _Optional[_Iterable[_Union[Placement, _Mapping]]] = ..., checkpoints: _Optional[_Iterable[_Union[Checkpoint, _Mapping]]] = ..., syncs: _Optional[_Iterable[_Union[Sync, _Mapping]]] = ..., budgets: _Optional[_Iterable[_Union[BudgetUse, _Mapping]]] = ..., irregular: _Optional[_Iterable[_Union[Irregularity, _Mapping]]] = ..., irregular_count: _Optional[int] = ..., reports: _Optional[int] = ..., checkpoints_committed: _Optional[int] = ..., last_metrics: _Optional[bytes] = ..., have_workers: _Optional[int] = ..., need_workers: _Optional[int] = ..., preemption_deadline_ns: _Optional[int] = ..., controller_starts: _Optional[int] = ..., callback_failures: _Optional[int] = ..., syncs_skipped: _Optional[int] = ..., return_value: _Optional[_Union[_state_pb2.Value, _Mapping]] = ..., writer: _Optional[str] = ..., imported: bool = ..., preempted_nodes: _Optional[_Iterable[str]] = ..., run_panels: _Optional[_Iterable[_Union[_state_pb2.Panel, _Mapping]]] = ..., worker_panels: _Optional[_Iterable[_Union[_state_pb2.Panel, _Mapping]]] = ..., next_status: _Optional[_Union[_state_pb2.RunStatus, str]] = ..., restart_time_ns: _Optional[int] = ..., scaling_time_ns: _Optional[int] = ..., preempted_ranks: _Optional[_Iterable[int]] = ..., resizes: _Optional[_Iterable[_Union[Resize, _Mapping]]] = ..., tracebacks: _Optional[_Iterable[_Union[_state_pb2.Traceback, _Mapping]]] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("attempt_id", "number", "status", "status_reason", "cause", "error", "num_workers", "resources", "replica_group_size", "start_time_ns", "end_time_ns", "workers", "replaced", "groups", "resources_per_worker", "pending", "committed")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STATUS_REASON_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    NUM_WORKERS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    REPLICA_GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    END_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_PER_WORKER_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    number: int
    status: _state_pb2.AttemptStatus
    status_reason: str
    cause: _state_pb2.Cause
    error: _state_pb2.Error
    num_workers: int
    resources: _containers.RepeatedCompositeFieldContainer[_state_pb2.ResourceSet]
    replica_group_size: int
    start_time_ns: int
    end_time_ns: int
    workers: _containers.RepeatedCompositeFieldContainer[Worker]
    replaced: _containers.RepeatedCompositeFieldContainer[Worker]
    groups: _containers.RepeatedCompositeFieldContainer[ReplicaGroup]
    resources_per_worker: _state_pb2.ResourceSet
    pending: _containers.RepeatedCompositeFieldContainer[PendingCheckpoint]
    committed: int
    def __init__(self, attempt_id: _Optional[str] = ..., number: _Optional[int] = ..., status: _Optional[_Union[_state_pb2.AttemptStatus, str]] = ..., status_reason: _Optional[str] = ..., cause: _Optional[_Union[_state_pb2.Cause, str]] = ..., error: _Optional[_Union[_state_pb2.Error, _Mapping]] = ..., num_workers: _Optional[int] = ..., resources: _Optional[_Iterable[_Union[_state_pb2.ResourceSet, _Mapping]]] = ..., replica_group_size: _Optional[int] = ..., start_time_ns: _Optional[int] = ..., end_time_ns: _Optional[int] = ..., workers: _Optional[_Iterable[_Union[Worker, _Mapping]]] = ..., replaced: _Optional[_Iterable[_Union[Worker, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[ReplicaGroup, _Mapping]]] = ..., resources_per_worker: _Optional[_Union[_state_pb2.ResourceSet, _Mapping]] = ..., pending: _Optional[_Iterable[_Union[PendingCheckpoint, _Mapping]]] = ..., committed: _Optional[int] = ...) -> None: ...

class PendingCheckpoint(_message.Message):
    __slots__ = ("report_index", "directory", "metrics", "ranks")
    REPORT_INDEX_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    report_index: int
    directory: str
    metrics: _state_pb2.ValueMap
    ranks: int
    def __init__(self, report_index: _Optional[int] = ..., directory: _Optional[str] = ..., metrics: _Optional[_Union[_state_pb2.ValueMap, _Mapping]] = ..., ranks: _Optional[int] = ...) -> None: ...

class Worker(_message.Message):
    __slots__ = ("rank", "generation", "status", "status_reason", "cause", "error", "local_rank", "node_rank", "actor_id", "node_id", "node_ip", "pid", "accelerator_ids", "resources", "log_path", "placement", "bundle", "reports", "start_time_ns", "end_time_ns", "first_report")
    RANK_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STATUS_REASON_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_RANK_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_IP_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    ACCELERATOR_IDS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    LOG_PATH_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    END_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    FIRST_REPORT_FIELD_NUMBER: _ClassVar[int]
    rank: int
    generation: int
    status: _state_pb2.WorkerStatus
    status_reason: str
    cause: _state_pb2.Cause
    error: _state_pb2.Error
    local_rank: int
    node_rank: int
    actor_id: bytes
    node_id: bytes
    node_ip: str
    pid: int
    accelerator_ids: _containers.RepeatedScalarFieldContainer[str]
    resources: _state_pb2.ResourceSet
    log_path: str
    placement: str
    bundle: int
    reports: int
    start_time_ns: int
    end_time_ns: int
    first_report: int
    def __init__(self, rank: _Optional[int] = ..., generation: _Optional[int] = ..., status: _Optional[_Union[_state_pb2.WorkerStatus, str]] = ..., status_reason: _Optional[str] = ..., cause: _Optional[_Union[_state_pb2.Cause, str]] = ..., error: _Optional[_Union[_state_pb2.Error, _Mapping]] = ..., local_rank: _Optional[int] = ..., node_rank: _Optional[int] = ..., actor_id: _Optional[bytes] = ..., node_id: _Optional[bytes] = ..., node_ip: _Optional[str] = ..., pid: _Optional[int] = ..., accelerator_ids: _Optional[_Iterable[str]] = ..., resources: _Optional[_Union[_state_pb2.ResourceSet, _Mapping]] = ..., log_path: _Optional[str] = ..., placement: _Optional[str] = ..., bundle: _Optional[int] = ..., reports: _Optional[int] = ..., start_time_ns: _Optional[int] = ..., end_time_ns: _Optional[int] = ..., first_report: _Optional[int] = ...) -> None: ...

class ReplicaGroup(_message.Message):
    __slots__ = ("group", "generation", "status", "status_reason", "cause", "replacements", "failed_replacements", "error", "pending", "committed", "restart_time_ns", "visible")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STATUS_REASON_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    REPLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    FAILED_REPLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    RESTART_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_FIELD_NUMBER: _ClassVar[int]
    group: int
    generation: int
    status: _state_pb2.ReplicaGroupStatus
    status_reason: str
    cause: _state_pb2.Cause
    replacements: int
    failed_replacements: int
    error: _state_pb2.Error
    pending: _containers.RepeatedCompositeFieldContainer[PendingCheckpoint]
    committed: int
    restart_time_ns: int
    visible: int
    def __init__(self, group: _Optional[int] = ..., generation: _Optional[int] = ..., status: _Optional[_Union[_state_pb2.ReplicaGroupStatus, str]] = ..., status_reason: _Optional[str] = ..., cause: _Optional[_Union[_state_pb2.Cause, str]] = ..., replacements: _Optional[int] = ..., failed_replacements: _Optional[int] = ..., error: _Optional[_Union[_state_pb2.Error, _Mapping]] = ..., pending: _Optional[_Iterable[_Union[PendingCheckpoint, _Mapping]]] = ..., committed: _Optional[int] = ..., restart_time_ns: _Optional[int] = ..., visible: _Optional[int] = ...) -> None: ...

class Placement(_message.Message):
    __slots__ = ("name", "attempt_id", "status", "bundles", "strategy", "placement_group_id", "status_reason", "node_ids", "label_selectors", "slot")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    BUNDLES_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_REASON_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTORS_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    name: str
    attempt_id: str
    status: _state_pb2.PlacementStatus
    bundles: _containers.RepeatedCompositeFieldContainer[_state_pb2.ResourceSet]
    strategy: str
    placement_group_id: bytes
    status_reason: str
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    label_selectors: _containers.RepeatedCompositeFieldContainer[_state_pb2.LabelSelector]
    slot: int
    def __init__(self, name: _Optional[str] = ..., attempt_id: _Optional[str] = ..., status: _Optional[_Union[_state_pb2.PlacementStatus, str]] = ..., bundles: _Optional[_Iterable[_Union[_state_pb2.ResourceSet, _Mapping]]] = ..., strategy: _Optional[str] = ..., placement_group_id: _Optional[bytes] = ..., status_reason: _Optional[str] = ..., node_ids: _Optional[_Iterable[str]] = ..., label_selectors: _Optional[_Iterable[_Union[_state_pb2.LabelSelector, _Mapping]]] = ..., slot: _Optional[int] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("index", "directory", "metrics", "time_ns", "size_bytes", "report_index", "group")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    REPORT_INDEX_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    index: int
    directory: str
    metrics: _state_pb2.ValueMap
    time_ns: int
    size_bytes: int
    report_index: int
    group: int
    def __init__(self, index: _Optional[int] = ..., directory: _Optional[str] = ..., metrics: _Optional[_Union[_state_pb2.ValueMap, _Mapping]] = ..., time_ns: _Optional[int] = ..., size_bytes: _Optional[int] = ..., report_index: _Optional[int] = ..., group: _Optional[int] = ...) -> None: ...

class Sync(_message.Message):
    __slots__ = ("sync_id", "status", "source", "target", "start_time_ns", "error", "status_reason")
    SYNC_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    START_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STATUS_REASON_FIELD_NUMBER: _ClassVar[int]
    sync_id: str
    status: _state_pb2.SyncStatus
    source: str
    target: str
    start_time_ns: int
    error: _state_pb2.Error
    status_reason: str
    def __init__(self, sync_id: _Optional[str] = ..., status: _Optional[_Union[_state_pb2.SyncStatus, str]] = ..., source: _Optional[str] = ..., target: _Optional[str] = ..., start_time_ns: _Optional[int] = ..., error: _Optional[_Union[_state_pb2.Error, _Mapping]] = ..., status_reason: _Optional[str] = ...) -> None: ...

class BudgetUse(_message.Message):
    __slots__ = ("budget", "used", "total", "reports", "time_ns")
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    budget: _state_pb2.Budget
    used: int
    total: int
    reports: int
    time_ns: int
    def __init__(self, budget: _Optional[_Union[_state_pb2.Budget, str]] = ..., used: _Optional[int] = ..., total: _Optional[int] = ..., reports: _Optional[int] = ..., time_ns: _Optional[int] = ...) -> None: ...

class Resize(_message.Message):
    __slots__ = ("time_ns", "from_workers", "to_workers", "reason")
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    FROM_WORKERS_FIELD_NUMBER: _ClassVar[int]
    TO_WORKERS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    time_ns: int
    from_workers: int
    to_workers: int
    reason: str
    def __init__(self, time_ns: _Optional[int] = ..., from_workers: _Optional[int] = ..., to_workers: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Irregularity(_message.Message):
    __slots__ = ("run_seq", "text")
    RUN_SEQ_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    run_seq: int
    text: str
    def __init__(self, run_seq: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class RunSummary(_message.Message):
    __slots__ = ("run_id", "name", "status", "cause", "status_reason", "run_seq", "incarnation", "first_seq", "last_seq", "start_time_ns", "end_time_ns", "time_ns", "attempts", "reports", "irregular_count")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    STATUS_REASON_FIELD_NUMBER: _ClassVar[int]
    RUN_SEQ_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    START_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    END_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    IRREGULAR_COUNT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    name: str
    status: _state_pb2.RunStatus
    cause: _state_pb2.Cause
    status_reason: str
    run_seq: int
    incarnation: int
    first_seq: int
    last_seq: int
    start_time_ns: int
    end_time_ns: int
    time_ns: int
    attempts: int
    reports: int
    irregular_count: int
    def __init__(self, run_id: _Optional[str] = ..., name: _Optional[str] = ..., status: _Optional[_Union[_state_pb2.RunStatus, str]] = ..., cause: _Optional[_Union[_state_pb2.Cause, str]] = ..., status_reason: _Optional[str] = ..., run_seq: _Optional[int] = ..., incarnation: _Optional[int] = ..., first_seq: _Optional[int] = ..., last_seq: _Optional[int] = ..., start_time_ns: _Optional[int] = ..., end_time_ns: _Optional[int] = ..., time_ns: _Optional[int] = ..., attempts: _Optional[int] = ..., reports: _Optional[int] = ..., irregular_count: _Optional[int] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("runs", "archive_size_bytes", "archive_crc32c")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_CRC32C_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[ResidentRun]
    archive_size_bytes: int
    archive_crc32c: int
    def __init__(self, runs: _Optional[_Iterable[_Union[ResidentRun, _Mapping]]] = ..., archive_size_bytes: _Optional[int] = ..., archive_crc32c: _Optional[int] = ...) -> None: ...

class ResidentRun(_message.Message):
    __slots__ = ("run", "first_seq", "last_seq")
    RUN_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    run: Run
    first_seq: int
    last_seq: int
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., first_seq: _Optional[int] = ..., last_seq: _Optional[int] = ...) -> None: ...
