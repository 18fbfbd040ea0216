"""Durations, times, sizes, ids and names as a person reads them. Pure but for the local time zone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import IntEnum
from typing import Any

from trainstate.core.units import NS_PER_S

# (at least so many seconds, how it is written); the first that fits.
_DURATIONS: tuple[tuple[int, Callable[[int], str]], ...] = (
    (86_400, lambda s: f"{s // 86_400}d {s % 86_400 // 3_600:02d}h"),
    (3_600, lambda s: f"{s // 3_600}h {s % 3_600 // 60:02d}m"),
    (60, lambda s: f"{s // 60}m {s % 60:02d}s"),
)
_INLINE_MAX = 64
# Of other numbers, 0 is what was not said.
_ZERO_TELLS = frozenset({"rank", "group", "index", "have", "used"})
_HINTS: Mapping[type, str] = {dict: "{{…}}", list: "[…]"}
_SIZES = ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)


# Of one line in a table.
_LINE_MAX = 300


def duration(ns: int) -> str:
    """`850 ms`, `12.3 s`, `4m 05s`, `2h 03m`, `3d 04h`."""
    for least_s, write in _DURATIONS:
        if ns >= least_s * NS_PER_S:
            return write(ns // NS_PER_S)
    # Cut, not rounded: 59.97 s is not a minute yet.
    return f"{ns // 10**8 / 10:.1f} s" if ns >= NS_PER_S else f"{ns // 10**6} ms"


def between(start_ns: int, end_ns: int) -> str:
    """The duration from one time to another; nothing if either is not known."""
    return duration(end_ns - start_ns) if start_ns and end_ns >= start_ns else ""


def moment(ns: int) -> str:
    """A time to the second, local: `2026-11-21 14:30:05`; nothing for 0, which means not known."""
    return _local(ns).strftime("%Y-%m-%d %H:%M:%S") if ns else ""


def instant(ns: int) -> str:
    """A time to the millisecond, local: `2026-11-21 14:30:05.123`."""
    return f"{moment(ns)}.{ns // 10**6 % 1000:03d}" if ns else ""


def _local(ns: int) -> datetime:
    # Local on purpose: naive here means the zone of the person who reads it.
    return datetime.fromtimestamp(ns // NS_PER_S)  # noqa: DTZ006


def size(size_bytes: float) -> str:
    """`312 B`, `4.0 KiB`, `64.0 MiB`."""
    for unit, least in _SIZES:
        if size_bytes >= least:
            return f"{size_bytes / least:.1f} {unit}"
    return f"{size_bytes:.0f} B"


def count(number: int, noun: str) -> str:
    """`1 event`, `2 events`, `1,234 events`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def short(identity: str) -> str:
    """As much of an id as is mostly enough to name it."""
    return clean(identity[:12])


def word(enum: IntEnum) -> str:
    """`worker_error` for Cause.WORKER_ERROR; nothing for an unspecified one."""
    return enum.name.lower() if enum else ""


def payload_word(kind: str) -> str:
    """`WorkerStarted` for the payload field `worker_started`."""
    return "".join(part.capitalize() for part in kind.split("_"))


def clean(text: str) -> str:
    """Text from a log, on one line and without what a terminal would take for a command."""
    return "".join(c if c.isprintable() else " " for c in text)


def headline(text: str) -> str:
    """A text on one line that can be read: of several, such as a traceback, the first and the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ends = lines if len(lines) < 2 else (lines[0], lines[-1])
    return clean(" … ".join(map(_shortened, ends)))


def _shortened(text: str) -> str:
    over = len(text) - _LINE_MAX
    return text if over <= 0 else f"{text[:_LINE_MAX]}... ({over} more characters)"


def fields(values: Mapping[str, Any]) -> str:
    """Plain values as `key=value`; what is empty is left out, what is long is only hinted at."""
    texts = ((key, field(key, value)) for key, value in values.items())
    return " ".join(f"{key}={text}" for key, text in texts if text)


def given(values: Mapping[str, Any]) -> str:
    """Values that a user named, as `key=value`: there a zero says something too."""
    return " ".join(f"{clean(key)}={inline(value)}" for key, value in values.items())


def field(key: str, value: Any) -> str:
    """A plain value as its name asks for: a time, an id, a path; nothing for one that says nothing."""
    if value is None or value == "UNSPECIFIED" or (value == 0 and key not in _ZERO_TELLS):
        return ""
    for suffix, write in _BY_SUFFIX.items():
        if key.endswith(suffix):
            return write(value)
    return inline(value)


def _end_of(path: str) -> str:
    return clean(path if len(path) <= _INLINE_MAX else f"…{path[-_INLINE_MAX // 2 :]}")


_BY_SUFFIX: Mapping[str, Callable[[Any], str]] = {
    "_ns": lambda ns: moment(ns).replace(" ", "T"),
    "_unix_nano": lambda ns: moment(ns).replace(" ", "T"),
    "_id": short,
    "_path": _end_of,
}


def inline(value: Any) -> str:
    """A plain value in a few characters; nothing for an empty one."""
    # Not a test for truth: rank 0 is news.
    if value is None or value is False or value in ("", [], {}):
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= _INLINE_MAX:
        return clean(text)
    return _HINTS.get(type(value), "{}…").format(clean(text[:_INLINE_MAX]))
