"""Lines of Ray's log as Ray 2.60 prints them, written by hand: nothing here comes from our own code."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "data"
REAL_LOG = DATA / "event_EXPORT_TRAIN_STATE.ray-2.60.0.log"
SHAPES = DATA / "ray_export_shape_variants.json"
# Every log of a real Ray wheel we ship, rotated ones by the newest of their files.
REAL_LOGS = [REAL_LOG, *sorted((DATA / "ray_logs").glob("**/*.log"))]


def log_name(path: Path) -> str:
    """`schema-1.ray-2.44.1`, or for a rotated log the name of its folder."""
    return path.parent.name if path.parent.parent.name == "ray_logs" else path.stem


START_NS = 1795221788123456789
RUN_ID = "c61d30b0e7624fe7a4c2"
NEWEST = 4


def raw(document: Any) -> bytes:
    """A line's bytes, as Python's json.dumps prints it."""
    return json.dumps(document).encode()


def at(seconds: int) -> str:
    return str(START_NS + seconds * 10**9)


def envelope(number: int, kind: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "event_id": f"{number:018x}",
        "timestamp": START_NS // 10**9 + number,
        "source_type": kind,
        "event_data": data,
    }


def run_data(status: str, version: int = NEWEST, **more: Any) -> dict[str, Any]:
    """The event_data of a run; None for a key leaves it out."""
    data = {
        "schema_version": version,
        "id": RUN_ID,
        "name": "mnist",
        "job_id": "AQAAAA==",
        "controller_actor_id": "ZLh7wIpwwvzuSzCwAQAAAA==",
        "status": status,
        "start_time_ns": at(0),
        "controller_log_file_path": "/logs/controller.log",
    }
    if version >= 2:
        data["ray_train_version"] = 2
        data["train_run_panels"] = [{"id": "1", "title": "Controller State"}]
        data["train_worker_panels"] = [{"id": "4", "title": "CPU Usage"}]
    if version >= 3:
        data["framework_versions"] = {"ray": "2.60.0"}
    return {key: value for key, value in {**data, **more}.items() if value is not None}


def worker_data(rank: int, status: str = "ALIVE", **more: Any) -> dict[str, Any]:
    data = {
        "world_rank": rank,
        "local_rank": rank,
        "node_rank": 0,
        "actor_id": b64encode(b"actor%011d" % rank).decode(),
        "node_id": b64encode(b"node").decode(),
        "node_ip": "10.0.0.1",
        "pid": 1000 + rank,
        "gpu_ids": [],
        "status": status,
        "resources": {"resources": {"CPU": 1.0}},
        "log_file_path": f"/logs/{rank}.log",
    }
    return {key: value for key, value in {**data, **more}.items() if value is not None}


def attempt_data(
    status: str, workers: list[Any] | None = None, version: int = NEWEST, **more: Any
) -> dict[str, Any]:
    """The event_data of an attempt of two workers; None for a key leaves it out."""
    data = {
        "schema_version": version,
        "run_id": RUN_ID,
        "attempt_id": "ad30b1",
        "status": status,
        "start_time_ns": at(1),
        "resources": [{"resources": {"CPU": 1.0}}] * 2,
        "workers": workers or [],
    }
    if version >= 2:
        data["ray_train_version"] = 2
    return {key: value for key, value in {**data, **more}.items() if value is not None}


def pair(status: str) -> list[dict[str, Any]]:
    return [worker_data(rank, status) for rank in range(2)]


class Log:
    """Lines of one run, numbered and one second apart."""

    def __init__(self) -> None:
        self.documents: list[dict[str, Any]] = []

    def run(self, status: str, version: int = NEWEST, **more: Any) -> Log:
        return self._add("EXPORT_TRAIN_RUN", run_data(status, version, **more))

    def attempt(
        self, status: str, workers: list[Any] | None = None, version: int = NEWEST, **more: Any
    ) -> Log:
        return self._add("EXPORT_TRAIN_RUN_ATTEMPT", attempt_data(status, workers, version, **more))

    def _add(self, kind: str, data: dict[str, Any]) -> Log:
        self.documents.append(envelope(len(self.documents) + 1, kind, data))
        return self

    def __iter__(self) -> Iterator[bytes]:
        return map(raw, self.documents)


def to_running(version: int = NEWEST) -> Log:
    """A run of two workers up to RUNNING (A6.5)."""
    return (
        Log()
        .run("INITIALIZING", version)
        .run("SCHEDULING", version)
        .attempt("PENDING", version=version)
        .attempt("RUNNING", pair("ALIVE"), version)
        .run("RUNNING", version)
    )


def to_finished(version: int = NEWEST) -> Log:
    """The same to its end."""
    log = to_running(version)
    log.attempt("FINISHED", pair("DEAD"), version, end_time_ns=at(9))
    return log.run("FINISHED", version, end_time_ns=at(10))
