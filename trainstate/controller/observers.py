"""The callbacks of a run, isolated from it (reference A7, F.2; design section 7).

Hooks are called from events that are recorded (controller/hook_table.py), one after the other, in a
thread of their own (controller/hook_thread.py): a slow one delays the next hook and nothing else. What a
hook raises is recorded, and changes a run only if it asks for that, by raising TrainingFailedError.

Waited for, within a time, is only what the run needs: values that hooks return, and at the end that all
have run. Who waits in vain says which hook keeps the thread, and nobody waits for that one again. After
a recovery hooks go on with the events after the new ControllerStarted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache, partial
from typing import Any

from trainstate.controller import hook_table as table
from trainstate.controller.failure import describe
from trainstate.controller.hook_story import Story
from trainstate.controller.hook_thread import HookThread, Running, Value
from trainstate.controller.hook_views import RunResult
from trainstate.controller.hooks import (
    Callback,
    ControllerCallback,
    ExecutionGroupCallback,
    ReportCallback,
    UserCallback,
)
from trainstate.controller.job import Job
from trainstate.controller.snapshot import published
from trainstate.core import Cause, Run, RunStatus
from trainstate.core import observations as o
from trainstate.core.deciding import said
from trainstate.core.values import from_map, from_value
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

_TIMEOUT_S = 30.0
_REPORTS = (table.USER_REPORT, table.REPORT, table.GROUP_POLL)
_FAREWELLS = (table.GROUP_SHUTDOWN_ENTER, table.GROUP_SHUTDOWN_BEFORE)
# The families that are called in the controller's process.
_HERE = (ControllerCallback, ExecutionGroupCallback, ReportCallback, UserCallback)
# By the class's name: our own and Ray's, neither of which this package imports.
_ASKS_TO_END = "TrainingFailedError"
_TOO_SLOW = "hooks only delay each other: do less in one, or start a thread of your own"

Tell = Callable[[o.Observation], None]


class Observers:
    """The callbacks of one controller. All methods are for the thread of its loop.

    `tell` takes observations: what failed. Without a job hooks are given no context.
    """

    def __init__(
        self,
        callbacks: Sequence[Callback],
        job: Job | None = None,
        tell: Tell = lambda _: None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._thread = HookThread(callbacks, self._failed)
        self._job = job
        self._tell = tell
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._any = any(isinstance(one, _HERE) for one in callbacks)
        self._story: Story | None = None
        self._world = _World(job)
        self._labels: Future[list[Value]] | None = None
        self._blamed: Running | None = None
        self._drops_said = 0

    def take_up(self, run: Run) -> None:
        """Begins with the events after those folded into `run`."""
        self._story = Story(run, with_reports=self._thread.overridden(*_REPORTS))

    def recorded(
        self,
        events: Sequence[e.Event],
        run: Run,
        exceptions: Mapping[int, bytes],
        return_value: bytes | None = None,
    ) -> None:
        """Has the hooks of these events called: they are durable, and folded into `run`.

        `exceptions` are the pickled ones of ranks that failed, as far as they are known.
        """
        if self._story is None or not self._any:
            return
        self._world.now(run, exceptions, return_value)
        for event in events:
            self._put(table.calls(self._story, event, self._world))
            for calls in table.told(self._story, self._world):
                self._thread.put(calls, of_reports=True)
        self._say_drops()

    def _put(self, calls: Sequence[table.Call]) -> None:
        for call in calls:
            done = self._thread.put([call])
            if call.hook is table.LABELS:
                self._labels = done

    # --- what is waited for -----------------------------------------------------------------------

    async def labels(self, num_workers: int) -> Mapping[str, str] | None:
        """Labels that a callback wants the workers' nodes to have."""
        if not self._thread.overridden(table.LABELS):
            return None
        asked, self._labels = self._labels, None
        if asked is None:  # by another controller, which is gone
            asked = self._thread.put([table.labels(self._world, num_workers)])
        wanted: dict[str, str] = {}
        for one in await self._answers(asked, self._timeout_s):
            self._checked(one, table.LABELS.name, wanted, _text)
        return wanted or None

    async def extra(
        self, workers: Sequence[Any], group: int | None = None
    ) -> Mapping[str, Sequence[Any]]:
        """What callbacks add to the context of these workers: a name, and a value for each.

        They are all workers of the attempt, or those of a replica group.
        """
        if not self._thread.overridden(table.EXTRA):
            return {}
        attempt = self._story.attempt if self._story is not None else None
        views = workers if attempt is None else attempt.group(0, group).workers
        asked = self._thread.put([table.Call(table.EXTRA, (list(views),))])
        added: dict[str, Sequence[Any]] = {}
        for one in await self._answers(asked, self._timeout_s):
            check = partial(_per_rank, len(workers))
            self._checked(one, table.EXTRA.name, added, check)
        return added

    def _checked(
        self, one: Value, hook: str, into: dict[str, Any], check: Callable[[str, Any], None]
    ) -> None:
        """Takes what a callback returned, if it is right; else that is the hook's failure."""
        try:
            made = dict(one.value or {})
            for name, value in made.items():
                check(name, value)
                if name in into:
                    raise ValueError(f"{name!r} was returned by another callback already")
        except (TypeError, ValueError) as error:
            self._failed(one.callback, hook, error)
        else:
            into.update(made)

    async def farewell(self) -> None:
        """Waits until the hooks have run that want the workers of a run that ends to be there."""
        if self._thread.overridden(*_FAREWELLS):
            await self._answers(self._thread.put([]), self._timeout_s)

    async def close(self, timeout_s: float) -> None:
        """Waits until the hooks of all recorded events have run, or the time is over."""
        if self._any:
            await self._answers(self._thread.put([]), timeout_s)

    async def _answers(self, asked: Future[list[Value]], timeout_s: float) -> list[Value]:
        """What was asked for; nothing if a hook before it, or it, takes too long."""
        if self._blamed is not None and self._thread.running is self._blamed:
            return []
        answered: asyncio.Future[list[Value]] = asyncio.wrap_future(asked)
        done, _ = await asyncio.wait({answered}, timeout=timeout_s)
        if done:
            return answered.result()
        running = self._thread.running
        if running is not None:
            self._blamed = running
            self._say_stuck(running, timeout_s)
        return []

    # --- what goes wrong --------------------------------------------------------------------------

    def _failed(self, callback: Callback, hook: str, error: BaseException) -> None:
        """From any thread."""
        described = describe(error)
        said: list[o.Observation] = [o.HookFailed(_name(callback), hook, described)]
        if any(kind.__name__ == _ASKS_TO_END for kind in type(error).__mro__):
            said.append(o.Broke(Cause.CALLBACK_ERROR, described))
        for one in said:
            self._loop.call_soon_threadsafe(self._tell, one)

    def _say_stuck(self, running: Running, timeout_s: float) -> None:
        waiting = self._thread.waiting
        text = f"still running after {timeout_s:g} s; {waiting} calls wait for it"
        error = s.Error(type="HookTimeout", message=text, hint=_TOO_SLOW)
        self._tell(o.HookFailed(_name(running.callback), running.hook, error))

    def _say_drops(self) -> None:
        """Says that sets of reports were dropped: the first, and then twice as many each time."""
        sets = self._story.attempt.sets if self._story and self._story.attempt else None
        dropped = self._thread.dropped + (sets.dropped if sets is not None else 0)
        if dropped > 2 * self._drops_said:
            self._drops_said = dropped
            text = f"too many reports wait: {dropped} sets of them were dropped, the oldest"
            hint = f"{_TOO_SLOW}; or ranks are far apart"
            error = s.Error(type="ReportsDropped", message=text, hint=hint)
            self._tell(o.HookFailed("callbacks", "after_report", error))


class _World:
    """What hooks are given that is not in events: from the job, and of a moment of the run."""

    def __init__(self, job: Job | None) -> None:
        self._job = job
        self._run: Run | None = None
        self._exceptions: Mapping[int, bytes] = {}
        self._return_value: bytes | None = None
        self.context = cache(self._context)

    def now(self, run: Run, exceptions: Mapping[int, bytes], return_value: bytes | None) -> None:
        self._run, self._exceptions, self._return_value = run, exceptions, return_value

    def _context(self) -> Any:
        return _opened(self._job.context) if self._job is not None and self._job.context else None

    def checkpoint(self, directory: str) -> Any:
        return directory if self._job is None else self._job.storage.checkpoint(directory)

    def exception(self, rank: int, error: s.Error) -> Callable[[], Exception]:
        return partial(_exception, self._exceptions.get(rank), said(error))

    def result(self) -> Callable[[], RunResult]:
        # It is read in another thread, of a run that does not change any more.
        assert self._run is not None
        return partial(self._result, self._run, dict(self._exceptions), self._return_value)

    def _result(
        self, run: Run, exceptions: Mapping[int, bytes], return_value: bytes | None
    ) -> RunResult:
        snapshot = published(run)
        metrics = from_map(s.ValueMap.FromString(run.last_metrics)) if run.last_metrics else None
        storage = self._job.storage if self._job is not None else None
        return RunResult(
            metrics=metrics,
            checkpoint=self.checkpoint(snapshot.latest) if snapshot.latest else None,
            error=_run_error(run, exceptions),
            path=storage.experiment_fs_path if storage is not None else "",
            best_checkpoints=[
                (self.checkpoint(one.directory), one.metrics) for one in snapshot.kept
            ],
            return_value=_returned(run, return_value),
            run_id=run.run_id,
            filesystem=storage.storage_filesystem if storage is not None else None,
        )


def _run_error(run: Run, exceptions: Mapping[int, bytes]) -> Exception | None:
    if run.status is not RunStatus.ERRORED:
        return None
    error = run.error or s.Error(message=run.status_reason)
    rank = next(iter(error.ranks), None)
    return _exception(exceptions.get(rank) if rank is not None else None, said(error))


def _returned(run: Run, value: bytes | None) -> Any:
    if run.status is not RunStatus.FINISHED:
        return None
    if value is not None:
        return _opened(value)
    return None if run.return_value is None else from_value(run.return_value)


def _exception(data: bytes | None, text: str) -> Exception:
    """The exception of a worker; its text, where it is not to be had."""
    try:
        found = None if data is None else _opened(data)
    except Exception:  # the boundary: unpickling runs code of the user's classes
        found = None
    if isinstance(found, Exception):
        return found
    return RuntimeError(text if found is None else f"{type(found).__name__}: {found}")


def _opened(data: bytes) -> Any:
    from ray import cloudpickle

    return cloudpickle.loads(data)


def _name(callback: Callback) -> str:
    """The class of a callback; of one made for Ray, its own and not that of what stands around it."""
    return type(getattr(callback, "theirs", callback)).__qualname__


def _text(key: Any, value: Any) -> None:
    if not isinstance(key, str) or not isinstance(value, str):
        raise TypeError(f"the label {key!r}: {value!r} is not of two strings")


def _per_rank(size: int, name: Any, values: Any) -> None:
    if not isinstance(name, str) or len(values) != size:
        raise ValueError(f"{name!r} has {len(values)} values for {size} workers")
