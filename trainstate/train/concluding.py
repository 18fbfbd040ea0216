"""From the end of a run to what `fit()` does: return a Result, or raise what the end was."""

from __future__ import annotations

import pickle
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from trainstate.controller.outcome import Outcome
from trainstate.controller.storage import Storage
from trainstate.core import Cause, RunStatus
from trainstate.errors import StateUnavailable
from trainstate.train.exceptions import ControllerError, TrainingFailedError, WorkerGroupError
from trainstate.train.result import Result, result_of

# What ended the run was in its workers, not in the controller.
_OF_WORKERS = frozenset(
    {
        Cause.WORKER_ERROR,
        Cause.WORKER_LOST,
        Cause.WORKER_HUNG,
        Cause.NODE_PREEMPTED,
        Cause.REPLACEMENT_FAILED,
        Cause.UPLOAD_FAILED,
    }
)


@dataclass(frozen=True)
class Ended:
    """An Outcome with its exceptions and values as objects."""

    status: RunStatus
    cause: Cause
    text: str = ""
    worker_failures: Mapping[int, BaseException] = field(default_factory=dict)
    controller_failure: BaseException | None = None
    return_value: Any = None
    metrics: Mapping[str, Any] | None = None
    signal: int = 0


def opened(outcome: Outcome) -> Ended:
    """An outcome unpickled; an exception that cannot be had again is replaced by its text."""
    failure, value = outcome.controller_failure, outcome.return_value
    return Ended(
        outcome.status,
        outcome.cause,
        outcome.text,
        {rank: _failure(data, outcome.text) for rank, data in outcome.worker_failures.items()},
        None if failure is None else _failure(failure, outcome.text),
        None if value is None else pickle.loads(value),
        outcome.metrics,
        outcome.signal,
    )


def _failure(data: bytes, text: str) -> BaseException:
    try:
        failure = pickle.loads(data)
    except Exception as error:  # the one boundary: unpickling runs code of the user's classes
        return RuntimeError(f"{text} (the exception itself cannot be unpickled: {error})")
    return failure if isinstance(failure, BaseException) else RuntimeError(text)


def concluded(ended: Ended, storage: Storage, run_id: str) -> Result:
    """The Result of a run that finished.

    Raises WorkerGroupError, ControllerError, StateUnavailable for one that failed; KeyboardInterrupt or
    SystemExit(143) for one that a signal to this process aborted, TrainingFailedError for any other
    abort.
    """
    if ended.status is RunStatus.ABORTED:
        _raise_aborted(ended, run_id)
    if ended.status is not RunStatus.FINISHED:
        _raise_failed(ended, run_id)
    result = result_of(
        storage, metrics=ended.metrics, return_value=ended.return_value, run_id=run_id
    )
    if result is not None:
        return result
    return Result(
        metrics=None if ended.metrics is None else dict(ended.metrics),
        checkpoint=None,
        error=None,
        path=storage.experiment_fs_path,
        return_value=ended.return_value,
        run_id=run_id,
        _storage_filesystem=storage.storage_filesystem,
    )


def _raise_aborted(ended: Ended, run_id: str) -> NoReturn:
    if ended.signal == signal.SIGINT:
        raise KeyboardInterrupt
    if ended.signal:
        raise SystemExit(128 + ended.signal)
    raise TrainingFailedError(f"aborted: {ended.text}", run_id=run_id, hint=_show(run_id))


def _raise_failed(ended: Ended, run_id: str) -> NoReturn:
    hint = _show(run_id)
    if ended.cause is Cause.STATE_LOST:
        hint = "see why the state actor `trainstate.v1` is gone: `ray list actors`, its log"
        raise StateUnavailable(ended.text, run_id=run_id, hint=hint)
    if ended.worker_failures or ended.cause in _OF_WORKERS:
        first = next(iter(sorted(ended.worker_failures.items())), (0, None))[1]
        failures = ended.worker_failures
        raise WorkerGroupError(ended.text, failures, run_id=run_id, hint=hint) from first
    failure = ended.controller_failure or RuntimeError(ended.text)
    raise ControllerError(failure, run_id=run_id, hint=hint) from failure


def _show(run_id: str) -> str:
    return f"trainstate show {run_id}"
