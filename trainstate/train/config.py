"""The configs of a trainer: names, defaults and checks of Ray Train V2's.

What Ray has and we do not is refused where it is written, with the reason, unless it has Ray's default.
A config of Ray's own may stand wherever one of ours may: its fields are read (`adopt`).
"""

from __future__ import annotations

import dataclasses
import functools
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

from trainstate.controller.hooks import Callback, UserCallback

C = TypeVar("C", bound=type)

_REFUSED: dict[type, Mapping[str, tuple[Any, str]]] = {}
# How an argument of Ray's says that nobody set it.
_RAYS_UNSET = ("DEPRECATED", "LoggingConfig(log_level='INFO')")
_RAYS_USER_CALLBACK = ("ray.train.UserCallback", "ray.train.v2.api.callback.UserCallback")

_ORCHESTRATION = "it belongs to Ray Tune; what trainstate does with a run is in its journal"
_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


def refusing(fields: Mapping[str, tuple[Any, str]]) -> Callable[[C], C]:
    """A class decorator: arguments of Ray's that we do not have, as name -> (Ray's default, why not).

    The default itself is taken and dropped; anything else raises ValueError.
    """

    def decorate(cls: C) -> C:
        init = cls.__init__  # type: ignore[misc]  # of this very class, not of one below it

        @functools.wraps(init)
        def checked(self: Any, *args: Any, **kwargs: Any) -> None:
            for name in fields.keys() & kwargs.keys():
                default, why = fields[name]
                if kwargs.pop(name) != default:
                    raise ValueError(f"{cls.__name__}({name}) is not supported: {why}")
            init(self, *args, **kwargs)

        cls.__init__ = checked  # type: ignore[misc]
        _REFUSED[cls] = fields
        return cls

    return decorate


@refusing(
    {
        "use_tpu": (False, "trainstate sets up no TPU slices"),
        "topology": (None, "trainstate sets up no TPU slices"),
        "trainer_resources": (None, "the controller takes no CPU; it runs beside the driver"),
    }
)
@dataclass
class ScalingConfig:
    """How many workers, and what each of them gets.

    `num_workers` is a number, 0 to train in this process, or (min, max): train with what there is.
    `resources_per_worker` is in Ray's units; {"CPU": 1}, with `use_gpu` {"GPU": 1}, if left out.
    """

    num_workers: int | tuple[int, int] = 1
    use_gpu: bool = False
    resources_per_worker: dict[str, float] | None = None
    placement_strategy: str = "PACK"
    accelerator_type: str | None = None
    label_selector: dict[str, str] | list[dict[str, str]] | None = None
    elastic_resize_monitor_interval_s: float = 60.0

    def __post_init__(self) -> None:
        _require(_is_count(self.num_workers), self, "num_workers", "an int or a tuple of two ints")
        _require(self.min_workers >= 0, self, "num_workers", "not negative")
        _require(self.min_workers <= self.max_workers, self, "num_workers", "(min, max), in order")
        _require(
            not self.elasticity_enabled or self.min_workers > 0,
            self,
            "num_workers",
            "at least 1 at any time when it is a range",
        )
        _require(
            self.elastic_resize_monitor_interval_s >= 0,
            self,
            "elastic_resize_monitor_interval_s",
            "not negative",
        )
        _require(
            self.placement_strategy in _STRATEGIES,
            self,
            "placement_strategy",
            f"one of {', '.join(_STRATEGIES)}",
        )
        _require(
            not (self.elasticity_enabled and self.placement_strategy.startswith("STRICT")),
            self,
            "placement_strategy",
            "PACK or SPREAD when num_workers is a range: what is added is placed by itself",
        )
        self._check_resources()
        if isinstance(self.label_selector, list):
            fits = len(self.label_selector) == self.max_workers
            _require(fits, self, "label_selector", "one selector, or one per worker at most")

    def _check_resources(self) -> None:
        given = self.resources_per_worker or {}
        for amount in given.values():
            _require(amount >= 0, self, "resources_per_worker", "not negative")
        if "GPU" in given and bool(given["GPU"]) != self.use_gpu:
            raise ValueError(
                f"ScalingConfig(use_gpu={self.use_gpu}) does not fit "
                f"resources_per_worker={given}: set use_gpu=True to give workers GPUs"
            )

    @property
    def elasticity_enabled(self) -> bool:
        """Whether the number of workers may change."""
        return isinstance(self.num_workers, tuple)

    @property
    def min_workers(self) -> int:
        """The fewest workers to train with."""
        return self.num_workers[0] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def max_workers(self) -> int:
        """The most workers to train with."""
        return self.num_workers[1] if isinstance(self.num_workers, tuple) else self.num_workers

    def worker_resources(self) -> dict[str, float]:
        """What one worker asks the cluster for, without zeros."""
        given = self.resources_per_worker
        if given is None:
            asked = {} if self.use_gpu else {"CPU": 1.0}
        else:
            asked = {name: float(amount) for name, amount in given.items() if amount}
        if self.use_gpu:
            asked.setdefault("GPU", 1.0)
        if self.accelerator_type:
            # Ray marks a node with a pinch of this resource; any amount of it pins to such nodes.
            asked.setdefault(f"accelerator_type:{self.accelerator_type}", 0.001)
        return asked


@refusing(
    {
        "fail_fast": (False, "max_failures=0 fails at the first error"),
        "relax_collectives_on_preemption": (False, "every rank takes part in every collective"),
    }
)
@dataclass
class FailureConfig:
    """How often to start again, and how long to wait before.

    The budgets count per cause; -1 is without limit. `controller_failure_limit` is for attempts that
    could not be started. A committed checkpoint, or `reset_after_reports` reports (0: only a
    checkpoint), sets the counts back to zero. The first restart follows at once, the second after
    `backoff_first_s` seconds, then twice as long each time, up to `backoff_max_s`. A worker that makes
    no report for `report_timeout_s` seconds is taken to hang (None: never). A replica group that fails
    `max_replacements` replacements has all workers started anew.
    """

    max_failures: int = 0
    controller_failure_limit: int = -1
    max_preemption_failures: int = -1
    preemption_grace_s: float = 0.0
    _: dataclasses.KW_ONLY
    report_timeout_s: float | None = None
    reset_after_reports: int = 0
    backoff_first_s: float = 1.0
    backoff_max_s: float = 60.0
    max_replacements: int = 3

    def __post_init__(self) -> None:
        for name in ("max_failures", "controller_failure_limit", "max_preemption_failures"):
            _require(_int_from(getattr(self, name), -1), self, name, "an int, at least -1")
        for name in ("reset_after_reports", "max_replacements"):
            _require(_int_from(getattr(self, name), 0), self, name, "an int, at least 0")
        for name in ("preemption_grace_s", "backoff_first_s"):
            _require(getattr(self, name) >= 0, self, name, "not negative")
        _require(
            self.backoff_max_s >= self.backoff_first_s,
            self,
            "backoff_max_s",
            "at least backoff_first_s",
        )
        _require(
            self.report_timeout_s is None or self.report_timeout_s > 0,
            self,
            "report_timeout_s",
            "positive, or None",
        )


_NO_TUNE_CHECKPOINTS = "checkpoints are made where the training function reports them"


@refusing(
    {
        "checkpoint_frequency": (0, _NO_TUNE_CHECKPOINTS),
        "checkpoint_at_end": (None, _NO_TUNE_CHECKPOINTS),
    }
)
@dataclass
class CheckpointConfig:
    """Which checkpoints are kept: the newest `num_to_keep`, or those with the best score.

    The score is the metric `checkpoint_score_attribute` of the report; the newest is always kept.
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: Literal["max", "min"] = "max"

    def __post_init__(self) -> None:
        keep = self.num_to_keep
        _require(keep is None or _int_from(keep, 1), self, "num_to_keep", "None or at least 1")
        known = self.checkpoint_score_order in ("max", "min")
        _require(known, self, "checkpoint_score_order", "'max' or 'min'")


@refusing(
    {
        "logging_config": (None, "trainstate logs nothing; `trainstate tail` shows what happens"),
        "sync_config": (None, _ORCHESTRATION),
        "verbose": (None, _ORCHESTRATION),
        "stop": (None, _ORCHESTRATION),
        "progress_reporter": (None, _ORCHESTRATION),
        "log_to_file": (None, _ORCHESTRATION),
    }
)
@dataclass
class RunConfig:
    """Where a run keeps its results, and how it is looked after.

    `storage_path` is a directory or a URI that every node reaches; with `storage_filesystem`, a path on
    it. A `fit()` with the `name` of an earlier run resumes from its newest checkpoint.
    """

    name: str | None = None
    storage_path: str | os.PathLike[str] | None = None
    storage_filesystem: Any = None
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    callbacks: Sequence[Callback] | None = None
    worker_runtime_env: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        self.name = self.name or _unused_name()
        inside = not self.name.startswith("/") and ".." not in self.name.split("/")
        _require(inside, self, "name", "a directory below storage_path")
        self.storage_path = os.fspath(self.storage_path or os.path.expanduser("~/ray_results"))
        self.failure_config = adopt(FailureConfig, self.failure_config)
        self.checkpoint_config = adopt(CheckpointConfig, self.checkpoint_config)
        self.callbacks = [_callback(one) for one in self.callbacks or ()]
        # A ray.runtime_env.RuntimeEnv is a dict too.
        self.worker_runtime_env = dict(self.worker_runtime_env or {})


T = TypeVar("T", ScalingConfig, FailureConfig, CheckpointConfig, RunConfig)


def adopt(kind: type[T], given: Any) -> T:
    """A config of class `kind`: a default one for None, itself, or one of Ray's of the same name, read.

    Raises ValueError for anything else, and for a field of Ray's that we do not support.
    """
    if given is None:
        return kind()
    if isinstance(given, kind):
        return given
    if type(given).__name__ != kind.__name__ or type(given).__module__.partition(".")[0] != "ray":
        raise ValueError(
            f"not a {kind.__name__}: {type(given).__qualname__}; use trainstate.train.{kind.__name__}"
        )
    ours = {field.name for field in dataclasses.fields(kind)}
    theirs = {field.name for field in dataclasses.fields(given)}
    values = {name: getattr(given, name) for name in theirs & (ours | _REFUSED[kind].keys())}
    return kind(**{name: one for name, one in values.items() if str(one) not in _RAYS_UNSET})


class _RayUserCallback(UserCallback):
    """A ray.train.UserCallback as one of ours: the hooks are the same."""

    def __init__(self, theirs: Any) -> None:
        self.theirs = theirs

    def after_report(
        self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any | None
    ) -> None:
        self.theirs.after_report(run_context, metrics, checkpoint)

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        self.theirs.after_exception(run_context, worker_exceptions)


def _callback(given: Any) -> Callback:
    if isinstance(given, Callback):
        return given
    if any(
        f"{one.__module__}.{one.__name__}" in _RAYS_USER_CALLBACK for one in type(given).__mro__
    ):
        return _RayUserCallback(given)
    raise ValueError(
        f"RunConfig(callbacks) has a {type(given).__qualname__}: "
        "derive it from a class of trainstate.train.callbacks"
    )


def _unused_name() -> str:
    # Two runs that start in the same second must not share a directory.
    now = datetime.now().astimezone()
    return f"train_run-{now:%Y-%m-%d_%H-%M-%S}-{secrets.token_hex(3)}"


def _require(fits: bool, config: Any, field: str, what: str) -> None:
    if not fits:
        value = getattr(config, field)
        raise ValueError(f"{type(config).__name__}({field}={value!r}) must be {what}")


def _int_from(value: Any, lowest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= lowest


def _is_count(value: Any) -> bool:
    counts = value if isinstance(value, tuple) and len(value) == 2 else (value,)
    return all(isinstance(one, int) and not isinstance(one, bool) for one in counts)
