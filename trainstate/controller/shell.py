"""The effects of core/effects.py on a Ray cluster: the one place where decisions become actions.

A shell belongs to one controller. It keeps what cannot be in the journal (the user's exceptions and the
return value, pickled), and loses nothing that matters when it dies: every effect finds what its
predecessor left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ray.exceptions import RayActorError

from trainstate.controller import data_host, gang, placement
from trainstate.controller.conversation import Conversation, hook_failures
from trainstate.controller.failure import describe, lost
from trainstate.controller.job import Job
from trainstate.controller.messages import Ack, Answer, Assignment, Kept
from trainstate.controller.observers import Observers
from trainstate.controller.session import SessionInfo
from trainstate.controller.versions import framework_versions
from trainstate.core import Attempt, AttemptStatus, Cause, Run, RunStatus, Worker, WorkerStatus
from trainstate.core import observations as o
from trainstate.core.effects import (
    Close,
    DeleteCheckpoint,
    Effect,
    Place,
    Publish,
    SetUp,
    StartGang,
    Stop,
    Train,
    Wake,
)
from trainstate.errors import StorageError
from trainstate.state import removal
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

# An effect that has to be begun again waits so long: nothing spins.
_AGAIN_S = 1.0
_DELETE_S = 60.0
# What a worker may take to say good-bye.
_STOP_S = 1.0

T = TypeVar("T")
Say = Callable[[o.Observation, Effect | None], Awaitable[None]]


class Shell:
    """`say` hands an observation to the loop, and returns when what follows from it is durable."""

    def __init__(self, job: Job, run: Callable[[], Run], say: Say, observers: Observers) -> None:
        self.exceptions: dict[int, bytes] = {}
        self.return_value: bytes | None = None
        self._job = job
        self._run = run
        self._say = say
        self._observers = observers
        self._committed = asyncio.Event()
        self._mentioned: set[asyncio.Future[None]] = set()
        self._report_buffer = 1000
        # Storage may hang; nothing else waits in these threads.
        self._publishing = ThreadPoolExecutor(1, "publish")
        self._deleting = ThreadPoolExecutor(1, "delete")

    def start(self, effect: Effect, again: bool) -> Callable[[], object]:
        """Begins an effect; returns what cancels it."""
        return asyncio.ensure_future(self._perform(effect, again)).cancel

    async def _perform(self, effect: Effect, again: bool) -> None:
        if again:
            await asyncio.sleep(_AGAIN_S)
        try:
            last = await _EFFECTS[type(effect)](self, effect)
        except StorageError as error:
            last = o.Broke(Cause.UPLOAD_FAILED, describe(error))
        except Exception as error:  # the boundary: what goes wrong in an effect ends the run, said
            last = o.Broke(Cause.CONTROLLER_ERROR, describe(error))
        await self._say(last, effect)

    def recorded(self, events: Sequence[e.Event]) -> None:
        """These events are durable: callbacks are told, and workers that wait for a checkpoint."""
        self._observers.recorded(events, self._run(), self.exceptions, self.return_value)
        kinds = {event.WhichOneof("payload") for event in events}
        if kinds & {"checkpoint_committed", "checkpoint_deleted"}:
            self._committed.set()
            self._committed = asyncio.Event()

    # --- what effects look at ---------------------------------------------------------------------

    @property
    def _attempt(self) -> Attempt:
        attempt = self._run().attempt
        assert attempt is not None
        return attempt

    @property
    def _limits(self) -> s.Limits:
        settings = self._run().settings
        return settings.limits if settings is not None else s.Limits()

    @property
    def _resources(self) -> Mapping[str, float]:
        return placement.resources_of(self._attempt.resources_per_worker or s.ResourceSet())

    # --- starting ---------------------------------------------------------------------------------

    async def _place(self, effect: Place) -> o.Observation:
        wanted = self._run().placements[effect.name]
        labels = await self._observers.labels(self._attempt.num_workers)
        return await placement.place(wanted, labels, self._limits.start_timeout_s, self._mention)

    def _mention(self, observation: o.Observation) -> None:
        """Says what nobody has to wait for."""
        saying = asyncio.ensure_future(self._say(observation, None))
        self._mentioned.add(saying)
        saying.add_done_callback(self._mentioned.discard)

    async def _start_gang(self, effect: StartGang) -> o.Observation:
        env = self._job.worker_runtime_env
        return await gang.start(self._run(), self._attempt, env, self._limits)

    async def _set_up(self, effect: SetUp) -> o.Observation:
        workers = self._attempt.by_rank
        limit = asyncio.timeout(self._limits.start_timeout_s)
        try:
            handles = [gang.find(self._run(), self._attempt, worker) for worker in workers]
            async with limit:
                await self._assign(workers, handles)
            return await asyncio.to_thread(self._prepare, handles)
        except StorageError:
            raise
        except RayActorError as error:
            return o.StartFailed(effect.attempt_id, Cause.START_FAILED, self._lost(error, workers))
        except Exception as error:  # whatever a hook or a dataset raises, the attempt fails of it
            if limit.expired():
                late = TimeoutError(
                    "hooks or datasets of the workers take longer than the start may"
                )
                return o.StartFailed(effect.attempt_id, Cause.START_TIMEOUT, describe(late))
            return o.StartFailed(effect.attempt_id, Cause.START_FAILED, describe(error))

    def _lost(self, error: RayActorError, workers: Sequence[Worker]) -> s.Error:
        """Who died, if it was a worker: it may have been the data host."""
        dead = [one for one in workers if one.actor_id.hex() == error.actor_id]
        return lost(error, dead[0].rank, dead[0].node_id.hex()) if dead else describe(error)

    async def _assign(self, workers: Sequence[Worker], handles: Sequence[Any]) -> None:
        shards = await data_host.shards(self._job, self._run(), self._attempt)
        extra = await self._observers.extra(handles)
        rank_zero = gang.worker_name(self._run(), self._attempt, workers[0])
        calls = [
            handle.assign.remote(
                Assignment(
                    info=self._info(worker),
                    storage=self._job.storage,
                    rank_zero=rank_zero,
                    callbacks=self._job.callbacks,
                    shards=shards[worker.rank] if shards else {},
                    extra={name: values[worker.rank] for name, values in extra.items()},
                    directory_prefix=self._directory_prefix(),
                    report_buffer=self._report_buffer,
                )
            )
            for worker, handle in zip(workers, handles, strict=True)
        ]
        await asyncio.gather(*calls)

    def _info(self, worker: Worker) -> SessionInfo:
        workers = self._attempt.workers.values()
        neighbours = sum(other.node_id == worker.node_id for other in workers)
        return SessionInfo(
            experiment_name=self._job.name,
            run_id=self._job.run_id,
            attempt_id=self._attempt.attempt_id,
            world_rank=worker.rank,
            world_size=len(workers),
            local_rank=worker.local_rank,
            local_world_size=neighbours,
            node_rank=worker.node_rank,
            generation=worker.generation,
        )

    def _directory_prefix(self) -> str:
        """Of the run and the attempt: no two attempts, of whatever fit(), write to the same place."""
        began = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(self._run().first_time_ns / 1e9))
        return f"checkpoint_{began}_{self._job.run_id[:6]}_{self._attempt.number:03d}_"

    def _prepare(self, handles: Sequence[Any]) -> o.Ready:
        """Has the backend set up, in this thread: its hooks block."""
        config = self._job.backend_config
        backend = config.backend_cls()
        resources = self._resources
        backend.on_start(gang.Group(handles, "on_start", resources), config)
        backend.on_training_start(gang.Group(handles, "on_training_start", resources), config)
        everywhere = gang.Group(handles, "versions", resources)
        versions = everywhere.execute_single(0, framework_versions, config.framework)
        return o.Ready(self._attempt.attempt_id, versions)

    # --- training ---------------------------------------------------------------------------------

    async def _train(self, effect: Train) -> o.Observation:
        worker = self._attempt.workers[effect.rank]
        self.exceptions.pop(effect.rank, None)  # it trains anew, and has not failed
        try:
            handle = gang.find(self._run(), self._attempt, worker)
        except ValueError as error:
            gone = describe(error, effect.rank, worker.node_id.hex())
            gone.message = "its process was gone when a controller looked for it"
            return o.WorkerFailed(
                effect.attempt_id, effect.rank, effect.generation, Cause.WORKER_LOST, gone
            )
        talk = Conversation(
            handle,
            effect,
            self._run().incarnation,
            worker.node_id.hex(),
            self._limits,
            lambda version: self._ack(effect, version),
            lambda: self._committed.wait(),  # whichever event is the current one by then
            lambda observation: self._say(observation, None),
        )
        last, answer = await talk.run(self._job.train_fn)
        self._keep(effect.rank, answer)
        return last

    def _ack(self, train: Train, version: int) -> Ack:
        run = self._run()
        now = 2 * run.checkpoints_committed - len(run.checkpoints)  # commits and deletions so far
        kept = None
        if now != version:
            kept = tuple(
                Kept(one.index, one.directory, (one.metrics or s.ValueMap()).SerializeToString())
                for one in run.checkpoints.values()
            )
        attempt = self._attempt
        return Ack(attempt.workers[train.rank].reports, attempt.committed, now, kept)

    def _keep(self, rank: int, answer: Answer) -> None:
        if answer.exception:
            self.exceptions[rank] = answer.exception
        if answer.value and rank == 0:
            self.return_value = answer.value

    # --- checkpoints ------------------------------------------------------------------------------

    async def _publish(self, effect: Publish) -> o.Observation:
        pending = self._attempt.pending[effect.report_index]
        size_bytes = await self._in(
            self._publishing, self._job.storage.publish, self._run(), pending
        )
        return o.Published(effect.attempt_id, effect.report_index, size_bytes)

    async def _delete(self, effect: DeleteCheckpoint) -> o.Observation:
        gone = self._run().checkpoints[effect.index]
        try:
            async with asyncio.timeout(_DELETE_S):  # the end of a run waits for it
                await self._in(self._deleting, self._job.storage.delete, gone.directory)
        except (StorageError, TimeoutError) as error:
            return o.Deleted(effect.index, str(error) or f"not done after {_DELETE_S:g} s")
        return o.Deleted(effect.index)

    async def _in(self, threads: ThreadPoolExecutor, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(threads, work, *args)

    # --- ending -----------------------------------------------------------------------------------

    async def _stop(self, effect: Stop) -> o.Observation:
        run = self._run()
        if run.next_status is not RunStatus.ABORTED:
            if run.status is RunStatus.SHUTTING_DOWN:  # a restart does not wait for callbacks
                await self._observers.farewell()
            await self._shut_down_backend(run)
            await self._farewell(run)
        await removal.remove(run, effect.attempt_id)
        return o.Cleared(effect.attempt_id)

    async def _shut_down_backend(self, run: Run) -> None:
        """Lets the backend clean up, for a moment: what is dead or hangs is removed without."""
        if self._attempt.status is not AttemptStatus.RUNNING:
            return
        config = self._job.backend_config
        backend = config.backend_cls()
        try:
            handles = [gang.find(run, self._attempt, worker) for worker in self._attempt.by_rank]
            group = gang.Group(handles, "on_shutdown", self._resources)
            async with asyncio.timeout(_STOP_S):
                await asyncio.to_thread(backend.on_shutdown, group, config)
        except (ValueError, TimeoutError, RayActorError):
            return
        except Exception as error:  # the boundary: a hook that raises is recorded, and nothing else
            name = type(backend).__name__
            await self._say(o.HookFailed(name, "on_shutdown", describe(error)), None)

    async def _farewell(self, run: Run) -> None:
        """Lets workers run their last hooks, for a moment: none of them has to answer."""
        alive = (WorkerStatus.RUNNING, WorkerStatus.COMPLETED, WorkerStatus.FAILING)
        workers = [one for one in self._attempt.by_rank if one.status in alive]
        calls = [self._said(gang.find, run, self._attempt, worker) for worker in workers]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for worker, answer in zip(workers, answers, strict=True):
            if isinstance(answer, Answer):
                self._keep(worker.rank, answer)
                for failure in hook_failures(answer):
                    await self._say(failure, None)

    async def _said(self, find: Callable[..., Any], *which: Any) -> Answer:
        async with asyncio.timeout(_STOP_S):
            answer: Answer = await find(*which).stop.remote()
            return answer

    async def _wake(self, effect: Wake) -> o.Observation:
        await asyncio.sleep(max(0.0, (effect.time_ns - time.time_ns()) / 1e9))
        return o.Woke()

    async def _close(self, effect: Close) -> o.Observation:
        await self._observers.close(self._limits.hook_timeout_s)
        return o.Closed()


_EFFECTS: Mapping[type[Effect], Callable[[Shell, Any], Awaitable[o.Observation]]] = {
    Place: Shell._place,
    StartGang: Shell._start_gang,
    SetUp: Shell._set_up,
    Train: Shell._train,
    Publish: Shell._publish,
    DeleteCheckpoint: Shell._delete,
    Stop: Shell._stop,
    Wake: Shell._wake,
    Close: Shell._close,
}
