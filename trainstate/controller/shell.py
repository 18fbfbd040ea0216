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

from trainstate.controller import data_host, gang, placement, setting_up
from trainstate.controller.conversation import Conversation, hook_failures
from trainstate.controller.failure import describe
from trainstate.controller.job import Job
from trainstate.controller.making import Making
from trainstate.controller.messages import Ack, Answer, Kept
from trainstate.controller.observers import Observers
from trainstate.controller.session import Preemption
from trainstate.core import (
    Attempt,
    AttemptStatus,
    Cause,
    Placement,
    Run,
    RunStatus,
    Worker,
    WorkerStatus,
    policy,
)
from trainstate.core import observations as o
from trainstate.core.effects import (
    Close,
    DeleteCheckpoint,
    Effect,
    Place,
    Publish,
    Release,
    SetUp,
    StartGang,
    Stop,
    Train,
    Wake,
    Watch,
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

# What a worker is told of at once.
_NEWS = {"checkpoint_committed", "checkpoint_deleted", "run_preempting"}

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
        # Storage may hang; nothing else waits in these threads.
        self._publishing = ThreadPoolExecutor(1, "publish")
        self._deleting = ThreadPoolExecutor(1, "delete")
        self._making = Making()

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
        if kinds & _NEWS:
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

    # --- starting ---------------------------------------------------------------------------------

    async def _place(self, effect: Place) -> o.Observation:
        run = self._run()
        size = policy.size_of(run.settings)
        need = self._attempt.num_workers if effect.attempt_id else size.smallest
        labels = await self._observers.labels(need)
        # Who takes what there is can wait for it; who wants a number is told that it is not there.
        timeout_s = None if size.is_elastic else self._limits.start_timeout_s
        return await placement.place(
            self._placements,
            need,
            run.preempted_nodes,
            labels,
            timeout_s,
            self._mention,
            self._making.do,
        )

    @property
    def _placements(self) -> list[Placement]:
        return sorted(self._run().placements.values(), key=lambda one: one.slot)

    async def _watch(self, effect: Watch) -> o.Observation:
        return await placement.watch(effect.attempt_id, self._run, self._mention, self._ask)

    async def _ask(self, missing: Sequence[Placement]) -> None:
        labels = await self._observers.labels(self._attempt.num_workers)
        await self._making.do(placement.ask, missing, labels)

    async def _release(self, effect: Release) -> o.Observation:
        await self._making.over()
        await removal.remove(self._job.run_id, effect)
        return o.Released(effect.names)

    def _mention(self, observation: o.Observation) -> None:
        """Says what nobody has to wait for."""
        saying = asyncio.ensure_future(self._say(observation, None))
        self._mentioned.add(saying)
        saying.add_done_callback(self._mentioned.discard)

    async def _start_gang(self, effect: StartGang) -> o.Observation:
        env = self._job.worker_runtime_env
        make = self._making.do
        if effect.group is not None:
            # From now on nobody waits for those who are gone to read their shards; a host that is
            # gone too is found at the set-up.
            shards = data_host.shards(self._job, self._run(), self._attempt)
            limited = asyncio.wait_for(shards, self._limits.start_timeout_s)
            await asyncio.gather(limited, return_exceptions=True)
        return await gang.start(self._run(), self._attempt, effect, env, self._limits, make)

    async def _set_up(self, effect: SetUp) -> o.Observation:
        return await setting_up.set_up(self._job, self._run(), effect, self._observers)

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
                Kept(
                    one.index,
                    one.directory,
                    (one.metrics or s.ValueMap()).SerializeToString(),
                    one.group,
                )
                for one in run.checkpoints.values()
            )
        attempt = self._attempt
        group = attempt.group_of(train.rank)
        return Ack(
            durable=attempt.workers[train.rank].reports,
            committed=attempt.keeper(group).committed,
            version=now,
            kept=kept,
            preemption=_preemption(run),
            visible=None if group is None else attempt.groups[group].visible,
        )

    def _keep(self, rank: int, answer: Answer) -> None:
        if answer.exception:
            self.exceptions[rank] = answer.exception
        if answer.value and rank == 0:
            self.return_value = answer.value

    # --- checkpoints ------------------------------------------------------------------------------

    async def _publish(self, effect: Publish) -> o.Observation:
        pending = self._attempt.keeper(effect.group).pending[effect.report_index]
        size_bytes = await self._in(
            self._publishing, self._job.storage.publish, self._run(), pending
        )
        return o.Published(effect.attempt_id, effect.report_index, size_bytes, effect.group)

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
        await self._making.over()
        await removal.remove(run.run_id, effect)
        return o.Cleared(effect.attempt_id)

    async def _shut_down_backend(self, run: Run) -> None:
        """Lets the backend clean up, for a moment: what is dead or hangs is removed without."""
        if self._attempt.status is not AttemptStatus.RUNNING:
            return
        try:
            async with asyncio.timeout(_STOP_S):
                await asyncio.to_thread(setting_up.shut_down, self._job, run, self._attempt)
        except (ValueError, TimeoutError, RayActorError):
            return
        except Exception as error:  # the boundary: a hook that raises is recorded, and nothing else
            name = self._job.backend_config.backend_cls.__name__
            await self._say(o.HookFailed(name, "on_shutdown", describe(error)), None)

    async def _farewell(self, run: Run) -> None:
        """Lets workers run their last hooks, for a moment: none of them has to answer.

        Those that have failed too by now say of what: often it is the same.
        """
        alive = (WorkerStatus.RUNNING, WorkerStatus.COMPLETED, WorkerStatus.FAILING)
        workers = [one for one in self._attempt.by_rank if one.status in alive]
        calls = [self._said(gang.find, run, self._attempt, worker) for worker in workers]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for worker, answer in zip(workers, answers, strict=True):
            if isinstance(answer, Answer):
                self._keep(worker.rank, answer)
                for failure in hook_failures(answer):
                    await self._say(failure, None)
                if answer.ended == "failed":
                    await self._say(self._failed_too(worker, answer), None)

    def _failed_too(self, worker: Worker, answer: Answer) -> o.WorkerFailed:
        who = (self._attempt.attempt_id, worker.rank, worker.generation)
        return o.WorkerFailed(*who, Cause(answer.cause), s.Error.FromString(answer.error))

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


def _preemption(run: Run) -> Preemption | None:
    """What the workers are told of what is taken away."""
    attempt = run.attempt
    if attempt is None or run.status is not RunStatus.PREEMPTING:
        return None
    ranks: dict[str, tuple[int, ...]] = {}
    for rank in run.preempted_ranks:
        node_id = attempt.workers[rank].node_id.hex()
        ranks[node_id] = (*ranks.get(node_id, ()), rank)
    return Preemption(ranks, run.preemption_deadline_ns)


_EFFECTS: Mapping[type[Effect], Callable[[Shell, Any], Awaitable[o.Observation]]] = {
    Place: Shell._place,
    Watch: Shell._watch,
    Release: Shell._release,
    StartGang: Shell._start_gang,
    SetUp: Shell._set_up,
    Train: Shell._train,
    Publish: Shell._publish,
    DeleteCheckpoint: Shell._delete,
    Stop: Shell._stop,
    Wake: Shell._wake,
    Close: Shell._close,
}
