"""Values from users as exact values: whatever they are, nothing fails, and nothing grows without bound.

`plain` makes of anything a None, bool, int, float, str, bytes, list or dict of such with str keys
(reference rows 3-05 to 3-09). Numbers stay exact, numpy's scalars and arrays become Python's; sets are
lists, in an order that does not change. An object that says itself what it is, by a `__str__` or
`__repr__` of its own, is that text without memory addresses; what cannot, or must not because a text of
it is large (tensors, tables), is named by its class. What is too deep, too long or too much is cut, and
the cut says how much there was. Secrets are not looked for here, except that no cut goes through one:
core/mask.py replaces them before anything is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from trainstate.core.secrets import ALWAYS, Names, begin_of
from trainstate.core.values import to_map, to_value
from trainstate.v1 import state_pb2 as s

# Of dicts in dicts: lists take none of it (row 3-07).
DEPTH_MAX = 16
# Of one value, roughly as it is encoded; an event holds 256 KiB.
SIZE_MAX = 48 * 1024
# Of the metrics of one report, which are alone in their event.
METRICS_SIZE_MAX = 160 * 1024
# A level of a Value is three messages of protobuf's, and its readers take a hundred.
NESTING_MAX = 24
# Python itself refuses to print a longer number.
_INT_BITS_MAX = 4096
# One text must not take the room of everything after it.
_TEXT_MAX = 16 * 1024
# So many objects are asked for their text: it may take them long.
_ASKED_MAX = 100
# A larger set is not put in order.
_SORTED_MAX = 1000
_CUT = "..."
_ITEM_SIZE = 32
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)
_ADDRESS = re.compile(r"(?: at)? 0x[0-9a-fA-F]{6,}")


def sanitised(value: Any, size_max: int = SIZE_MAX, max_depth: int = DEPTH_MAX) -> s.Value:
    """Anything as a Value. Raises ValueError for a depth below 1 (row 3-08)."""
    return to_value(plain(value, size_max, max_depth))


def sanitised_map(
    values: Mapping[Any, Any], size_max: int = SIZE_MAX, max_depth: int = DEPTH_MAX
) -> s.ValueMap:
    """A mapping of anything as a ValueMap, in its order.

    Raises ValueError for a depth below 1, TypeError for what is no mapping (row 3-08).
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"a {type(values).__name__} is no mapping")
    made = plain(values, size_max, max_depth)
    return to_map(made if isinstance(made, dict) else {"": made})


def plain(
    value: Any, size_max: int = SIZE_MAX, max_depth: int = DEPTH_MAX, names: Names = ALWAYS
) -> Any:
    """Anything as plain Python that `to_value` takes. Raises ValueError for a depth below 1.

    No cut goes through what is secret by these names, or by its form.
    """
    if max_depth < 1:
        raise ValueError(f"max_depth={max_depth} is not above 0")
    return _plain(value, _Room(size_max, names), max_depth)


@dataclass(slots=True)
class _Room:
    """What is left of the size and of the objects to ask, and the containers we are in."""

    left: int
    names: Names
    to_ask: int = _ASKED_MAX
    inside: list[int] = field(default_factory=list)

    def take(self, size: int) -> None:
        self.left -= size


def _plain(value: Any, room: _Room, depth: int) -> Any:
    try:
        return _of_type(value, room, depth)
    except KeyboardInterrupt:
        raise
    except BaseException:  # the one boundary: a user's object may raise anything, also SystemExit
        return _class_name(value)


def _of_type(value: Any, room: _Room, depth: int) -> Any:
    room.take(_ITEM_SIZE)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _whole(int(value), room)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return _text(value.value if isinstance(value, Enum) else str.__str__(value), room)
    if isinstance(value, bytes | bytearray):
        return _bytes(value, room)
    if isinstance(value, Mapping | list | tuple | Set):
        return _container(value, room, depth)
    return _foreign(value, room, depth)


def _container(value: Any, room: _Room, depth: int) -> Any:
    is_map = isinstance(value, Mapping)
    if id(value) in room.inside:
        return f"{_CUT} (itself)"
    if len(room.inside) >= NESTING_MAX or (is_map and not depth):
        return f"{_CUT} ({len(value)} {'keys' if is_map else 'items'})"
    room.inside.append(id(value))
    try:
        if is_map:
            return _mapping(value, room, depth - 1)
        made = _items(value, len(value), room, depth)
        sort = isinstance(value, Set) and len(value) <= _SORTED_MAX
        return sorted(made, key=repr) if sort else made
    finally:
        room.inside.pop()


def _foreign(value: Any, room: _Room, depth: int) -> Any:
    kind: Any = type(value)
    silent = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
    # A function's text has its address.
    if silent or not room.to_ask or isinstance(value, (type, *_FUNCTIONS)):
        return _text(_class_name(value), room)
    if hasattr(kind, "__fspath__"):
        return _plain(kind.__fspath__(value), room, depth)
    shape = getattr(value, "shape", None)
    if shape is not None:
        return _shaped(value, shape, room, depth)
    room.to_ask -= 1
    return _ADDRESS.sub("", _text(str(value), room))


def _shaped(value: Any, shape: Any, room: _Room, depth: int) -> Any:
    """A tensor or a table: the value of one number here in memory, else what it is."""
    kind = type(value)
    if kind.__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
        fits = value.nbytes <= room.left
        return _plain(value.tolist(), room, depth) if fits else f"{_CUT} ({value.size} numbers)"
    if tuple(shape) == () and getattr(value, "is_cpu", False):
        return _plain(value.item(), room, depth)
    dtype = getattr(value, "dtype", None)
    more = "" if dtype is None else f", dtype={dtype}"
    return _text(f"{_class_name(value)}(shape={tuple(map(int, shape))}{more})", room)


def _whole(number: int, room: _Room) -> int | str:
    bits = number.bit_length()
    if bits > _INT_BITS_MAX:
        return f"{_CUT} ({bits} bits)"
    room.take(bits // 8)
    return number


def _bytes(value: bytes | bytearray, room: _Room) -> bytes | str:
    if len(value) > min(_TEXT_MAX, room.left):
        return f"{_CUT} ({len(value)} bytes)"
    room.take(len(value))
    return bytes(value)


def _text(text: str, room: _Room) -> str:
    limit = max(0, min(_TEXT_MAX, room.left))
    # Enough to see a secret that a cut would go through.
    window = text[: 2 * limit + _TEXT_MAX]
    if not window.isascii():  # a lone surrogate has no UTF-8 (row 3-12)
        window = window.encode("utf-8", "backslashreplace").decode()
    size = len(window) if window.isascii() else len(window.encode())
    if size <= limit and len(text) <= len(window):
        room.take(size)
        return window
    within = len(window.encode()[:limit].decode("utf-8", "ignore"))
    kept = begin_of(window, within, room.names)
    room.take(limit)
    return f"{kept}{_CUT} ({len(text)} characters)"


def _items(items: Iterable[Any], count: int, room: _Room, depth: int) -> list[Any]:
    made: list[Any] = []
    for item in items:
        if room.left <= 0:
            return [*made, f"{_CUT} ({count - len(made)} more)"]
        made.append(_plain(item, room, depth))
    return made


def _mapping(values: Mapping[Any, Any], room: _Room, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in values.items():
        if room.left <= 0:
            made[_CUT] = f"({len(values) - len(made)} more)"
            break
        name = _key(key, made, room)
        made[name] = _plain(value, room, depth)
    return made


def _key(key: Any, taken: Mapping[str, Any], room: _Room) -> str:
    """A key as text; 1 and "1" stay two keys (row 3-07)."""
    made = _plain(key, room, 1)
    text = made if isinstance(made, str) else str(made)
    if text not in taken:
        return text
    marked = f"{text} ({type(key).__name__})"
    return marked if marked not in taken else f"{marked[:-1]} {len(taken)})"


def _class_name(value: Any) -> str:
    """What to call an object; a class and a function go by their own names."""
    kind = type(value)
    if issubclass(kind, type):
        return str(type.__getattribute__(value, "__qualname__"))
    own = value.__qualname__ if kind in _FUNCTIONS else kind.__qualname__
    return own if type(own) is str else "object"
