"""The controller of a run: an asyncio actor whose loop starts in its constructor.

Ray replays the constructor when it restarts the actor, and does that at once; calls it retries only
after seconds. So a controller that was killed is in control again as soon as its process is up: it takes
the run's folded state from the state actor, says that it began, and acts on the plan.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any

import ray
from ray import cloudpickle

from trainstate.controller import surroundings
from trainstate.controller.failure import pickled
from trainstate.controller.job import Job
from trainstate.controller.loop import Loop, Seen
from trainstate.controller.observers import Observers
from trainstate.controller.outcome import Outcome
from trainstate.controller.shell import Shell
from trainstate.controller.versions import framework_versions
from trainstate.controller.worker import NO_WARNING
from trainstate.core import Cause, Run, RunStatus
from trainstate.core import observations as o
from trainstate.core.deciding import said
from trainstate.core.effects import Effect, Release, Stop
from trainstate.core.tracebacks import traceback_of
from trainstate.core.values import from_map, from_value
from trainstate.errors import ConcurrencyError, Fenced, StateUnavailable
from trainstate.state import removal
from trainstate.state.manager import TrainStateManager
from trainstate.state.names import controller_name
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s


class Controller:
    """Runs a job, pickled or a list with a reference of that, to its end; `run()` says how it ended."""

    def __init__(self, held: bytes | list[Any]) -> None:
        os.environ.setdefault(*NO_WARNING)
        data = held if isinstance(held, bytes) else ray.get(held[0])
        self._job = job = _unpickled(data)
        self._created = e.RunCreated.FromString(job.created)
        limits = self._created.settings.limits
        self._inbox: asyncio.Queue[tuple[Seen, asyncio.Future[None]]] = asyncio.Queue()
        self._manager = TrainStateManager(job.run_id, timeout_s=limits.state_timeout_s)
        self._observers = Observers(job.callbacks, job, self._tell, limits.hook_timeout_s)
        self._shell = Shell(job, lambda: self._loop.run, self._say, self._observers)
        self._end = asyncio.get_running_loop().create_task(self._live())

    async def run(self) -> Outcome:
        """Waits for the end of the run; how it ended. Raises StateUnavailable, Fenced."""
        return await asyncio.shield(self._end)

    async def abort(self, cause: int, text: str) -> None:
        """Ends the run, in whatever state it is. Returns when that is recorded, not when it is done."""
        await self._say(o.Abort(Cause(cause), text), None)

    async def describe(self, what: str, provenance: bytes) -> None:
        """Records what was found out of the run. Returns when that is durable."""
        await self._say(o.Described(what, s.Provenance.FromString(provenance)), None)

    async def forever(self) -> None:
        """Never returns: who holds this call is told when the actor is gone."""
        await asyncio.Event().wait()

    async def _live(self) -> Outcome:
        while True:
            try:
                return await self._take_up()
            except ConcurrencyError:
                # A part of an append was recorded and its answer lost: the journal says which.
                self._loop.cancel()
                for seen, heard in self._noted:
                    if isinstance(seen.observation, o.Abort):  # nothing else would say it again
                        self._inbox.put_nowait((seen, heard))

    async def _take_up(self) -> Outcome:
        run = await self._manager.open(time.time_ns())
        await self._manager.watch(controller_name(run.run_id))
        masking = self._manager.masking
        self._loop = Loop(run, self._append, self._shell.start, time.time_ns, masking)
        try:
            await self._follow(run)
            await self._last_words()
        except (Fenced, StateUnavailable) as error:
            self._loop.cancel()
            if isinstance(error, StateUnavailable):
                await self._abandon(self._loop.run)
            raise
        return self._outcome(self._loop.run)

    async def _follow(self, run: Run) -> None:
        """The loop: from the run as it is to its end."""
        if run.status.is_terminal:
            return  # it ended, and its controller died before anybody heard of it
        self._observers.take_up(run)
        self._noted = noted = [(Seen(self._began()), _nobody())]
        self._looking = asyncio.create_task(self._look_around())
        while True:
            events = await self._loop.step([seen for seen, _ in noted])
            self._shell.recorded(events)
            _hear(noted)
            if self._loop.run.status.is_terminal:
                return
            self._noted = noted = [await self._inbox.get()]
            while not self._inbox.empty():
                noted.append(self._inbox.get_nowait())

    async def _look_around(self) -> None:
        if self._loop.run.provenance is not None and self._loop.run.provenance.node_types:
            return  # the controller before this one has
        try:
            found = await asyncio.to_thread(surroundings.look, self._job.worker_runtime_env)
        except Exception:  # the boundary: nothing of a run may depend on what Ray says here
            return
        self._tell(o.Described("the cluster and the environment", found))

    async def _last_words(self) -> None:
        """Hooks of the end are called when it is recorded; what fails in them is recorded after it."""
        await self._observers.close(self._created.settings.limits.hook_timeout_s)
        late = [self._inbox.get_nowait() for _ in range(self._inbox.qsize())]
        await self._loop.step([seen for seen, _ in late])
        _hear(late)

    def _began(self) -> o.Began:
        context = ray.get_runtime_context()
        self._created.job_id = bytes.fromhex(context.get_job_id())
        self._created.controller_actor_id = bytes.fromhex(context.get_actor_id() or "")
        if not self._created.framework_versions:  # those of the framework come from rank 0
            self._created.framework_versions.extend(framework_versions(None))
        self._created.controller_log_path = ray._private.worker.global_worker.get_out_file_path()
        return o.Began(
            self._created,
            self._created.controller_actor_id,
            bytes.fromhex(context.get_node_id()),
            os.getpid(),
            tuple(map(e.CheckpointCommitted.FromString, self._job.restored)),
        )

    async def _append(self, events: Any) -> None:
        await self._manager.append(events)

    async def _say(self, observation: o.Observation, ended: Effect | None) -> None:
        """Hands an observation to the loop; returns when what follows from it is durable."""
        heard = asyncio.get_running_loop().create_future()
        self._inbox.put_nowait((Seen(observation, ended), heard))
        await heard

    def _tell(self, observation: o.Observation) -> None:
        """Hands an observation to the loop that nobody waits for."""
        self._inbox.put_nowait((Seen(observation), _nobody()))

    async def _abandon(self, run: Run) -> None:
        """Leaves nothing behind when nothing can be recorded any more."""
        for attempt in run.attempts[-1:]:
            await removal.remove(run.run_id, Stop(attempt.attempt_id))
        await removal.remove(run.run_id, Release(tuple(run.placements)))

    def _outcome(self, run: Run) -> Outcome:
        error = run.error or s.Error()
        value = self._shell.return_value
        if value is None and run.return_value is not None:
            value = cloudpickle.dumps(from_value(run.return_value))  # type: ignore[no-untyped-call]
        metrics = s.ValueMap.FromString(run.last_metrics) if run.last_metrics else None
        return Outcome(
            status=run.status,
            cause=run.cause,
            text=_text(run, error) or run.status_reason,
            worker_failures=self._failures(run),
            return_value=value if run.status is RunStatus.FINISHED else None,
            metrics=None if metrics is None else from_map(metrics),
        )

    def _failures(self, run: Run) -> dict[int, bytes]:
        """The exceptions of the ranks that failed last; as text, of those an earlier controller had."""
        attempt = run.attempt
        if run.status is not RunStatus.ERRORED or attempt is None:
            return {}
        failed = {one.rank: one.error for one in attempt.workers.values() if one.error is not None}
        return {
            rank: self._shell.exceptions.get(rank) or pickled(RuntimeError(_text(run, error)))
            for rank, error in failed.items()
        }


def _unpickled(data: bytes) -> Job:
    job: Job = cloudpickle.loads(data)
    return job


def _text(run: Run, error: s.Error) -> str:
    ranks = ", ".join(map(str, error.ranks))
    where = f"rank {ranks}: " if ranks else ""
    return f"{where}{said(error)}\n{traceback_of(run, error)}".strip()


def _hear(noted: Sequence[tuple[Seen, asyncio.Future[None]]]) -> None:
    """Tells who handed these observations over that what follows from them is durable."""
    for _, heard in noted:
        if not heard.done():
            heard.set_result(None)


def _nobody() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()
