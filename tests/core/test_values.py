"""Python values survive as exact messages: what Ray's Struct loses (3-13), ours keeps."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainstate.core.values import from_map, from_value, to_map, to_value
from trainstate.v1 import state_pb2 as s

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | text
    | st.binary(max_size=8)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4)
)


def exactly(value):
    """A value with its types, as something that == tells apart: 1, 1.0, True, -0.0, nan."""
    if isinstance(value, dict):
        return [(key, exactly(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [exactly(item) for item in value]
    return type(value), struct.pack("d", value) if isinstance(value, float) else value


@given(values)
def test_round_trip(value):
    """Every value comes back with its type, its bits and its order, through bytes as well."""
    stored = s.Value.FromString(to_value(value).SerializeToString())
    assert exactly(value) == exactly(from_value(stored))


@given(st.dictionaries(text, values, max_size=5))
def test_maps_round_trip(value):
    """The same of a map, which settings and metrics are."""
    assert exactly(value) == exactly(from_map(to_map(value)))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "bool"),
        (42, "int"),
        (2**53 + 1, "int"),
        (2**63 - 1, "int"),
        (-(2**63), "int"),
        (2**63, "big_int"),
        (-(2**63) - 1, "big_int"),
        (10**400, "big_int"),
        (42.0, "double"),
        (-0.0, "double"),
        (math.inf, "double"),
        (math.nan, "double"),
        ("42", "string"),
        ("", "string"),
        (b"42", "bytes"),
        ([], "list"),
        ({}, "map"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_every_kind_has_its_own_place(value, kind):
    """3-13: an int is an int however large, and empty is not absent."""
    assert kind == to_value(value).WhichOneof("kind")
    assert exactly(value) == exactly(from_value(to_value(value)))


def test_a_tuple_is_a_list():
    """3-06: sequences are lists when they come back."""
    assert [1, [2, 3]] == from_value(to_value((1, (2, 3))))


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, 1j, {"a": object()}, [len]],
    ids=["object", "set", "complex", "in-a-map", "in-a-list"],
)
def test_what_has_no_exact_value_is_refused(value):
    """Sanitising is not guessed at here: an object is an error, at any depth."""
    with pytest.raises(TypeError, match="has no exact value"):
        to_value(value)


def test_a_kind_of_the_future_reads_as_none():
    """An unknown kind of value is not an error."""
    assert None is from_value(s.Value.FromString(b"\xa2\x1f\x00"))


@pytest.mark.parametrize("digits", ["", "twelve", "1" * 5000])
def test_digits_python_does_not_read_come_back_as_they_are(digits):
    """A view never fails on what is recorded."""
    assert digits == from_value(s.Value(big_int=digits))
