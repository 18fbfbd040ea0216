"""The loop of a controller, without Ray and without a clock of its own: observe, decide, append, act.

`step` takes what was observed, records what follows, and only when that is durable starts the effects
that became due and cancels those that no longer are. Append comes before act, always. An effect that
ends says so with its last observation; if the plan still wants it after that, it is begun again, later:
so nothing here can spin.

The controller actor drives it with asyncio, the simulation of tests/sim without: `step` awaits nothing
but `append`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from trainstate.controller.failure import describe
from trainstate.core import Cause, Run, evolve
from trainstate.core.applying import stamp
from trainstate.core.decide import decide
from trainstate.core.effects import Effect
from trainstate.core.freeze import copy
from trainstate.core.mask import Masking
from trainstate.core.observations import Broke, Observation
from trainstate.core.plan import plan
from trainstate.core.policy import complete, surplus
from trainstate.v1 import event_pb2 as e

Append = Callable[[Sequence[e.Event]], Awaitable[None]]
Cancel = Callable[[], object]


class Seen(NamedTuple):
    """An observation; with the effect whose last word it is, if it is one's."""

    observation: Observation
    ended: Effect | None = None


class Loop:
    """A run, taken up.

    `append` makes events durable or raises (Fenced, StateUnavailable: this loop is then over); `start`
    begins an effect and returns what cancels it, and is told whether it was begun before; `now_ns` is
    the wall clock; `masking` is the journal's, so that nothing that is made of `run` has a secret that
    the journal has not. `run` is what is durable, at any time: effects read it while a step is on its
    way.
    """

    def __init__(
        self,
        run: Run,
        append: Append,
        start: Callable[[Effect, bool], Cancel],
        now_ns: Callable[[], int],
        masking: Masking,
    ) -> None:
        self.run = run
        self.reason = ""
        self._ahead = copy(run)  # with what is decided and on its way to be durable
        self._append = append
        self._start = start
        self._now_ns = now_ns
        self._masking = masking
        self._under_way: dict[Effect, Cancel] = {}

    async def step(self, seen: Sequence[Seen]) -> list[e.Event]:
        """Decides on what was seen, in order; returns the events, durable, after acting on them."""
        events = [event for one in seen for event in self._decide(one.observation)]
        if events:
            await self._append(events)
        for event in events:
            evolve(self.run, event)
        ended = [one.ended for one in seen if one.ended is not None]
        if ended or not self._changes_no_plan(events):
            self._reconcile(ended)
        return events

    def cancel(self) -> None:
        """Cancels every effect under way: this loop is over."""
        for cancel in self._under_way.values():
            cancel()
        self._under_way.clear()

    def _decide(self, observation: Observation) -> Sequence[e.Event]:
        try:
            decision = decide(self._ahead, observation, self._now_ns())
        except Exception as error:  # the boundary: what is wrong with us ends the run, and is said
            broke = Broke(Cause.CONTROLLER_ERROR, describe(error))
            decision = decide(self._ahead, broke, self._now_ns())
        for event in decision.events:
            stamp(self._ahead, event)
            if self._masking.may_touch(event, event.SerializeToString()):
                self._masking(event, self._ahead)
            evolve(self._ahead, event)
        if decision.events:
            self.reason = decision.reason
        return decision.events

    def _changes_no_plan(self, events: Sequence[e.Event]) -> bool:
        """Reports that complete no checkpoint: usual, so they must not cost a look at all workers."""
        attempt = self.run.attempt
        if any(event.WhichOneof("payload") != "report_received" for event in events):
            return False
        if attempt is None:
            return True
        if surplus(self.run):
            return False
        gangs = {attempt.group_of(event.report_received.rank) for event in events}
        return all(complete(attempt, group) is None for group in gangs)

    def _reconcile(self, ended: Sequence[Effect]) -> None:
        for effect in ended:
            self._under_way.pop(effect, None)
        wanted = dict.fromkeys(plan(self.run))
        for effect in [one for one in self._under_way if one not in wanted]:
            self._under_way.pop(effect)()
        for effect in wanted:
            if effect not in self._under_way:
                self._under_way[effect] = self._start(effect, effect in ended)
