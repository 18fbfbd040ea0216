"""The state of a run as bytes and back: what a snapshot holds, and how a state is copied.

The model's classes and the messages of view.proto have the same field names; the tables below say only
which class a message is, and under which of its fields an entity is kept in its owner's dict.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cache
from typing import Any, get_args, get_type_hints

from google.protobuf.message import Message

from trainstate.core import model
from trainstate.v1 import view_pb2

# Raised by one whenever a fold over the same events would give another state: old snapshots are void.
FOLD_VERSION = 4

_MESSAGES: Mapping[type[Any], type[Message]] = {
    model.Run: view_pb2.Run,
    model.Attempt: view_pb2.Attempt,
    model.Worker: view_pb2.Worker,
    model.ReplicaGroup: view_pb2.ReplicaGroup,
    model.PendingCheckpoint: view_pb2.PendingCheckpoint,
    model.Placement: view_pb2.Placement,
    model.Checkpoint: view_pb2.Checkpoint,
    model.Sync: view_pb2.Sync,
    model.BudgetUse: view_pb2.BudgetUse,
    model.Resize: view_pb2.Resize,
    model.Irregularity: view_pb2.Irregularity,
}
_KEYS: Mapping[type[Any], str] = {
    model.Worker: "rank",
    model.ReplicaGroup: "group",
    model.PendingCheckpoint: "report_index",
    model.Placement: "name",
    model.Checkpoint: "index",
    model.Sync: "sync_id",
    model.BudgetUse: "budget",
}


def to_proto(entity: Any) -> Any:
    """The view.proto message of an entity of the model."""
    message = _MESSAGES[type(entity)]()
    for field in dataclasses.fields(entity):
        _put(message, field.name, getattr(entity, field.name))
    return message


def _put(message: Message, name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, Message):
        getattr(message, name).CopyFrom(value)
    elif isinstance(value, dict):
        getattr(message, name).extend(map(to_proto, value.values()))
    elif isinstance(value, list | tuple):
        ours = value and type(value[0]) in _MESSAGES
        getattr(message, name).extend(map(to_proto, value) if ours else value)
    else:
        setattr(message, name, value)


def from_proto(kind: type[Any], message: Message) -> Any:
    """The entity of class `kind` that a view.proto message is."""
    takers = _takers(kind)  # type: ignore[arg-type]  # a class is hashable
    return kind(**{name: take(message) for name, take in takers.items()})


@cache
def _takers(kind: Any) -> Mapping[str, Callable[[Any], Any]]:
    hints = get_type_hints(kind)
    return {name: _taker(name, hint) for name, hint in hints.items()}


def _taker(name: str, hint: Any) -> Callable[[Any], Any]:
    """How a field of that type is read off a message."""
    origin, args = getattr(hint, "__origin__", None), get_args(hint)
    if origin is dict:
        return lambda message: {
            getattr(item, _KEYS[args[1]]): from_proto(args[1], item)
            for item in getattr(message, name)
        }
    if origin in (list, tuple):
        return lambda message: origin(_item(args[0], item) for item in getattr(message, name))
    if type(None) in args:
        return lambda message: (
            _item(args[0], getattr(message, name)) if message.HasField(name) else None
        )
    return lambda message: _item(hint, getattr(message, name))


def _item(kind: Any, value: Any) -> Any:
    if kind in _MESSAGES:
        return from_proto(kind, value)
    if issubclass(kind, Message):
        mine = kind()
        mine.CopyFrom(value)
        return mine
    return kind(value) if issubclass(kind, IntEnum) else value


def freeze(run: model.Run) -> bytes:
    """A run's state as an encoded view.proto Run."""
    encoded: bytes = to_proto(run).SerializeToString()
    return encoded


def thaw(encoded: bytes) -> model.Run:
    """The run's state that `freeze` encoded."""
    run: model.Run = from_proto(model.Run, view_pb2.Run.FromString(encoded))
    return run


def copy(run: model.Run) -> model.Run:
    """A run's state that shares nothing with the original."""
    return thaw(freeze(run))
