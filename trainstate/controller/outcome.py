"""How a run ended, as `fit()` hears it from the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainstate.core import Cause, RunStatus


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a run. Exceptions and values of the user's are pickled: only `fit()` opens them.

    `text` is why, for a person. `worker_failures` maps a world rank to its exception;
    `controller_failure` is the controller's own. `metrics` are those of the last report of rank 0.
    `signal` is the signal the driver got that made it abort the run, 0 if it was not one.
    """

    status: RunStatus
    cause: Cause
    text: str = ""
    worker_failures: Mapping[int, bytes] = field(default_factory=dict)
    controller_failure: bytes | None = None
    return_value: bytes | None = None
    metrics: Mapping[str, Any] | None = None
    signal: int = 0
