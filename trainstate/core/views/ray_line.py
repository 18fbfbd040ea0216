"""How a line of Ray's `event_EXPORT_TRAIN_STATE.log` looks, in each schema version (1 to 4).

The importer and the exporter both use this one table, so that what goes in comes out equal. A line is
`{"event_id", "timestamp", "source_type", "event_data"}`; `event_data` shows a whole run or a whole
attempt. Numbers of 64 bits are strings, ids are base64, enums are names; an optional value that is not
set is absent (reference D).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from trainstate.core.model import Attempt, AttemptStatus, Run, RunStatus, Status, Worker
from trainstate.core.transitions import RAY_RUN_STATUS
from trainstate.core.views.failures import in_rays_words
from trainstate.core.views.ray_settings import NEWEST, PANELS, RESOURCES, SETTINGS, VERSIONS
from trainstate.v1 import state_pb2 as s

RUN_LINE = "EXPORT_TRAIN_RUN"
ATTEMPT_LINE = "EXPORT_TRAIN_RUN_ATTEMPT"
VERSIONS_SHIPPED = range(1, NEWEST + 1)

# The statuses whose reason Ray prints as `status_detail` (A6.4).
_TELLING_RUN = {RunStatus.SCHEDULING, RunStatus.ERRORED, RunStatus.ABORTED}
_TELLING_ATTEMPT = {AttemptStatus.PENDING, AttemptStatus.ERRORED, AttemptStatus.ABORTED}

# What Ray 2.60 lists for its dashboard; a run of ours is shown with the same panels.
_RUN_PANELS = (
    ("1", "Controller State"),
    ("2", "Cumulative Worker Group Start/Shutdown Time"),
    ("3", "Cumulative Time in ray.train.report"),
)
_WORKER_PANELS = (
    ("3", "Cumulative Time in ray.train.report"),
    ("16", "Cumulative Checkpoint Sync Time"),
    ("17", "Cumulative Checkpoint Transfer Time"),
    ("4", "CPU Usage"),
    ("5", "Total Memory Usage"),
    ("7", "GPU Usage"),
    ("8", "GPU Memory Usage"),
    ("9", "Disk Space Usage"),
    ("12", "Network Throughput"),
)
_RAY_TRAIN_VERSION = 2


class Key(NamedTuple):
    """One key of a line: what it shows (None: absent), and in which schema versions."""

    name: str
    show: Callable[[Any, int], Any]
    since: int = 1


def encode_id(raw: bytes) -> str:
    """An id as Ray prints it."""
    return b64encode(raw).decode()


def decode_id(text: str) -> bytes:
    """The id Ray printed. Raises ValueError for what is not base64."""
    return b64decode(text, validate=True)


def _panels(recorded: Sequence[s.Panel], ours: Sequence[tuple[str, str]], imported: bool) -> Any:
    if imported:
        return PANELS.dump(recorded, NEWEST)
    return [{"id": number, "title": title} for number, title in ours]


def _is_index(accelerator_id: str) -> bool:
    # Ray's field holds int32; an id of another form (row 0-13) is in our own views only.
    return accelerator_id.isdecimal() and len(accelerator_id) < 10


def _log_path(path: str, version: int) -> str | None:
    # Schema version 1 had no presence for it: always printed.
    return path if path or version == 1 else None


def run_status(run: Run) -> str | None:
    """Ray's status of a run; None while ours is one that Ray does not write."""
    return RAY_RUN_STATUS[run.status]


def _ns(time_ns: int) -> str | None:
    return str(time_ns) if time_ns else None


_RUN: Sequence[Key] = (
    Key("schema_version", lambda run, version: version),
    Key("id", lambda run, _: run.run_id),
    Key("name", lambda run, _: run.name),
    Key("job_id", lambda run, _: encode_id(run.job_id)),
    Key("controller_actor_id", lambda run, _: encode_id(run.controller_actor_id)),
    Key("status", lambda run, _: run_status(run)),
    Key("status_detail", lambda run, _: _run_detail(run)),
    Key("start_time_ns", lambda run, _: str(run.start_time_ns)),
    Key("end_time_ns", lambda run, _: _ns(run.end_time_ns)),
    Key(
        "controller_log_file_path",
        lambda run, version: _log_path(run.controller_log_path, version),
    ),
    Key("ray_train_version", lambda run, _: _RAY_TRAIN_VERSION, since=2),
    Key(
        "train_run_panels",
        lambda run, _: _panels(run.run_panels, _RUN_PANELS, run.imported),
        since=2,
    ),
    Key(
        "train_worker_panels",
        lambda run, _: _panels(run.worker_panels, _WORKER_PANELS, run.imported),
        since=2,
    ),
    Key(
        "framework_versions",
        lambda run, version: VERSIONS.dump(run.framework_versions, version),
        since=3,
    ),
    Key(
        "run_settings",
        lambda run, version: None if run.settings is None else SETTINGS.dump(run.settings, version),
        since=3,
    ),
)

_ATTEMPT: Sequence[Key] = (
    Key("schema_version", lambda shown, version: version),
    Key("run_id", lambda shown, _: shown.run.run_id),
    Key("attempt_id", lambda shown, _: shown.attempt.attempt_id),
    Key("status", lambda shown, _: _attempt_status(shown.attempt)),
    Key("status_detail", lambda shown, _: _attempt_detail(shown)),
    Key("start_time_ns", lambda shown, _: str(shown.attempt.start_time_ns)),
    Key("end_time_ns", lambda shown, _: _ns(shown.attempt.end_time_ns)),
    Key("resources", lambda shown, version: _resources(shown.attempt, version)),
    Key("workers", lambda shown, version: _workers(shown.attempt, version)),
    Key("ray_train_version", lambda shown, _: _RAY_TRAIN_VERSION, since=2),
)

_WORKER: Sequence[Key] = (
    Key("world_rank", lambda worker, _: worker.rank),
    Key("local_rank", lambda worker, _: worker.local_rank),
    Key("node_rank", lambda worker, _: worker.node_rank),
    Key("actor_id", lambda worker, _: encode_id(worker.actor_id)),
    Key("node_id", lambda worker, _: encode_id(worker.node_id)),
    Key("node_ip", lambda worker, _: worker.node_ip),
    Key("pid", lambda worker, _: worker.pid),
    Key(
        "gpu_ids", lambda worker, _: [int(one) for one in worker.accelerator_ids if _is_index(one)]
    ),
    Key("status", lambda worker, _: "DEAD" if worker.status.is_terminal else "ALIVE"),
    Key(
        "resources",
        lambda worker, version: (
            None
            if worker.resources is None
            else {"resources": RESOURCES.dump(worker.resources, version)}
        ),
    ),
    Key("log_file_path", lambda worker, version: _log_path(worker.log_path, version)),
)


class _Shown(NamedTuple):
    run: Run
    attempt: Attempt


def _show(keys: Sequence[Key], what: Any, version: int) -> dict[str, Any]:
    shown = ((key.name, key.show(what, version)) for key in keys if key.since <= version)
    return {name: value for name, value in shown if value is not None}


def _attempt_status(attempt: Attempt) -> str:
    return attempt.status.name if attempt.status else "RUN_ATTEMPT_STATUS_UNSPECIFIED"


def _attempt_detail(shown: _Shown) -> str | None:
    attempt = shown.attempt
    if attempt.status not in _TELLING_ATTEMPT:
        return None
    return _failures(shown, attempt.status) or attempt.status_reason or None


def _run_detail(run: Run) -> str | None:
    if run.status not in _TELLING_RUN:
        return None
    failed = _failures(_Shown(run, run.attempt), run.status) if run.attempt and run.error else ""
    return failed or run.status_reason or None


def _failures(shown: _Shown, status: Status) -> str:
    """What a run of ours failed of, as Ray tells it; of an imported one Ray's own text is the reason."""
    errored = status in (RunStatus.ERRORED, AttemptStatus.ERRORED) and not shown.run.imported
    return in_rays_words(shown.run, shown.attempt) if errored else ""


def _resources(attempt: Attempt, version: int) -> list[Any]:
    alike = attempt.resources_per_worker
    sets = attempt.resources if alike is None else [alike] * attempt.num_workers
    return [{"resources": RESOURCES.dump(one, version)} for one in sets]


def _workers(attempt: Attempt, version: int) -> list[Any]:
    """The workers that have started, by world rank."""
    started = [worker for worker in attempt.workers.values() if worker.start_time_ns]
    return [_show(_WORKER, worker, version) for worker in sorted(started, key=_rank)]


def _rank(worker: Worker) -> int:
    return worker.rank


def run_line(run: Run, version: int = NEWEST) -> dict[str, Any]:
    """The `event_data` of a line that shows a run."""
    return _show(_RUN, run, version)


def attempt_line(run: Run, attempt: Attempt, version: int = NEWEST) -> dict[str, Any]:
    """The `event_data` of a line that shows an attempt."""
    return _show(_ATTEMPT, _Shown(run, attempt), version)


def envelope(event_id: str, timestamp_s: int, source_type: str, data: Any) -> dict[str, Any]:
    """A whole line, in Ray's order of keys."""
    return {
        "event_id": event_id,
        "timestamp": timestamp_s,
        "source_type": source_type,
        "event_data": data,
    }


def event_id(run_id: str, run_seq: int) -> str:
    """The id of the line written for an event: 18 hex digits, the same whenever it is written."""
    return blake2b(f"{run_id}/{run_seq}".encode(), digest_size=9).hexdigest()


RAY_TO_RUN_STATUS: Mapping[str, RunStatus] = {
    name: status for status, name in RAY_RUN_STATUS.items() if name is not None
}
