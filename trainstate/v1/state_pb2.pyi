from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATUS_UNSPECIFIED: _ClassVar[RunStatus]
    RUN_STATUS_INITIALIZING: _ClassVar[RunStatus]
    RUN_STATUS_SCHEDULING: _ClassVar[RunStatus]
    RUN_STATUS_WAITING: _ClassVar[RunStatus]
    RUN_STATUS_RUNNING: _ClassVar[RunStatus]
    RUN_STATUS_PREEMPTING: _ClassVar[RunStatus]
    RUN_STATUS_RESTARTING: _ClassVar[RunStatus]
    RUN_STATUS_RESIZING: _ClassVar[RunStatus]
    RUN_STATUS_SHUTTING_DOWN: _ClassVar[RunStatus]
    RUN_STATUS_FINISHED: _ClassVar[RunStatus]
    RUN_STATUS_ERRORED: _ClassVar[RunStatus]
    RUN_STATUS_ABORTED: _ClassVar[RunStatus]

class AttemptStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTEMPT_STATUS_UNSPECIFIED: _ClassVar[AttemptStatus]
    ATTEMPT_STATUS_PENDING: _ClassVar[AttemptStatus]
    ATTEMPT_STATUS_RUNNING: _ClassVar[AttemptStatus]
    ATTEMPT_STATUS_FINISHED: _ClassVar[AttemptStatus]
    ATTEMPT_STATUS_ERRORED: _ClassVar[AttemptStatus]
    ATTEMPT_STATUS_ABORTED: _ClassVar[AttemptStatus]

class WorkerStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORKER_STATUS_UNSPECIFIED: _ClassVar[WorkerStatus]
    WORKER_STATUS_SCHEDULING: _ClassVar[WorkerStatus]
    WORKER_STATUS_RUNNING: _ClassVar[WorkerStatus]
    WORKER_STATUS_FAILING: _ClassVar[WorkerStatus]
    WORKER_STATUS_COMPLETED: _ClassVar[WorkerStatus]
    WORKER_STATUS_DEAD: _ClassVar[WorkerStatus]

class ReplicaGroupStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPLICA_GROUP_STATUS_UNSPECIFIED: _ClassVar[ReplicaGroupStatus]
    REPLICA_GROUP_STATUS_RUNNING: _ClassVar[ReplicaGroupStatus]
    REPLICA_GROUP_STATUS_FAILED: _ClassVar[ReplicaGroupStatus]
    REPLICA_GROUP_STATUS_REPLACING: _ClassVar[ReplicaGroupStatus]
    REPLICA_GROUP_STATUS_ENDED: _ClassVar[ReplicaGroupStatus]

class PlacementStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLACEMENT_STATUS_UNSPECIFIED: _ClassVar[PlacementStatus]
    PLACEMENT_STATUS_REQUESTED: _ClassVar[PlacementStatus]
    PLACEMENT_STATUS_READY: _ClassVar[PlacementStatus]
    PLACEMENT_STATUS_TIMED_OUT: _ClassVar[PlacementStatus]
    PLACEMENT_STATUS_RELEASED: _ClassVar[PlacementStatus]

class SyncStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SYNC_STATUS_UNSPECIFIED: _ClassVar[SyncStatus]
    SYNC_STATUS_RUNNING: _ClassVar[SyncStatus]
    SYNC_STATUS_SUCCEEDED: _ClassVar[SyncStatus]
    SYNC_STATUS_FAILED: _ClassVar[SyncStatus]

class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAUSE_UNSPECIFIED: _ClassVar[Cause]
    CAUSE_COMPLETED: _ClassVar[Cause]
    CAUSE_WORKER_ERROR: _ClassVar[Cause]
    CAUSE_WORKER_LOST: _ClassVar[Cause]
    CAUSE_WORKER_HUNG: _ClassVar[Cause]
    CAUSE_NODE_PREEMPTED: _ClassVar[Cause]
    CAUSE_RESIZE: _ClassVar[Cause]
    CAUSE_REPLACEMENT_FAILED: _ClassVar[Cause]
    CAUSE_CONTROLLER_ERROR: _ClassVar[Cause]
    CAUSE_CALLBACK_ERROR: _ClassVar[Cause]
    CAUSE_UPLOAD_FAILED: _ClassVar[Cause]
    CAUSE_START_FAILED: _ClassVar[Cause]
    CAUSE_START_TIMEOUT: _ClassVar[Cause]
    CAUSE_USER_ABORT: _ClassVar[Cause]
    CAUSE_DRIVER_EXITED: _ClassVar[Cause]
    CAUSE_CONTROLLER_LOST: _ClassVar[Cause]
    CAUSE_STATE_LOST: _ClassVar[Cause]
    CAUSE_CLUSTER_LOST: _ClassVar[Cause]
    CAUSE_FENCED: _ClassVar[Cause]

class Budget(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BUDGET_UNSPECIFIED: _ClassVar[Budget]
    BUDGET_FAILURES: _ClassVar[Budget]
    BUDGET_PREEMPTIONS: _ClassVar[Budget]
    BUDGET_CONTROLLER: _ClassVar[Budget]

class TrainingFramework(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRAINING_FRAMEWORK_UNSPECIFIED: _ClassVar[TrainingFramework]
    TRAINING_FRAMEWORK_TORCH: _ClassVar[TrainingFramework]
    TRAINING_FRAMEWORK_JAX: _ClassVar[TrainingFramework]
    TRAINING_FRAMEWORK_TENSORFLOW: _ClassVar[TrainingFramework]
    TRAINING_FRAMEWORK_XGBOOST: _ClassVar[TrainingFramework]
    TRAINING_FRAMEWORK_LIGHTGBM: _ClassVar[TrainingFramework]

class ScoreOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCORE_ORDER_UNSPECIFIED: _ClassVar[ScoreOrder]
    SCORE_ORDER_MAX: _ClassVar[ScoreOrder]
    SCORE_ORDER_MIN: _ClassVar[ScoreOrder]
RUN_STATUS_UNSPECIFIED: RunStatus
RUN_STATUS_INITIALIZING: RunStatus
RUN_STATUS_SCHEDULING: RunStatus
RUN_STATUS_WAITING: RunStatus
RUN_STATUS_RUNNING: RunStatus
RUN_STATUS_PREEMPTING: RunStatus
RUN_STATUS_RESTARTING: RunStatus
RUN_STATUS_RESIZING: RunStatus
RUN_STATUS_SHUTTING_DOWN: RunStatus
RUN_STATUS_FINISHED: RunStatus
RUN_STATUS_ERRORED: RunStatus
RUN_STATUS_ABORTED: RunStatus
ATTEMPT_STATUS_UNSPECIFIED: AttemptStatus
ATTEMPT_STATUS_PENDING: AttemptStatus
ATTEMPT_STATUS_RUNNING: AttemptStatus
ATTEMPT_STATUS_FINISHED: AttemptStatus
ATTEMPT_STATUS_ERRORED: AttemptStatus
ATTEMPT_STATUS_ABORTED: AttemptStatus
WORKER_STATUS_UNSPECIFIED: WorkerStatus
WORKER_STATUS_SCHEDULING: WorkerStatus
WORKER_STATUS_RUNNING: WorkerStatus
WORKER_STATUS_FAILING: WorkerStatus
WORKER_STATUS_COMPLETED: WorkerStatus
WORKER_STATUS_DEAD: WorkerStatus
REPLICA_GROUP_STATUS_UNSPECIFIED: ReplicaGroupStatus
REPLICA_GROUP_STATUS_RUNNING: ReplicaGroupStatus
REPLICA_GROUP_STATUS_FAILED: ReplicaGroupStatus
REPLICA_GROUP_STATUS_REPLACING: ReplicaGroupStatus
REPLICA_GROUP_STATUS_ENDED: ReplicaGroupStatus
PLACEMENT_STATUS_UNSPECIFIED: PlacementStatus
PLACEMENT_STATUS_REQUESTED: PlacementStatus
PLACEMENT_STATUS_READY: PlacementStatus
PLACEMENT_STATUS_TIMED_OUT: PlacementStatus
PLACEMENT_STATUS_RELEASED: PlacementStatus
SYNC_STATUS_UNSPECIFIED: SyncStatus
SYNC_STATUS_RUNNING: SyncStatus
SYNC_STATUS_SUCCEEDED: SyncStatus
SYNC_STATUS_FAILED: SyncStatus
CAUSE_UNSPECIFIED: Cause
CAUSE_COMPLETED: Cause
CAUSE_WORKER_ERROR: Cause
CAUSE_WORKER_LOST: Cause
CAUSE_WORKER_HUNG: Cause
CAUSE_NODE_PREEMPTED: Cause
CAUSE_RESIZE: Cause
CAUSE_REPLACEMENT_FAILED: Cause
CAUSE_CONTROLLER_ERROR: Cause
CAUSE_CALLBACK_ERROR: Cause
CAUSE_UPLOAD_FAILED: Cause
CAUSE_START_FAILED: Cause
CAUSE_START_TIMEOUT: Cause
CAUSE_USER_ABORT: Cause
CAUSE_DRIVER_EXITED: Cause
CAUSE_CONTROLLER_LOST: Cause
CAUSE_STATE_LOST: Cause
CAUSE_CLUSTER_LOST: Cause
CAUSE_FENCED: Cause
BUDGET_UNSPECIFIED: Budget
BUDGET_FAILURES: Budget
BUDGET_PREEMPTIONS: Budget
BUDGET_CONTROLLER: Budget
TRAINING_FRAMEWORK_UNSPECIFIED: TrainingFramework
TRAINING_FRAMEWORK_TORCH: TrainingFramework
TRAINING_FRAMEWORK_JAX: TrainingFramework
TRAINING_FRAMEWORK_TENSORFLOW: TrainingFramework
TRAINING_FRAMEWORK_XGBOOST: TrainingFramework
TRAINING_FRAMEWORK_LIGHTGBM: TrainingFramework
SCORE_ORDER_UNSPECIFIED: ScoreOrder
SCORE_ORDER_MAX: ScoreOrder
SCORE_ORDER_MIN: ScoreOrder

class Value(_message.Message):
    __slots__ = ("null", "bool", "int", "double", "string", "bytes", "list", "map", "big_int")
    NULL_FIELD_NUMBER: _ClassVar[int]
    BOOL_FIELD_NUMBER: _ClassVar[int]
    INT_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_FIELD_NUMBER: _ClassVar[int]
    STRING_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    MAP_FIELD_NUMBER: _ClassVar[int]
    BIG_INT_FIELD_NUMBER: _ClassVar[int]
    null: bool
    bool: bool
    int: int
    double: float
    string: str
    bytes: bytes
    list: ValueList
    map: ValueMap
    big_int: str
    def __init__(self, null: bool = ..., bool: bool = ..., int: _Optional[int] = ..., double: _Optional[float] = ..., string: _Optional[str] = ..., bytes: _Optional[bytes] = ..., list: _Optional[_Union[ValueList, _Mapping]] = ..., map: _Optional[_Union[ValueMap, _Mapping]] = ..., big_int: _Optional[str] = ...) -> None: ...

class ValueList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, values: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class ValueMap(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[ValueEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[ValueEntry, _Mapping]]] = ...) -> None: ...

class ValueEntry(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: Value
    def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Resource(_message.Message):
    __slots__ = ("name", "amount")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    amount: float
    def __init__(self, name: _Optional[str] = ..., amount: _Optional[float] = ...) -> None: ...

class ResourceSet(_message.Message):
    __slots__ = ("resources",)
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    def __init__(self, resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ...) -> None: ...

class Label(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class LabelSelector(_message.Message):
    __slots__ = ("labels",)
    LABELS_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedCompositeFieldContainer[Label]
    def __init__(self, labels: _Optional[_Iterable[_Union[Label, _Mapping]]] = ...) -> None: ...

class Version(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class Panel(_message.Message):
    __slots__ = ("id", "title")
    ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    id: str
    title: str
    def __init__(self, id: _Optional[str] = ..., title: _Optional[str] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("type", "message", "traceback", "hint", "ranks", "node_id", "traceback_digest")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_DIGEST_FIELD_NUMBER: _ClassVar[int]
    type: str
    message: str
    traceback: str
    hint: str
    ranks: _containers.RepeatedScalarFieldContainer[int]
    node_id: str
    traceback_digest: bytes
    def __init__(self, type: _Optional[str] = ..., message: _Optional[str] = ..., traceback: _Optional[str] = ..., hint: _Optional[str] = ..., ranks: _Optional[_Iterable[int]] = ..., node_id: _Optional[str] = ..., traceback_digest: _Optional[bytes] = ...) -> None: ...

class Traceback(_message.Message):
    __slots__ = ("digest", "text")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    text: str
    def __init__(self, digest: _Optional[bytes] = ..., text: _Optional[str] = ...) -> None: ...

class RunSettings(_message.Message):
    __slots__ = ("train_loop_config", "backend_config", "scaling_config", "datasets", "data_config", "run_config", "limits", "secret_keys")
    TRAIN_LOOP_CONFIG_FIELD_NUMBER: _ClassVar[int]
    BACKEND_CONFIG_FIELD_NUMBER: _ClassVar[int]
    SCALING_CONFIG_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    DATA_CONFIG_FIELD_NUMBER: _ClassVar[int]
    RUN_CONFIG_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    SECRET_KEYS_FIELD_NUMBER: _ClassVar[int]
    train_loop_config: ValueMap
    backend_config: BackendConfig
    scaling_config: ScalingConfig
    datasets: _containers.RepeatedScalarFieldContainer[str]
    data_config: DataConfig
    run_config: RunConfig
    limits: Limits
    secret_keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, train_loop_config: _Optional[_Union[ValueMap, _Mapping]] = ..., backend_config: _Optional[_Union[BackendConfig, _Mapping]] = ..., scaling_config: _Optional[_Union[ScalingConfig, _Mapping]] = ..., datasets: _Optional[_Iterable[str]] = ..., data_config: _Optional[_Union[DataConfig, _Mapping]] = ..., run_config: _Optional[_Union[RunConfig, _Mapping]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., secret_keys: _Optional[_Iterable[str]] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("start_timeout_s", "worker_timeout_s", "report_timeout_s", "orphan_timeout_s", "backoff_first_s", "backoff_max_s", "reset_after_reports", "hook_timeout_s", "state_timeout_s", "upload_timeout_s")
    START_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    WORKER_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    REPORT_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    ORPHAN_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIRST_S_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MAX_S_FIELD_NUMBER: _ClassVar[int]
    RESET_AFTER_REPORTS_FIELD_NUMBER: _ClassVar[int]
    HOOK_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    STATE_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    start_timeout_s: float
    worker_timeout_s: float
    report_timeout_s: float
    orphan_timeout_s: float
    backoff_first_s: float
    backoff_max_s: float
    reset_after_reports: int
    hook_timeout_s: float
    state_timeout_s: float
    upload_timeout_s: float
    def __init__(self, start_timeout_s: _Optional[float] = ..., worker_timeout_s: _Optional[float] = ..., report_timeout_s: _Optional[float] = ..., orphan_timeout_s: _Optional[float] = ..., backoff_first_s: _Optional[float] = ..., backoff_max_s: _Optional[float] = ..., reset_after_reports: _Optional[int] = ..., hook_timeout_s: _Optional[float] = ..., state_timeout_s: _Optional[float] = ..., upload_timeout_s: _Optional[float] = ...) -> None: ...

class BackendConfig(_message.Message):
    __slots__ = ("framework", "config")
    FRAMEWORK_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    framework: TrainingFramework
    config: ValueMap
    def __init__(self, framework: _Optional[_Union[TrainingFramework, str]] = ..., config: _Optional[_Union[ValueMap, _Mapping]] = ...) -> None: ...

class ScalingConfig(_message.Message):
    __slots__ = ("num_workers_fixed", "num_workers_range", "use_gpu", "resources_per_worker", "placement_strategy", "accelerator_type", "use_tpu", "topology", "label_selector_single", "label_selector_list", "elastic_resize_monitor_interval_s", "replica_group_size")
    NUM_WORKERS_FIXED_FIELD_NUMBER: _ClassVar[int]
    NUM_WORKERS_RANGE_FIELD_NUMBER: _ClassVar[int]
    USE_GPU_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_PER_WORKER_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_STRATEGY_FIELD_NUMBER: _ClassVar[int]
    ACCELERATOR_TYPE_FIELD_NUMBER: _ClassVar[int]
    USE_TPU_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_SINGLE_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_LIST_FIELD_NUMBER: _ClassVar[int]
    ELASTIC_RESIZE_MONITOR_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    REPLICA_GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    num_workers_fixed: int
    num_workers_range: WorkerRange
    use_gpu: bool
    resources_per_worker: ResourceSet
    placement_strategy: str
    accelerator_type: str
    use_tpu: bool
    topology: str
    label_selector_single: LabelSelector
    label_selector_list: LabelSelectorList
    elastic_resize_monitor_interval_s: float
    replica_group_size: int
    def __init__(self, num_workers_fixed: _Optional[int] = ..., num_workers_range: _Optional[_Union[WorkerRange, _Mapping]] = ..., use_gpu: bool = ..., resources_per_worker: _Optional[_Union[ResourceSet, _Mapping]] = ..., placement_strategy: _Optional[str] = ..., accelerator_type: _Optional[str] = ..., use_tpu: bool = ..., topology: _Optional[str] = ..., label_selector_single: _Optional[_Union[LabelSelector, _Mapping]] = ..., label_selector_list: _Optional[_Union[LabelSelectorList, _Mapping]] = ..., elastic_resize_monitor_interval_s: _Optional[float] = ..., replica_group_size: _Optional[int] = ...) -> None: ...

class WorkerRange(_message.Message):
    __slots__ = ("min", "max")
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    min: int
    max: int
    def __init__(self, min: _Optional[int] = ..., max: _Optional[int] = ...) -> None: ...

class LabelSelectorList(_message.Message):
    __slots__ = ("selectors",)
    SELECTORS_FIELD_NUMBER: _ClassVar[int]
    selectors: _containers.RepeatedCompositeFieldContainer[LabelSelector]
    def __init__(self, selectors: _Optional[_Iterable[_Union[LabelSelector, _Mapping]]] = ...) -> None: ...

class DataConfig(_message.Message):
    __slots__ = ("all", "datasets", "enable_shard_locality", "data_execution_options", "execution_options")
    ALL_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    ENABLE_SHARD_LOCALITY_FIELD_NUMBER: _ClassVar[int]
    DATA_EXECUTION_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    all: AllDatasets
    datasets: DatasetNames
    enable_shard_locality: bool
    data_execution_options: DataExecutionOptions
    execution_options: ValueMap
    def __init__(self, all: _Optional[_Union[AllDatasets, _Mapping]] = ..., datasets: _Optional[_Union[DatasetNames, _Mapping]] = ..., enable_shard_locality: bool = ..., data_execution_options: _Optional[_Union[DataExecutionOptions, _Mapping]] = ..., execution_options: _Optional[_Union[ValueMap, _Mapping]] = ...) -> None: ...

class AllDatasets(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DatasetNames(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class DataExecutionOptions(_message.Message):
    __slots__ = ("default", "per_dataset")
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    PER_DATASET_FIELD_NUMBER: _ClassVar[int]
    default: ExecutionOptions
    per_dataset: _containers.RepeatedCompositeFieldContainer[DatasetExecutionOptions]
    def __init__(self, default: _Optional[_Union[ExecutionOptions, _Mapping]] = ..., per_dataset: _Optional[_Iterable[_Union[DatasetExecutionOptions, _Mapping]]] = ...) -> None: ...

class DatasetExecutionOptions(_message.Message):
    __slots__ = ("dataset", "options")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    options: ExecutionOptions
    def __init__(self, dataset: _Optional[str] = ..., options: _Optional[_Union[ExecutionOptions, _Mapping]] = ...) -> None: ...

class ExecutionOptions(_message.Message):
    __slots__ = ("resource_limits", "exclude_resources", "preserve_order", "actor_locality_enabled", "verbose_progress")
    RESOURCE_LIMITS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    PRESERVE_ORDER_FIELD_NUMBER: _ClassVar[int]
    ACTOR_LOCALITY_ENABLED_FIELD_NUMBER: _ClassVar[int]
    VERBOSE_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    resource_limits: ValueMap
    exclude_resources: ValueMap
    preserve_order: bool
    actor_locality_enabled: bool
    verbose_progress: bool
    def __init__(self, resource_limits: _Optional[_Union[ValueMap, _Mapping]] = ..., exclude_resources: _Optional[_Union[ValueMap, _Mapping]] = ..., preserve_order: bool = ..., actor_locality_enabled: bool = ..., verbose_progress: bool = ...) -> None: ...

class RunConfig(_message.Message):
    __slots__ = ("name", "failure_config", "worker_runtime_env", "checkpoint_config", "storage_path", "storage_filesystem")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FAILURE_CONFIG_FIELD_NUMBER: _ClassVar[int]
    WORKER_RUNTIME_ENV_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_CONFIG_FIELD_NUMBER: _ClassVar[int]
    STORAGE_PATH_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FILESYSTEM_FIELD_NUMBER: _ClassVar[int]
    name: str
    failure_config: FailureConfig
    worker_runtime_env: ValueMap
    checkpoint_config: CheckpointConfig
    storage_path: str
    storage_filesystem: str
    def __init__(self, name: _Optional[str] = ..., failure_config: _Optional[_Union[FailureConfig, _Mapping]] = ..., worker_runtime_env: _Optional[_Union[ValueMap, _Mapping]] = ..., checkpoint_config: _Optional[_Union[CheckpointConfig, _Mapping]] = ..., storage_path: _Optional[str] = ..., storage_filesystem: _Optional[str] = ...) -> None: ...

class FailureConfig(_message.Message):
    __slots__ = ("max_failures", "controller_failure_limit", "max_preemption_failures", "preemption_grace_s", "max_replacements")
    MAX_FAILURES_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FAILURE_LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAX_PREEMPTION_FAILURES_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_GRACE_S_FIELD_NUMBER: _ClassVar[int]
    MAX_REPLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    max_failures: int
    controller_failure_limit: int
    max_preemption_failures: int
    preemption_grace_s: float
    max_replacements: int
    def __init__(self, max_failures: _Optional[int] = ..., controller_failure_limit: _Optional[int] = ..., max_preemption_failures: _Optional[int] = ..., preemption_grace_s: _Optional[float] = ..., max_replacements: _Optional[int] = ...) -> None: ...

class CheckpointConfig(_message.Message):
    __slots__ = ("num_to_keep", "checkpoint_score_attribute", "checkpoint_score_order")
    NUM_TO_KEEP_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_SCORE_ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_SCORE_ORDER_FIELD_NUMBER: _ClassVar[int]
    num_to_keep: int
    checkpoint_score_attribute: str
    checkpoint_score_order: ScoreOrder
    def __init__(self, num_to_keep: _Optional[int] = ..., checkpoint_score_attribute: _Optional[str] = ..., checkpoint_score_order: _Optional[_Union[ScoreOrder, str]] = ...) -> None: ...

class Provenance(_message.Message):
    __slots__ = ("git_commit", "git_dirty", "entrypoint", "argv", "python_version", "operating_system", "runtime_env_hash", "seed", "launch_id", "working_directory", "image", "node_types")
    GIT_COMMIT_FIELD_NUMBER: _ClassVar[int]
    GIT_DIRTY_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    PYTHON_VERSION_FIELD_NUMBER: _ClassVar[int]
    OPERATING_SYSTEM_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_ENV_HASH_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_ID_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_TYPES_FIELD_NUMBER: _ClassVar[int]
    git_commit: str
    git_dirty: bool
    entrypoint: str
    argv: _containers.RepeatedScalarFieldContainer[str]
    python_version: str
    operating_system: str
    runtime_env_hash: str
    seed: int
    launch_id: str
    working_directory: str
    image: str
    node_types: _containers.RepeatedCompositeFieldContainer[NodeType]
    def __init__(self, git_commit: _Optional[str] = ..., git_dirty: bool = ..., entrypoint: _Optional[str] = ..., argv: _Optional[_Iterable[str]] = ..., python_version: _Optional[str] = ..., operating_system: _Optional[str] = ..., runtime_env_hash: _Optional[str] = ..., seed: _Optional[int] = ..., launch_id: _Optional[str] = ..., working_directory: _Optional[str] = ..., image: _Optional[str] = ..., node_types: _Optional[_Iterable[_Union[NodeType, _Mapping]]] = ...) -> None: ...

class NodeType(_message.Message):
    __slots__ = ("count", "resources", "accelerator_type", "labels")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    ACCELERATOR_TYPE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    count: int
    resources: ResourceSet
    accelerator_type: str
    labels: _containers.RepeatedCompositeFieldContainer[Label]
    def __init__(self, count: _Optional[int] = ..., resources: _Optional[_Union[ResourceSet, _Mapping]] = ..., accelerator_type: _Optional[str] = ..., labels: _Optional[_Iterable[_Union[Label, _Mapping]]] = ...) -> None: ...
