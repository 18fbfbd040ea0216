"""Ending a run that has nobody left to end it: the same decisions as its controller's, by another hand.

Attempt before run, and everything recorded before and after the world is changed, so that who is
interrupted here is followed by somebody who goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from trainstate.core import Run, RunStatus
from trainstate.core.decide import decide
from trainstate.core.effects import Release, Stop
from trainstate.core.observations import Abort, Cleared, Closed, Observation, Released
from trainstate.core.plan import plan
from trainstate.store import Store
from trainstate.v1 import view_pb2 as v

# Makes what an effect names go away, workers or placement groups, and returns when it is gone.
Clear = Callable[[Run, Stop | Release], object]


def is_open(summary: v.RunSummary) -> bool:
    """Whether a run has begun and not ended. One that was only opened has nothing to end."""
    return bool(summary.status) and not RunStatus(summary.status).is_terminal


def end_run(store: Store, run_id: str, writer: str, why: Abort, clear: Clear) -> None:
    """Takes the run up as `writer`, which fences whoever had it, and ends it because of `why`.

    A run that was on its way to another end comes to that one. Blocks. Raises what `Store.append` does:
    Fenced if somebody else takes it up meanwhile.
    """
    hand = _Hand(store, run_id, writer)
    hand.observe(why)
    while due := [one for one in plan(hand.run) if isinstance(one, Stop | Release)]:
        for effect in due:
            clear(hand.run, effect)
            hand.observe(_done(effect))
    # What the plan may still want, deleting checkpoints, needs the storage, which only a controller has.
    hand.observe(Closed())


def _done(effect: Stop | Release) -> Observation:
    if isinstance(effect, Stop):
        return Cleared(effect.attempt_id)
    return Released(effect.names)


class _Hand:
    """A writer of a run that records what follows from what it observes."""

    def __init__(self, store: Store, run_id: str, writer: str) -> None:
        self._store = store
        self.run, _, self._incarnation = store.open_run(run_id, writer, time.time_ns())

    def observe(self, observation: Observation) -> None:
        events = decide(self.run, observation, time.time_ns()).events
        run = self.run
        if events:
            self._store.append(run.run_id, self._incarnation, run.run_seq, events)
            self.run = self._store.state(run.run_id)
