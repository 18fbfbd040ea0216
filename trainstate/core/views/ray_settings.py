"""How Ray's log prints the settings of a run, as tables read in both directions (reference A3.2, D).

A table lists the fields of one of our messages: the key in Ray's JSON, the name of our field, how its
value is printed and read, and the schema versions that have it. Presence follows the message: a field
with presence that is not set is absent, every other one is always printed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import Message

from trainstate.core.values import from_map, to_map
from trainstate.v1 import state_pb2 as s

NEWEST = 4


class Codec(NamedTuple):
    """How a value is printed as JSON of a schema version, and read from it."""

    dump: Callable[[Any, int], Any]
    load: Callable[[Any], Any]


class Field(NamedTuple):
    """One field of one message."""

    key: str
    name: str
    codec: Codec
    since: int = 3
    until: int = NEWEST


Table = Sequence[Field]


def dump(message: Message, table: Table, version: int) -> dict[str, Any]:
    """A message as Ray prints it in that schema version."""
    fields = message.DESCRIPTOR.fields_by_name
    return {
        field.key: field.codec.dump(getattr(message, field.name), version)
        for field in table
        if field.since <= version <= field.until
        and (not fields[field.name].has_presence or message.HasField(field.name))
    }


def load(kind: type[Message], table: Table, data: Mapping[str, Any]) -> Any:
    """The message that Ray printed as `data`; keys that are not in the table are left out.

    Raises TypeError, ValueError or AttributeError for values of another type than the table's.
    """
    known = {field.key: field for field in table}
    message = kind()
    for key, value in data.items():
        if key in known:
            _set(message, known[key].name, known[key].codec.load(value))
    return message


def _set(message: Message, name: str, value: Any) -> None:
    if isinstance(value, Message):
        getattr(message, name).CopyFrom(value)
    elif isinstance(value, list):
        getattr(message, name).extend(value)
    else:
        setattr(message, name, value)


def _numbers_as_doubles(value: Any) -> Any:
    """A run-time typed value as google.protobuf.Struct holds it: every number is a double."""
    if isinstance(value, dict):
        return {key: _numbers_as_doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers_as_doubles(item) for item in value]
    return _as_double(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_double(number: int) -> float | str:
    try:
        return float(number)
    except OverflowError:
        return str(number)  # row 3-12: too large for a double, and no reason to fail


def _nested(kind: type[Message], table: Table) -> Codec:
    return Codec(
        lambda message, version: dump(message, table, version),
        lambda data: load(kind, table, data),
    )


def _enum(prefix: str, unspecified: str, enum: Any) -> Codec:
    """An enum whose names in Ray lack our prefix; its zero has a name of its own in Ray.

    A number that only a newer version has a name for is printed as a number.
    """
    names = {number: name.removeprefix(prefix) for name, number in enum.items()} | {0: unspecified}
    return Codec(
        lambda number, _: names.get(number, number),
        lambda name: 0 if name == unspecified else enum.Value(prefix + name),
    )


def _entries(container: Any, entry: Any, key: str, value: str, field: str) -> Codec:
    """A map of Ray as our repeated entries."""
    return Codec(
        lambda message, _: {getattr(e, key): getattr(e, value) for e in getattr(message, field)},
        lambda data: container(**{field: [entry(**{key: k, value: v}) for k, v in data.items()]}),
    )


def _wrapped(inner: Codec) -> Codec:
    """What Ray prints one level deeper, under the key "values"."""
    return Codec(
        lambda message, version: {"values": inner.dump(message, version)},
        lambda data: inner.load(data["values"]),
    )


PLAIN = Codec(lambda value, _: value, lambda value: value)
NAMES = Codec(lambda values, _: list(values), lambda values: values)
UINT64 = Codec(lambda value, _: str(value), int)
STRUCT = Codec(lambda value, _: _numbers_as_doubles(from_map(value)), to_map)
RESOURCES = _entries(s.ResourceSet, s.Resource, "name", "amount", "resources")
VERSIONS = Codec(
    lambda versions, _: {version.name: version.version for version in versions},
    lambda data: [s.Version(name=name, version=version) for name, version in data.items()],
)
PANELS = Codec(
    lambda panels, _: [{"id": panel.id, "title": panel.title} for panel in panels],
    lambda data: [s.Panel(id=panel["id"], title=panel["title"]) for panel in data],
)
_LABELS = _wrapped(_entries(s.LabelSelector, s.Label, "key", "value", "labels"))
_LABELS_LIST = _wrapped(
    Codec(
        lambda message, version: [_LABELS.dump(one, version) for one in message.selectors],
        lambda data: s.LabelSelectorList(selectors=[_LABELS.load(one) for one in data]),
    )
)
_DATASETS = _wrapped(
    Codec(lambda message, _: list(message.names), lambda names: s.DatasetNames(names=names))
)

_BACKEND: Table = (
    Field(
        "framework",
        "framework",
        _enum("TRAINING_FRAMEWORK_", "TRAINING_FRAMEWORK_UNSPECIFIED", s.TrainingFramework),
    ),
    Field("config", "config", STRUCT),
)
_SCALING: Table = (
    Field("num_workers_fixed", "num_workers_fixed", PLAIN),
    Field(
        "num_workers_range",
        "num_workers_range",
        _nested(s.WorkerRange, (Field("min", "min", PLAIN), Field("max", "max", PLAIN))),
    ),
    Field("use_gpu", "use_gpu", PLAIN),
    Field("resources_per_worker", "resources_per_worker", _wrapped(RESOURCES)),
    Field("placement_strategy", "placement_strategy", PLAIN),
    Field("accelerator_type", "accelerator_type", PLAIN),
    Field("use_tpu", "use_tpu", PLAIN),
    Field("topology", "topology", PLAIN),
    Field("label_selector_list", "label_selector_list", _LABELS_LIST),
    Field("label_selector_single", "label_selector_single", _LABELS),
)
_EXECUTION: Table = (
    Field("resource_limits", "resource_limits", STRUCT),
    Field("exclude_resources", "exclude_resources", STRUCT),
    Field("preserve_order", "preserve_order", PLAIN),
    Field("actor_locality_enabled", "actor_locality_enabled", PLAIN),
    Field("verbose_progress", "verbose_progress", PLAIN),
)
_OPTIONS = _nested(s.ExecutionOptions, _EXECUTION)
_PER_DATASET = Codec(
    lambda many, version: {one.dataset: _OPTIONS.dump(one.options, version) for one in many},
    lambda data: [
        s.DatasetExecutionOptions(dataset=name, options=_OPTIONS.load(options))
        for name, options in data.items()
    ],
)
_DATA_EXECUTION: Table = (
    Field("default", "default", _OPTIONS),
    Field("per_dataset_execution_options", "per_dataset", _PER_DATASET),
)
_DATA: Table = (
    Field("all", "all", _nested(s.AllDatasets, ())),
    Field("datasets", "datasets", _DATASETS),
    Field("execution_options", "execution_options", STRUCT, until=3),
    Field("enable_shard_locality", "enable_shard_locality", PLAIN),
    Field(
        "data_execution_options",
        "data_execution_options",
        _nested(s.DataExecutionOptions, _DATA_EXECUTION),
        since=4,
    ),
)
_FAILURE: Table = (
    Field("max_failures", "max_failures", PLAIN),
    Field("controller_failure_limit", "controller_failure_limit", PLAIN),
)
_CHECKPOINT: Table = (
    Field("num_to_keep", "num_to_keep", UINT64),
    Field("checkpoint_score_attribute", "checkpoint_score_attribute", PLAIN),
    Field(
        "checkpoint_score_order",
        "checkpoint_score_order",
        _enum("SCORE_ORDER_", "SCORE_ORDER_UNSPECIFIED", s.ScoreOrder),
    ),
)
_RUN_CONFIG: Table = (
    Field("name", "name", PLAIN),
    Field("failure_config", "failure_config", _nested(s.FailureConfig, _FAILURE)),
    Field("worker_runtime_env", "worker_runtime_env", STRUCT),
    Field("checkpoint_config", "checkpoint_config", _nested(s.CheckpointConfig, _CHECKPOINT)),
    Field("storage_path", "storage_path", PLAIN),
    Field("storage_filesystem", "storage_filesystem", PLAIN),
)
_SETTINGS: Table = (
    Field("train_loop_config", "train_loop_config", STRUCT),
    Field("backend_config", "backend_config", _nested(s.BackendConfig, _BACKEND)),
    Field("scaling_config", "scaling_config", _nested(s.ScalingConfig, _SCALING)),
    Field("datasets", "datasets", NAMES),
    Field("data_config", "data_config", _nested(s.DataConfig, _DATA)),
    Field("run_config", "run_config", _nested(s.RunConfig, _RUN_CONFIG)),
)

SETTINGS = _nested(s.RunSettings, _SETTINGS)
