"""Callbacks that the environment names, so that a script need not be changed to have them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from trainstate.controller.hooks import Callback
from trainstate.errors import UsageError

VARIABLE = "TRAINSTATE_CALLBACKS"


def callbacks_of(environ: Mapping[str, str]) -> tuple[Callback, ...]:
    """One callback of each class in `TRAINSTATE_CALLBACKS="mod.Class,mod2.Class2"`, in that order.

    Raises UsageError for what is no class of a callback that can be made without arguments.
    """
    names = (one.strip() for one in environ.get(VARIABLE, "").split(","))
    return tuple(_made(name) for name in names if name)


def _made(name: str) -> Callback:
    module, _, kind = name.rpartition(".")
    try:
        made = getattr(importlib.import_module(module), kind)()
    except Exception as error:  # the boundary: importing and making runs code of the user's
        raise _wrong(name, f"{type(error).__name__}: {error}") from error
    if not isinstance(made, Callback):
        raise _wrong(name, f"a {type(made).__qualname__} is no callback")
    return made


def _wrong(name: str, why: str) -> UsageError:
    return UsageError(
        f"{VARIABLE} names {name!r}, of which no callback can be made: {why}",
        hint="name classes of trainstate.train.callbacks that take no arguments, as module.Class",
    )
