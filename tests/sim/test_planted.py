"""The simulation finds bugs: each of these, planted, breaks a promise for some seed.

A bug is planted where the rule is; what finds it must not know of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.sim import controller, run, store
from tests.sim.cluster import Cluster
from tests.sim.worker import Ack
from trainstate.controller import loop
from trainstate.core import decide, decide_end, decide_train, deciding, evolve, policy
from trainstate.core import observations as o
from trainstate.core.model import Attempt, PendingCheckpoint
from trainstate.v1 import event_pb2 as e

SEEDS = 1500
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
        return Ack(attempt.workers[rank].reports, attempt.committed)

    patch.setattr(controller.Controller, "ack", ack)


def do_not_fence(patch: pytest.MonkeyPatch) -> None:
    # Incarnation and position: either of them alone stops a writer that another one followed.
    def append(self, incarnation, expected, batch):
        for encoded in batch:
            self._record(e.Event.FromString(encoded), incarnation)

    patch.setattr(store.Store, "append", append)


def take_any_attempt_for_the_open_one(patch: pytest.MonkeyPatch) -> None:
    for module in (deciding, decide, decide_end, decide_train):
        patch.setattr(module, "current", lambda run, attempt_id: run.attempt)


def commit_before_all_ranks(patch: pytest.MonkeyPatch) -> None:
    def complete(attempt: Attempt) -> PendingCheckpoint | None:
        return attempt.pending[min(attempt.pending)] if attempt.pending else None

    patch.setattr(policy, "complete", complete)


def record_a_mismatch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide_train, "_mismatch", lambda attempt, report: None)


def restart_without_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(policy.BudgetState, "allows", True)


def leave_the_workers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Cluster, "_kill", lambda self, attempt_id: None)


def forget_what_was_half_decided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "half_done", lambda run: iter(()))


def finish_before_the_last_checkpoint(patch: pytest.MonkeyPatch) -> None:
    original = decide_train.on_completed

    def on_completed(run, completed, now_ns):
        pending, run.attempt.pending = run.attempt.pending, {}
        yield from original(run, completed, now_ns)
        run.attempt.pending = pending

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
]


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seed breaks; the report names it and how to see it again."""
    plant(monkeypatch)
    found = next(filter(None, map(_breaks, range(SEEDS))), None)
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
