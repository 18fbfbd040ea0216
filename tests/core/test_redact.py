"""Values from users as exact values: total, bounded, and never printed."""

from __future__ import annotations

import enum
import math
import pathlib
import re
from collections import OrderedDict, UserDict

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.train.v2._internal.state.schema import _to_json_serializable_value as rays_own

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
    assert made.ByteSize() <= SIZE_MAX * 1.1
    assert "..." in repr(plain(value))


def test_the_rest_of_a_cut_value_is_kept():
    """A huge entry does not take the small ones before it along."""
    made = from_map(sanitised_map({"lr": 0.1, "table": "x" * 10**6, "after": 1}))
    assert 0.1 == made["lr"]
    assert made["table"].endswith("... (1000000 characters)")
    assert 1 == made["after"]
    crowd = from_map(sanitised_map({str(number): "x" * 10**6 for number in range(10)}))
    assert "(7 more)" == crowd["..."]


def test_a_mapping_that_cannot_be_read_is_still_a_map():
    """The settings of a run have a place for it."""
    assert {"": "Broken"} == from_map(sanitised_map(Broken(a=1)))


@given(st.recursive(st.builds(object) | st.builds(Odd), lambda inner: st.lists(inner)))
def test_nothing_fails(value):
    """Whatever it is made of."""
    sanitised(value)


# --- A3.1, row by row, beside Ray's own sanitiser where it is right -------------------------------


class Silent:
    """An object that has no text of its own."""


class Mute:
    """An object that has one, and cannot say it."""

    def __str__(self):
        raise RuntimeError("no")


def as_ray(value, max_depth=3):
    return rays_own(value, max_depth=max_depth)


def shown_by_ray(value):
    """What `plain` made, as Ray shows it: a cut has no number, what is not finite is a text."""
    if isinstance(value, dict):
        return {key: shown_by_ray(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shown_by_ray(one) for one in value]
    if isinstance(value, str):
        return re.sub(r"^\.\.\. \(\d+ keys\)$", "...", value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def both(value, max_depth=3):
    """Ray's and ours, which are to be equal: their text says 1, 1.0 and True apart."""
    return repr(as_ray(value, max_depth)), repr(shown_by_ray(plain(value, max_depth=max_depth)))


@given(st.none() | st.booleans() | st.integers() | st.floats() | st.text())
def test_3_05_primitives_pass(value):
    """As they are; Ray's log has texts for what is not finite, our events the number."""
    rays, ours = both(value)
    assert rays == ours
    assert repr(value) == repr(plain(value))


def test_3_06_sequences_and_sets_are_lists_and_keys_are_texts():
    """In the order they have; of a set, in one that does not change."""
    for value in ((1, "a"), [1, "a"], {5}, frozenset({5}), ((), [()]), {1: 2, None: 3, 2.5: 4}):
        rays, ours = both(value)
        assert rays == ours
    names = [f"name {number}" for number in range(50)]
    assert sorted(names) == plain(set(names)) == plain(frozenset(names))


def test_3_06_keys_that_are_one_text_stay_two():
    """1 and "1": Ray keeps the last of them and says nothing."""
    assert {"1": "str"} == as_ray({1: "int", "1": "str"})
    assert {"1": "int", "1 (str)": "str"} == plain({1: "int", "1": "str"})


nested = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(nested, st.integers(1, 4))
def test_3_07_only_dicts_count_for_the_depth(value, max_depth):
    """Whatever is nested in whatever, the cuts are where Ray's are."""
    rays, ours = both(value, max_depth)
    assert rays == ours


def test_3_07_the_example():
    """Depth 2, as the pull request has it; a cut of ours says how much there was."""
    value = {
        "native": 42,
        "nested": {"inner": {"deep": 1, "er": 2}},
        "obj": Silent(),
        "sequence": [1, Silent()],
    }
    shown = {
        "native": 42,
        "nested": {"inner": "..."},
        "obj": "Silent",
        "sequence": [1, "Silent"],
    }
    assert shown == as_ray(value, 2) == shown_by_ray(plain(value, max_depth=2))
    assert "... (2 keys)" == plain(value, max_depth=2)["nested"]["inner"]
    assert [[[{"a": "... (0 keys)"}]]] == plain([[[{"a": {}}]]], max_depth=1)


@pytest.mark.parametrize("max_depth", [0, -1])
def test_3_08_a_depth_below_one_is_refused(max_depth):
    """By every function that takes one."""
    for function in (as_ray, lambda one, depth: plain(one, max_depth=depth)):
        with pytest.raises(ValueError, match="max_depth"):
            function({}, max_depth)
    for sanitiser in (sanitised, sanitised_map):
        with pytest.raises(ValueError, match=f"max_depth={max_depth}"):
            sanitiser({}, max_depth=max_depth)


@pytest.mark.parametrize(
    "value", [1, "x", [("a", 1)], None, Odd()], ids=["1", "x", "[]", "-", "odd"]
)
def test_3_08_a_map_is_made_of_a_mapping_only(value):
    """Of nothing else, as Ray's Struct."""
    with pytest.raises(TypeError, match="is no mapping"):
        sanitised_map(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Silent(), "Silent"),
        (Mute(), "Mute"),
        (Odd(), "Odd"),
        (Broken(a=1), "Broken"),
        ([Silent(), {"a": Mute()}], ["Silent", {"a": "Mute"}]),
        ({Silent(): 1}, {"Silent": 1}),
        (pathlib.PurePosixPath("/x"), "/x"),
        (ValueError("boom"), "boom"),
    ],
    ids=["silent", "mute", "odd", "broken", "inside", "key", "path", "error"],
)
def test_3_09_an_object_is_its_text_or_its_class(value, expected):
    """The class where it has no text of its own, or cannot say it."""
    assert expected == plain(value)
    if not isinstance(value, dict) or "Silent" not in expected:
        assert expected == as_ray(value)


def test_3_09_no_address_is_in_a_text():
    """Neither of an object, nor in the text of one that holds another; Ray's key has one."""
    holder = UserDict(a=[Silent()])
    for value in (Silent(), {Silent(): holder}, ValueError(Silent()), test_what_holds_itself_ends):
        assert "0x" not in repr(plain(value))
    assert "0x" in repr(as_ray({Silent(): 1}))


def test_3_10_the_key_inf_is_there():
    """With the number itself in our events, its text in Ray's."""
    assert {"inf": math.inf, "-inf": -math.inf} == plain({"inf": math.inf, "-inf": -math.inf})
    assert {"inf": "inf"} == as_ray({"inf": math.inf}) == shown_by_ray(plain({"inf": math.inf}))


def test_3_12_sanitising_never_fails_the_job():
    """Where Ray's raises: what holds itself, what no double holds, what has no UTF-8."""
    loop: dict = {}
    loop["self"] = [loop]
    cyclic: list = []
    cyclic.append(cyclic)
    with pytest.raises(RecursionError):
        as_ray(cyclic)
    made = from_map(sanitised_map({"loop": loop, "cyclic": cyclic, "n": 10**400, "text": "\ud800"}))
    assert {
        "loop": {"self": ["... (itself)"]},
        "cyclic": ["... (itself)"],
        "n": 10**400,
        "text": "\\ud800",
    } == made


def test_3_12_what_is_held_twice_is_no_loop():
    """One list under two names is there two times."""
    shared = [1]
    assert {"a": [1], "b": [[1], [1]]} == plain({"a": shared, "b": [shared, shared]})


@given(st.integers() | st.integers(2**53, 2**63) | st.integers(2**63, 2**200))
def test_3_13_ints_survive(number):
    """2**53 + 1 and beyond 64 bits, through the message and its bytes."""
    values = sanitised_map({"n": number, "many": [number, -number]})
    kept = from_map(type(values).FromString(values.SerializeToString()))
    assert repr({"n": number, "many": [number, -number]}) == repr(kept)


@pytest.mark.parametrize("size", [10**5, 10**7])
def test_3_14_a_text_has_a_bound_and_says_its_size(size):
    """Ray writes 10 MB six times per run."""
    assert size == len(as_ray("x" * size))
    made = plain({"text": "x" * size})["text"]
    assert made.endswith(f"... ({size} characters)")
    assert len(made) <= SIZE_MAX


@given(nested, st.integers(0, 2000))
def test_3_14_the_bound_is_the_callers(value, size_max):
    """Whatever it is, what is recorded is about as large as asked for."""
    assert sanitised([value, "x" * 5000], size_max).ByteSize() <= 3 * size_max + 500


class Hostile:
    """Lies about its class, and ends the process when it is asked for its text."""

    __class__ = property(lambda self: int)  # type: ignore[assignment]

    def __repr__(self):
        raise SystemExit(3)


def test_an_object_that_ends_the_process_does_not():
    """Nor does one that lies."""
    assert {"a": "Hostile", "b": 1} == plain({"a": Hostile(), "b": 1})


def test_keys_that_are_one_text_are_bounded():
    """A thousand objects as keys, or NaNs: each is told apart, none costs more than the last."""
    for keys in ([object() for _ in range(5000)], [float("nan") for _ in range(5000)]):
        made = sanitised(dict.fromkeys(keys, 1))
        assert made.ByteSize() <= SIZE_MAX * 1.1
        assert len(set(plain(dict.fromkeys(keys, 1)))) > 500
