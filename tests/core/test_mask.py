"""Secrets out of events: every kind of event, and every byte that a store writes of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from tests.core.histories import PAYLOADS
from tests.store.making import SECOND, planned, scheduling, skipped, started
from trainstate.core import initial
from trainstate.core.markers import Mask
from trainstate.core.mask import EventMask, Unmasked
from trainstate.core.values import from_map, from_value, to_map, to_value
from trainstate.errors import EventTooLarge
from trainstate.store import Store
from trainstate.store.events import encode
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

SALT = b"a salt of tests"
MASK, MASKING = Mask(SALT), EventMask(SALT)
# Written in two parts, so that nobody's scanner takes this file for a leak.
KEY = "hf_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4"
PASSWORD, NUMBER = "hunter2", 271828
SECRETS = [KEY.encode(), PASSWORD.encode()]
# What users wrote and what was raised; every other text is a name, an id or a place.
TEXTS = {
    "Error.message",
    "Error.traceback",
    "Error.hint",
    "Provenance.entrypoint",
    "Provenance.working_directory",
    "Provenance.argv",
    "Provenance.image",
    "RunConfig.storage_path",
    "RunConfig.storage_filesystem",
    "SyncStarted.source",
    "SyncStarted.target",
    "SyncSkipped.source",
    "SyncSkipped.target",
    "ForeignStatusObserved.text",
}


def text(key: str) -> str:
    return f"401 for {key} at s3://bucket"


def values(key: str, password: Any, number: Any) -> dict[str, Any]:
    """Values of every kind, with secrets by name and by form."""
    return {
        "lr": 0.1,
        "nan": math.nan,
        "large": 2**80,
        "bytes": b"\xff\x00",
        "none": None,
        "flags": [True, 1, 2**63 - 1, -math.inf],
        "note": text(key),
        "password": password,
        "deep": [{"apiKey": number, "pad_token": "<pad>"}, ["--db-password", password]],
        "key of bytes": key if password != PASSWORD else key.encode(),
    }


MASKED = values(MASK.marker(KEY), MASK.marker(PASSWORD), MASK.marker(str(NUMBER)))
# Numbers among metrics are measurements.
MEASURED = values(MASK.marker(KEY), MASK.marker(PASSWORD), NUMBER)


def fill(message: Any, masked: bool) -> Any:
    """`message` with something in every field; with secrets, or as it is without them."""
    kind = message.DESCRIPTOR.name
    made = MASKED if masked else values(KEY, PASSWORD, NUMBER)
    if kind == "ValueMap":
        message.CopyFrom(to_map(made))
    elif kind == "Value":
        message.CopyFrom(to_value(made))
    else:
        for field in message.DESCRIPTOR.fields:
            _fill(message, field, masked)
    return message


def _fill(message: Any, field: FieldDescriptor, masked: bool) -> None:
    is_text = f"{message.DESCRIPTOR.name}.{field.name}" in TEXTS
    repeated = isinstance(field.default_value, list)
    if field.name == "metrics" and masked:
        message.metrics.CopyFrom(to_map(MEASURED))
    elif field.message_type is not None:
        part = getattr(message, field.name)
        fill(part.add() if repeated else part, masked)
        if not repeated:
            part.SetInParent()
    elif field.type == FieldDescriptor.TYPE_STRING:
        # A name stays as it is, also one that looks like a key.
        one = text(MASK.marker(KEY) if masked else KEY) if is_text else "sk-" + "name" * 5
        _put(message, field, one, repeated)
    elif field.type == FieldDescriptor.TYPE_BYTES:
        _put(message, field, b"\x01id", repeated)
    else:
        _put(message, field, 1, repeated)


def _put(message: Any, field: FieldDescriptor, value: Any, repeated: bool) -> None:
    if repeated:
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)


def event_of(kind: str, masked: bool = False) -> e.Event:
    reason = f"it said {MASK.marker(KEY) if masked else KEY}"
    made = e.Event(run_id="run", run_seq=1, attempt_id="run_1", reason=reason)
    fill(getattr(made, kind), masked)
    return made


def without_secrets(event: e.Event, run: Any = None) -> e.Event:
    EventMask(SALT)(event, run or initial("run"))
    return event


@pytest.mark.parametrize("kind", [field.name for field in PAYLOADS])
def test_every_kind_of_event(kind):
    """Of each field that users or errors write, the secrets are gone; all else is as it was."""
    event = without_secrets(event_of(kind))
    # Bytes, as a NaN is not equal to itself.
    assert event_of(kind, masked=True).SerializeToString() == event.SerializeToString()
    assert [] == [one for one in SECRETS if one in event.SerializeToString()]


def test_the_test_plants_secrets():
    """What looks for secrets would find them."""
    for kind in ("run_created", "report_received", "run_finished", "worker_failing"):
        data = event_of(kind).SerializeToString()
        assert KEY.encode() in data
    assert PASSWORD.encode() in event_of("run_created").SerializeToString()
    assert event_of("run_created", masked=True) != event_of("run_created")


@pytest.mark.parametrize("kind", [field.name for field in PAYLOADS])
def test_masked_twice_is_masked_once(kind):
    """An event may pass the door a second time."""
    once = without_secrets(event_of(kind)).SerializeToString()
    assert once == without_secrets(e.Event.FromString(once)).SerializeToString()


@pytest.mark.parametrize("kind", [field.name for field in PAYLOADS])
def test_an_empty_event_stays_empty(kind):
    """What is not set is not set by masking it."""
    event = e.Event()
    getattr(event, kind).SetInParent()
    before = event.SerializeToString()
    assert before == without_secrets(event).SerializeToString()


def test_names_ids_and_places_stay():
    """What decisions are made by, and what finds a thing again, is never changed."""
    created = e.RunCreated(name=KEY)
    created.settings.run_config.name = KEY
    created.settings.datasets.append(KEY)
    payloads = [
        {"run_created": created},
        {"placement_requested": e.PlacementRequested(name=KEY, strategy="PACK")},
        {"checkpoint_committed": e.CheckpointCommitted(directory=KEY)},
        {"report_received": e.ReportReceived(checkpoint=KEY)},
        {"sync_started": e.SyncStarted(sync_id=KEY)},
        {"worker_started": e.WorkerStarted(node_ip=KEY, log_path=KEY, accelerator_ids=[KEY])},
        {"line_imported": e.LineImported(ray_event_id=KEY)},
    ]
    for payload in payloads:
        event = e.Event(run_id=KEY, attempt_id=KEY, **payload)
        before = event.SerializeToString()
        assert before == without_secrets(event).SerializeToString()


def test_numbers_stay_exact_beside_a_secret():
    """A map that is written anew has the numbers it had: NaN, 2**80, minus zero, bytes."""
    metrics = {
        "nan": math.nan,
        "large": -(2**80),
        "zero": -0.0,
        "n": 2**63,
        "b": b"\xff",
        "p": True,
    }
    event = e.Event(report_received=e.ReportReceived(metrics=to_map(metrics | {"token": "x"})))
    found = from_map(without_secrets(event).report_received.metrics)
    assert repr(metrics | {"token": MASK.marker("x")}) == repr(found)


def test_a_number_under_a_secret_name():
    """It may be a password, but for a measurement; a number under another name is a number."""
    values = to_map({"password": 7, "num_tokens": 7, "token": "x1"})
    shown = {"password": MASK.marker("7"), "num_tokens": 7, "token": MASK.marker("x1")}
    returned = e.Event(run_finished={"return_value": s.Value(map=values)})
    assert shown == from_value(without_secrets(returned).run_finished.return_value)
    reported = e.Event(report_received={"metrics": values})
    found = from_map(without_secrets(reported).report_received.metrics)
    assert {**shown, "password": 7} == found


texts = st.sampled_from(["hf_" + "Ab1" * 10, "password=x1", "x" * 200, "é" * 100, ""]) | st.text()
metrics = st.dictionaries(
    st.text(max_size=40) | st.sampled_from(["token", "loss", "k" * 300]),
    st.recursive(
        st.floats() | st.integers(-(2**70), 2**70) | st.booleans() | st.none() | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=4,
    )
    | texts.map(lambda text: text.encode("utf-8", "backslashreplace")),
    max_size=6,
)


@given(metrics, st.sampled_from(["report_received", "checkpoint_committed"]))
def test_what_is_passed_over_has_no_secret(values, kind):
    """An event of metrics is looked at from outside: if it is passed over, masking changes nothing."""
    event = e.Event(**{kind: {"metrics": to_map(values)}})
    before = event.SerializeToString()
    if not MASKING.may_touch(event, encode(event)):
        MASKING(event, initial("run"))
        assert before == event.SerializeToString()


def test_numbers_are_passed_over():
    """They are the many."""
    event = e.Event(report_received={"metrics": to_map({"loss": 0.5, "step": 7, "token": 1})})
    assert not MASKING.may_touch(event, encode(event))


def test_a_run_names_its_secrets():
    """The names in its settings hold for the event that creates it, and for all after it."""
    created = e.RunCreated(settings=s.RunSettings(secret_keys=["launch_code", "!password"]))
    created.settings.train_loop_config.CopyFrom(to_map({"launchCode": 7, "password": "x"}))
    event = without_secrets(e.Event(run_created=created, reason="launch_code=7"))
    shown = {"launchCode": MASK.marker("7"), "password": "x"}
    assert shown == from_map(event.run_created.settings.train_loop_config)
    assert f"launch_code={MASK.marker('7')}" == event.reason

    run = initial("run")
    run.settings = created.settings
    later = e.Event(run_errored=e.RunErrored(error=s.Error(message="bad launch_code='7'")))
    assert (
        f"bad launch_code='{MASK.marker('7')}'"
        == without_secrets(later, run).run_errored.error.message
    )
    other = e.Event(run_errored=e.RunErrored(error=s.Error(message="bad launch_code='7'")))
    assert "bad launch_code='7'" == without_secrets(other).run_errored.error.message


def test_unmasked_masks_nothing():
    """What an importer is asked for, so that import and export are equal."""
    event = event_of("run_created")
    Unmasked()(event, initial("run"))
    assert event_of("run_created").SerializeToString() == event.SerializeToString()


# --- through a store ------------------------------------------------------------------------------


def planted_events() -> list[e.Event]:
    """A short run that says its secrets wherever it can."""
    created = event_of("run_created")
    created.run_created.settings.secret_keys[:] = ["launch_code"]
    failing = e.WorkerFailing(rank=0, cause=2, error=fill(s.Error(), False))
    failing.error.traceback = f"launch_code='{PASSWORD}'\n{text(KEY)}"
    report = e.ReportReceived(metrics=to_map(values(KEY, PASSWORD, NUMBER)), checkpoint="c0")
    errored = e.RunErrored(cause=2, error=fill(s.Error(), False))
    at = {"time_unix_nano": 5 * SECOND, "attempt_id": "run_1", "reason": text(KEY)}
    made = [
        created,
        scheduling(),
        planned("run_1"),
        *started("run_1"),
        e.Event(**at, report_received=report),
        e.Event(**at, worker_failing=failing),
        e.Event(**at, worker_died=e.WorkerDied(rank=0, cause=2)),
        e.Event(**at, attempt_ended=e.AttemptEnded(status=4, cause=2, error=failing.error)),
        e.Event(**at, run_errored=errored),
    ]
    for one in made:
        one.time_unix_nano = one.time_unix_nano or SECOND
    return made


def bytes_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("masking", [EventMask(SALT), None], ids=["of a home", "of the store"])
def test_no_byte_that_a_store_writes_has_a_secret(tmp_path, masking):
    """Neither its segments nor its snapshots and archives, whoever gave the mask."""
    path = tmp_path / "journal"
    # So small that runs end in segments before the last: there are snapshots too.
    with Store.open(path, masking=masking, segment_bytes_max=16 * 1024) as store:
        for number in range(4):
            opened = store.open_run(f"run{number}", "test", SECOND)
            store.append(f"run{number}", opened.incarnation, opened.run_seq, planted_events())
        errors = [store.state(f"run{number}").error for number in range(4)]
    written = bytes_below(path)
    assert [] == [one for one in SECRETS if one in written]
    assert b"<secret-" in written
    assert all(KEY not in str(one) for one in errors)


def test_a_store_that_keeps_secrets_has_them(tmp_path):
    """The test above would find one."""
    with Store.open(tmp_path / "journal", masking=Unmasked()) as store:
        opened = store.open_run("run", "test", SECOND)
        store.append("run", opened.incarnation, opened.run_seq, planted_events())
    written = bytes_below(tmp_path / "journal")
    assert SECRETS == [one for one in SECRETS if one in written]


def test_a_repeated_append_is_recognised_after_reopening(tmp_path):
    """The same events, masked by the same salt, are at the same positions; by another one, not."""
    with Store.open(tmp_path / "journal", masking=EventMask(SALT)) as store:
        opened = store.open_run("run", "test", SECOND)
        incarnation, at = opened.incarnation, opened.run_seq
        seqs = list(store.append("run", incarnation, at, planted_events()))
    with Store.open(tmp_path / "journal", masking=EventMask(SALT)) as store:
        assert seqs == list(store.append("run", incarnation, at, planted_events()))
        assert len(seqs) + at == store.state("run").run_seq
        events = planted_events()
        store.append("run", incarnation, at, events)
        assert seqs == list(store.append("run", incarnation, at, events))


@pytest.mark.parametrize("depth", [80, 200, 2000])
def test_what_is_too_deep_to_be_masked_is_not_recorded(tmp_path, depth):
    """A value that no reader takes is refused, with the secret in it and the events before it."""
    deep = e.Event(time_unix_nano=5 * SECOND, attempt_id="run_1")
    value = deep.report_received.metrics.entries.add(key="m").value
    for _ in range(depth):
        value = value.list.values.add()
    value.string = KEY
    with Store.open(tmp_path / "journal", masking=EventMask(SALT)) as store:
        opened = store.open_run("run", "test", SECOND)
        before = planted_events()[:5]
        seqs = store.append("run", opened.incarnation, opened.run_seq, before)
        state = store.state("run")
        with pytest.raises(EventTooLarge):
            store.append("run", opened.incarnation, opened.run_seq + len(seqs), [skipped(), deep])
        assert state == store.state("run")
    assert KEY.encode() not in bytes_below(tmp_path / "journal")


def test_every_text_of_the_schema_is_a_text_or_a_name():
    """The table names fields that are there: a renamed one would go unmasked."""
    found = set()
    seen: set[str] = set()
    waiting: list[Any] = [e.Event.DESCRIPTOR, s.Traceback.DESCRIPTOR]
    while waiting:
        descriptor = waiting.pop()
        if descriptor.full_name in seen:
            continue
        seen.add(descriptor.full_name)
        for field in descriptor.fields:
            found.add(f"{descriptor.name}.{field.name}")
            if field.message_type is not None:
                waiting.append(field.message_type)
    assert set() == TEXTS - found


def test_a_message_is_filled():
    """The reflection above leaves no field of a run's creation empty."""
    created = fill(e.RunCreated(), False)
    empty: list[str] = []

    def walk(message: Message) -> None:
        present = {field.name for field, _ in message.ListFields()}
        fields = (one for one in message.DESCRIPTOR.fields if one.containing_oneof is None)
        empty.extend(f"{one.full_name}" for one in fields if one.name not in present)

    walk(created)
    walk(created.settings)
    walk(created.settings.run_config)
    walk(created.provenance)
    assert [] == empty
