"""Python values as exact `Value` messages and back: ints stay ints, however large, and order is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainstate.v1 import state_pb2 as s

_INT64 = range(-(2**63), 2**63)


def to_value(value: Any) -> s.Value:
    """A None, bool, int, float, str, bytes, sequence or mapping as a Value.

    Raises TypeError for anything else; what comes from users is sanitised before (issue D).
    """
    if value is None:
        return s.Value(null=True)
    if isinstance(value, bool):
        return s.Value(bool=value)
    if isinstance(value, int):
        return s.Value(int=value) if value in _INT64 else s.Value(big_int=str(value))
    if isinstance(value, float):
        return s.Value(double=value)
    if isinstance(value, str):
        return s.Value(string=value)
    if isinstance(value, bytes):
        return s.Value(bytes=value)
    if isinstance(value, Mapping):
        return s.Value(map=to_map(value))
    if isinstance(value, Sequence):
        return s.Value(list=s.ValueList(values=map(to_value, value)))
    raise TypeError(f"a {type(value).__name__} has no exact value")


def to_map(values: Mapping[str, Any]) -> s.ValueMap:
    """A mapping of strings to values as a ValueMap, in its order."""
    return s.ValueMap(
        entries=[s.ValueEntry(key=key, value=to_value(value)) for key, value in values.items()]
    )


def from_value(value: s.Value) -> Any:
    """The Python value of a Value; None for one of a kind that only a newer version knows."""
    kind = value.WhichOneof("kind")
    return None if kind is None else _READ[kind](getattr(value, kind))


def from_map(values: s.ValueMap) -> dict[str, Any]:
    """The dict of a ValueMap."""
    return {entry.key: from_value(entry.value) for entry in values.entries}


def _big_int(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:  # no decimal number, or more digits than Python reads: as it is written
        return digits


_READ: Mapping[str, Callable[[Any], Any]] = {
    "null": lambda _: None,
    "bool": bool,
    "int": int,
    "double": float,
    "string": str,
    "bytes": bytes,
    "list": lambda items: [from_value(item) for item in items.values],
    "map": from_map,
    "big_int": _big_int,
}
