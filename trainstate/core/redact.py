"""Values from users as exact values: whatever they are, nothing fails, and nothing grows without bound.

`plain` makes of anything a None, bool, int, float, str, bytes, list or dict of such with str keys.
Numbers stay exact, numpy's scalars and arrays become Python's. What has no exact value is named by its
class and never printed: the text of an object may be huge, secret, or raise. What is too deep, too long
or too much is cut, and the cut says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from typing import Any

from trainstate.core.values import to_map, to_value
from trainstate.v1 import state_pb2 as s

# A level of a Value is three of protobuf's, which reads a hundred.
DEPTH_MAX = 16
# Of one value, roughly as it is encoded; an event holds 256 KiB.
SIZE_MAX = 64 * 1024
# Of the metrics of one report, which are alone in their event.
METRICS_SIZE_MAX = 160 * 1024
# Python itself refuses to print a longer number.
_INT_BITS_MAX = 4096
# One text must not take the room of everything after it.
_TEXT_MAX = 16 * 1024
_CUT = "..."
_ITEM_SIZE = 8


def sanitised(value: Any, size_max: int = SIZE_MAX) -> s.Value:
    """Anything as a Value."""
    return to_value(plain(value, size_max))


def sanitised_map(values: Mapping[Any, Any], size_max: int = SIZE_MAX) -> s.ValueMap:
    """A mapping of anything as a ValueMap, in its order."""
    made = plain(values, size_max)
    return to_map(made if isinstance(made, dict) else {"": made})


def plain(value: Any, size_max: int = SIZE_MAX) -> Any:
    """Anything as plain Python that `to_value` takes."""
    return _plain(value, _Room(size_max), DEPTH_MAX)


@dataclass(slots=True)
class _Room:
    """How much of the size is left; what is asked is whether anything is."""

    left: int

    def take(self, size: int) -> None:
        self.left -= size


def _plain(value: Any, room: _Room, depth: int) -> Any:
    try:
        return _of_type(value, room, depth)
    except Exception:  # the one boundary: an object of a user's may raise anything from any method
        return _class_name(value)


def _of_type(value: Any, room: _Room, depth: int) -> Any:
    room.take(_ITEM_SIZE)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _text(f"{type(value).__name__}.{value.name}", room)
    if isinstance(value, int):
        return _whole(int(value), room)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return _text(str.__str__(value), room)
    if isinstance(value, bytes | bytearray):
        return _bytes(value, room)
    if isinstance(value, Mapping):
        return _mapping(value, room, depth - 1) if depth else _CUT
    if isinstance(value, list | tuple | Set):
        return _items(value, len(value), room, depth - 1) if depth else _CUT
    return _foreign(value, room, depth)


def _foreign(value: Any, room: _Room, depth: int) -> Any:
    kind = type(value)
    if kind.__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
        fits = value.nbytes <= room.left
        return _plain(value.tolist(), room, depth) if fits else f"{_CUT} ({value.size} numbers)"
    if hasattr(kind, "__fspath__"):
        return _plain(kind.__fspath__(value), room, depth)
    return _text(_class_name(value), room)


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
    # A lone surrogate has no UTF-8 (row 3-12).
    whole = text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
    kept = whole[: max(0, min(_TEXT_MAX, room.left))]
    room.take(len(kept))
    return kept if len(kept) == len(whole) else f"{kept}{_CUT} ({len(text)} characters)"


def _items(items: Iterable[Any], count: int, room: _Room, depth: int) -> list[Any]:
    made: list[Any] = []
    for item in items:
        if room.left <= 0:
            made.append(f"{_CUT} ({count - len(made)} more)")
            break
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
    if text in taken:
        text = f"{text} ({type(key).__name__})"
    while text in taken:
        text += "'"
    return text


def _class_name(value: Any) -> str:
    """What to call an object; a class and a function go by their own names."""
    named = value if isinstance(value, type) else type(value)
    own = getattr(value, "__qualname__", None) if callable(value) else None
    return own if isinstance(own, str) else type.__getattribute__(named, "__qualname__")
