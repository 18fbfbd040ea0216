"""The user's training function, checked and made callable without arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class TrainFunction:
    """Calls `function`, with the config if it takes one, inside `context()`."""

    function: Callable[..., Any]
    config: Mapping[str, Any] | None
    takes_config: bool
    context: Callable[[], AbstractContextManager[Any]]

    def __call__(self) -> Any:
        with self.context():
            if self.takes_config:
                return self.function({} if self.config is None else self.config)
            return self.function()


def checked(
    function: Any,
    config: Mapping[str, Any] | None,
    context: Callable[[], AbstractContextManager[Any]],
) -> TrainFunction:
    """A training function that takes nothing, or one argument, the config.

    An argument with a default is given the config if there is one. Raises ValueError for anything else.
    """
    if not callable(function):
        raise ValueError(f"train_loop_per_worker is a {type(function).__name__}, not a function")
    parameters = inspect.signature(function).parameters.values()
    required = [one for one in parameters if _is_required(one)]
    if len(required) > 1 or any(one.kind not in _POSITIONAL for one in required):
        names = ", ".join(one.name for one in required)
        raise ValueError(
            f"train_loop_per_worker takes no argument, or one, the config; "
            f"{_name(function)} requires {len(required)}: {names}"
        )
    takes_one = any(one.kind in _POSITIONAL for one in parameters)
    takes_config = bool(required) or (takes_one and config is not None)
    return TrainFunction(function, config, takes_config, context)


def _is_required(parameter: inspect.Parameter) -> bool:
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and parameter.kind not in variable


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))
