"""What the schema promises for ever: old readers lose nothing, and numbers mean what they meant."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from trainstate.v1 import event_pb2, state_pb2, view_pb2

ROOT = Path(__file__).parents[1]
FILES = [module.DESCRIPTOR for module in (state_pb2, event_pb2, view_pb2)]
MESSAGES: dict[str, Descriptor] = {
    m.name: m for f in FILES for m in f.message_types_by_name.values()
}
ENUMS: list[EnumDescriptor] = [e for f in FILES for e in f.enum_types_by_name.values()]
PAYLOADS: list[FieldDescriptor] = MESSAGES["Event"].oneofs_by_name["payload"].fields

Field = descriptor_pb2.FieldDescriptorProto


def buf(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("buf"), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.name)
def test_unset_is_not_a_meaning(enum):
    """The zero of every enum is UNSPECIFIED, so that absent is told from every real value."""
    assert enum.values_by_number[0].name.endswith("_UNSPECIFIED")


@pytest.mark.parametrize("message", MESSAGES.values(), ids=lambda message: message.name)
def test_what_is_new_comes_last(message):
    """Numbers grow and there are no maps: a rewrite puts unknown fields where they were."""
    numbers = [field.number for field in message.fields]
    assert numbers == sorted(numbers)
    assert not any(f.message_type and f.message_type.GetOptions().map_entry for f in message.fields)


def test_payloads_stand_behind_the_envelope():
    """The payload is the last known field of an event, so an unknown one is last as well."""
    envelope = [f.number for f in MESSAGES["Event"].fields if f not in PAYLOADS]
    assert max(envelope) < min(field.number for field in PAYLOADS)


# --- a schema of the future ---------------------------------------------------------------------

NEW_FIELDS = [
    ("new_text", Field.TYPE_STRING, Field.LABEL_OPTIONAL, "of the future"),
    ("new_numbers", Field.TYPE_SINT64, Field.LABEL_REPEATED, [-1, 0, 2**60]),
    ("new_times", Field.TYPE_FIXED64, Field.LABEL_REPEATED, [1, 2]),
    ("new_ratio", Field.TYPE_FLOAT, Field.LABEL_OPTIONAL, 0.5),
]
NEW_NUMBER = 500


def future_pool() -> descriptor_pool.DescriptorPool:
    """Our schema, where every message has more fields and events have one more payload."""
    pool = descriptor_pool.DescriptorPool()
    for ours in FILES:
        file = descriptor_pb2.FileDescriptorProto.FromString(ours.serialized_pb)
        for message in file.message_type:
            if message.name == "Event":
                message.field.add(
                    name="new_payload",
                    number=NEW_NUMBER,
                    type=Field.TYPE_MESSAGE,
                    type_name=".trainstate.v1.Error",
                    label=Field.LABEL_OPTIONAL,
                    oneof_index=0,
                )
            for i, (name, kind, label, _) in enumerate(NEW_FIELDS, start=NEW_NUMBER + 1):
                message.field.add(name=name, number=i, type=kind, label=label)
        pool.Add(file)
    return pool


FUTURE = future_pool()
SAMPLES: dict[int, Any] = {
    FieldDescriptor.CPPTYPE_BOOL: True,
    FieldDescriptor.CPPTYPE_DOUBLE: 0.25,
    FieldDescriptor.CPPTYPE_ENUM: 99,  # a value of the future
    FieldDescriptor.CPPTYPE_INT32: -3,
    FieldDescriptor.CPPTYPE_INT64: -(2**60),
    FieldDescriptor.CPPTYPE_UINT32: 7,
    FieldDescriptor.CPPTYPE_UINT64: 2**63 + 1,
}


def sample(field: FieldDescriptor) -> Any:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return b"\x00\xff"
    return SAMPLES.get(field.cpp_type, "Gr\N{LATIN SMALL LETTER O WITH DIAERESIS}\N{ROCKET}")


def fill(message: Any, oneof_choice: int, depth: int = 4) -> Any:
    """Sets every field, the `oneof_choice`-th (cyclic) of every oneof, down to `depth` levels."""
    for field in chosen(message.DESCRIPTOR, oneof_choice):
        is_message = field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
        many = isinstance(field.default_value, list)
        if is_message and depth:
            target = getattr(message, field.name)
            for part in (target.add(), target.add()) if many else (target,):
                part.SetInParent()
                fill(part, oneof_choice, depth - 1)
        elif not is_message:
            setattr_or_extend(message, field.name, [sample(field)] * 2 if many else sample(field))
    for name, _, _, value in NEW_FIELDS:
        setattr_or_extend(message, name, value)
    return message


def chosen(descriptor: Descriptor, oneof_choice: int) -> Iterator[FieldDescriptor]:
    for field in descriptor.fields:
        siblings = field.containing_oneof.fields if field.containing_oneof else [field]
        if field.number <= NEW_NUMBER and siblings[oneof_choice % len(siblings)] is field:
            yield field


def setattr_or_extend(message: Any, name: str, value: Any) -> None:
    if isinstance(value, list):
        del getattr(message, name)[:]
        getattr(message, name).extend(value)
    else:
        setattr(message, name, value)


def newest(name: str) -> Any:
    """An empty message of the future schema."""
    descriptor = FUTURE.FindMessageTypeByName(f"trainstate.v1.{name}")
    return message_factory.GetMessageClass(descriptor)()


def rewritten(name: str, data: bytes) -> bytes:
    """Parsed and serialised by the schema of today."""
    return message_factory.GetMessageClass(MESSAGES[name]).FromString(data).SerializeToString()


@pytest.mark.parametrize("name", MESSAGES)
def test_new_fields_survive_old_hands(name):
    """A message with unknown fields at every level is rewritten byte for byte."""
    for oneof_choice in range(len(MESSAGES["Value"].fields)):
        data = fill(newest(name), oneof_choice).SerializeToString()
        assert b"of the future" in data
        assert data == rewritten(name, data)


@pytest.mark.parametrize("payload", [f.name for f in PAYLOADS] + ["new_payload"])
def test_every_payload_survives_old_hands(payload):
    """A batch with an event of each payload, known and unknown, is rewritten byte for byte."""
    batch = newest("Batch")
    event = batch.events.add(run_id="r", run_seq=2**64 - 1, reason="because", incarnation=1)
    fill(getattr(event, payload), oneof_choice=0)
    setattr_or_extend(event, "new_text", "of the future")
    data = batch.SerializeToString()
    assert data == rewritten("Batch", data)


# --- the gates ----------------------------------------------------------------------------------


def test_schema_lints():
    """`buf lint` STANDARD finds nothing."""
    assert buf("lint").stdout == ""


def test_schema_breaks_no_release():
    """Nothing that the baseline (the schema of the last release) wrote is read differently."""
    assert buf("breaking", "--against", "proto/baseline.binpb").stdout == ""


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("uint64 run_seq = 2;", "string run_seq = 2;"),
        ("string reason = 6;", ""),
        ("RunWaiting run_waiting = 21;", "RunRunning run_waiting = 21;"),
    ],
)
def test_the_breaking_gate_closes(line, instead, tmp_path):
    """A changed type, a lost field and a reused payload number are each refused."""
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    shutil.copytree(ROOT / "proto", tmp_path / "proto")
    event = tmp_path / "proto/trainstate/v1/event.proto"
    text = event.read_text()
    assert line in text
    event.write_text(text.replace(line, instead, 1))
    result = buf("breaking", "--against", "proto/baseline.binpb", cwd=tmp_path)
    assert result.returncode == 100
    assert "event.proto" in result.stdout
