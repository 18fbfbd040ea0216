"""The reaper: no run stays open when its controller is gone for good.

On each controller it holds one call that never returns. That the call failed because the actor is dead
is Ray's word that it will not be back (rows of A6.4; Ray retries a controller that crashed by itself);
that it is unavailable only means to call again. The cause is what the cluster knows of the run's job.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayError

from trainstate.core import Cause, Run
from trainstate.core.effects import Release, Stop
from trainstate.core.observations import Abort
from trainstate.errors import Fenced
from trainstate.state import removal
from trainstate.state.ending import end_run
from trainstate.state.names import NAMESPACE
from trainstate.store import Store

_PAUSE_FIRST_S, _PAUSE_MAX_S = 0.05, 1.0
# A driver's death is known to its actors before or after it is in the list of jobs.
_JOB_GRACE_S = 0.5

_TEXTS = {
    Cause.DRIVER_EXITED: "the driver exited before the run ended",
    Cause.CONTROLLER_LOST: "the controller died and Ray did not start it again",
}


class Reaper:
    """Watches the controllers of open runs, in an event loop; keeps nothing of a run that has ended.

    `in_thread` runs what waits for the disk.
    """

    def __init__(self, store: Store, in_thread: Callable[..., Awaitable[Any]]) -> None:
        self._store = store
        self._in_thread = in_thread
        self._watches: dict[str, asyncio.Task[None]] = {}

    def watch(self, run_id: str, controller: str) -> None:
        """Ends the run when the actor of that name is gone for good. Once per run is enough."""
        if run_id not in self._watches:
            task = asyncio.get_running_loop().create_task(self._watch(run_id, controller))
            self._watches[run_id] = task
            task.add_done_callback(lambda _: self._watches.pop(run_id))

    async def _watch(self, run_id: str, controller: str) -> None:
        pause_s = _PAUSE_FIRST_S
        while not (await _is_gone(controller) and await self._ended(run_id)):
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    async def _ended(self, run_id: str) -> bool:
        """Ends the run if it is open; False if that did not come off."""
        run = await self._in_thread(self._store.state, run_id)
        if run.status.is_terminal or not run.status:
            return True
        try:
            cause = await _cause(run)
            why = Abort(cause, _TEXTS[cause])
            await self._in_thread(end_run, self._store, run_id, "reaper", why, _clear)
        except (Fenced, RayError):  # somebody took it up after all, or the cluster cannot be asked
            return False
        return True


async def _is_gone(controller: str) -> bool:
    """Waits for news of that actor; True if there is none, nor will be."""
    try:
        handle: Any = await asyncio.to_thread(ray.get_actor, controller, namespace=NAMESPACE)
    except ValueError:
        return True
    except RayError:
        return False
    try:
        await handle.forever.remote()
    except ActorDiedError:
        return True
    except RayError:
        return False  # it starts again
    return False


def _clear(run: Run, effect: Stop | Release) -> None:
    while removal.remove_now(run.run_id, effect):
        time.sleep(_PAUSE_MAX_S)  # it has waited already; what is still there is struck again


async def _cause(run: Run) -> Cause:
    deadline = time.monotonic() + _JOB_GRACE_S
    while time.monotonic() < deadline:
        if await asyncio.to_thread(_job_is_over, run.job_id.hex()):
            return Cause.DRIVER_EXITED
        await asyncio.sleep(_PAUSE_FIRST_S)
    return Cause.CONTROLLER_LOST


def _job_is_over(job_id: str) -> bool:
    # Ray's public list of jobs is served by its dashboard, which need not run.
    jobs = ray._private.state.jobs()  # type: ignore[no-untyped-call]
    return any(job["JobID"] == job_id and job["IsDead"] for job in jobs)
