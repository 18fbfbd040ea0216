"""Exporters by name: whoever installs a package with an entry point `trainstate.exporters` adds one."""

from __future__ import annotations

import inspect
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from trainstate.errors import UsageError
from trainstate.export.exporter import Exporter

GROUP = "trainstate.exporters"


def exporter_names() -> list[str]:
    """The names of the exporters that are installed."""
    return sorted(_entry_points())


def open_exporter(name: str, target: str, **options: str | int) -> Exporter[Any]:
    """Opens the exporter of that name on a target.

    Raises UsageError for an unknown name, for an option it does not take, and what its `open` raises.
    """
    found = _entry_points().get(name)
    if found is None:
        raise UsageError(
            f"there is no exporter {name!r}; there are {', '.join(exporter_names()) or 'none'}",
            hint="install the package that has it",
        )
    opening = found.load().open
    parameters = inspect.signature(opening).parameters
    for option in options:
        if option not in parameters:
            known = ", ".join(list(parameters)[1:]) or "none"
            raise UsageError(f"exporter {name} has no option {option!r}; it has {known}")
    exporter: Exporter[Any] = opening(target, **options)
    return exporter


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def whole_number(option: str, value: str | int) -> int:
    """The value of an option that counts something, as given in code or on a command line.

    Raises UsageError unless it is a whole number, 0 or more.
    """
    text = str(value)
    if not text.isdecimal():
        raise UsageError(f"{option} is a whole number, 0 or more, not {text!r}")
    return int(text)
