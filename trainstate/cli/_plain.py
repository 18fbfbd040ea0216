"""The state of a run as plain JSON, and two of them compared field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from trainstate.core import Run
from trainstate.core.freeze import to_proto
from trainstate.core.views.event_json import message_json
from trainstate.v1 import state_pb2 as s
from trainstate.v1 import view_pb2 as v

# What an entity is known by among its siblings; a list without a key goes by position.
_KEYS: Mapping[str, str] = {
    "attempts": "number",
    "workers": "rank",
    "groups": "group",
    "placements": "name",
    "checkpoints": "index",
    "syncs": "sync_id",
    "budgets": "budget",
    "framework_versions": "name",
}


class Change(NamedTuple):
    """A field that differs: its path (`attempts.1.workers.0.status`), before and after."""

    field: str
    before: Any
    after: Any


def plain_run(run: Run) -> dict[str, Any]:
    """The state of a run, in the names of view.proto."""
    found: dict[str, Any] = message_json(to_proto(run))
    # The fold keeps it encoded, because hardly anybody looks.
    found["last_metrics"] = plain_metrics(run)
    return found


def plain_metrics(run: Run) -> dict[str, Any]:
    """The newest metrics a run has reported."""
    metrics: dict[str, Any] = message_json(s.ValueMap.FromString(run.last_metrics))
    return metrics


def plain_summary(summary: v.RunSummary) -> dict[str, Any]:
    """A line of the list of runs."""
    line: dict[str, Any] = message_json(summary)
    return line


def changes(before: Any, after: Any, path: str = "", name: str = "") -> Iterator[Change]:
    """Every leaf that differs; None where there was or is none."""
    if before == after:
        return
    old, new = _children(before, name), _children(after, name)
    if not old and not new:
        yield Change(path, before, after)
    for key in [*old, *(key for key in new if key not in old)]:
        yield from changes(old.get(key), new.get(key), f"{path}.{key}" if path else key, key)


def _children(value: Any, name: str) -> dict[str, Any]:
    if isinstance(value, list):
        key = _KEYS.get(name)
        return {str(one[key] if key else at): one for at, one in enumerate(value)}
    return value if isinstance(value, dict) else {}


def to_json(document: Any) -> str:
    """One line of JSON."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False)
