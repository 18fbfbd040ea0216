"""What goes to the cluster as bytes, and what to say about what cannot go."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from trainstate.errors import UsageError

# How far down is searched for what cannot be pickled.
_DEPTH_MAX = 8


def pickled(value: Any, what: str) -> bytes:
    """`value` as cloudpickle has it. Raises UsageError that names what in it cannot be pickled."""
    from ray import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception as error:  # the one boundary: pickling runs code of the user's objects
        raise UsageError(
            f"{what} cannot be sent to the cluster: {', '.join(_culprits(value, ''))}: {error}",
            hint="make such objects (connections, locks, open files, loggers) inside the training "
            "function, or pass what they are made from in train_loop_config",
        ) from error
    return data


def _culprits(value: Any, path: str, depth: int = _DEPTH_MAX) -> list[str]:
    """What in `value` cannot be pickled, as deep down as it can be told."""
    if depth == 0 or _can_be_pickled(value):
        return []
    inner = [
        culprit
        for name, part in _parts(value)
        for culprit in _culprits(part, f"{path}{name}", depth - 1)
    ]
    return inner or [f"{path.strip('. ') or 'it'} is a {type(value).__qualname__}"]


def _can_be_pickled(value: Any) -> bool:
    from ray import cloudpickle

    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception:  # the one boundary: as above
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What is pickled with `value`, and how it is reached from there."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif inspect.isfunction(value):
        used = inspect.getclosurevars(value)
        yield from ((f" uses {name}", part) for name, part in used.nonlocals.items())
        yield from ((f" uses {name}", part) for name, part in used.globals.items())
    elif inspect.ismethod(value):
        yield ".__self__", value.__self__
    elif not isinstance(value, type):
        yield from ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())
