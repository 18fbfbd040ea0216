"""Values from users as exact values: total, bounded, and never printed."""

from __future__ import annotations

import enum
import math
import pathlib
from collections import OrderedDict, UserDict

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainstate.core.redact import NESTING_MAX, SIZE_MAX, plain, sanitised, sanitised_map
from trainstate.core.values import from_map, from_value


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 3


class Odd:
    """An object that fails at everything."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __repr__(self):
        raise RuntimeError("repr")

    __str__ = __hash__ = __len__ = __iter__ = __eq__ = __repr__


class Broken(dict):
    def items(self):
        raise RuntimeError("no items today")


exact = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(exact)
def test_plain_values_stay_as_they_are(value):
    """Ints of any size, floats with nan and infinities, text, bytes: through the journal and back."""
    assert repr(value) == repr(from_value(sanitised(value)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (numpy.int64(3), 3),
        (numpy.float32(0.5), 0.5),
        (numpy.bool_(True), True),
        (numpy.str_("x"), "x"),
        (numpy.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (numpy.array(7), 7),
        ((1, "a"), [1, "a"]),
        (frozenset({5}), [5]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (UserDict(a=1), {"a": 1}),
        (Colour.RED, "Colour.RED"),
        (Level.LOW, 3),
        (pathlib.PurePosixPath("/x/y"), "/x/y"),
        (bytearray(b"\x00"), b"\x00"),
        (Odd(), "Odd"),
        (Odd, "Odd"),
        (plain, "plain"),
        (Broken(a=1), "Broken"),
        ("\ud800!", "\\ud800!"),
        ({1: "int", "1": "str", None: 0}, {"1": "int", "1 (str)": "str", "None": 0}),
        ({Odd: 1, "Odd": 2, "Odd (str)": 3}, {"Odd": 1, "Odd (str)": 2, "Odd (str) (str)": 3}),
    ],
    ids=lambda value: type(value).__name__,  # pytest would ask an Odd for more
)
def test_what_is_no_plain_value(value, expected):
    """Numpy's become Python's, containers lists and dicts, objects the names of their classes."""
    made = plain(value)
    assert (expected, type(expected)) == (made, type(made))
    sanitised(value)


def test_a_float32_metric_is_a_float():
    """Exactly the double that it is."""
    assert math.isclose(0.1, plain({"loss": numpy.float32(0.1)})["loss"], rel_tol=1e-7)
    assert type(plain(numpy.float64(1.0))) is float


def test_what_holds_itself_ends():
    """Row 3-12: a cyclic list made Ray fail the job."""
    loop: list = []
    loop += [loop] * 1000
    sanitised(loop)
    deep: list = []
    for _ in range(1000):
        deep = [deep]
    assert repr(plain(deep)).count("[") == NESTING_MAX


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**7,
        b"x" * 10**7,
        10**100_000,
        ["ab"] * 10**6,
        {str(number): number for number in range(10**5)},
        numpy.zeros(10**6),
        {"x" * 10**6: 1},
        ["é" * 10**6, "more"],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_too_much_is_cut_and_says_so(value):
    """Row 3-14: the size of what is recorded has a bound."""
    made = sanitised(value)
    assert made.ByteSize() <= 3 * SIZE_MAX
    assert "..." in repr(plain(value))


def test_the_rest_of_a_cut_value_is_kept():
    """A huge entry does not take the small ones before it along."""
    made = from_map(sanitised_map({"lr": 0.1, "table": "x" * 10**6, "after": 1}))
    assert 0.1 == made["lr"]
    assert made["table"].endswith("... (1000000 characters)")
    assert 1 == made["after"]
    crowd = from_map(sanitised_map({str(number): "x" * 10**6 for number in range(10)}))
    assert "(6 more)" == crowd["..."]


def test_a_mapping_that_cannot_be_read_is_still_a_map():
    """The settings of a run have a place for it."""
    assert {"": "Broken"} == from_map(sanitised_map(Broken(a=1)))


@given(st.recursive(st.builds(object) | st.builds(Odd), lambda inner: st.lists(inner)))
def test_nothing_fails(value):
    """Whatever it is made of."""
    sanitised(value)
