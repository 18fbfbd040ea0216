"""What is a line of Ray's log, and what is refused, with a reason a person understands."""

from __future__ import annotations

import json

import google_crc32c
import pytest

from tests.integrations.ray_export.log import (
    REAL_LOGS,
    RUN_ID,
    attempt_data,
    envelope,
    log_name,
    raw,
    run_data,
)
from trainstate.integrations.ray_export.lines import LineRefused, parse

RUN, ATTEMPT = "EXPORT_TRAIN_RUN", "EXPORT_TRAIN_RUN_ATTEMPT"


@pytest.mark.parametrize("path", REAL_LOGS, ids=log_name)
def test_every_line_of_a_real_log_parses(path):
    """No line that a Ray wheel wrote is refused, but for one cut off when Ray was killed."""
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        if number < len(lines) or line.endswith(b"\n"):
            assert json.loads(line) == parse(line.rstrip(b"\n")).document


def test_what_is_read_off_a_line():
    """Identity, kind, version and run of a run line and of an attempt line."""
    line = parse(raw(envelope(7, RUN, run_data("RUNNING", 3))))
    assert (RUN, 3, RUN_ID, f"{7:018x}") == (
        line.source_type,
        line.version,
        line.run_id,
        line.event_id,
    )
    line = parse(raw(envelope(8, ATTEMPT, attempt_data("PENDING", version=1))))
    assert (ATTEMPT, 1, RUN_ID) == (line.source_type, line.version, line.run_id)
    assert line.document["timestamp"] == line.timestamp_s


def test_the_crc_is_of_the_bytes():
    """Two lines of equal content and other text are told apart."""
    document = envelope(7, RUN, run_data("RUNNING"))
    compact = json.dumps(document, separators=(",", ":")).encode()
    assert google_crc32c.value(raw(document)) == parse(raw(document)).crc
    assert google_crc32c.value(compact) == parse(compact).crc


GOOD = raw(envelope(1, RUN, run_data("RUNNING")))


def changed(**members):
    """The good line with other members of the envelope; None leaves one out."""
    document = {**json.loads(GOOD), **members}
    return raw({key: value for key, value in document.items() if value is not None})


def with_data(**members):
    """The good line with other members of its event_data."""
    return changed(event_data=run_data(**{"status": "RUNNING", **members}))


def attempt_with(**members):
    return raw(envelope(1, ATTEMPT, attempt_data(**{"status": "PENDING", **members})))


def nested(levels):
    """The good line with a member that nests so deep."""
    deep = b"[" * levels + b"]" * levels
    return GOOD.replace(b'"event_data": {', b'"event_data": {"deep": ' + deep + b", ", 1)


REFUSED = {
    "empty": (b"", "not JSON"),
    "blank": (b"   ", "not JSON"),
    "text": (b"hello", "not JSON"),
    "binary": (bytes(range(256)), "not JSON"),
    "zeros": (b"\0" * 100, "not JSON"),
    "not-utf-8": (GOOD.replace(b"mnist", b"mn\xffst"), "not JSON"),
    "lone-surrogate": (GOOD.replace(b"mnist", rb"mn\ud800st"), "not JSON"),
    "nan": (GOOD.replace(b'"schema_version": 4', b'"schema_version": NaN'), "not JSON"),
    "infinity": (GOOD.replace(b'"schema_version": 4', b'"schema_version": 1e999'), "not JSON"),
    "two-lines-in-one": (GOOD + GOOD, "not JSON"),
    "array": (b"[1]", "a JSON list, not an object"),
    "string": (b'"EXPORT_TRAIN_RUN"', "a JSON str, not an object"),
    "null": (b"null", "not an object"),
    "empty-object": (b"{}", "source_type is None"),
    "other-source": (changed(source_type="EXPORT_TASK"), "source_type is 'EXPORT_TASK'"),
    "number-source": (changed(source_type=5), "source_type is 5"),
    "list-source": (changed(source_type=[RUN]), "source_type is"),
    "object-source": (changed(source_type={}), "source_type is"),
    "no-data": (changed(event_data=None), "event_data is not an object"),
    "list-data": (changed(event_data=[]), "event_data is not an object"),
    "no-event-id": (changed(event_id=None), "event_id is None"),
    "number-event-id": (changed(event_id=7), "event_id is 7"),
    "empty-event-id": (changed(event_id=""), "event_id is ''"),
    "no-timestamp": (changed(timestamp=None), "timestamp is None"),
    "text-timestamp": (changed(timestamp="1795223287"), "timestamp is '1795223287'"),
    "fraction-timestamp": (changed(timestamp=1.5), "timestamp is 1.5"),
    "true-timestamp": (changed(timestamp=True), "timestamp is True"),
    "negative-timestamp": (changed(timestamp=-1), "timestamp -1 is no time"),
    "huge-timestamp": (changed(timestamp=2**63), "is no time"),
    "no-version": (with_data(schema_version=None), "schema_version is None"),
    "version-0": (with_data(schema_version=0), "schema version 0 is unknown"),
    "version-5": (with_data(schema_version=5), "reads 1 to 4"),
    "version-text": (with_data(schema_version="4"), "schema_version is '4'"),
    "version-true": (with_data(schema_version=True), "schema_version is True"),
    "no-status": (with_data(status=None), "status is None"),
    "unknown-status": (with_data(status="GARBAGE"), "status is 'GARBAGE'"),
    "number-status": (with_data(status=3), "status is 3"),
    "list-status": (with_data(status=["RUNNING"]), "status is ['RUNNING']"),
    "unspecified-status": (with_data(status="RUN_STATUS_UNSPECIFIED"), "status is"),
    "status-of-ours": (with_data(status="WAITING"), "status is 'WAITING'"),
    "attempt-status-on-a-run": (with_data(status="PENDING"), "status is 'PENDING'"),
    "no-run-id": (with_data(id=None), "id is None"),
    "empty-run-id": (with_data(id=""), "id is ''"),
    "number-run-id": (with_data(id=1), "id is 1"),
    "run-status-on-an-attempt": (attempt_with(status="SCHEDULING"), "status is 'SCHEDULING'"),
    "no-attempt-id": (attempt_with(attempt_id=None), "attempt_id is None"),
    "no-run-of-the-attempt": (attempt_with(run_id=None), "run_id is None"),
    "deep": (nested(10_000), "not JSON"),
    "less-deep": (nested(40), "nested deeper than"),
    "huge-int": (with_data(surplus=2**64), "an integer of more than 64 bits"),
    "huge-negative-int": (with_data(surplus=[-(2**63) - 1]), "an integer of more than 64 bits"),
    "astronomic-int": (GOOD[:-2] + b', "surplus": 1' + b"0" * 5000 + b"}}", "not JSON"),
}


@pytest.mark.parametrize(("line", "why"), REFUSED.values(), ids=REFUSED)
def test_refuses(line, why):
    """A line that is none of Ray's is refused with a sentence, whatever is wrong with it."""
    with pytest.raises(LineRefused) as refused:
        parse(line)
    assert why in str(refused.value)


@pytest.mark.parametrize("cut", range(1, len(GOOD) - 1, 7))
def test_a_truncated_line_is_refused(cut):
    """A line cut off anywhere is no line."""
    with pytest.raises(LineRefused, match="not JSON"):
        parse(GOOD[:cut])


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63), 2**63, 0], ids=str)
def test_integers_of_64_bits_are_exact(value):
    """3-13: what fits 64 bits comes through unchanged."""
    assert value == parse(with_data(surplus=value)).data["surplus"]


def test_digits_in_a_text_are_no_integer():
    """A long number in a string, as Ray prints times, is fine."""
    text = "it took: 99999999999999999999999 steps, [123456789012345678901234567890]"
    assert text == parse(with_data(status_detail=text)).data["status_detail"]


def test_the_last_of_two_equal_keys_counts():
    """As every JSON reader has it."""
    line = GOOD.replace(b'"name": "mnist"', b'"name": "first", "name": "last"')
    assert "last" == parse(line).data["name"]


def test_a_carriage_return_is_white_space():
    """A log that went through a Windows machine is read all the same."""
    assert RUN_ID == parse(GOOD + b"\r").run_id
