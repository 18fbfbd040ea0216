"""The residue of an imported line: the difference between two documents, and back."""

from __future__ import annotations

from copy import deepcopy

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainstate.core.json_patch import apply, diff

keys = st.sampled_from(["", "a", "b", "~", "/", "~1", "a/b", "~01", "é"])
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 0.5]) | keys
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


def exactly(document):
    """A document as JSON text, members in one order: 1, 1.0 and true are told apart."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


@given(documents, documents)
def test_apply_undoes_diff(ours, theirs):
    """The operations turn the one into the other, exactly, after a trip through JSON text."""
    patch = orjson.loads(orjson.dumps(list(diff(ours, theirs))))
    assert exactly(theirs) == exactly(apply(deepcopy(ours), patch))


@given(documents)
def test_equal_documents_differ_in_nothing(document):
    """No operation between a document and itself."""
    assert [] == list(diff(document, deepcopy(document)))


@given(documents, documents)
def test_no_operation_is_only_for_equal_documents(ours, theirs):
    """An empty residue says: equal, in types too."""
    assert (exactly(ours) == exactly(theirs)) == (not list(diff(ours, theirs)))


@given(documents, documents)
def test_diff_leaves_its_arguments_alone(ours, theirs):
    """Neither document is changed."""
    before = exactly(ours), exactly(theirs)
    list(diff(ours, theirs))
    assert before == (exactly(ours), exactly(theirs))


def rfc_6902(document, patch):
    """A second reader of patches, from the RFC: add, remove, replace of members, whole document."""
    for operation in patch:
        assert operation.keys() <= {"op", "path", "value"}
        pointer = operation["path"]
        if pointer == "":
            assert "replace" == operation["op"]
            document = operation["value"]
            continue
        assert pointer.startswith("/")
        tokens = [t.replace("~1", "/").replace("~0", "~") for t in pointer[1:].split("/")]
        target = document
        for token in tokens[:-1]:
            target = target[token]
        assert isinstance(target, dict)
        # Removing or replacing what is not there is an error (4.2, 4.3).
        assert operation["op"] == "add" or tokens[-1] in target
        if operation["op"] == "remove":
            del target[tokens[-1]]
        else:
            target[tokens[-1]] = operation["value"]
    return document


@given(documents, documents)
def test_patches_are_rfc_6902(ours, theirs):
    """Any JSON Patch reader can apply them."""
    assert exactly(theirs) == exactly(rfc_6902(deepcopy(ours), list(diff(ours, theirs))))


@pytest.mark.parametrize(
    ("ours", "theirs", "patch"),
    [
        ({}, {"a/b": 1}, [{"op": "add", "path": "/a~1b", "value": 1}]),
        ({"m~n": 1}, {}, [{"op": "remove", "path": "/m~0n"}]),
        ({"~1": 1}, {"~1": 2}, [{"op": "replace", "path": "/~01", "value": 2}]),
        ({"": {"": 1}}, {"": {"": 2}}, [{"op": "replace", "path": "//", "value": 2}]),
        ({"a": [1, 2]}, {"a": [1]}, [{"op": "replace", "path": "/a", "value": [1]}]),
        ({"a": {"b": 1}}, {"a": 1}, [{"op": "replace", "path": "/a", "value": 1}]),
        ({"a": 1}, {"a": 1.0}, [{"op": "replace", "path": "/a", "value": 1.0}]),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": 1}, [], [{"op": "replace", "path": "", "value": []}]),
        ({"a": None}, {}, [{"op": "remove", "path": "/a"}]),
    ],
    ids=str,
)
def test_examples(ours, theirs, patch):
    """Escapes (RFC 6901: ~0 is ~, ~1 is /), lists replaced whole, types told apart."""
    assert patch == list(diff(ours, theirs))
    assert exactly(theirs) == exactly(apply(ours, patch))


def test_operations_come_in_the_order_of_the_documents():
    """The same two documents give the same patch in every process: removed first, as they stood."""
    ours = dict.fromkeys("qwertyuiop")
    assert ["/" + key for key in ours] == [one["path"] for one in diff(ours, {})]
    assert ["/" + key for key in ours] == [one["path"] for one in diff({}, ours)]
