"""The effects of a controller in this world, as trainstate/controller/shell.py has them on Ray.

Every effect is a coroutine that ends with the observation that is its last word, as in the actor. What
runs in a thread there goes on here when it is cancelled (the fault "cancelled late").
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.sim.scripts import Gang
from tests.sim.worker import Answer, Name, Worker
from tests.sim.world import Until
from trainstate.core import (
    Attempt,
    Cause,
    Placement,
    PlacementStatus,
    WorkerStatus,
    model,
    policy,
)
from trainstate.core import effects as f
from trainstate.core import observations as o
from trainstate.testing.given import START_NS
from trainstate.v1 import state_pb2 as s

if TYPE_CHECKING:
    from tests.sim.controller import Controller

START_TIMEOUT_S = 15.0
EXCHANGE_TIMEOUT_S = 8.0
WORKER_TIMEOUT_S = 20.0
REPORT_TIMEOUT_S = 40.0
SETTLE_S, LOOK_S, _SILENT_S = 0.25, 1.0, 0.25
# Those that wait in threads, in the actor.
THREADED = (f.Place, f.Release, f.StartGang, f.SetUp, f.Publish, f.DeleteCheckpoint, f.Stop)
Effect = Coroutine[Until, Any, o.Observation]


# --- placing --------------------------------------------------------------------------------------


async def _place(here: Controller, effect: f.Place) -> o.Observation:
    run, size = here.run, policy.size_of(here.run.settings)
    attempt = run.find_attempt(effect.attempt_id)
    need = attempt.num_workers if attempt is not None else size.smallest
    placements, avoid = _placements(here), {"", *run.preempted_nodes}
    with here.making():
        await here.world.sleep(here.world.draw.choice((0, 0, 0.3)) * here.world.draw.random())
        for one in placements:
            here.cluster.nodes.ask(one.name, len(one.bundles))
    began_s, said = here.world.time_s, -1
    while (have := await _settled(here, placements, need, avoid)) < need:
        waited_s = here.world.time_s - began_s
        if waited_s >= _SILENT_S and have != said:
            said = have
            here.observe(o.Short(have, need, f"{have} of {need}"))
        if waited_s >= START_TIMEOUT_S and not size.is_elastic:
            return o.NotPlaced(START_TIMEOUT_S, "no room")
        await here.world.sleep(LOOK_S if said >= 0 else _SILENT_S)
    return _placed(here, placements)


def _placements(here: Controller) -> list[Placement]:
    return sorted(here.run.placements.values(), key=lambda one: one.slot)


async def _settled(
    here: Controller, placements: Sequence[Placement], need: int, avoid: set[str]
) -> int:
    """How many bundles are live; once they are enough, after what else comes at once has come."""
    everything = sum(len(one.bundles) for one in placements)
    ends_s = here.world.time_s + SETTLE_S
    while True:
        found = [_reserved(here, one).node_ids for one in placements]
        live = sum(node_id not in avoid for node_ids in found for node_id in node_ids)
        if not need <= live < everything or here.world.time_s >= ends_s:
            return live
        await here.world.sleep(0.05)


def _reserved(here: Controller, placement: Placement) -> o.Reserved:
    group = here.cluster.nodes.groups.get(placement.name)
    found = tuple(group.node_ids) if group is not None and group.node_ids else ()
    node_ids = found or ("",) * len(placement.bundles)
    return o.Reserved(placement.name, placement.name.encode(), node_ids)


def _placed(here: Controller, placements: Sequence[Placement]) -> o.Placed:
    """What is reserved, and what is known to have been."""
    both = [(known, _reserved(here, known)) for known in placements]
    return o.Placed(tuple(now for known, now in both if any(now.node_ids) or known.node_ids))


async def _watch(here: Controller, effect: f.Watch) -> o.Observation:
    while True:
        for one in _placements(here):
            if one.status is PlacementStatus.REQUESTED:
                here.cluster.nodes.ask(one.name, len(one.bundles))
        placed = _placed(here, _placements(here))
        known = {one.name: tuple(one.node_ids) for one in here.run.placements.values()}
        if any(known[group.name] != group.node_ids for group in placed.groups):
            here.observe(placed)
        ours = {node_id for group in placed.groups for node_id in group.node_ids}
        draining = here.cluster.nodes.draining
        going = {node_id: draining[node_id] for node_id in sorted(ours & draining.keys())}
        if not going.keys() <= set(here.run.preempted_nodes):
            here.observe(_preempted(effect.attempt_id, going))
        await here.world.sleep(LOOK_S)


def _preempted(attempt_id: str, going: Mapping[str, float | None]) -> o.Preempted:
    deadline_s = min((one for one in going.values() if one is not None), default=None)
    deadline_ns = None if deadline_s is None else START_NS + int(deadline_s * 10**9)
    return o.Preempted(attempt_id, tuple(going), deadline_ns=deadline_ns)


async def _release(here: Controller, effect: f.Release) -> o.Observation:
    await here.world.sleep(here.world.draw.uniform(0, 0.5))
    await _made(here)
    here.cluster.nodes.remove(effect.names)
    return o.Released(effect.names)


async def _made(here: Controller) -> None:
    """Waits for the threads that make what is to be removed (trainstate/controller/making.py)."""
    while here.makes:
        await here.world.sleep(0.01)


# --- starting -------------------------------------------------------------------------------------


def _attempt(here: Controller, attempt_id: str) -> Attempt:
    attempt = here.run.find_attempt(attempt_id)
    assert attempt is not None
    return attempt


def _name(attempt: Attempt, worker: model.Worker, generation: int | None = None) -> Name:
    own = worker.generation if generation is None else generation
    return Name(attempt.attempt_id, worker.placement, worker.bundle, own)


async def _start_gang(here: Controller, effect: f.StartGang) -> o.Observation:
    attempt = _attempt(here, effect.attempt_id)
    waiting = [one for one in attempt.gang(effect.group) if one.status is WorkerStatus.SCHEDULING]
    _kill_earlier(here, attempt, waiting)
    names = [_name(attempt, one) for one in waiting]
    started = []
    pace_s = here.world.draw.choice((0.01, 0.01, 0.3))
    with here.making():
        for name in names:
            await here.world.sleep(here.world.draw.uniform(0, pace_s))
            started.append(here.cluster.start(name, here.is_zombie))
    ends_s = here.world.time_s + START_TIMEOUT_S
    while any(not _is_settled(one) for one in started) and here.world.time_s < ends_s:
        await here.world.sleep(0.1)
    which = (effect.group, effect.generation)
    for worker, process in zip(waiting, started, strict=True):
        if process.status != "up":
            late = process.status == "starting"
            cause = Cause.START_TIMEOUT if late else Cause.START_FAILED
            error = s.Error(message="a worker did not come up", ranks=[worker.rank] * 2)
            return o.StartFailed(attempt.attempt_id, cause, error, *which)
    return o.GangUp(attempt.attempt_id, tuple(map(_facts, started)), *which)


def _is_settled(worker: Worker) -> bool:
    return worker.status == "up" or worker.is_missed


def _kill_earlier(here: Controller, attempt: Attempt, workers: Sequence[model.Worker]) -> None:
    """Kills what is left of earlier attempts and generations: their bundles are taken over."""
    for over in here.run.attempts:
        if over.status.is_terminal:
            here.cluster.stop(over.attempt_id)
    for worker in workers:
        for generation in range(worker.generation):
            found = here.cluster.find(_name(attempt, worker, generation))
            if found is not None:
                found.go("replaced")


def _facts(worker: Worker) -> o.WorkerFacts:
    at = worker.name
    return o.WorkerFacts(
        bundle=at.bundle,
        generation=at.generation,
        actor_id=worker.actor_id,
        node_id=bytes.fromhex(worker.node_id),
        node_ip=worker.node_id,
        pid=1,
        accelerator_ids=(f"GPU-{9 - at.bundle}",),
        placement=at.placement,
    )


async def _set_up(here: Controller, effect: f.SetUp) -> o.Observation:
    attempt = _attempt(here, effect.attempt_id)
    which = (effect.group, effect.generation)
    for one in attempt.gang(effect.group):
        process = here.cluster.find(_name(attempt, one))
        await here.world.sleep(here.world.latency())
        while process is not None and process.status == "gone" and not process.is_missed:
            await here.world.sleep(0.1)
        if process is None or process.is_missed:
            error = s.Error(message="a worker is gone", ranks=[one.rank])
            return o.StartFailed(attempt.attempt_id, Cause.START_FAILED, error, *which)
        assert process.rank in (None, one.rank), "one process has two ranks"
        process.rank, process.group = one.rank, attempt.group_of(one.rank)
    await here.world.sleep(here.world.draw.choice((0.01, 1)) * here.world.draw.random())
    if here.world.fault("set-up fails", 0.1, here.who):
        error = s.Error(message="the backend raised")
        return o.StartFailed(attempt.attempt_id, Cause.START_FAILED, error, *which)
    return o.Ready(attempt.attempt_id, (), *which)


# --- training -------------------------------------------------------------------------------------


async def _train(here: Controller, effect: f.Train) -> o.Observation:
    world, where = here.world, (effect.attempt_id, effect.rank, effect.generation)
    attempt = _attempt(here, effect.attempt_id)
    process = here.cluster.find(_name(attempt, attempt.workers[effect.rank]))
    if process is None:
        return o.WorkerFailed(*where, Cause.WORKER_LOST, s.Error(message="it was gone"))
    _begin(here, attempt, process, effect)
    answered_s = reported_s = world.time_s
    while True:
        answer: Answer | None = await Until(lambda done: _exchange(here, process, effect, done))
        if answer is not None and answer.what != "superseded":
            answered_s = world.time_s
            reported_s = world.time_s if answer.reports else reported_s
            if answer.is_terminating:
                here.observe(o.Preempted(effect.attempt_id, ranks=(effect.rank,)))
            if answer.reports:
                here.observe(o.Reported(*where, tuple(answer.reports)))
            elif answer.what == "completed":
                return o.Completed(*where, s.Value(int=effect.rank))
            elif answer.what:
                return o.WorkerFailed(*where, *_failure(answer.what))
        silent = world.time_s - answered_s > WORKER_TIMEOUT_S
        if silent or world.time_s - reported_s > REPORT_TIMEOUT_S:
            return o.WorkerFailed(*where, Cause.WORKER_HUNG, s.Error(message="it hangs"))
        await world.sleep(0.05)


def _begin(here: Controller, attempt: Attempt, process: Worker, effect: f.Train) -> None:
    """Has the train function started; in one that runs already, nothing changes."""
    group = attempt.group_of(effect.rank)
    size = attempt.gang_size(group)
    gang = Gang(attempt.attempt_id, group, effect.generation)
    script = here.cluster.scripts.of(gang, effect.rank % size, size)
    process.begin(script, here.ack(effect.attempt_id, effect.rank))


def _failure(what: str) -> tuple[Cause, s.Error]:
    if what == "failed":
        return Cause.WORKER_ERROR, s.Error(type="ValueError", message="bad batch")
    return Cause.WORKER_LOST, s.Error(message="its process is gone")


def _exchange(
    here: Controller, process: Worker, effect: f.Train, done: Callable[[Any], None]
) -> None:
    world = here.world
    ack = here.ack(effect.attempt_id, effect.rank)

    def reply(answer: Answer) -> None:
        if not world.fault("exchange lost", 0.1, here.who):
            world.after(world.latency(), lambda: done(answer))

    if not world.fault("exchange lost", 0.02, here.who):
        incarnation = here.client.incarnation
        world.after(world.latency(), lambda: process.exchange(incarnation, ack, reply))
    world.after(EXCHANGE_TIMEOUT_S, lambda: done(None))


async def _publish(here: Controller, effect: f.Publish) -> o.Observation:
    await here.world.sleep(here.world.draw.uniform(0, 1))
    return o.Published(effect.attempt_id, effect.report_index, group=effect.group)


async def _delete(here: Controller, effect: f.DeleteCheckpoint) -> o.Observation:
    await here.world.sleep(here.world.draw.uniform(0, 1))
    return o.Deleted(effect.index)


# --- ending ---------------------------------------------------------------------------------------


async def _stop(here: Controller, effect: f.Stop) -> o.Observation:
    await here.world.sleep(here.world.draw.uniform(0, 0.5))
    await _made(here)
    while here.cluster.of_attempt(effect.attempt_id):
        here.cluster.stop(effect.attempt_id)
        await here.world.sleep(0.01)
    return o.Cleared(effect.attempt_id)


async def _wait(here: Controller, effect: f.Wake) -> o.Observation:
    await here.world.sleep((effect.time_ns - here.now_ns()) / 10**9)
    return o.Woke()


async def _close(here: Controller, effect: f.Close) -> o.Observation:
    await here.world.sleep(here.world.draw.uniform(0, 1))
    return o.Closed()


EFFECTS: Mapping[type, Callable[[Controller, Any], Effect]] = {
    f.Place: _place,
    f.Watch: _watch,
    f.Release: _release,
    f.StartGang: _start_gang,
    f.SetUp: _set_up,
    f.Train: _train,
    f.Publish: _publish,
    f.DeleteCheckpoint: _delete,
    f.Stop: _stop,
    f.Wake: _wait,
    f.Close: _close,
}
