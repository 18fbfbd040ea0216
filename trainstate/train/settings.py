"""What a trainer was asked for, as the RunSettings that its run records.

How long things may take is read from the environment of the driver, here and nowhere else.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from trainstate.controller.backend import BackendConfig
from trainstate.controller.versions import PACKAGES
from trainstate.core.redact import DEPTH_MAX, NESTING_MAX, SIZE_MAX, plain
from trainstate.core.secrets import Names
from trainstate.core.views.settings import settings_from
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
# Variable -> default and most. Of each of the dicts that users fill; an event holds four such.
CAPS: Mapping[str, tuple[int, int]] = {
    "TRAINSTATE_SETTINGS_BYTES": (SIZE_MAX, SIZE_MAX),
    "TRAINSTATE_SETTINGS_DEPTH": (DEPTH_MAX, NESTING_MAX),
}
# Names whose values are secret too, with commas between; one with a "!" in front is not.
SECRET_KEYS_VARIABLE = "TRAINSTATE_SECRET_KEYS"
_NAMES_BYTES_MAX = 16 * 1024


def settings_of(
    *,
    train_loop_config: Mapping[str, Any] | None,
    backend_config: BackendConfig,
    scaling_config: ScalingConfig,
    run_config: RunConfig,
    datasets: Collection[str],
    data_config: Any,
    environ: Mapping[str, str] = os.environ,
) -> s.RunSettings:
    """The settings of a run, sanitised.

    Raises UsageError for a limit in `environ` that is none, ValueError for a number of workers that does
    not make whole replica groups.
    """
    failure = adopt(FailureConfig, run_config.failure_config)
    group = _replica_group_size(backend_config, scaling_config)
    secret_keys = _names(environ.get(SECRET_KEYS_VARIABLE, ""))
    caps = _caps(environ, secret_keys)
    named = getattr(backend_config.framework, "value", backend_config.framework)  # Ray's is an enum
    framework = named if named in PACKAGES else None
    model = {
        "train_loop_config": None if train_loop_config is None else _dict(train_loop_config, caps),
        "backend_config": {"framework": framework, "config": _dict(_backend(backend_config), caps)},
        "scaling_config": _scaling(scaling_config, group),
        "datasets": list(map(str, plain(sorted(map(str, datasets)), _NAMES_BYTES_MAX))),
        "data_config": _data(data_config, bool(datasets)),
        "run_config": _run(run_config, failure, caps),
        "secret_keys": secret_keys,
    }
    settings: s.RunSettings = settings_from(model)
    settings.limits.CopyFrom(limits_of(failure, environ))
    return settings


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


class _Caps(NamedTuple):
    """How much of what users gave is recorded: bytes, roughly, and levels of dicts; secret names."""

    size_max: int
    max_depth: int
    names: Names


def _caps(environ: Mapping[str, str], secret_keys: Collection[str]) -> _Caps:
    size_max, max_depth = (
        _whole(variable, environ.get(variable), *between) for variable, between in CAPS.items()
    )
    return _Caps(size_max, max_depth, Names(secret_keys))


def _whole(variable: str, text: str | None, default: int, most: int) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= most):
        raise UsageError(
            f"{variable}={text!r} is no number from 1 to {most}",
            hint=f"unset {variable} to have {default}",
        )
    return int(text)


def _backend(config: BackendConfig) -> Mapping[str, Any]:
    try:
        return config.to_dict()
    except Exception as error:  # the boundary: it is the user's code, and only for the record
        return {"": f"to_dict raised {type(error).__qualname__}"}


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if not any(map(str.isalpha, name)):
            raise UsageError(
                f"{SECRET_KEYS_VARIABLE}={text!r} has {name!r}, which is no name",
                hint=f'{SECRET_KEYS_VARIABLE}="pin,internal code,!dsn"',
            )
    return names


def _dict(values: Mapping[Any, Any], caps: _Caps) -> dict[str, Any]:
    """A mapping of a user's, sanitised; one that cannot be read is named under ""."""
    made = plain(values, *caps)
    return made if isinstance(made, dict) else {"": made}


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


def _scaling(config: ScalingConfig, replica_group_size: int | None) -> dict[str, Any]:
    every_s = config.elastic_resize_monitor_interval_s
    return {
        "num_workers": config.num_workers,
        "use_gpu": config.use_gpu,
        "resources_per_worker": config.worker_resources(),
        "placement_strategy": config.placement_strategy,
        "accelerator_type": config.accelerator_type,
        "label_selector": config.label_selector,
        "elastic_resize_monitor_interval_s": every_s if config.elasticity_enabled else None,
        "replica_group_size": replica_group_size,
    }


def _run(config: RunConfig, failure: FailureConfig, caps: _Caps) -> dict[str, Any]:
    kept = adopt(CheckpointConfig, config.checkpoint_config)
    filesystem = config.storage_filesystem
    return {
        "name": config.name,
        "failure_config": {
            "max_failures": failure.max_failures,
            "controller_failure_limit": failure.controller_failure_limit,
            "max_preemption_failures": failure.max_preemption_failures,
            "preemption_grace_s": failure.preemption_grace_s,
            "max_replacements": failure.max_replacements,
        },
        "worker_runtime_env": _dict(config.worker_runtime_env or {}, caps),
        "checkpoint_config": {
            "num_to_keep": kept.num_to_keep,
            "checkpoint_score_attribute": kept.checkpoint_score_attribute,
            "checkpoint_score_order": kept.checkpoint_score_order,
        },
        "storage_path": os.fspath(config.storage_path or ""),
        "storage_filesystem": None if filesystem is None else str(plain(filesystem)),
    }


# --- Ray's DataConfig: what it was made with is in private attributes -----------------------------


def _data(config: Any, has_datasets: bool) -> dict[str, Any]:
    """What a ray.train.DataConfig says; None is the default one.

    How datasets are executed by default is asked only where there are some: that imports ray.data.
    """
    options = getattr(config, "_user_execution_options", None)
    several: Mapping[str, Any] = options if isinstance(options, Mapping) else {}
    default = None if isinstance(options, Mapping) else options
    if has_datasets and default is None:
        default = _rays_default()
    return {
        "datasets_to_split": getattr(config, "_datasets_to_split", "all"),
        "enable_shard_locality": getattr(config, "_enable_shard_locality", True),
        "data_execution_options": {
            "default": default and _execution(default),
            "per_dataset": {str(name): _execution(one) for name, one in several.items()},
        },
    }


def _rays_default() -> Any:
    from ray.train import DataConfig

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Ray's, of itself
        return DataConfig.default_ingest_options()


def _execution(options: Any) -> dict[str, Any]:
    return {
        "resource_limits": _amounts(getattr(options, "resource_limits", None)),
        "exclude_resources": _amounts(getattr(options, "exclude_resources", None)),
        "preserve_order": bool(getattr(options, "preserve_order", False)),
        "actor_locality_enabled": bool(getattr(options, "actor_locality_enabled", False)),
        "verbose_progress": bool(getattr(options, "verbose_progress", False)),
    }


def _amounts(resources: Any) -> dict[str, Any]:
    """An ExecutionResources; what has no limit is infinite there."""
    found: dict[str, Any] = plain(resources.to_resource_dict()) if resources is not None else {}
    return found
