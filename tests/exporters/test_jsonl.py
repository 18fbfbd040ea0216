"""JSON Lines: every event as plain JSON, exactly once in a file."""

from __future__ import annotations

import io
import json
import math
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from trainstate_exporters.jsonl import JsonLines

from trainstate.core.values import to_map
from trainstate.core.views.event_json import event_json, iso_time
from trainstate.errors import CursorMismatch, SinkUnavailable, UsageError
from trainstate.export import Guarantee, MemoryCursor, Pump
from trainstate.store import History, Recorded
from trainstate.testing import story
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s


def payload(**event: Any) -> Any:
    """What is shown of the payload of an event."""
    return event_json((1, e.Event(**event)))["payload"]


def test_an_event_is_shown_whole() -> None:
    """Position, identity, time in both forms, kind, and why."""
    recorded = Recorded(
        7,
        e.Event(
            run_id="r",
            run_seq=3,
            time_unix_nano=1_795_223_287_000_000_001,
            attempt_id="a",
            incarnation=2,
            reason="it was told to",
            run_aborted=e.RunAborted(cause=s.CAUSE_USER_ABORT, end_time_ns=2**64 - 1),
        ),
    )
    assert {
        "seq": 7,
        "run_id": "r",
        "run_seq": 3,
        "time": "2026-11-21T01:08:07.000000001Z",
        "time_unix_nano": 1_795_223_287_000_000_001,
        "kind": "run_aborted",
        "attempt_id": "a",
        "incarnation": 2,
        "reason": "it was told to",
        "payload": {"cause": "USER_ABORT", "end_time_ns": 2**64 - 1},
    } == event_json(recorded)


def test_values_are_what_they_carry() -> None:
    """Integers of any size stay integers, a bool is no number, an int no float; order is kept."""
    values = {
        "b": 2**63,
        "a": -1,
        "t": True,
        "f": 1.0,
        "n": None,
        "l": [1, "x", {}],
        "raw": b"\xff",
    }
    found = payload(report_received=e.ReportReceived(metrics=to_map(values)))["metrics"]
    assert {**values, "raw": "ff"} == found
    assert list(values) == list(found)
    assert [int, int, bool, float] == [type(found[key]) for key in "batf"]


def test_what_json_cannot_say_is_said_as_protobuf_does() -> None:
    """NaN and the infinities, in values and in fields; the line is strict JSON."""
    values = {"nan": math.nan, "more": [math.inf, -math.inf]}
    found = payload(report_received=e.ReportReceived(metrics=to_map(values)))["metrics"]
    assert {"nan": "NaN", "more": ["Infinity", "-Infinity"]} == found
    assert "Infinity" == payload(failure_decided=e.FailureDecided(backoff_s=math.inf))["backoff_s"]


def test_fields_without_presence_are_always_there() -> None:
    """Rank 0 is shown, an unset message is not, and a resource set is a plain dict."""
    cpu = s.ResourceSet(resources=[s.Resource(name="CPU", amount=1)])
    shown = payload(worker_started=e.WorkerStarted(rank=0, actor_id=b"\x01", resources=cpu))
    assert (0, "01", [], {"CPU": 1.0}) == (
        shown["rank"],
        shown["actor_id"],
        shown["accelerator_ids"],
        shown["resources"],
    )
    assert "deadline_unix_nano" not in payload(run_preempting=e.RunPreempting())
    assert "resources" not in payload(worker_started=e.WorkerStarted())


@pytest.mark.parametrize(
    ("entity", "status", "shown"),
    [
        (e.FOREIGN_ENTITY_RUN, 9, "FINISHED"),
        (e.FOREIGN_ENTITY_ATTEMPT, 3, "FINISHED"),
        (e.FOREIGN_ENTITY_WORKER, 5, "DEAD"),
        (e.FOREIGN_ENTITY_WORKER, 99, 99),
        (e.FOREIGN_ENTITY_UNSPECIFIED, 3, 3),
    ],
)
def test_a_foreign_status_has_the_name_of_its_entity(
    entity: e.ForeignEntity, status: int, shown: str | int
) -> None:
    """Its number means another thing for each; one that we do not know stays a number."""
    observed = e.ForeignStatusObserved(entity=entity, status=status)
    assert shown == payload(foreign_status_observed=observed)["status"]


def test_what_a_newer_version_wrote_is_shown_as_far_as_known() -> None:
    """An unknown payload is said to be unknown, an unknown enum value stays a number."""
    unknown = e.Event.FromString(e.Event(run_id="r").SerializeToString() + b"\xa2\x7f\x00")
    assert ("unknown", {}) == (
        event_json((1, unknown))["kind"],
        event_json((1, unknown))["payload"],
    )
    assert 99 == payload(run_errored=e.RunErrored(cause=99))["cause"]  # type: ignore[arg-type]


def test_every_kind_of_event_is_shown() -> None:
    """Each payload of the schema, empty and with all its messages set, survives a JSON round trip."""
    for field in e.Event.DESCRIPTOR.oneofs_by_name["payload"].fields:
        message = getattr(e, field.message_type.name)()
        for inner in field.message_type.fields:
            if inner.message_type is not None and inner.has_presence:
                getattr(message, inner.name).SetInParent()
        shown = event_json((1, e.Event(**{field.name: message})))
        assert field.name == shown["kind"]
        assert shown == json.loads(json.dumps(shown, allow_nan=False))


def test_a_time_that_no_calendar_has_stays_a_number() -> None:
    """A damaged clock does not end an export."""
    assert "2554-07-21T23:34:33.709551615Z" == iso_time(2**64 - 1)
    assert "1970-01-01T00:00:00.000000000Z" == iso_time(0)
    assert str(10**30) == iso_time(10**30)


def test_a_file_holds_every_event(tmp_path: Path) -> None:
    """In order, as UTF-8, one line each, whatever is in the names."""
    story.write_story(tmp_path / "journal")
    history = History(tmp_path / "journal")
    with Pump.open(history, JsonLines.open(str(tmp_path / "out.jsonl"))) as pump:
        pump.run_once()
    lines = (tmp_path / "out.jsonl").read_bytes().splitlines(keepends=True)
    assert [event_json(one) for one in history.events()] == [json.loads(line) for line in lines]
    assert story.ODD_TEXT in {json.loads(line)["run_id"] for line in lines}
    assert all(line.endswith(b"}\n") for line in lines)


def test_a_relative_target_is_the_same_from_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cursor is of the file, not of how it was named."""
    monkeypatch.chdir(tmp_path)
    exporter = JsonLines.open("out.jsonl")
    assert str(tmp_path / "out.jsonl") == exporter.target
    exporter.close()


def test_a_file_that_was_removed_is_not_begun_in_the_middle(tmp_path: Path) -> None:
    """The cursor says that lines are there, and they are not."""
    story.write_beginning(tmp_path / "journal")
    history, out = History(tmp_path / "journal"), tmp_path / "out.jsonl"
    with Pump.open(history, JsonLines.open(str(out))) as pump:
        pump.run_once()
    out.unlink()
    story.write_ending(tmp_path / "journal")
    with (
        Pump.open(history, JsonLines.open(str(out))) as pump,
        pytest.raises(CursorMismatch, match="does not hold"),
    ):
        pump.run_once()
    assert b"" == out.read_bytes()


def test_standard_output_is_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least once, and left open."""
    story.write_story(tmp_path / "journal")
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    exporter = JsonLines.open("-")
    assert (Guarantee.AT_LEAST_ONCE, "-") == (exporter.guarantee, exporter.target)
    with Pump(History(tmp_path / "journal"), exporter, MemoryCursor(), tmp_path / "dead") as pump:
        written = pump.run_once().written
    assert written == out.buffer.getvalue().count(b"\n")  # type: ignore[attr-defined]


def test_a_pipe_is_a_stream(tmp_path: Path) -> None:
    """What cannot be cut is at least once; a reader that goes away is nobody to retry for."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[bytes] = []

    def reader() -> None:
        with fifo.open("rb") as pipe:
            read.append(pipe.readline())

    thread = threading.Thread(target=reader)
    thread.start()
    exporter = JsonLines.open(str(fifo))
    assert Guarantee.AT_LEAST_ONCE == exporter.guarantee
    assert b"" == exporter.resume(None)
    exporter.write([b"one\n"])
    thread.join()
    assert [b"one\n"] == read
    with pytest.raises(BrokenPipeError):
        exporter.write([b"two\n"])
    exporter.close()


def test_a_full_device_is_a_sink_that_is_away() -> None:
    """An error of its own kind, to be retried."""
    exporter = JsonLines.open("/dev/full")
    with pytest.raises(SinkUnavailable, match="No space left"):
        exporter.write([b"one\n"])
    exporter.close()


def test_a_folder_is_no_target(tmp_path: Path) -> None:
    """It says what to name instead."""
    with pytest.raises(UsageError, match="folder"):
        JsonLines.open(str(tmp_path))
