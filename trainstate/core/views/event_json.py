"""A recorded event as plain JSON, for people and for programs that know no protobuf.

Integers are integers, however large; bytes are hex; enums are names without their prefix (a number that
only a newer version can name stays a number); a `Value` is the value it carries. JSON has no NaN and no
infinity: they are the strings of protobuf's own JSON. A field with presence is absent while it is
unset; every other field is always there, so that rank 0 is as visible as rank 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from trainstate.core.model import AttemptStatus, RunStatus, WorkerStatus
from trainstate.core.units import NS_PER_S
from trainstate.core.values import from_map, from_value
from trainstate.v1 import event_pb2 as e

# The kind of an event whose payload only a newer version knows.
UNKNOWN_KIND = "unknown"

Render = Callable[[Any], Any]


def event_json(recorded: tuple[int, e.Event]) -> dict[str, Any]:
    """A position and the event there (a `Recorded`) as a dict that `json.dumps` takes.

    `time` is ISO 8601 in UTC with nanoseconds, `time_unix_nano` the same as an integer.
    """
    seq, event = recorded
    kind = event.WhichOneof("payload")
    return {
        "seq": seq,
        "run_id": event.run_id,
        "run_seq": event.run_seq,
        "time": iso_time(event.time_unix_nano),
        "time_unix_nano": event.time_unix_nano,
        "kind": kind or UNKNOWN_KIND,
        "attempt_id": event.attempt_id,
        "incarnation": event.incarnation,
        "reason": event.reason,
        "payload": message_json(getattr(event, kind)) if kind else {},
    }


def iso_time(time_ns: int) -> str:
    """A time in ns since the Unix epoch as ISO 8601, UTC: `2026-07-30T12:00:00.000000001Z`.

    A time past the year 9999, which only a damaged clock writes, is its number of nanoseconds.
    """
    seconds, ns = divmod(time_ns, NS_PER_S)
    try:
        text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, ValueError):
        return str(time_ns)
    return f"{text}.{ns:09d}Z"


def message_json(message: Message) -> Any:
    """A message of ours as plain JSON, by the rules at the top of this module."""
    return _message(message.DESCRIPTOR)(message)


class _Field(NamedTuple):
    name: str
    has_presence: bool
    render: Render


@cache
def _message(descriptor: Descriptor) -> Render:
    """How a message of that type is shown; worked out once per type."""
    special = _SPECIAL.get(descriptor.full_name)
    return special or (lambda message: _shown(message, _fields(descriptor)))


@cache
def _fields(descriptor: Descriptor) -> Sequence[_Field]:
    return [_Field(field.name, field.has_presence, _field(field)) for field in descriptor.fields]


def _shown(message: Message, fields: Sequence[_Field]) -> dict[str, Any]:
    return {
        field.name: field.render(getattr(message, field.name))
        for field in fields
        if not field.has_presence or message.HasField(field.name)
    }


def _field(field: FieldDescriptor) -> Render:
    render = _one(field)
    if _is_repeated(field):
        return lambda values: [render(value) for value in values]
    return render


def _is_repeated(field: FieldDescriptor) -> bool:
    # `is_repeated` came with protobuf 6, which warns of `label`; each is read where it is right.
    known: Any = field
    if hasattr(known, "is_repeated"):
        return bool(known.is_repeated)
    return bool(known.label == FieldDescriptor.LABEL_REPEATED)


def _one(field: FieldDescriptor) -> Render:
    if field.message_type is not None:
        return _message(field.message_type)
    if field.enum_type is not None:
        return _enum(field.enum_type)
    return _SCALARS.get(field.type, _same)


def _enum(descriptor: EnumDescriptor) -> Render:
    prefix = descriptor.values_by_number[0].name.removesuffix("UNSPECIFIED")
    names = {one.number: one.name.removeprefix(prefix) for one in descriptor.values}
    return lambda number: names.get(number, number)


def _same(value: Any) -> Any:
    return value


def _double(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _plain(value: Any) -> Any:
    """A value of `core/values.py` with nothing in it that JSON cannot say."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return value.hex()
    return _double(value) if isinstance(value, float) else value


def _foreign_status(message: Any) -> dict[str, Any]:
    """The status is a number of the enum that the entity has; shown by its name."""
    shown = _shown(message, _fields(message.DESCRIPTOR))
    statuses = _STATUSES.get(message.entity)
    if statuses is not None and message.status in statuses.__members__.values():
        shown["status"] = statuses(message.status).name
    return shown


_STATUSES: Mapping[int, type[RunStatus | AttemptStatus | WorkerStatus]] = {
    e.FOREIGN_ENTITY_RUN: RunStatus,
    e.FOREIGN_ENTITY_ATTEMPT: AttemptStatus,
    e.FOREIGN_ENTITY_WORKER: WorkerStatus,
}

_SCALARS: Mapping[int, Render] = {
    FieldDescriptor.TYPE_BYTES: bytes.hex,
    FieldDescriptor.TYPE_DOUBLE: _double,
}

_SPECIAL: Mapping[str, Render] = {
    "trainstate.v1.Value": lambda value: _plain(from_value(value)),
    "trainstate.v1.ValueMap": lambda values: _plain(from_map(values)),
    "trainstate.v1.ResourceSet": lambda those: {
        one.name: _double(one.amount) for one in those.resources
    },
    "trainstate.v1.LabelSelector": lambda selector: {one.key: one.value for one in selector.labels},
    "trainstate.v1.ForeignStatusObserved": _foreign_status,
}
