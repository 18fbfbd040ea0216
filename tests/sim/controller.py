"""A controller process: the real `Loop`, driven through `send`. Its effects: tests/sim/effects.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.sim import effects
from tests.sim.cluster import Cluster
from tests.sim.store import Client, Store
from tests.sim.worker import Ack
from tests.sim.world import Died, Task, Until, World
from trainstate.controller.loop import Loop, Seen
from trainstate.core import Run, RunStatus
from trainstate.core import effects as f
from trainstate.core import observations as o
from trainstate.core.mask import Unmasked
from trainstate.errors import ConcurrencyError, Fenced
from trainstate.v1 import event_pb2 as e

_AGAIN_S = 1.0


class Controller:
    """One life of a controller. `is_over` when it is dead, or its run is."""

    def __init__(
        self, world: World, store: Store, cluster: Cluster, number: int, created: e.RunCreated
    ) -> None:
        self.who = f"controller {number}"
        self.is_over = False
        self.is_zombie = False
        self.makes = 0
        self.loop: Loop | None = None
        self.steps: list[float] = []
        self.on_death: Callable[[Controller], None] = lambda controller: None
        self.on_start: Callable[[Controller, f.Effect], None] = lambda controller, effect: None
        self.on_step: Callable[[Controller], None] = lambda controller: None
        self.world = world
        self.cluster = cluster
        self._created = created
        self.client = Client(world, store, self.who)
        self._queue: list[Seen] = []
        self._wake: Callable[[Any], None] | None = None
        self._tasks: list[Task] = []
        # Clocks of nodes differ: a successor's may be behind.
        self._skew_ns = world.draw.choice((0, 0, -(10**9), 10**9))
        self._main = Task(self._run(), self._died)

    @contextmanager
    def making(self) -> Iterator[None]:
        """Meanwhile something is made that may have to be removed."""
        self.makes += 1
        try:
            yield
        finally:
            self.makes -= 1

    def observe(self, observation: o.Observation, ended: f.Effect | None = None) -> None:
        """Has the loop decide on that, soon."""
        if self.is_over:
            return
        longest_s = self.world.draw.choice((0.1, 2, 10, 10))
        late_s = self.world.draw.uniform(0, longest_s)
        late_s *= self.world.fault("delayed", 0.2, self.who)
        self.world.after(late_s, lambda: self._push(Seen(observation, ended)))

    def die(self, why: str) -> None:
        """The process ends; what it has sent is on its way."""
        if not self.is_over:
            self._main.cancel()
            self._died(why)

    def _died(self, why: str) -> None:
        self.world.say(self.who, f"dead: {why}")
        self.is_over = True
        for task in self._tasks:
            task.cancel()
        self.on_death(self)

    # --- the loop -------------------------------------------------------------------------------------

    async def _run(self) -> None:
        run = await self.client.open("controller")
        self.loop = Loop(run, self._append, self._start, self.now_ns, Unmasked())
        self._queue.insert(0, Seen(o.Began(self._created)))
        while not self.loop.run.status.is_terminal:
            batch, self._queue = self._queue, []
            if batch:
                await self._step(self.loop, batch)
            else:
                await Until(self._until_news)
        self.world.say(self.who, "is done")
        self.is_over = True
        self.loop.cancel()

    async def _step(self, loop: Loop, batch: Sequence[Seen]) -> None:
        self.steps.append(self.world.time_s)
        try:
            await loop.step(batch)
        except (Fenced, ConcurrencyError) as refused:
            raise Died(str(refused)) from refused
        self.on_step(self)

    async def _append(self, events: Sequence[e.Event]) -> None:
        if self.world.fault("controller dies before append", 0.03, self.who):
            raise Died("before it appended")
        await self.client.append(events)
        if self.world.fault("controller dies after append", 0.03, self.who):
            raise Died("after it appended")

    def _push(self, seen: Seen) -> None:
        self._queue.append(seen)
        wake, self._wake = self._wake, None
        if wake is not None:
            wake(None)

    def _until_news(self, done: Callable[[Any], None]) -> None:
        self._wake = done

    def now_ns(self) -> int:
        return self.world.now_ns + self._skew_ns

    def ack(self, attempt_id: str, rank: int) -> Ack:
        """What a worker may forget: what is durable, also while a step is on its way."""
        attempt = self.run.find_attempt(attempt_id)
        assert attempt is not None
        keeper = attempt.keeper(attempt.group_of(rank))
        told = self.run.preempted_ranks if self.run.status is RunStatus.PREEMPTING else ()
        return Ack(attempt.workers[rank].reports, keeper.committed, tuple(told))

    @property
    def run(self) -> Run:
        assert self.loop is not None
        return self.loop.run

    # --- effects --------------------------------------------------------------------------------------

    def _start(self, effect: f.Effect, again: bool) -> Callable[[], None]:
        if self.world.fault("controller dies while it acts", 0.02, self.who):
            raise Died("while it acted")
        self.world.say(self.who, f"begins {effect}")
        self.on_start(self, effect)
        task = Task(self._effect(effect, again), self._died)
        self._tasks.append(task)
        return lambda: self._cancel(effect, task)

    def _cancel(self, effect: f.Effect, task: Task) -> None:
        # What waits in a thread cannot be cancelled, and ends when it ends.
        late = isinstance(effect, effects.THREADED) and not task.over
        if not (late and self.world.fault("cancelled late", 0.5, self.who)):
            task.cancel()

    async def _effect(self, effect: f.Effect, again: bool) -> None:
        await self.world.sleep(self.world.latency() + _AGAIN_S * again)
        self.observe(await effects.EFFECTS[type(effect)](self, effect), effect)
