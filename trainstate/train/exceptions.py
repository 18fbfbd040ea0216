"""What `fit()` raises when training failed: Ray Train's names, in our error tree.

    TrainstateError
    └── TrainingFailedError       the run did not finish
        ├── WorkerGroupError      workers failed, and no retry is left: `worker_failures` by world rank
        └── ControllerError       the controller failed: `controller_failure`

Each says `run_id` and `hint`. They can be pickled if the exceptions in them can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainstate.errors import TrainstateError


class TrainingFailedError(TrainstateError):
    """Training did not finish."""


class WorkerGroupError(TrainingFailedError):
    """Workers failed, and no retry is left."""

    def __init__(
        self,
        error_message: str,
        worker_failures: Mapping[int, BaseException],
        *,
        run_id: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(f"training failed in workers: {error_message}", run_id=run_id, hint=hint)
        self.error_message = error_message
        self.worker_failures = dict(worker_failures)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.error_message, self.worker_failures), self.__dict__


class ControllerError(TrainingFailedError):
    """The controller failed, or could not start the workers."""

    def __init__(
        self,
        controller_failure: BaseException,
        *,
        run_id: str | None = None,
        hint: str | None = None,
    ) -> None:
        message = f"training failed in the controller: {controller_failure}"
        super().__init__(message, run_id=run_id, hint=hint)
        self.controller_failure = controller_failure

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.controller_failure,), self.__dict__
