"""Settings made by hypothesis: every field, in its range; names in maps and sets once."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from trainstate.core.values import to_map
from trainstate.v1 import state_pb2 as s

names = st.text(max_size=3)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | names | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
_SCALARS = {
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_DOUBLE: st.floats(),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_STRING: names,
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
}
# Repeated entries with a name, and the field that has it; all else of them is there.
_ENTRIES = {"Resource": "name", "Label": "key", "DatasetExecutionOptions": "dataset"}


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor, maps: Any = values) -> Any:
    """A message of the settings, whose run-time typed values are of `maps`."""
    if descriptor.name == "ValueMap":
        return to_map(draw(st.dictionaries(names, maps, max_size=3)))
    made = GetMessageClass(descriptor)()
    for field in descriptor.fields:
        if descriptor.name in _ENTRIES or draw(st.booleans()):
            _set(draw, made, field, maps)
    return made


def _set(draw: st.DrawFn, made: Message, field: FieldDescriptor, maps: Any) -> None:
    inner = field.message_type
    if inner is not None:
        value = messages(inner, maps)
    elif field.enum_type is not None:
        value = st.sampled_from([one.number for one in field.enum_type.values])
    else:
        value = _SCALARS[field.type]
    if isinstance(field.default_value, list):
        name = _ENTRIES.get(inner.name) if inner is not None else None
        key = (lambda one: getattr(one, name)) if name else None
        getattr(made, field.name).extend(draw(st.lists(value, max_size=2, unique_by=key)))
    elif inner is not None:
        getattr(made, field.name).CopyFrom(draw(value))
        getattr(made, field.name).SetInParent()
    else:
        setattr(made, field.name, draw(value))


run_settings = messages(s.RunSettings.DESCRIPTOR)
