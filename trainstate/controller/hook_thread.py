"""The one thread that calls hooks, one after the other, in the order they were put.

A hook that is slow delays those after it and nobody else; one that never returns keeps the thread, which
is a daemon, and whoever waits for it gives up in time. What a hook raises goes to `failed`.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from trainstate.controller.hook_table import Call, Hook, How, Later
from trainstate.controller.hooks import Callback, UserCallback

# Sets of reports that may wait for slow hooks.
REPORTS_MAX = 10_000

Failed = Callable[[Callback, str, BaseException], None]


class Value(NamedTuple):
    """What a callback returned."""

    callback: Callback
    value: Any


class Running(NamedTuple):
    """A hook that is being called, since then."""

    callback: Callback
    hook: str
    since_s: float


class _Item(NamedTuple):
    calls: Sequence[Call]
    done: Future[list[Value]]


class HookThread:
    """Calls the hooks of `callbacks`; started when there is something to call."""

    def __init__(self, callbacks: Sequence[Callback], failed: Failed) -> None:
        self.running: Running | None = None
        self.dropped = 0
        self._callbacks = callbacks
        self._failed = failed
        self._queue: OrderedDict[int, _Item] = OrderedDict()
        self._reports: deque[int] = deque()
        self._numbers = 0
        self._wake = threading.Condition()
        self._entered: dict[tuple[int, str], AbstractContextManager[Any]] = {}
        self._thread: threading.Thread | None = None

    def of(self, hook: Hook) -> list[Callback]:
        """The callbacks that have that hook."""
        found = [one for one in self._callbacks if isinstance(one, hook.family)]
        # Two families call a hook of theirs after_report; a user's callback is the user's alone.
        if hook.name == "after_report" and hook.family is not UserCallback:
            found = [one for one in found if not isinstance(one, UserCallback)]
        return found

    def overridden(self, *hooks: Hook) -> bool:
        """Whether a callback does something at one of these."""
        return any(_overrides(one, hook) for hook in hooks for one in self.of(hook))

    @property
    def waiting(self) -> int:
        """How many calls wait for the one that is running."""
        with self._wake:
            return sum(len(item.calls) for item in self._queue.values())

    def put(self, calls: Sequence[Call], of_reports: bool = False) -> Future[list[Value]]:
        """Has hooks called, after all that were put before; what they return, in order.

        Of those `of_reports` the oldest are dropped when too many wait; theirs is cancelled.
        """
        item = _Item(calls, Future())
        with self._wake:
            self._numbers += 1
            self._queue[self._numbers] = item
            if of_reports:
                self._bound(self._numbers)
            self._wake.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._live, name="hooks", daemon=True)
            self._thread.start()
        return item.done

    def _bound(self, number: int) -> None:
        self._reports.append(number)
        while len(self._reports) > REPORTS_MAX:
            self._queue.pop(self._reports.popleft()).done.cancel()
            self.dropped += 1

    def _live(self) -> None:
        while True:
            with self._wake:
                while not self._queue:
                    self._wake.wait()
                number, item = self._queue.popitem(last=False)
                if self._reports and self._reports[0] == number:
                    self._reports.popleft()
            values = [value for call in item.calls for value in self._call(call)]
            item.done.set_result(values)

    def _call(self, call: Call) -> list[Value]:
        found = self.of(call.hook)
        if call.hook.how is How.EXIT:
            found.reverse()
        return [value for one in found for value in self._guarded(one, call)]

    def _guarded(self, callback: Callback, call: Call) -> list[Value]:
        self.running = Running(callback, call.hook.name, time.monotonic())
        try:
            return [Value(callback, self._done(callback, call))]
        except BaseException as error:  # the boundary between a callback and a run: nothing gets by
            self._failed(callback, call.hook.name, error)
            return []
        finally:
            self.running = None

    def _done(self, callback: Callback, call: Call) -> Any:
        name = call.hook.name
        if call.hook.how is How.EXIT:
            manager = self._entered.pop((id(callback), name), None)
            return None if manager is None else manager.__exit__(None, None, None)
        args = [_made(one) for one in call.args]
        kwargs = {key: _made(one) for key, one in call.kwargs.items()}
        value = getattr(callback, name)(*args, **kwargs)
        if call.hook.how is How.ENTER:
            value.__enter__()
            self._entered[id(callback), name] = value
        return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


def _made(argument: Any) -> Any:
    return argument.make() if isinstance(argument, Later) else argument


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


# The bodies of the hooks on the left call those on the right, unless they are overridden.
_DEFAULTS = {
    "after_worker_group_start": "after_execution_group_start",
    "after_replica_group_start": "after_execution_group_start",
    "before_worker_group_shutdown": "before_execution_group_shutdown",
    "before_replica_group_shutdown": "before_execution_group_shutdown",
}


def _overrides(callback: Callback, hook: Hook) -> bool:
    names = {hook.name, _DEFAULTS.get(hook.name, hook.name)}
    return any(_own(callback, name) is not getattr(hook.family, name) for name in names)


def _own(callback: Callback, name: str) -> Any:
    bound = getattr(callback, name)
    return getattr(bound, "__func__", bound)
