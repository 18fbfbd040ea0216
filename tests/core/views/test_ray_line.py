"""How a run and an attempt look as lines of Ray's log, in each schema version (A0.3-A0.5, D)."""

from __future__ import annotations

import re

import orjson
import pytest

from tests.core.stories import CREATED, FINISHED, RUNNING, SCHEDULED, run_in
from trainstate.core import Attempt, AttemptStatus, Run, RunStatus, Worker, WorkerStatus
from trainstate.core.views.ray_line import (
    ATTEMPT_LINE,
    RAY_TO_RUN_STATUS,
    attempt_line,
    decode_id,
    encode_id,
    envelope,
    event_id,
    run_line,
    run_status,
)
from trainstate.testing import event, given
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

VERSIONS = [1, 2, 3, 4]
CPU = s.ResourceSet(resources=[s.Resource(name="CPU", amount=1)])

# Presence per version, as read from the wheels' descriptors: always, and when set.
RUN_ALWAYS = {
    "schema_version",
    "id",
    "name",
    "job_id",
    "controller_actor_id",
    "status",
    "start_time_ns",
}
RUN_SINCE_2 = {"ray_train_version", "train_run_panels", "train_worker_panels"}
RUN_SINCE_3 = {"framework_versions"}
ATTEMPT_ALWAYS = {
    "schema_version",
    "run_id",
    "attempt_id",
    "status",
    "start_time_ns",
    "resources",
    "workers",
}
WORKER_ALWAYS = {
    "world_rank",
    "local_rank",
    "node_rank",
    "actor_id",
    "node_id",
    "node_ip",
    "pid",
    "gpu_ids",
    "status",
}


def a_run(**fields):
    return Run("r1", **{"status": RunStatus.RUNNING, "name": "mnist", "start_time_ns": 7, **fields})


def an_attempt(*workers, **fields):
    attempt = Attempt("a1", 1, **{"status": AttemptStatus.RUNNING, "start_time_ns": 8, **fields})
    attempt.workers = {worker.rank: worker for worker in workers}
    return attempt


def a_worker(rank=0, **fields):
    return Worker(rank, **{"status": WorkerStatus.RUNNING, "start_time_ns": 9, **fields})


def shown_worker(worker, version=4):
    (shown,) = attempt_line(a_run(), an_attempt(worker), version)["workers"]
    return shown


# --- presence -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_keys_of_a_run_with_nothing_set(version):
    """D: what has no presence is always printed, what has is absent; version by version."""
    expected = set(RUN_ALWAYS)
    expected |= {"controller_log_file_path"} if version == 1 else RUN_SINCE_2
    expected |= RUN_SINCE_3 if version >= 3 else set()
    assert expected == run_line(a_run(), version).keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_keys_of_a_run_with_everything_set(version):
    """D: every key a version has, and none of a later one."""
    run = a_run(
        status=RunStatus.ERRORED,
        status_reason="boom",
        end_time_ns=9,
        controller_log_path="/l",
        settings=s.RunSettings(),
    )
    expected = RUN_ALWAYS | {"status_detail", "end_time_ns", "controller_log_file_path"}
    expected |= RUN_SINCE_2 if version >= 2 else set()
    expected |= RUN_SINCE_3 | {"run_settings"} if version >= 3 else set()
    assert expected == run_line(run, version).keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_keys_of_an_attempt(version):
    """D: the same for an attempt; empty lists are printed."""
    since_2 = {"ray_train_version"} if version >= 2 else set()
    shown = attempt_line(a_run(), an_attempt(), version)
    assert ATTEMPT_ALWAYS | since_2 == shown.keys()
    assert ([], []) == (shown["resources"], shown["workers"])
    ended = an_attempt(status=AttemptStatus.ERRORED, status_reason="boom", end_time_ns=9)
    more = {"status_detail", "end_time_ns"}
    assert ATTEMPT_ALWAYS | since_2 | more == attempt_line(a_run(), ended, version).keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_keys_of_a_worker(version):
    """A0.5, D: zeros are printed (world_rank 0, pid 0, gpu_ids []); resources and log path if set."""
    log = {"log_file_path"} if version == 1 else set()
    bare = shown_worker(a_worker(), version)
    assert WORKER_ALWAYS | log == bare.keys()
    assert (0, 0, []) == (bare["world_rank"], bare["pid"], bare["gpu_ids"])
    full = shown_worker(a_worker(resources=CPU, log_path="/w"), version)
    assert WORKER_ALWAYS | {"log_file_path", "resources"} == full.keys()
    assert {"resources": {"CPU": 1.0}} == full["resources"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_version_is_told(version):
    """3-04: each line says its schema version."""
    assert version == run_line(a_run(), version)["schema_version"]
    assert version == attempt_line(a_run(), an_attempt(), version)["schema_version"]


# --- values ---------------------------------------------------------------------------------------


def test_row_a0_3():
    """A0.3: the values of a run; 64-bit numbers are strings, ids are base64."""
    run = a_run(
        job_id=b"\x01\0\0\0",
        controller_actor_id=b"\xff\xfe",
        status=RunStatus.FINISHED,
        start_time_ns=1795221788123456789,
        end_time_ns=2**64 - 1,
        controller_log_path="/l",
        framework_versions=[s.Version(name="ray", version="2.60.0")],
    )
    shown = run_line(run)
    expected = {
        "schema_version": 4,
        "id": "r1",
        "name": "mnist",
        "job_id": "AQAAAA==",
        "controller_actor_id": "//4=",
        "status": "FINISHED",
        "start_time_ns": "1795221788123456789",
        "end_time_ns": "18446744073709551615",
        "controller_log_file_path": "/l",
        "ray_train_version": 2,
        "framework_versions": {"ray": "2.60.0"},
    }
    assert expected == {key: shown[key] for key in expected}


def test_row_a0_4():
    """A0.4: the values of an attempt; one resource set per worker, alike or not."""
    shown = attempt_line(a_run(), an_attempt(num_workers=2, resources_per_worker=CPU))
    assert ("r1", "a1", "RUNNING", "8") == (
        shown["run_id"],
        shown["attempt_id"],
        shown["status"],
        shown["start_time_ns"],
    )
    assert [{"resources": {"CPU": 1.0}}] * 2 == shown["resources"]
    gpu = s.ResourceSet(resources=[s.Resource(name="GPU", amount=0.5)])
    shown = attempt_line(a_run(), an_attempt(num_workers=2, resources=[CPU, gpu]))
    assert [{"CPU": 1.0}, {"GPU": 0.5}] == [one["resources"] for one in shown["resources"]]


def test_row_a0_5():
    """A0.5: the values of a worker."""
    worker = a_worker(
        3,
        local_rank=1,
        node_rank=2,
        actor_id=b"\x01",
        node_id=b"\x02",
        node_ip="10.0.0.1",
        pid=42,
        accelerator_ids=("0", "3"),
        log_path="/w",
        resources=CPU,
    )
    expected = {
        "world_rank": 3,
        "local_rank": 1,
        "node_rank": 2,
        "actor_id": "AQ==",
        "node_id": "Ag==",
        "node_ip": "10.0.0.1",
        "pid": 42,
        "gpu_ids": [0, 3],
        "status": "ALIVE",
        "resources": {"resources": {"CPU": 1.0}},
        "log_file_path": "/w",
    }
    assert expected == shown_worker(worker)
    assert list(expected) == list(shown_worker(worker))


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        (("0", "11"), [0, 11]),
        (("GPU-5b6c1c8e-2f6b", "1"), [1]),
        (("MIG-GPU-5b6c/1/0",), []),
        (("TPU-v4-0",), []),
        (("-1", "", "1.5"), []),
        (("9" * 10, "9" * 5000), []),
    ],
    ids=lambda value: str(value)[:24],
)
def test_row_0_13(ids, shown):
    """0-13: an accelerator id that is no index does not fail, as in Ray; it is not in Ray's field."""
    assert shown == shown_worker(a_worker(accelerator_ids=ids))["gpu_ids"]


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        (WorkerStatus.RUNNING, ["ALIVE"]),
        (WorkerStatus.FAILING, ["ALIVE"]),
        (WorkerStatus.COMPLETED, ["DEAD"]),
        (WorkerStatus.DEAD, ["DEAD"]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_projection_of_a_worker(status, shown):
    """A6.3: ALIVE until it ends, then DEAD; Ray shows a worker once it has started."""
    workers = attempt_line(a_run(), an_attempt(a_worker(status=status)))["workers"]
    assert shown == [worker["status"] for worker in workers]


def test_a_worker_that_never_started_is_not_shown():
    """Ray's list holds the workers it has started; a start that fails leaves no actor to show."""
    died = event(e.WorkerDied(rank=0, cause=11), "a1")
    for story in (SCHEDULED, [*SCHEDULED, died]):
        run = given(*story).run
        assert [] == attempt_line(run, run.attempt)["workers"]


def test_workers_are_shown_by_rank():
    """A0.4: sorted by global rank, in whatever order they started."""
    attempt = an_attempt(a_worker(2), a_worker(0), a_worker(1))
    assert [0, 1, 2] == [one["world_rank"] for one in attempt_line(a_run(), attempt)["workers"]]


@pytest.mark.parametrize("status", RunStatus, ids=lambda status: status.name)
def test_projection_of_a_run(status):
    """A6.3: the status Ray has for it; where Ray has none there is no status, and no line."""
    shown = run_line(run_in(status)).get("status")
    assert shown == run_status(run_in(status))
    assert None is shown or status == RAY_TO_RUN_STATUS[shown]


@pytest.mark.parametrize("status", AttemptStatus, ids=lambda status: status.name)
def test_projection_of_an_attempt(status):
    """A6.3: the same five names."""
    expected = status.name if status else "RUN_ATTEMPT_STATUS_UNSPECIFIED"
    assert expected == attempt_line(a_run(), an_attempt(status=status))["status"]


@pytest.mark.parametrize("status", RunStatus, ids=lambda status: status.name)
def test_detail_of_a_run(status):
    """A0.3, A6.4: SCHEDULING, ERRORED and ABORTED say why; it is cleared at every other status."""
    shown = run_line(a_run(status=status, status_reason="because")).get("status_detail")
    telling = status.name in {"SCHEDULING", "ERRORED", "ABORTED"}
    assert ("because" if telling else None) == shown
    assert "status_detail" not in run_line(a_run(status=status))


@pytest.mark.parametrize("status", AttemptStatus, ids=lambda status: status.name)
def test_detail_of_an_attempt(status):
    """A0.4: PENDING, ERRORED and ABORTED say why."""
    shown = attempt_line(a_run(), an_attempt(status=status, status_reason="because"))
    telling = status.name in {"PENDING", "ERRORED", "ABORTED"}
    assert ("because" if telling else None) == shown.get("status_detail")


def test_panels_of_a_live_run_and_of_an_imported_one():
    """A live run is shown with the panels of Ray 2.60, an imported one with those of its log."""
    live = run_line(a_run())
    assert (3, 9) == (len(live["train_run_panels"]), len(live["train_worker_panels"]))
    assert {"id": "1", "title": "Controller State"} == live["train_run_panels"][0]
    old = s.Panel(id="3", title="Checkpoint Report Time")
    imported = run_line(a_run(imported=True, run_panels=[old]), 2)
    assert [{"id": "3", "title": "Checkpoint Report Time"}] == imported["train_run_panels"]
    assert [] == imported["train_worker_panels"]


# --- envelope and ids -------------------------------------------------------------------------------


def test_the_envelope():
    """D: four keys in Ray's order; the time is a number of whole seconds."""
    line = envelope("0dEAFE39a25a12B6F3", 1795223287, ATTEMPT_LINE, {"a": 1})
    expected = (
        b'{"event_id":"0dEAFE39a25a12B6F3","timestamp":1795223287,'
        b'"source_type":"EXPORT_TRAIN_RUN_ATTEMPT","event_data":{"a":1}}'
    )
    assert expected == orjson.dumps(line)


def test_event_ids():
    """D: 18 hex digits; ours are the same whenever they are made, and differ between events."""
    ids = {event_id("r1", number) for number in range(1000)} | {event_id("r11", 1)}
    assert 1001 == len(ids)
    assert all(re.fullmatch("[0-9a-f]{18}", one) for one in ids)
    # Written once and for ever: a new value would export what was exported again.
    assert "4388840289ad2f13d6" == event_id("r1", 1)


@pytest.mark.parametrize("raw", [b"", b"\x01\0\0\0", bytes(range(256))], ids=len)
def test_ids_are_base64(raw):
    """D: bytes are base64 with padding, and come back."""
    assert raw == decode_id(encode_id(raw))


@pytest.mark.parametrize("text", ["A", "AQ=A", "AQAAAA", "AQ==\n", "\u00e9", "AQ*="])
def test_what_is_no_base64_is_refused(text):
    """A damaged id is an error, not another id."""
    with pytest.raises(ValueError, match=r"base64|ASCII|padding"):
        decode_id(text)


@pytest.mark.parametrize(
    "story", [CREATED, RUNNING, FINISHED], ids=["created", "running", "finished"]
)
@pytest.mark.parametrize("version", VERSIONS)
def test_any_state_is_json(story, version):
    """Whatever the state, its lines are JSON."""
    run = given(*story).run
    orjson.dumps(run_line(run, version))
    for attempt in run.attempts:
        orjson.dumps(attempt_line(run, attempt, version))
