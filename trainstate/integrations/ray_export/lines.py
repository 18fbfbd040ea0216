"""One line of Ray's log, parsed and found usable, or the reason why it is not."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import google_crc32c
import orjson

from trainstate.core.markers import ANY_MARKER, Mask
from trainstate.core.model import AttemptStatus
from trainstate.core.units import NS_PER_S
from trainstate.core.views.ray_line import (
    ATTEMPT_LINE,
    RAY_TO_RUN_STATUS,
    RUN_LINE,
    VERSIONS_SHIPPED,
)

_ID_KEY = {RUN_LINE: "id", ATTEMPT_LINE: "run_id"}
_STATUSES = {
    RUN_LINE: frozenset(name for name, status in RAY_TO_RUN_STATUS.items() if status),
    ATTEMPT_LINE: frozenset(status.name for status in AttemptStatus if status),
}
# Ray's sanitiser stops at 3 levels of settings. Readers of protobuf stop at 100 levels of messages, and
# a level of settings is three of them: a deeper value could be written and never be read again.
NESTING_MAX = 32
# A number, not a text, that may be too large for 64 bits; orjson reads such a one as a float.
_MANY_DIGITS = re.compile(rb"[:,\[]\s*-?\d{19}")


# What users filled, where a secret may be a number too, and what a run or an attempt is known by.
_FILLED = frozenset({"train_loop_config", "config", "worker_runtime_env", "execution_options"})
_NAMES = frozenset({"id", "run_id", "attempt_id", "event_id", "name"})


class LineRefused(ValueError):
    """Why a line is not one of Ray's train state log; its text says so in one sentence."""


class Line(NamedTuple):
    """A usable line. `document` is all of it, `data` its `event_data`, `crc` of its bytes."""

    document: dict[str, Any]
    data: dict[str, Any]
    event_id: str
    timestamp_s: int
    source_type: str
    version: int
    run_id: str
    crc: int


def parse(raw: bytes) -> Line:
    """Reads one line, without its line end. Raises LineRefused."""
    document = _object(raw)
    source_type, data = document.get("source_type"), document.get("event_data")
    if not isinstance(source_type, str) or source_type not in _ID_KEY:
        raise LineRefused(f"source_type is {source_type!r}, not {RUN_LINE} or {ATTEMPT_LINE}")
    if not isinstance(data, dict):
        raise LineRefused("event_data is not an object")
    _require_known(source_type, data)
    return Line(
        document,
        data,
        _typed(document, "event_id", str),
        _timestamp(document),
        source_type,
        data["schema_version"],
        _typed(data, _ID_KEY[source_type], str),
        google_crc32c.value(raw),
    )


def masked(line: Line, mask: Mask) -> Line:
    """The line without its secrets.

    Its CRC is of what is kept, with one marker for all, so that it tells nothing of them, and is the
    same whatever the salt was: of the line itself, and of an export of what it became.
    """
    document = _without_secrets(line.document, mask)
    plain = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    hidden = ANY_MARKER.sub(b"<secret>", plain)
    crc = line.crc if hidden == plain else google_crc32c.value(hidden)
    return line._replace(document=document, data=document["event_data"], crc=crc)


def _without_secrets(value: Any, mask: Mask, name: str = "") -> Any:
    if name in _NAMES and isinstance(value, str):
        return value
    if name in _FILLED:
        return mask.plain(value)
    if isinstance(value, dict):
        below = mask.names.secret(name)
        return {
            mask.text(key): _without_secrets(one, mask, name if below else key)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(one, mask, name) for one in value]
    return mask.plain(value, name) if isinstance(value, str) else value


def _object(raw: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise LineRefused(f"it is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise LineRefused(f"it is a JSON {type(document).__name__}, not an object")
    if not _nests_within(document, NESTING_MAX):
        raise LineRefused(f"it is nested deeper than {NESTING_MAX} levels")
    if _MANY_DIGITS.search(raw):
        json.loads(raw, parse_int=_refuse_huge)
    return document


def _nests_within(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return True
    return levels > 0 and all(_nests_within(item, levels - 1) for item in value)


def _refuse_huge(digits: str) -> None:
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
        raise LineRefused(f"it holds an integer of more than 64 bits: {digits[:30]}")


def _require_known(source_type: str, data: dict[str, Any]) -> None:
    version = _typed(data, "schema_version", int)
    if version not in VERSIONS_SHIPPED:
        raise LineRefused(
            f"schema version {version} is unknown; "
            f"this trainstate reads {VERSIONS_SHIPPED[0]} to {VERSIONS_SHIPPED[-1]}"
        )
    status = data.get("status")
    if not isinstance(status, str) or status not in _STATUSES[source_type]:
        raise LineRefused(f"status is {status!r}")
    if source_type == ATTEMPT_LINE:
        _typed(data, "attempt_id", str)


def _timestamp(document: dict[str, Any]) -> int:
    timestamp_s: int = _typed(document, "timestamp", int)
    # What fits nanoseconds in 64 bits; the year 2554.
    if not 0 <= timestamp_s < 2**64 // NS_PER_S:
        raise LineRefused(f"timestamp {timestamp_s} is no time in seconds since 1970")
    return timestamp_s


def _typed(data: dict[str, Any], key: str, kind: type[Any]) -> Any:
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, kind) or value == "":
        raise LineRefused(f"{key} is {value!r}, not a {kind.__name__}")
    return value
