"""The simulation finds bugs: each of these, planted, breaks a promise for some seed.

A bug is planted where the rule is; what finds it must not know of it. Those of replica groups, sizes and
placement groups are in planted_groups.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.sim import controller, effects, run, store
from tests.sim.planted_groups import GROUP_BUGS
from tests.sim.worker import Ack
from trainstate.controller import loop
from trainstate.core import (
    decide,
    decide_again,
    decide_end,
    decide_size,
    decide_start,
    decide_train,
    deciding,
    evolve,
    policy,
)
from trainstate.core import effects as f
from trainstate.core import observations as o
from trainstate.v1 import event_pb2 as e

SEEDS = 1500
# Where a bug is found that takes more seeds than that.
KNOWN = {"take_any_generation_for_the_current_one": 1908}
Plant = Callable[[pytest.MonkeyPatch], None]


def act_before_append(patch: pytest.MonkeyPatch) -> None:
    async def step(self, seen):
        events = [event for one in seen for event in self._decide(one.observation)]
        for event in events:
            evolve(self.run, event)
        self._reconcile([one.ended for one in seen if one.ended is not None])
        if events:
            await self._append(events)
        return events

    patch.setattr(loop.Loop, "step", step)


def acknowledge_before_durable(patch: pytest.MonkeyPatch) -> None:
    def ack(self, attempt_id, rank):
        attempt = self.loop._ahead.find_attempt(attempt_id)
        keeper = attempt.keeper(attempt.group_of(rank))
        return Ack(attempt.workers[rank].reports, keeper.committed)

    patch.setattr(controller.Controller, "ack", ack)


def do_not_fence(patch: pytest.MonkeyPatch) -> None:
    # Incarnation and position: either of them alone stops a writer that another one followed.
    def append(self, incarnation, expected, batch):
        for encoded in batch:
            self._record(e.Event.FromString(encoded), incarnation)

    patch.setattr(store.Store, "append", append)


def take_any_attempt_for_the_open_one(patch: pytest.MonkeyPatch) -> None:
    for module in (deciding, decide_end, decide_size, decide_start, decide_train):
        patch.setattr(module, "current", lambda run, attempt_id: run.attempt)


def commit_before_all_ranks(patch: pytest.MonkeyPatch) -> None:
    def complete(attempt, group):
        pending = attempt.keeper(group).pending
        return pending[min(pending)] if pending else None

    for module in (policy, loop):
        patch.setattr(module, "complete", complete)


def record_a_mismatch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide_train, "_mismatch", lambda attempt, report: None)


def restart_without_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(policy.BudgetState, "allows", True)


def leave_the_workers(patch: pytest.MonkeyPatch) -> None:
    async def stop(here, effect):
        return o.Cleared(effect.attempt_id)

    patch.setitem(effects.EFFECTS, f.Stop, stop)


def forget_what_was_half_decided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide_again, "half_done", lambda run: iter(()))


def finish_before_the_last_checkpoint(patch: pytest.MonkeyPatch) -> None:
    original = decide_train.on_completed

    def on_completed(run, completed, now_ns):
        attempt = run.attempt
        keepers = [attempt.keeper(group) for group in attempt.sharing]
        kept = [keeper.pending for keeper in keepers]
        for keeper in keepers:
            keeper.pending = {}
        yield from original(run, completed, now_ns)
        for keeper, pending in zip(keepers, kept, strict=True):
            keeper.pending = pending

    handlers = {**decide._HANDLERS, o.Completed: on_completed}
    patch.setattr(decide, "_HANDLERS", handlers)


def cancel_nothing(patch: pytest.MonkeyPatch) -> None:
    original = loop.Loop._reconcile

    def reconcile(self, ended):
        before = dict(self._under_way)
        original(self, ended)
        self._under_way = {**before, **self._under_way}

    patch.setattr(loop.Loop, "_reconcile", reconcile)


def believe_every_report(patch: pytest.MonkeyPatch) -> None:
    original = decide_train.on_reported

    def on_reported(run, reported, now_ns):
        worker = run.attempt.workers[reported.rank] if run.attempt else None
        due = worker.reports if worker else 0
        renumbered = []
        for number, report in enumerate(reported.reports, start=due):
            copy = type(report)()
            copy.CopyFrom(report)
            copy.index = number
            renumbered.append(copy)
        return original(run, replace(reported, reports=tuple(renumbered)), now_ns)

    handlers = {**decide._HANDLERS, o.Reported: on_reported}
    patch.setattr(decide, "_HANDLERS", handlers)


BUGS = [
    act_before_append,
    acknowledge_before_durable,
    do_not_fence,
    take_any_attempt_for_the_open_one,
    commit_before_all_ranks,
    record_a_mismatch,
    restart_without_limit,
    leave_the_workers,
    forget_what_was_half_decided,
    finish_before_the_last_checkpoint,
    cancel_nothing,
    believe_every_report,
    *GROUP_BUGS,
]


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seed breaks; the report names it and how to see it again."""
    plant(monkeypatch)
    seeds = [KNOWN[plant.__name__]] if plant.__name__ in KNOWN else range(SEEDS)
    found = next(filter(None, map(_breaks, seeds)), None)
    assert found is not None
    print(found)


def _breaks(seed: int) -> str:
    """Why a seed breaks, if it does."""
    try:
        run.simulate(seed)
    except run.Failed as failed:
        why = str(failed)
    else:
        return ""
    assert f"python -m tests.sim {seed}" in why
    return f"seed {seed}: {why.splitlines()[0]}"
