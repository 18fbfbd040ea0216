"""What a trainer was asked for, as the RunSettings that its run records.

How long things may take is read from the environment of the driver, here and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from trainstate.controller.backend import BackendConfig
from trainstate.core.redact import sanitised_map
from trainstate.errors import UsageError
from trainstate.train.config import (
    CheckpointConfig,
    FailureConfig,
    RunConfig,
    ScalingConfig,
    adopt,
)
from trainstate.v1 import state_pb2 as s

# Variable of the driver's environment -> field of Limits, and its default in seconds.
LIMITS: Mapping[str, tuple[str, float]] = {
    "TRAINSTATE_START_TIMEOUT_S": ("start_timeout_s", 60.0),
    "TRAINSTATE_WORKER_TIMEOUT_S": ("worker_timeout_s", 600.0),
    "TRAINSTATE_ORPHAN_TIMEOUT_S": ("orphan_timeout_s", 120.0),
    "TRAINSTATE_HOOK_TIMEOUT_S": ("hook_timeout_s", 30.0),
    "TRAINSTATE_STATE_TIMEOUT_S": ("state_timeout_s", 300.0),
    "TRAINSTATE_UPLOAD_TIMEOUT_S": ("upload_timeout_s", 1800.0),
}


def settings_of(
    *,
    train_loop_config: Mapping[str, Any] | None,
    backend_config: BackendConfig,
    scaling_config: ScalingConfig,
    run_config: RunConfig,
    datasets: Iterable[str],
    data_config: Any,
    environ: Mapping[str, str] = os.environ,
) -> s.RunSettings:
    """The settings of a run, sanitised.

    Raises UsageError for a limit in `environ` that is none, ValueError for a number of workers that does
    not make whole replica groups.
    """
    failure = adopt(FailureConfig, run_config.failure_config)
    group = _replica_group_size(backend_config, scaling_config)
    return s.RunSettings(
        train_loop_config=None if train_loop_config is None else sanitised_map(train_loop_config),
        backend_config=_backend(backend_config),
        scaling_config=_scaling(scaling_config, group),
        datasets=sorted(datasets),
        data_config=_data(data_config),
        run_config=_run(run_config, failure),
        limits=limits_of(failure, environ),
    )


def limits_of(failure: FailureConfig, environ: Mapping[str, str]) -> s.Limits:
    """How long things may take. Raises UsageError for a limit in `environ` that is none."""
    limits = s.Limits(
        report_timeout_s=failure.report_timeout_s,
        backoff_first_s=failure.backoff_first_s,
        backoff_max_s=failure.backoff_max_s,
        reset_after_reports=failure.reset_after_reports,
    )
    for variable, (field, default) in LIMITS.items():
        setattr(limits, field, _seconds(variable, environ.get(variable), default))
    return limits


def _seconds(variable: str, text: str | None, default: float) -> float:
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(
            f"{variable}={text!r} is no number of seconds above 0",
            hint=f"unset {variable} to have {default:g}",
        )
    return seconds


_FRAMEWORKS = {
    "torch": s.TRAINING_FRAMEWORK_TORCH,
    "jax": s.TRAINING_FRAMEWORK_JAX,
    "tensorflow": s.TRAINING_FRAMEWORK_TENSORFLOW,
    "xgboost": s.TRAINING_FRAMEWORK_XGBOOST,
    "lightgbm": s.TRAINING_FRAMEWORK_LIGHTGBM,
}


def _backend(config: BackendConfig) -> s.BackendConfig:
    named = getattr(config.framework, "value", config.framework)  # Ray's is an enum
    framework = _FRAMEWORKS.get(str(named), s.TRAINING_FRAMEWORK_UNSPECIFIED)
    return s.BackendConfig(framework=framework, config=sanitised_map(config.to_dict()))


def _replica_group_size(backend: BackendConfig, scaling: ScalingConfig) -> int | None:
    """Workers per replica group; None for a backend that has none, and for training in this process."""
    if not backend.backend_cls.has_replica_groups or scaling.max_workers == 0:
        return None
    size = backend.replica_group_size
    if size < 1 or scaling.min_workers % size or scaling.max_workers % size:
        raise ValueError(
            f"ScalingConfig(num_workers={scaling.num_workers!r}) is not of whole replica groups of "
            f"{size}: {type(backend).__name__}(replica_group_size) must divide it"
        )
    return size


def _scaling(config: ScalingConfig, replica_group_size: int | None) -> s.ScalingConfig:
    made = s.ScalingConfig(
        use_gpu=config.use_gpu,
        resources_per_worker=_resources(config.worker_resources()),
        placement_strategy=config.placement_strategy,
        accelerator_type=config.accelerator_type,
        replica_group_size=replica_group_size,
    )
    if config.elasticity_enabled:
        workers = s.WorkerRange(min=config.min_workers, max=config.max_workers)
        made.num_workers_range.CopyFrom(workers)
        made.elastic_resize_monitor_interval_s = config.elastic_resize_monitor_interval_s
    else:
        made.num_workers_fixed = config.max_workers
    if isinstance(config.label_selector, list):
        selectors = [_labels(one) for one in config.label_selector]
        made.label_selector_list.CopyFrom(s.LabelSelectorList(selectors=selectors))
    elif config.label_selector is not None:
        made.label_selector_single.CopyFrom(_labels(config.label_selector))
    return made


def _resources(amounts: Mapping[str, float]) -> s.ResourceSet:
    return s.ResourceSet(
        resources=[s.Resource(name=name, amount=amount) for name, amount in amounts.items()]
    )


def _labels(selector: Mapping[str, str]) -> s.LabelSelector:
    return s.LabelSelector(labels=[s.Label(key=key, value=one) for key, one in selector.items()])


def _run(config: RunConfig, failure: FailureConfig) -> s.RunConfig:
    filesystem = config.storage_filesystem
    return s.RunConfig(
        name=config.name or "",
        failure_config=s.FailureConfig(
            max_failures=failure.max_failures,
            controller_failure_limit=failure.controller_failure_limit,
            max_preemption_failures=failure.max_preemption_failures,
            preemption_grace_s=failure.preemption_grace_s,
            max_replacements=failure.max_replacements,
        ),
        worker_runtime_env=sanitised_map(config.worker_runtime_env or {}),
        checkpoint_config=_checkpoints(adopt(CheckpointConfig, config.checkpoint_config)),
        storage_path=os.fspath(config.storage_path or ""),
        storage_filesystem=None if filesystem is None else type(filesystem).__name__,
    )


def _checkpoints(config: CheckpointConfig) -> s.CheckpointConfig:
    highest = config.checkpoint_score_order == "max"
    return s.CheckpointConfig(
        num_to_keep=config.num_to_keep,
        checkpoint_score_attribute=config.checkpoint_score_attribute,
        checkpoint_score_order=s.SCORE_ORDER_MAX if highest else s.SCORE_ORDER_MIN,
    )


# --- Ray's DataConfig: what it was made with is in private attributes -----------------------------


def _data(config: Any) -> s.DataConfig:
    """What a ray.train.DataConfig says; None is the default one."""
    split = getattr(config, "_datasets_to_split", "all")
    made = s.DataConfig(enable_shard_locality=getattr(config, "_enable_shard_locality", True))
    if split == "all":
        made.all.SetInParent()
    else:
        made.datasets.names.extend(map(str, split))
    options = getattr(config, "_user_execution_options", None)
    if isinstance(options, Mapping):
        made.data_execution_options.per_dataset.extend(
            s.DatasetExecutionOptions(dataset=str(name), options=_execution(one))
            for name, one in options.items()
        )
    elif options is not None:
        made.data_execution_options.default.CopyFrom(_execution(options))
    return made


def _execution(options: Any) -> s.ExecutionOptions:
    return s.ExecutionOptions(
        resource_limits=_amounts(getattr(options, "resource_limits", None)),
        exclude_resources=_amounts(getattr(options, "exclude_resources", None)),
        preserve_order=bool(getattr(options, "preserve_order", False)),
        actor_locality_enabled=bool(getattr(options, "actor_locality_enabled", False)),
        verbose_progress=bool(getattr(options, "verbose_progress", False)),
    )


def _amounts(resources: Any) -> s.ValueMap:
    """An ExecutionResources; what has no limit is infinite there, and absent here."""
    names = {"cpu": "CPU", "gpu": "GPU", "object_store_memory": "object_store_memory"}
    found = {name: getattr(resources, one, None) for one, name in names.items()}
    limited = {name: one for name, one in found.items() if one not in (None, float("inf"))}
    return sanitised_map(limited)
