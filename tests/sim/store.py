"""The state actor: the rules of `trainstate.store.Store` in memory, and how a caller asks again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.sim.world import Until, World
from trainstate.core import Run, check, evolve, initial
from trainstate.core.applying import stamp
from trainstate.core.freeze import copy
from trainstate.errors import ConcurrencyError, Fenced
from trainstate.v1 import event_pb2 as e

_RETRY_S = 1.0
Batch = Sequence[bytes]


class Store:
    """One run's events, durable, and the fold of them. `watch` sees each event after it is applied."""

    def __init__(self, world: World, run_id: str) -> None:
        self.run = initial(run_id)
        self.events: list[bytes] = []
        self.watch: Callable[[Run, e.Event], None] = lambda run, event: None
        self.is_up = True
        self._world = world

    def open_run(self, writer: str) -> Run:
        """Takes the run up; a copy of its state, in which its incarnation is the new writer's."""
        event = e.Event(time_unix_nano=self._world.now_ns, run_opened=e.RunOpened(writer=writer))
        self._record(event, self.run.incarnation + 1)
        return copy(self.run)

    def append(self, incarnation: int, expected: int, batch: Batch) -> None:
        """Records events, all or none. Raises Fenced, ConcurrencyError, InvalidTransition."""
        self._judge(incarnation)
        if self.run.run_seq != expected:
            if self.events[expected : expected + len(batch)] != list(batch):
                raise ConcurrencyError(self.run.run_seq, expected, run_id=self.run.run_id)
            return
        for encoded in batch:
            self._record(e.Event.FromString(encoded), incarnation)

    def crash(self) -> None:
        """The process dies, and is there again after a while."""
        self.is_up = False
        self._world.say("state", "died")
        self._world.after(self._world.draw.uniform(0.2, 4), self._restart)

    def _restart(self) -> None:
        self.is_up = True

    def _judge(self, incarnation: int) -> None:
        if incarnation != self.run.incarnation:
            raise Fenced(f"incarnation {incarnation}, not {self.run.incarnation}")

    def _record(self, event: e.Event, incarnation: int) -> None:
        stamp(self.run, event)
        event.incarnation = incarnation
        check(self.run, event)
        evolve(self.run, event)
        self.events.append(event.SerializeToString())
        kind = event.WhichOneof("payload")
        self._world.say("journal", f"{event.run_seq} {kind}: {event.reason}")
        self.watch(self.run, event)


class Client:
    """A writer of the run, as `TrainStateManager` is one: asks until it is answered."""

    def __init__(self, world: World, store: Store, who: str) -> None:
        self._world = world
        self._store = store
        self._who = who
        self.incarnation = 0
        self.run_seq = 0

    async def open(self, writer: str) -> Run:
        run: Run = await self._ask(lambda: self._store.open_run(writer))
        self.incarnation, self.run_seq = run.incarnation, run.run_seq
        return run

    async def append(self, events: Sequence[e.Event]) -> None:
        batch = [event.SerializeToString() for event in events]
        at = (self.incarnation, self.run_seq)
        await self._ask(lambda: self._store.append(*at, batch), batch, at)
        self.run_seq += len(batch)

    async def _ask(
        self, call: Callable[[], Any], batch: Batch = (), at: tuple[int, int] = (0, 0)
    ) -> Any:
        while True:
            answer = await Until(lambda done: self._send(call, batch, at, done))
            if answer is not _NO_ANSWER:
                return answer

    def _send(
        self,
        call: Callable[[], Any],
        batch: Batch,
        at: tuple[int, int],
        done: Callable[[Any], None],
    ) -> None:
        world = self._world
        late = world.fault("late request", 0.02, self._who)  # it comes, after it was asked again
        world.after(
            world.latency() + 2 * _RETRY_S * late, lambda: self._arrive(call, batch, at, done)
        )
        world.after(_RETRY_S, lambda: done(_NO_ANSWER))

    def _arrive(
        self,
        call: Callable[[], Any],
        batch: Batch,
        at: tuple[int, int],
        done: Callable[[Any], None],
    ) -> None:
        world, store = self._world, self._store
        if store.is_up and world.fault("state dies", 0.02, self._who):
            store.crash()
        if not store.is_up:
            return
        partly = len(batch) > 1 and world.fault("partly durable", 0.08, self._who)
        if partly and at == (store.run.incarnation, store.run.run_seq):
            store.append(*at, batch[: world.draw.randrange(1, len(batch))])
            store.crash()
            return
        try:
            answer = call()
        except (Fenced, ConcurrencyError) as refused:
            answer = refused
        if world.fault("answer lost", 0.03, self._who):
            return
        world.after(world.latency(), lambda: done(answer))


_NO_ANSWER = object()
