"""Bugs to plant: in the rules of replica groups, of sizes, of placement groups and of notices."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.sim import effects, invariants
from trainstate.controller import loop
from trainstate.core import Run, decide, decide_group, decide_size, decide_train, policy
from trainstate.core import effects as f
from trainstate.core import observations as o
from trainstate.core.deciding import bare, open_attempt
from trainstate.core.model import ReplicaGroupStatus, RunStatus, WorkerStatus
from trainstate.core.plan import plan
from trainstate.v1 import event_pb2 as e

_APPLIERS = sys.modules["trainstate.core.evolve"]._APPLIERS  # `core.evolve` is the function


def _replace(patch: pytest.MonkeyPatch, change: Callable[..., Iterator[e.Event]]) -> None:
    """Has `change(events, attempt, group)` make the events of a replacement."""
    original = decide_group.replace

    def replace(attempt, group, *args, **kwargs):
        yield from change(original(attempt, group, *args, **kwargs), attempt, group)

    patch.setattr(decide_group, "replace", replace)


# --- replica groups -------------------------------------------------------------------------------


def leave_the_mates_running(patch: pytest.MonkeyPatch) -> None:
    def change(events, attempt, group):
        failed = {one.rank for one in attempt.gang(group) if one.status is WorkerStatus.FAILING}
        for event in events:
            kind = event.WhichOneof("payload")
            of_rank = kind in ("worker_failing", "worker_scheduled")
            if not of_rank or getattr(event, kind).rank in failed:
                yield event

    _replace(patch, change)


def stop_the_survivors(patch: pytest.MonkeyPatch) -> None:
    def change(events, attempt, group):
        for worker in attempt.workers.values():
            other = attempt.group_of(worker.rank) != group
            if other and worker.status is WorkerStatus.RUNNING:
                yield bare(e.WorkerFailing(rank=worker.rank, cause=3), "", attempt.attempt_id)
        yield from events

    _replace(patch, change)


def begin_reports_anew(patch: pytest.MonkeyPatch) -> None:
    def change(events, attempt, group):
        for event in events:
            if event.WhichOneof("payload") == "worker_scheduled":
                event.worker_scheduled.first_report = 0
            yield event

    _replace(patch, change)


def keep_half_a_checkpoint_of_the_generation_before(patch: pytest.MonkeyPatch) -> None:
    original = _APPLIERS["replica_group_replacing"]

    def replacing(run, event, payload):
        group = run.attempt.groups[payload.group]
        pending = group.pending
        original(run, event, payload)
        group.pending = pending

    patch.setitem(_APPLIERS, "replica_group_replacing", replacing)


def leave_the_generation_before(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(effects, "_kill_earlier", lambda here, attempt, workers: None)


def take_any_generation_for_the_current_one(patch: pytest.MonkeyPatch) -> None:
    def current_worker(run, attempt_id, rank, generation):
        attempt = open_attempt(run)
        known = attempt is not None and attempt.attempt_id == attempt_id
        return attempt.workers.get(rank) if known else None

    patch.setattr(decide_train, "current_worker", current_worker)


def replace_the_last_group(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide_group, "_is_partial", lambda run, attempt, group: True)


def replace_what_is_done_elsewhere(patch: pytest.MonkeyPatch) -> None:
    def is_partial(run, attempt, group):
        others = [one for one in attempt.groups.values() if one.group != group]
        healthy = any(one.status is ReplicaGroupStatus.RUNNING for one in others)
        return run.status is RunStatus.RUNNING and healthy and policy.max_replacements(run) > 0

    patch.setattr(decide_group, "_is_partial", is_partial)


def try_a_replacement_once_more(patch: pytest.MonkeyPatch) -> None:
    original = policy.max_replacements
    patch.setattr(policy, "max_replacements", lambda run: original(run) + bool(original(run)))


def replace_a_group_that_trains(patch: pytest.MonkeyPatch) -> None:
    original = decide_group.replace_due

    def replace_due(run, now_ns):
        yield from original(run, now_ns)
        for group in run.attempt.groups.values():
            if group.status is ReplicaGroupStatus.RUNNING and group.replacements:
                gone = e.ReplicaGroupFailed(group=group.group, cause=3)
                yield bare(gone, "", run.attempt.attempt_id)

    patch.setattr(decide_group, "replace_due", replace_due)


# --- sizes ----------------------------------------------------------------------------------------


def grow_when_some_are_done(patch: pytest.MonkeyPatch) -> None:
    def room(run):
        attempt, size = run.attempt, policy.size_of(run.settings)
        if attempt is None or not size.is_elastic:
            return 0
        return max(0, size.of(len(policy.places(run))) - attempt.num_workers)

    patch.setattr(policy, "room", room)


def grow_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(policy, "resize_due_ns", lambda run: 0)


def split_a_replica_group(patch: pytest.MonkeyPatch) -> None:
    def of(size, bundles):
        return min(size.largest, bundles) if bundles >= size.smallest else 0

    patch.setattr(policy.Size, "of", of)


def wait_without_a_word(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(decide._HANDLERS, o.Short, lambda run, short, now_ns: iter(()))


# --- placement groups and notices -----------------------------------------------------------------


def place_on_what_is_taken_away(patch: pytest.MonkeyPatch) -> None:
    original = policy.places

    def places(run: Run, *args: Any):
        gone, run.preempted_nodes = run.preempted_nodes, []
        try:
            return original(run, *args)
        finally:
            run.preempted_nodes = gone

    patch.setattr(policy, "places", places)


def give_placement_groups_back_at_every_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(policy, "stale_placements", lambda run: list(run.placements))


def give_the_gang_back_while_it_runs(patch: pytest.MonkeyPatch) -> None:
    def with_release(run):
        stops = any(isinstance(one, f.Stop) for one in plan(run))
        early = (f.Release(tuple(run.placements)),) if stops and run.placements else ()
        return (*plan(run), *early)

    for module in (loop, invariants):
        patch.setattr(module, "plan", with_release)


def stay_where_time_is_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide_size, "make_way_if_due", lambda run, now_ns: iter(()))


def ignore_notices_while_workers_start(patch: pytest.MonkeyPatch) -> None:
    original = decide_size.on_preempted

    def on_preempted(run, notice, now_ns):
        return iter(()) if run.status is RunStatus.SCHEDULING else original(run, notice, now_ns)

    patch.setitem(decide._HANDLERS, o.Preempted, on_preempted)


GROUP_BUGS = [
    leave_the_mates_running,
    stop_the_survivors,
    begin_reports_anew,
    keep_half_a_checkpoint_of_the_generation_before,
    leave_the_generation_before,
    take_any_generation_for_the_current_one,
    replace_the_last_group,
    replace_what_is_done_elsewhere,
    try_a_replacement_once_more,
    replace_a_group_that_trains,
    grow_when_some_are_done,
    grow_at_once,
    split_a_replica_group,
    wait_without_a_word,
    place_on_what_is_taken_away,
    give_placement_groups_back_at_every_restart,
    give_the_gang_back_while_it_runs,
    stay_where_time_is_up,
    ignore_notices_while_workers_start,
]
