"""A controller process: the real `Loop`, driven through `send`, and its effects in this world.

Every effect is a coroutine that ends with the observation that is its last word, as in the actor.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from tests.sim.cluster import Cluster
from tests.sim.store import Client, Store
from tests.sim.worker import Ack, Answer, Worker
from tests.sim.world import Died, Task, Until, World
from trainstate.controller.loop import Loop, Seen
from trainstate.core import Cause, Run, WorkerStatus
from trainstate.core import effects as f
from trainstate.core import observations as o
from trainstate.errors import ConcurrencyError, Fenced
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

START_TIMEOUT_S = 15.0
EXCHANGE_TIMEOUT_S = 8.0
WORKER_TIMEOUT_S = 20.0
REPORT_TIMEOUT_S = 40.0
_AGAIN_S = 1.0
Effect = Coroutine[Until, Any, o.Observation]


class Controller:
    """One life of a controller. `is_over` when it is dead, or its run is."""

    def __init__(
        self, world: World, store: Store, cluster: Cluster, number: int, created: e.RunCreated
    ) -> None:
        self.who = f"controller {number}"
        self.is_over = False
        self.is_zombie = False
        self.loop: Loop | None = None
        self.steps: list[float] = []
        self.on_death: Callable[[Controller], None] = lambda controller: None
        self.on_start: Callable[[Controller, f.Effect], None] = lambda controller, effect: None
        self.on_step: Callable[[Controller], None] = lambda controller: None
        self._world = world
        self._cluster = cluster
        self._created = created
        self._client = Client(world, store, self.who)
        self._queue: list[Seen] = []
        self._wake: Callable[[Any], None] | None = None
        self._tasks: list[Task] = []
        # Clocks of nodes differ: a successor's may be behind.
        self._skew_ns = world.draw.choice((0, 0, -(10**9), 10**9))
        self._main = Task(self._run(), self._died)

    def observe(self, observation: o.Observation, ended: f.Effect | None = None) -> None:
        """Has the loop decide on that, soon."""
        if self.is_over:
            return
        longest_s = self._world.draw.choice((0.1, 2, 10))
        late_s = self._world.draw.uniform(0, longest_s)
        late_s *= self._world.fault("delayed", 0.15, self.who)
        self._world.after(late_s, lambda: self._push(Seen(observation, ended)))

    def die(self, why: str) -> None:
        """The process ends; what it has sent is on its way."""
        if not self.is_over:
            self._main.cancel()
            self._died(why)

    def _died(self, why: str) -> None:
        self._world.say(self.who, f"dead: {why}")
        self.is_over = True
        for task in self._tasks:
            task.cancel()
        self.on_death(self)

    # --- the loop -------------------------------------------------------------------------------------

    async def _run(self) -> None:
        run = await self._client.open("controller")
        self.loop = Loop(run, self._append, self._start, self._now_ns)
        self._queue.insert(0, Seen(o.Began(self._created)))
        while not self.loop.run.status.is_terminal:
            batch, self._queue = self._queue, []
            if batch:
                await self._step(self.loop, batch)
            else:
                await Until(self._until_news)
        self._world.say(self.who, "is done")
        self.is_over = True
        self.loop.cancel()

    async def _step(self, loop: Loop, batch: Sequence[Seen]) -> None:
        self.steps.append(self._world.time_s)
        try:
            await loop.step(batch)
        except (Fenced, ConcurrencyError) as refused:
            raise Died(str(refused)) from refused
        self.on_step(self)

    async def _append(self, events: Sequence[e.Event]) -> None:
        if self._world.fault("controller dies before append", 0.03, self.who):
            raise Died("before it appended")
        await self._client.append(events)
        if self._world.fault("controller dies after append", 0.03, self.who):
            raise Died("after it appended")

    def _push(self, seen: Seen) -> None:
        self._queue.append(seen)
        wake, self._wake = self._wake, None
        if wake is not None:
            wake(None)

    def _until_news(self, done: Callable[[Any], None]) -> None:
        self._wake = done

    def _now_ns(self) -> int:
        return self._world.now_ns + self._skew_ns

    def ack(self, attempt_id: str, rank: int) -> Ack:
        """What a worker may forget: what is durable, also while a step is on its way."""
        attempt = self.run.find_attempt(attempt_id)
        assert attempt is not None
        return Ack(attempt.workers[rank].reports, attempt.committed)

    # --- effects --------------------------------------------------------------------------------------

    def _start(self, effect: f.Effect, again: bool) -> Callable[[], None]:
        if self._world.fault("controller dies while it acts", 0.04, self.who):
            raise Died("while it acted")
        self._world.say(self.who, f"begins {effect}")
        self.on_start(self, effect)
        task = Task(self._effect(effect, again), self._died)
        self._tasks.append(task)
        return lambda: self._cancel(task)

    def _cancel(self, task: Task) -> None:
        # What waits in a thread cannot be cancelled, and ends when it ends.
        if not task.over and not self._world.fault("cancelled late", 0.5, self.who):
            task.cancel()

    async def _effect(self, effect: f.Effect, again: bool) -> None:
        await self._world.sleep(self._world.latency() + _AGAIN_S * again)
        self.observe(await _EFFECTS[type(effect)](self, effect), effect)

    @property
    def run(self) -> Run:
        assert self.loop is not None
        return self.loop.run

    async def _place(self, effect: f.Place) -> o.Observation:
        need = len(self.run.placements[effect.name].bundles)
        self._cluster.create_group(effect.name, need)
        give_up_s = self._world.time_s + START_TIMEOUT_S
        while self._world.time_s < give_up_s:
            group = self._cluster.groups.get(effect.name)
            if group is not None and group.ready_s <= self._world.time_s:
                return o.Placed(effect.name, effect.name.encode(), group.node_ids)
            if group is not None and group.have < need:
                self.observe(o.Short(effect.name, group.have, need, f"{group.have} of {need}"))
            await self._world.sleep(0.5)
        return o.NotPlaced(effect.name, START_TIMEOUT_S, "no room")

    async def _start_gang(self, effect: f.StartGang) -> o.Observation:
        waiting = self._workers(effect.attempt_id)
        started = [
            self._cluster.start((effect.attempt_id, one.bundle, one.generation))
            for one in waiting
            if one.status is WorkerStatus.SCHEDULING
        ]
        give_up_s = self._world.time_s + START_TIMEOUT_S
        while any(one.status == "starting" for one in started):
            if self._world.time_s > give_up_s:
                error = s.Error(message="workers did not start in time")
                return o.StartFailed(effect.attempt_id, Cause.START_TIMEOUT, error)
            await self._world.sleep(0.1)
        if any(one.status == "gone" for one in started):
            error = s.Error(message="a worker did not start", ranks=[waiting[0].rank] * 2)
            return o.StartFailed(effect.attempt_id, Cause.START_FAILED, error)
        return o.GangUp(effect.attempt_id, tuple(map(self._facts, started)))

    def _facts(self, worker: Worker) -> o.WorkerFacts:
        group = self._cluster.groups[f"{self.run.run_id}/{worker.attempt_id}"]
        node = group.node_ids[worker.bundle]
        accelerators = (f"GPU-{9 - worker.bundle}",)
        return o.WorkerFacts(
            worker.bundle, worker.generation, b"actor", node.encode(), node, 1, accelerators
        )

    async def _set_up(self, effect: f.SetUp) -> o.Observation:
        for one in self._workers(effect.attempt_id):
            worker = self._cluster.workers[effect.attempt_id, one.bundle, one.generation]
            await self._world.sleep(self._world.latency())
            if worker.status == "gone":
                error = s.Error(message="a worker is gone", ranks=[one.rank])
                return o.StartFailed(effect.attempt_id, Cause.START_FAILED, error)
            assert worker.rank in (None, one.rank)
            worker.rank = one.rank
        return o.Ready(effect.attempt_id)

    def _workers(self, attempt_id: str) -> list[Any]:
        attempt = self.run.find_attempt(attempt_id)
        return [] if attempt is None else list(attempt.workers.values())

    async def _train(self, effect: f.Train) -> o.Observation:
        world, where = self._world, (effect.attempt_id, effect.rank, effect.generation)
        size = len(self._workers(effect.attempt_id))
        bundle = self._workers(effect.attempt_id)[effect.rank].bundle
        worker = self._cluster.workers[effect.attempt_id, bundle, effect.generation]
        worker.begin(self._cluster.script(effect.attempt_id, effect.rank, size))
        answered_s = reported_s = world.time_s
        while True:
            answer: Answer | None = await Until(lambda done: self._exchange(worker, effect, done))
            if answer is not None and answer.what != "superseded":
                answered_s = world.time_s
                reported_s = world.time_s if answer.reports else reported_s
                if answer.reports:
                    self.observe(o.Reported(*where, tuple(answer.reports)))
                elif answer.what == "completed":
                    return o.Completed(*where, s.Value(int=effect.rank))
                elif answer.what:
                    return o.WorkerFailed(*where, *_failure(worker, answer.what))
            silent = world.time_s - answered_s > WORKER_TIMEOUT_S
            if silent or world.time_s - reported_s > REPORT_TIMEOUT_S:
                return o.WorkerFailed(*where, Cause.WORKER_HUNG, s.Error(message="it hangs"))
            await world.sleep(0.05)

    def _exchange(self, worker: Worker, effect: f.Train, done: Callable[[Any], None]) -> None:
        world = self._world
        ack = self.ack(effect.attempt_id, effect.rank)

        def reply(answer: Answer) -> None:
            if not world.fault("exchange lost", 0.1, self.who):
                world.after(world.latency(), lambda: done(answer))

        if not world.fault("exchange lost", 0.02, self.who):
            incarnation = self._client.incarnation
            world.after(world.latency(), lambda: worker.exchange(incarnation, ack, reply))
        world.after(EXCHANGE_TIMEOUT_S, lambda: done(None))

    async def _publish(self, effect: f.Publish) -> o.Observation:
        await self._world.sleep(self._world.draw.uniform(0, 1))
        return o.Published(effect.attempt_id, effect.report_index)

    async def _delete(self, effect: f.DeleteCheckpoint) -> o.Observation:
        await self._world.sleep(self._world.draw.uniform(0, 1))
        return o.Deleted(effect.index)

    async def _stop(self, effect: f.Stop) -> o.Observation:
        await self._world.sleep(self._world.draw.uniform(0, 0.5))
        self._cluster.remove(effect.attempt_id)
        return o.Cleared(effect.attempt_id)

    async def _wait(self, effect: f.Wake) -> o.Observation:
        await self._world.sleep((effect.time_ns - self._now_ns()) / 10**9)
        return o.Woke()

    async def _close(self, effect: f.Close) -> o.Observation:
        await self._world.sleep(self._world.draw.uniform(0, 1))
        return o.Closed()


def _failure(worker: Worker, what: str) -> tuple[Cause, s.Error]:
    if what == "failed":
        return Cause.WORKER_ERROR, s.Error(type="ValueError", message="bad batch")
    cause = Cause.NODE_PREEMPTED if worker.preempted else Cause.WORKER_LOST
    return cause, s.Error(message="its process is gone")


_EFFECTS: Mapping[type, Callable[[Controller, Any], Effect]] = {
    f.Place: Controller._place,
    f.StartGang: Controller._start_gang,
    f.SetUp: Controller._set_up,
    f.Train: Controller._train,
    f.Publish: Controller._publish,
    f.DeleteCheckpoint: Controller._delete,
    f.Stop: Controller._stop,
    f.Wake: Controller._wait,
    f.Close: Controller._close,
}
