from trainstate.v1 import state_pb2 as _state_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FailureDecision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAILURE_DECISION_UNSPECIFIED: _ClassVar[FailureDecision]
    FAILURE_DECISION_RETRY: _ClassVar[FailureDecision]
    FAILURE_DECISION_REPLACE: _ClassVar[FailureDecision]
    FAILURE_DECISION_RAISE: _ClassVar[FailureDecision]

class ForeignEntity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FOREIGN_ENTITY_UNSPECIFIED: _ClassVar[ForeignEntity]
    FOREIGN_ENTITY_RUN: _ClassVar[ForeignEntity]
    FOREIGN_ENTITY_ATTEMPT: _ClassVar[ForeignEntity]
    FOREIGN_ENTITY_WORKER: _ClassVar[ForeignEntity]
FAILURE_DECISION_UNSPECIFIED: FailureDecision
FAILURE_DECISION_RETRY: FailureDecision
FAILURE_DECISION_REPLACE: FailureDecision
FAILURE_DECISION_RAISE: FailureDecision
FOREIGN_ENTITY_UNSPECIFIED: ForeignEntity
FOREIGN_ENTITY_RUN: ForeignEntity
FOREIGN_ENTITY_ATTEMPT: ForeignEntity
FOREIGN_ENTITY_WORKER: ForeignEntity

class Batch(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("run_id", "run_seq", "time_unix_nano", "attempt_id", "incarnation", "reason", "run_opened", "run_created", "controller_started", "framework_versions_recorded", "run_scheduling", "run_waiting", "run_running", "run_preempting", "run_restarting", "run_resizing", "run_shutting_down", "run_finished", "run_errored", "run_aborted", "provenance_recorded", "scaling_decided", "failure_decided", "callback_failed", "attempt_planned", "attempt_started", "attempt_ended", "placement_requested", "placement_ready", "placement_timed_out", "placement_released", "placement_changed", "worker_scheduled", "worker_started", "worker_failing", "worker_completed", "worker_died", "replica_group_failed", "replica_group_replacing", "replica_group_replaced", "replica_group_replacement_failed", "report_received", "checkpoint_committed", "checkpoint_deleted", "sync_started", "sync_succeeded", "sync_failed", "sync_skipped", "line_imported", "foreign_status_observed")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_SEQ_FIELD_NUMBER: _ClassVar[int]
    TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RUN_OPENED_FIELD_NUMBER: _ClassVar[int]
    RUN_CREATED_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_STARTED_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_VERSIONS_RECORDED_FIELD_NUMBER: _ClassVar[int]
    RUN_SCHEDULING_FIELD_NUMBER: _ClassVar[int]
    RUN_WAITING_FIELD_NUMBER: _ClassVar[int]
    RUN_RUNNING_FIELD_NUMBER: _ClassVar[int]
    RUN_PREEMPTING_FIELD_NUMBER: _ClassVar[int]
    RUN_RESTARTING_FIELD_NUMBER: _ClassVar[int]
    RUN_RESIZING_FIELD_NUMBER: _ClassVar[int]
    RUN_SHUTTING_DOWN_FIELD_NUMBER: _ClassVar[int]
    RUN_FINISHED_FIELD_NUMBER: _ClassVar[int]
    RUN_ERRORED_FIELD_NUMBER: _ClassVar[int]
    RUN_ABORTED_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_RECORDED_FIELD_NUMBER: _ClassVar[int]
    SCALING_DECIDED_FIELD_NUMBER: _ClassVar[int]
    FAILURE_DECIDED_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_FAILED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_PLANNED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_STARTED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ENDED_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_READY_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_RELEASED_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_CHANGED_FIELD_NUMBER: _ClassVar[int]
    WORKER_SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    WORKER_STARTED_FIELD_NUMBER: _ClassVar[int]
    WORKER_FAILING_FIELD_NUMBER: _ClassVar[int]
    WORKER_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    WORKER_DIED_FIELD_NUMBER: _ClassVar[int]
    REPLICA_GROUP_FAILED_FIELD_NUMBER: _ClassVar[int]
    REPLICA_GROUP_REPLACING_FIELD_NUMBER: _ClassVar[int]
    REPLICA_GROUP_REPLACED_FIELD_NUMBER: _ClassVar[int]
    REPLICA_GROUP_REPLACEMENT_FAILED_FIELD_NUMBER: _ClassVar[int]
    REPORT_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_DELETED_FIELD_NUMBER: _ClassVar[int]
    SYNC_STARTED_FIELD_NUMBER: _ClassVar[int]
    SYNC_SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    SYNC_FAILED_FIELD_NUMBER: _ClassVar[int]
    SYNC_SKIPPED_FIELD_NUMBER: _ClassVar[int]
    LINE_IMPORTED_FIELD_NUMBER: _ClassVar[int]
    FOREIGN_STATUS_OBSERVED_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    run_seq: int
    time_unix_nano: int
    attempt_id: str
    incarnation: int
    reason: str
    run_opened: RunOpened
    run_created: RunCreated
    controller_started: ControllerStarted
    framework_versions_recorded: FrameworkVersionsRecorded
    run_scheduling: RunScheduling
    run_waiting: RunWaiting
    run_running: RunRunning
    run_preempting: RunPreempting
    run_restarting: RunRestarting
    run_resizing: RunResizing
    run_shutting_down: RunShuttingDown
    run_finished: RunFinished
    run_errored: RunErrored
    run_aborted: RunAborted
    provenance_recorded: ProvenanceRecorded
    scaling_decided: ScalingDecided
    failure_decided: FailureDecided
    callback_failed: CallbackFailed
    attempt_planned: AttemptPlanned
    attempt_started: AttemptStarted
    attempt_ended: AttemptEnded
    placement_requested: PlacementRequested
    placement_ready: PlacementReady
    placement_timed_out: PlacementTimedOut
    placement_released: PlacementReleased
    placement_changed: PlacementChanged
    worker_scheduled: WorkerScheduled
    worker_started: WorkerStarted
    worker_failing: WorkerFailing
    worker_completed: WorkerCompleted
    worker_died: WorkerDied
    replica_group_failed: ReplicaGroupFailed
    replica_group_replacing: ReplicaGroupReplacing
    replica_group_replaced: ReplicaGroupReplaced
    replica_group_replacement_failed: ReplicaGroupReplacementFailed
    report_received: ReportReceived
    checkpoint_committed: CheckpointCommitted
    checkpoint_deleted: CheckpointDeleted
    sync_started: SyncStarted
    sync_succeeded: SyncSucceeded
    sync_failed: SyncFailed
    sync_skipped: SyncSkipped
    line_imported: LineImported
    foreign_status_observed: ForeignStatusObserved
    def __init__(self, run_id: _Optional[str] = ..., run_seq: _Optional[int] = ..., time_unix_nano: _Optional[int] = ..., attempt_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., reason: _Optional[str] = ..., run_opened: _Optional[_Union[RunOpened, _Mapping]] = ..., run_created: _Optional[_Union[RunCreated, _Mapping]] = ..., controller_started: _Optional[_Union[ControllerStarted, _Mapping]] = ..., framework_versions_recorded: _Optional[_Union[FrameworkVersionsRecorded, _Mapping]] = ..., run_scheduling: _Optional[_Union[RunScheduling, _Mapping]] = ..., run_waiting: _Optional[_Union[RunWaiting, _Mapping]] = ..., run_running: _Optional[_Union[RunRunning, _Mapping]] = ..., run_preempting: _Optional[_Union[RunPreempting, _Mapping]] = ..., run_restarting: _Optional[_Union[RunRestarting, _Mapping]] = ..., run_resizing: _Optional[_Union[RunResizing, _Mapping]] = ..., run_shutting_down: _Optional[_Union[RunShuttingDown, _Mapping]] = ..., run_finished: _Optional[_Union[RunFinished, _Mapping]] = ..., run_errored: _Optional[_Union[RunErrored, _Mapping]] = ..., run_aborted: _Optional[_Union[RunAborted, _Mapping]] = ..., provenance_recorded: _Optional[_Union[ProvenanceRecorded, _Mapping]] = ..., scaling_decided: _Optional[_Union[ScalingDecided, _Mapping]] = ..., failure_decided: _Optional[_Union[FailureDecided, _Mapping]] = ..., callback_failed: _Optional[_Union[CallbackFailed, _Mapping]] = ..., attempt_planned: _Optional[_Union[AttemptPlanned, _Mapping]] = ..., attempt_started: _Optional[_Union[AttemptStarted, _Mapping]] = ..., attempt_ended: _Optional[_Union[AttemptEnded, _Mapping]] = ..., placement_requested: _Optional[_Union[PlacementRequested, _Mapping]] = ..., placement_ready: _Optional[_Union[PlacementReady, _Mapping]] = ..., placement_timed_out: _Optional[_Union[PlacementTimedOut, _Mapping]] = ..., placement_released: _Optional[_Union[PlacementReleased, _Mapping]] = ..., placement_changed: _Optional[_Union[PlacementChanged, _Mapping]] = ..., worker_scheduled: _Optional[_Union[WorkerScheduled, _Mapping]] = ..., worker_started: _Optional[_Union[WorkerStarted, _Mapping]] = ..., worker_failing: _Optional[_Union[WorkerFailing, _Mapping]] = ..., worker_completed: _Optional[_Union[WorkerCompleted, _Mapping]] = ..., worker_died: _Optional[_Union[WorkerDied, _Mapping]] = ..., replica_group_failed: _Optional[_Union[ReplicaGroupFailed, _Mapping]] = ..., replica_group_replacing: _Optional[_Union[ReplicaGroupReplacing, _Mapping]] = ..., replica_group_replaced: _Optional[_Union[ReplicaGroupReplaced, _Mapping]] = ..., replica_group_replacement_failed: _Optional[_Union[ReplicaGroupReplacementFailed, _Mapping]] = ..., report_received: _Optional[_Union[ReportReceived, _Mapping]] = ..., checkpoint_committed: _Optional[_Union[CheckpointCommitted, _Mapping]] = ..., checkpoint_deleted: _Optional[_Union[CheckpointDeleted, _Mapping]] = ..., sync_started: _Optional[_Union[SyncStarted, _Mapping]] = ..., sync_succeeded: _Optional[_Union[SyncSucceeded, _Mapping]] = ..., sync_failed: _Optional[_Union[SyncFailed, _Mapping]] = ..., sync_skipped: _Optional[_Union[SyncSkipped, _Mapping]] = ..., line_imported: _Optional[_Union[LineImported, _Mapping]] = ..., foreign_status_observed: _Optional[_Union[ForeignStatusObserved, _Mapping]] = ...) -> None: ...

class RunOpened(_message.Message):
    __slots__ = ("writer", "foreign")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    FOREIGN_FIELD_NUMBER: _ClassVar[int]
    writer: str
    foreign: bool
    def __init__(self, writer: _Optional[str] = ..., foreign: bool = ...) -> None: ...

class RunCreated(_message.Message):
    __slots__ = ("name", "job_id", "controller_actor_id", "controller_log_path", "start_time_ns", "settings", "framework_versions", "provenance", "run_panels", "worker_panels")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_LOG_PATH_FIELD_NUMBER: _ClassVar[int]
    START_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    RUN_PANELS_FIELD_NUMBER: _ClassVar[int]
    WORKER_PANELS_FIELD_NUMBER: _ClassVar[int]
    name: str
    job_id: bytes
    controller_actor_id: bytes
    controller_log_path: str
    start_time_ns: int
    settings: _state_pb2.RunSettings
    framework_versions: _containers.RepeatedCompositeFieldContainer[_state_pb2.Version]
    provenance: _state_pb2.Provenance
    run_panels: _containers.RepeatedCompositeFieldContainer[_state_pb2.Panel]
    worker_panels: _containers.RepeatedCompositeFieldContainer[_state_pb2.Panel]
    def __init__(self, name: _Optional[str] = ..., job_id: _Optional[bytes] = ..., controller_actor_id: _Optional[bytes] = ..., controller_log_path: _Optional[str] = ..., start_time_ns: _Optional[int] = ..., settings: _Optional[_Union[_state_pb2.RunSettings, _Mapping]] = ..., framework_versions: _Optional[_Iterable[_Union[_state_pb2.Version, _Mapping]]] = ..., provenance: _Optional[_Union[_state_pb2.Provenance, _Mapping]] = ..., run_panels: _Optional[_Iterable[_Union[_state_pb2.Panel, _Mapping]]] = ..., worker_panels: _Optional[_Iterable[_Union[_state_pb2.Panel, _Mapping]]] = ...) -> None: ...

class ControllerStarted(_message.Message):
    __slots__ = ("actor_id", "node_id", "recovered", "pid")
    ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    actor_id: bytes
    node_id: bytes
    recovered: bool
    pid: int
    def __init__(self, actor_id: _Optional[bytes] = ..., node_id: _Optional[bytes] = ..., recovered: bool = ..., pid: _Optional[int] = ...) -> None: ...

class FrameworkVersionsRecorded(_message.Message):
    __slots__ = ("versions",)
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedCompositeFieldContainer[_state_pb2.Version]
    def __init__(self, versions: _Optional[_Iterable[_Union[_state_pb2.Version, _Mapping]]] = ...) -> None: ...

class ProvenanceRecorded(_message.Message):
    __slots__ = ("provenance",)
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    provenance: _state_pb2.Provenance
    def __init__(self, provenance: _Optional[_Union[_state_pb2.Provenance, _Mapping]] = ...) -> None: ...

class RunScheduling(_message.Message):
    __slots__ = ("num_workers", "resources_per_worker")
    NUM_WORKERS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_PER_WORKER_FIELD_NUMBER: _ClassVar[int]
    num_workers: int
    resources_per_worker: _state_pb2.ResourceSet
    def __init__(self, num_workers: _Optional[int] = ..., resources_per_worker: _Optional[_Union[_state_pb2.ResourceSet, _Mapping]] = ...) -> None: ...

class RunWaiting(_message.Message):
    __slots__ = ("have", "need")
    HAVE_FIELD_NUMBER: _ClassVar[int]
    NEED_FIELD_NUMBER: _ClassVar[int]
    have: int
    need: int
    def __init__(self, have: _Optional[int] = ..., need: _Optional[int] = ...) -> None: ...

class RunRunning(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RunPreempting(_message.Message):
    __slots__ = ("node_ids", "deadline_unix_nano", "ranks")
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    deadline_unix_nano: int
    ranks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node_ids: _Optional[_Iterable[str]] = ..., deadline_unix_nano: _Optional[int] = ..., ranks: _Optional[_Iterable[int]] = ...) -> None: ...

class RunRestarting(_message.Message):
    __slots__ = ("cause",)
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    cause: _state_pb2.Cause
    def __init__(self, cause: _Optional[_Union[_state_pb2.Cause, str]] = ...) -> None: ...

class RunResizing(_message.Message):
    __slots__ = ("from_workers", "to_workers")
    FROM_WORKERS_FIELD_NUMBER: _ClassVar[int]
    TO_WORKERS_FIELD_NUMBER: _ClassVar[int]
    from_workers: int
    to_workers: int
    def __init__(self, from_workers: _Optional[int] = ..., to_workers: _Optional[int] = ...) -> None: ...

class RunShuttingDown(_message.Message):
    __slots__ = ("next", "cause", "error")
    NEXT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    next: _state_pb2.RunStatus
    cause: _state_pb2.Cause
    error: _state_pb2.Error
    def __init__(self, next: _Optional[_Union[_state_pb2.RunStatus, str]] = ..., cause: _Optional[_Union[_state_pb2.Cause, str]] = ..., error: _Optional[_Union[_state_pb2.Error, _Mapping]] = ...) -> None: ...

class RunFinished(_message.Message):
    __slots__ = ("end_time_ns", "return_value")
    END_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    RETURN_VALUE_FIELD_NUMBER: _ClassVar[int]
    end_time_ns: int
    return_value: _state_pb2.Value
    def __init__(self, end_time_ns: _Optional[int] = ..., return_value: _Optional[_Union[_state_pb2.Value, _Mapping]] = ...) -> None: ...

class RunErrored(_message.Message):
    __slots__ = ("cause", "error", "end_time_ns")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    END_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    cause: _state_pb2.Cause
    error: _state_pb2.Error
    end_time_ns: int
    def __init__(self, cause: _Optional[_Union[_state_pb2.Cause, str]] = ..., error: _Optional[_Union[_state_pb2.Error, _Mapping]] = ..., end_time_ns: _Optional[int] = ...) -> None: ...

class RunAborted(_message.Message):
    __slots__ = ("cause", "end_time_ns")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    END_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    cause: _state_pb2.Cause
    end_time_ns: int
    def __init__(self, cause: _Optional[_Union[_state_pb2.Cause, str]] = ..., end_time_ns: _Optional[int] = ...) -> None: ...

class ScalingDecided(_message.Message):
    __slots__ = ("from_workers", "to_workers")
    FROM_WORKERS_FIELD_NUMBER: _ClassVar[int]
    TO_WORKERS_FIELD_NUMBER: _ClassVar[int]
    from_workers: int
    to_workers: int
    def __init__(self, from_workers: _Optional[int] = ..., to_workers: _Optional[int] = ...) -> None: ...

class FailureDecided(_message.Message):
    __slots__ = ("decision", "cause", "budget", "used", "limit", "backoff_s", "error")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_S_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    decision: FailureDecision
    cause: _state_pb2.Cause
    budget: _state_pb2.Budget
    used: int
    limit: int
    backoff_s: float
    error: _state_pb2.Error
    def __init__(self, decision: _Optional[_Union[FailureDecision, str]] = ..., cause: _Optional[_Union[_state_pb2.Cause, str]] = ..., budget: _Optional[_Union[_state_pb2.Budget, str]] = ..., used: _Optional[int] = ..., limit: _Optional[int] = ..., backoff_s: _Optional[float] = ..., error: _Optional[_Union[_state_pb2.Error, _Mapping]] = ...) -> None: ...

class CallbackFailed(_message.Message):
    __slots__ = ("callback", "hook", "error")
    CALLBACK_FIELD_NUMBER: _ClassVar[int]
    HOOK_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    callback: str
    hook: str
    error: _state_pb2.Error
    def __init__(self, callback: _Optional[str] = ..., hook: _Optional[str] = ..., error: _Optional[_Union[_state_pb2.Error, _Mapping]] = ...) -> None: ...

class AttemptPlanned(_message.Message):
    __slots__ = ("num_workers", "resources_per_worker", "resources", "replica_group_size", "start_time_ns")
    NUM_WORKERS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_PER_WORKER_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    REPLICA_GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    num_workers: int
    resources_per_worker: _state_pb2.ResourceSet
    resources: _containers.RepeatedCompositeFieldContainer[_state_pb2.ResourceSet]
    replica_group_size: int
    start_time_ns: int
    def __init__(self, num_workers: _Optional[int] = ..., resources_per_worker: _Optional[_Union[_state_pb2.ResourceSet, _Mapping]] = ..., resources: _Optional[_Iterable[_Union[_state_pb2.ResourceSet, _Mapping]]] = ..., replica_group_size: _Optional[int] = ..., start_time_ns: _Optional[int] = ...) -> None: ...

class AttemptStarted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AttemptEnded(_message.Message):
    __slots__ = ("status", "cause", "error", "end_time_ns")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    END_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    status: _state_pb2.AttemptStatus
    cause: _state_pb2.Cause
    error: _state_pb2.Error
    end_time_ns: int
    def __init__(self, status: _Optional[_Union[_state_pb2.AttemptStatus, str]] = ..., cause: _Optional[_Union[_state_pb2.Cause, str]] = ..., error: _Optional[_Union[_state_pb2.Error, _Mapping]] = ..., end_time_ns: _Optional[int] = ...) -> None: ...

class PlacementRequested(_message.Message):
    __slots__ = ("name", "bundles", "strategy", "label_selectors", "slot")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BUNDLES_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTORS_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    name: str
    bundles: _containers.RepeatedCompositeFieldContainer[_state_pb2.ResourceSet]
    strategy: str
    label_selectors: _state_pb2.LabelSelectorList
    slot: int
    def __init__(self, name: _Optional[str] = ..., bundles: _Optional[_Iterable[_Union[_state_pb2.ResourceSet, _Mapping]]] = ..., strategy: _Optional[str] = ..., label_selectors: _Optional[_Union[_state_pb2.LabelSelectorList, _Mapping]] = ..., slot: _Optional[int] = ...) -> None: ...

class PlacementReady(_message.Message):
    __slots__ = ("name", "placement_group_id", "node_ids")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    placement_group_id: bytes
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., placement_group_id: _Optional[bytes] = ..., node_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class PlacementTimedOut(_message.Message):
    __slots__ = ("name", "timeout_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    timeout_s: float
    def __init__(self, name: _Optional[str] = ..., timeout_s: _Optional[float] = ...) -> None: ...

class PlacementReleased(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class PlacementChanged(_message.Message):
    __slots__ = ("name", "node_ids")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., node_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkerScheduled(_message.Message):
    __slots__ = ("rank", "generation", "placement", "bundle", "first_report")
    RANK_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_FIELD_NUMBER: _ClassVar[int]
    FIRST_REPORT_FIELD_NUMBER: _ClassVar[int]
    rank: int
    generation: int
    placement: str
    bundle: int
    first_report: int
    def __init__(self, rank: _Optional[int] = ..., generation: _Optional[int] = ..., placement: _Optional[str] = ..., bundle: _Optional[int] = ..., first_report: _Optional[int] = ...) -> None: ...

class WorkerStarted(_message.Message):
    __slots__ = ("rank", "local_rank", "node_rank", "actor_id", "node_id", "node_ip", "pid", "accelerator_ids", "resources", "log_path", "bundle", "placement")
    RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_RANK_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_IP_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    ACCELERATOR_IDS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    LOG_PATH_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    rank: int
    local_rank: int
    node_rank: int
    actor_id: bytes
    node_id: bytes
    node_ip: str
    pid: int
    accelerator_ids: _containers.RepeatedScalarFieldContainer[str]
    resources: _state_pb2.ResourceSet
    log_path: str
    bundle: int
    placement: str
    def __init__(self, rank: _Optional[int] = ..., local_rank: _Optional[int] = ..., node_rank: _Optional[int] = ..., actor_id: _Optional[bytes] = ..., node_id: _Optional[bytes] = ..., node_ip: _Optional[str] = ..., pid: _Optional[int] = ..., accelerator_ids: _Optional[_Iterable[str]] = ..., resources: _Optional[_Union[_state_pb2.ResourceSet, _Mapping]] = ..., log_path: _Optional[str] = ..., bundle: _Optional[int] = ..., placement: _Optional[str] = ...) -> None: ...

class WorkerFailing(_message.Message):
    __slots__ = ("rank", "cause", "error")
    RANK_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    rank: int
    cause: _state_pb2.Cause
    error: _state_pb2.Error
    def __init__(self, rank: _Optional[int] = ..., cause: _Optional[_Union[_state_pb2.Cause, str]] = ..., error: _Optional[_Union[_state_pb2.Error, _Mapping]] = ...) -> None: ...

class WorkerCompleted(_message.Message):
    __slots__ = ("rank", "return_value")
    RANK_FIELD_NUMBER: _ClassVar[int]
    RETURN_VALUE_FIELD_NUMBER: _ClassVar[int]
    rank: int
    return_value: _state_pb2.Value
    def __init__(self, rank: _Optional[int] = ..., return_value: _Optional[_Union[_state_pb2.Value, _Mapping]] = ...) -> None: ...

class WorkerDied(_message.Message):
    __slots__ = ("rank", "cause")
    RANK_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    rank: int
    cause: _state_pb2.Cause
    def __init__(self, rank: _Optional[int] = ..., cause: _Optional[_Union[_state_pb2.Cause, str]] = ...) -> None: ...

class ReplicaGroupFailed(_message.Message):
    __slots__ = ("group", "cause", "error", "backoff_s")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_S_FIELD_NUMBER: _ClassVar[int]
    group: int
    cause: _state_pb2.Cause
    error: _state_pb2.Error
    backoff_s: float
    def __init__(self, group: _Optional[int] = ..., cause: _Optional[_Union[_state_pb2.Cause, str]] = ..., error: _Optional[_Union[_state_pb2.Error, _Mapping]] = ..., backoff_s: _Optional[float] = ...) -> None: ...

class ReplicaGroupReplacing(_message.Message):
    __slots__ = ("group", "generation")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    group: int
    generation: int
    def __init__(self, group: _Optional[int] = ..., generation: _Optional[int] = ...) -> None: ...

class ReplicaGroupReplaced(_message.Message):
    __slots__ = ("group", "generation")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    group: int
    generation: int
    def __init__(self, group: _Optional[int] = ..., generation: _Optional[int] = ...) -> None: ...

class ReplicaGroupReplacementFailed(_message.Message):
    __slots__ = ("group", "generation", "error", "backoff_s")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_S_FIELD_NUMBER: _ClassVar[int]
    group: int
    generation: int
    error: _state_pb2.Error
    backoff_s: float
    def __init__(self, group: _Optional[int] = ..., generation: _Optional[int] = ..., error: _Optional[_Union[_state_pb2.Error, _Mapping]] = ..., backoff_s: _Optional[float] = ...) -> None: ...

class ReportReceived(_message.Message):
    __slots__ = ("rank", "index", "metrics", "checkpoint")
    RANK_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    rank: int
    index: int
    metrics: _state_pb2.ValueMap
    checkpoint: str
    def __init__(self, rank: _Optional[int] = ..., index: _Optional[int] = ..., metrics: _Optional[_Union[_state_pb2.ValueMap, _Mapping]] = ..., checkpoint: _Optional[str] = ...) -> None: ...

class CheckpointCommitted(_message.Message):
    __slots__ = ("index", "directory", "metrics", "size_bytes", "report_index", "group")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    REPORT_INDEX_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    index: int
    directory: str
    metrics: _state_pb2.ValueMap
    size_bytes: int
    report_index: int
    group: int
    def __init__(self, index: _Optional[int] = ..., directory: _Optional[str] = ..., metrics: _Optional[_Union[_state_pb2.ValueMap, _Mapping]] = ..., size_bytes: _Optional[int] = ..., report_index: _Optional[int] = ..., group: _Optional[int] = ...) -> None: ...

class CheckpointDeleted(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...

class SyncStarted(_message.Message):
    __slots__ = ("sync_id", "source", "target")
    SYNC_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    sync_id: str
    source: str
    target: str
    def __init__(self, sync_id: _Optional[str] = ..., source: _Optional[str] = ..., target: _Optional[str] = ...) -> None: ...

class SyncSucceeded(_message.Message):
    __slots__ = ("sync_id", "files", "size_bytes")
    SYNC_ID_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    sync_id: str
    files: int
    size_bytes: int
    def __init__(self, sync_id: _Optional[str] = ..., files: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class SyncFailed(_message.Message):
    __slots__ = ("sync_id", "error")
    SYNC_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    sync_id: str
    error: _state_pb2.Error
    def __init__(self, sync_id: _Optional[str] = ..., error: _Optional[_Union[_state_pb2.Error, _Mapping]] = ...) -> None: ...

class SyncSkipped(_message.Message):
    __slots__ = ("source", "target")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ...) -> None: ...

class LineImported(_message.Message):
    __slots__ = ("ray_event_id", "source_type", "schema_version", "timestamp_s", "residue", "line_crc32c")
    RAY_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_S_FIELD_NUMBER: _ClassVar[int]
    RESIDUE_FIELD_NUMBER: _ClassVar[int]
    LINE_CRC32C_FIELD_NUMBER: _ClassVar[int]
    ray_event_id: str
    source_type: str
    schema_version: int
    timestamp_s: int
    residue: bytes
    line_crc32c: int
    def __init__(self, ray_event_id: _Optional[str] = ..., source_type: _Optional[str] = ..., schema_version: _Optional[int] = ..., timestamp_s: _Optional[int] = ..., residue: _Optional[bytes] = ..., line_crc32c: _Optional[int] = ...) -> None: ...

class ForeignStatusObserved(_message.Message):
    __slots__ = ("entity", "rank", "status", "text", "start_time_ns", "end_time_ns")
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    START_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    END_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    entity: ForeignEntity
    rank: int
    status: int
    text: str
    start_time_ns: int
    end_time_ns: int
    def __init__(self, entity: _Optional[_Union[ForeignEntity, str]] = ..., rank: _Optional[int] = ..., status: _Optional[int] = ..., text: _Optional[str] = ..., start_time_ns: _Optional[int] = ..., end_time_ns: _Optional[int] = ...) -> None: ...
