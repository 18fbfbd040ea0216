"""The part of RFC 6902 (JSON Patch) that `LineImported.residue` needs: add, remove, replace of members.

Objects are compared member by member; anything else that differs, a list too, is replaced whole. 1, 1.0
and true are three different values here, as they are in JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def diff(ours: Any, theirs: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """The operations that turn `ours` into `theirs`."""
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        if not _equal(ours, theirs):
            yield {"op": "replace", "path": path, "value": theirs}
        return
    for key in ours:
        if key not in theirs:
            yield {"op": "remove", "path": f"{path}/{_escape(key)}"}
    for key, value in theirs.items():
        where = f"{path}/{_escape(key)}"
        if key in ours:
            yield from diff(ours[key], value, where)
        else:
            yield {"op": "add", "path": where, "value": value}


def apply(document: Any, patch: Sequence[dict[str, Any]]) -> Any:
    """`document` after the operations of `diff`; it is changed in place where it can be."""
    for operation in patch:
        *parents, last = [_unescape(part) for part in operation["path"].split("/")]
        if not parents:
            document = operation["value"]
            continue
        target = document
        for key in parents[1:]:
            target = target[key]
        if operation["op"] == "remove":
            del target[last]
        else:
            target[last] = operation["value"]
    return document


def _equal(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unescape(key: str) -> str:
    return key.replace("~1", "/").replace("~0", "~")
