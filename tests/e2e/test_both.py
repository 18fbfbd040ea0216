"""The same script under Ray Train V2 and under trainstate: Ray's log says the same of both."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from ray.core.generated import export_train_state_pb2 as rays
from trainstate_exporters.ray_export_log import LOG_NAME, RayExportLog

from trainstate.export import Pump
from trainstate.store import Root

MESSAGES = {
    "EXPORT_TRAIN_RUN": rays.ExportTrainRunEventData,
    "EXPORT_TRAIN_RUN_ATTEMPT": rays.ExportTrainRunAttemptEventData,
}
Lines = list[dict[str, Any]]

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nodes")]


@pytest.fixture(scope="module")
def logs() -> Iterator[dict[str, Lines]]:
    """The lines that each library leaves of the script."""
    with tempfile.TemporaryDirectory(prefix="ts") as folder:
        yield {library: _ran(library, Path(folder, library)) for library in ("ray", "trainstate")}


def _ran(library: str, folder: Path) -> Lines:
    folder.mkdir()
    env = {**os.environ, "TRAINSTATE_HOME": str(folder / "home")}
    script = [sys.executable, "-m", "tests.e2e.both", library, str(folder)]
    subprocess.run(script, env=env, check=True, timeout=300, cwd=Path(__file__).parents[2])
    if library == "ray":
        log = folder / "r/session_latest/logs/export_events" / LOG_NAME
    else:
        journal = Root(folder / "home/journals").only()
        with Pump.open(journal, RayExportLog.open(str(folder / "out"))) as pump:
            assert 0 == pump.run_once().dead
        log = folder / "out" / LOG_NAME
    return [json.loads(line) for line in log.read_text().splitlines()]


def _runs(lines: Lines) -> dict[str, list[str]]:
    """The statuses of each run, by its name; one that is said again is not another."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line["source_type"] == "EXPORT_TRAIN_RUN":
            found.setdefault(line["event_data"]["name"], []).append(line["event_data"]["status"])
    return {name: [status for status, _ in groupby(said)] for name, said in found.items()}


def _attempts(lines: Lines) -> dict[str, list[list[str]]]:
    """The statuses of each attempt of each run, in the order they began."""
    names = {one["event_data"].get("id"): one["event_data"].get("name") for one in lines}
    found: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        data = line["event_data"]
        if line["source_type"] == "EXPORT_TRAIN_RUN_ATTEMPT":
            attempts = found.setdefault(names[data["run_id"]], {})
            attempts.setdefault(data["attempt_id"], []).append(data["status"])
    return {
        name: [[status for status, _ in groupby(said)] for said in attempts.values()]
        for name, attempts in found.items()
    }


def _settings(lines: Lines, name: str) -> dict[str, Any]:
    """What the first line of a run says that it was asked for."""
    first = next(one["event_data"] for one in lines if one["event_data"].get("name") == name)
    settings: dict[str, Any] = first["run_settings"]
    return settings


def test_every_line_is_one_of_rays_messages(logs: dict[str, Lines]) -> None:
    """Ray's generated classes take each line without an unknown field, and print it equal (D)."""
    for line in logs["trainstate"]:
        read = ParseDict(line["event_data"], MESSAGES[line["source_type"]]())
        printed = MessageToDict(
            read, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        assert line["event_data"] == printed
        assert 4 == read.schema_version


def test_runs_and_attempts_go_the_same_way(logs: dict[str, Lines]) -> None:
    """Status by status, run by run and attempt by attempt (A6.3, A6.5)."""
    ours, theirs = logs["trainstate"], logs["ray"]
    assert ["finishes", "retried", "errs", "aborted"] == list(_runs(theirs))
    assert _runs(theirs) == _runs(ours)
    assert _attempts(theirs) == _attempts(ours)


def test_no_line_goes_back(logs: dict[str, Lines]) -> None:
    """Where Ray's order is wrong (A6.5: an attempt ends after its run goes on) ours is not."""
    run_id = _last(logs["trainstate"], "retried")["id"]
    order = [
        (line["source_type"].removeprefix("EXPORT_TRAIN_"), line["event_data"]["status"])
        for line in logs["trainstate"]
        if run_id in (line["event_data"].get("id"), line["event_data"].get("run_id"))
    ]
    ended = order.index(("RUN_ATTEMPT", "ERRORED"))
    assert ("RUN", "RESTARTING") in order[:ended]
    assert ("RUN", "SCHEDULING") in order[ended:]


def test_settings_are_the_same(logs: dict[str, Lines]) -> None:
    """The trainer's arguments, in the same keys and groups (rows 3-01, 3-02, A3.2)."""
    ours, theirs = (_settings(logs[library], "finishes") for library in ("trainstate", "ray"))
    for settings in (ours, theirs):
        for key in ("library", "folder"):
            del settings["train_loop_config"][key]
        del settings["run_config"]["storage_path"]
    # Ours does not ask ray.data how it would execute the datasets there are none of.
    theirs["data_config"]["data_execution_options"].pop("default")
    assert theirs == ours


def test_what_failed_is_told_by_rank(logs: dict[str, Lines]) -> None:
    """The ranks that had failed by then, in one form (A6.4); which those are is a race in both."""
    for library in ("ray", "trainstate"):
        detail = _last(logs[library], "errs")["status_detail"]
        assert re.search(r"\[Rank [01](,[01])? Error Snippet\]:\nTraceback", detail)
        assert "ValueError: no data for rank" in detail


def _last(lines: Lines, name: str) -> dict[str, Any]:
    data: dict[str, Any] = [o["event_data"] for o in lines if o["event_data"].get("name") == name][
        -1
    ]
    return data
