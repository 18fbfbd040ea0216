"""Which events put a line into Ray's `event_EXPORT_TRAIN_STATE.log`, and that line.

An imported run gets exactly one line per `LineImported`: our rendering in the schema version it came in,
with the residue applied, so that it is the line that was read, event id and all. A live run gets
one where Ray writes one: for a run status that Ray has, for the framework versions, for the status of an
attempt; and one for each completed replacement of a replica group.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from trainstate.core import json_patch
from trainstate.core.model import Run, RunStatus
from trainstate.core.transitions import TARGETS
from trainstate.core.units import NS_PER_S
from trainstate.core.views import ray_line
from trainstate.core.views.ray_line import ATTEMPT_LINE, RUN_LINE
from trainstate.core.views.ray_settings import NEWEST
from trainstate.errors import SinkRejected
from trainstate.v1 import event_pb2 as e

# The payloads a live run has a line for, and what the line shows.
SHOWN: Mapping[str, str] = {
    **{kind: RUN_LINE for kind, target in TARGETS.items() if isinstance(target, RunStatus)},
    "framework_versions_recorded": RUN_LINE,
    "attempt_planned": ATTEMPT_LINE,
    "attempt_started": ATTEMPT_LINE,
    "attempt_ended": ATTEMPT_LINE,
    "replica_group_replaced": ATTEMPT_LINE,
}

_SHOWN_OF_FOREIGN: Mapping[int, str] = {
    e.FOREIGN_ENTITY_RUN: RUN_LINE,
    e.FOREIGN_ENTITY_ATTEMPT: ATTEMPT_LINE,
}


def log_line(event: e.Event, run: Run, version: int = NEWEST) -> dict[str, Any] | None:
    """The line for `event`, or None; `run` is the state just after it.

    A live run is written in schema `version`, an imported one in that of each of its lines.
    Raises SinkRejected for a `LineImported` that fits no state of its run.
    """
    if event.HasField("line_imported"):
        return _imported(event, event.line_imported, run)
    if run.imported:
        return None
    source_type = _source_type(event)
    data = None if source_type is None else _data(source_type, event, run, version)
    if source_type is None or data is None:
        return None
    if "run_settings" in data:
        data["run_settings"] = _as_ray_says(data["run_settings"])
    return _line(event, event.time_unix_nano // NS_PER_S, source_type, data)


def _source_type(event: e.Event) -> str | None:
    if event.HasField("foreign_status_observed"):
        return _SHOWN_OF_FOREIGN.get(event.foreign_status_observed.entity)
    return SHOWN.get(event.WhichOneof("payload") or "")


def _data(source_type: str, event: e.Event, run: Run, version: int) -> dict[str, Any] | None:
    if source_type == RUN_LINE:
        # While ours is a status that Ray has not, Ray writes nothing: the line before it stands.
        return None if ray_line.run_status(run) is None else ray_line.run_line(run, version)
    attempt = run.find_attempt(event.attempt_id)
    return None if attempt is None else ray_line.attempt_line(run, attempt, version)


def _imported(event: e.Event, imported: e.LineImported, run: Run) -> dict[str, Any]:
    data = _data(imported.source_type, event, run, imported.schema_version)
    if data is None:
        raise SinkRejected(
            f"event {event.run_seq} says it is a line of attempt {event.attempt_id!r}, "
            "which the run has not",
            run_id=event.run_id,
            hint="import the log again into a new journal",
        )
    # With the id of the line read: who imports it again finds that the line is known.
    line = ray_line.envelope(
        imported.ray_event_id, imported.timestamp_s, imported.source_type, data
    )
    return json_patch.apply(line, json.loads(imported.residue)) if imported.residue else line


# The dicts that users fill, of which Ray shows so many levels (row 3-07).
_FILLED = {
    "train_loop_config",
    "config",
    "worker_runtime_env",
    "resource_limits",
    "exclude_resources",
}
_LEVELS = 3


def _as_ray_says(value: Any, levels: int | None = None) -> Any:
    """Settings of a live run as Ray's sanitiser leaves them; what we read from Ray is so already.

    Dicts too deep are "...", bytes are Python's text of them, and so are `inf` and `nan`, which JSON
    has not (rows 3-05 to 3-07).
    """
    if isinstance(value, dict):
        if levels == 0:
            return "..."
        below = None if levels is None else levels - 1
        return {
            key: _as_ray_says(one, _LEVELS if below is None and key in _FILLED else below)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [_as_ray_says(one, levels) for one in value]
    if isinstance(value, bytes):
        return str(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _line(event: e.Event, timestamp_s: int, source_type: str, data: Any) -> dict[str, Any]:
    made = ray_line.event_id(event.run_id, event.run_seq)
    return ray_line.envelope(made, timestamp_s, source_type, data)
