"""How an attempt gets its place, and how its workers come up.

Placement groups are the run's: asked for once, and kept from one attempt to the next (1-02, 1-03). First
the gang of the minimum; when that has its place, all that may be added, at once (1-05, 1-06): sooner it
could take the very room that the gang waits for. The number of workers of a fixed run is known, so its
attempt is planned before its place is there; an elastic run plans the attempt that fits what there is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from trainstate.core import decide_group, policy
from trainstate.core import observations as o
from trainstate.core.decide_end import after_failure, failing
from trainstate.core.deciding import STARTING, STOPPING, TRAINING, bare, current, open_attempt
from trainstate.core.model import (
    Attempt,
    AttemptStatus,
    Cause,
    Placement,
    PlacementStatus,
    Run,
    RunStatus,
    Worker,
    WorkerStatus,
)
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s


def schedule(run: Run, settings: s.RunSettings) -> Iterator[e.Event]:
    """Asks for the placement groups that are missing; plans the next attempt if its size is known."""
    size = policy.size_of(settings)
    each = settings.scaling_config.resources_per_worker
    text = ", ".join(f"{one.name}: {one.amount:g}" for one in each.resources)
    upto = f" to {size.largest}" if size.is_elastic else ""
    why = f"scheduling {size.smallest}{upto} workers, each requiring {{{text}}}"
    yield bare(e.RunScheduling(num_workers=size.smallest, resources_per_worker=each), why)
    yield from _requests(run, settings, size, {one.slot for one in run.placements.values()})
    if not size.is_elastic:
        yield _planned(run, settings, size.smallest, why)


def _planned(run: Run, settings: s.RunSettings, workers: int, why: str) -> e.Event:
    number = len(run.attempts) + 1
    planned = e.AttemptPlanned(
        num_workers=workers,
        resources_per_worker=settings.scaling_config.resources_per_worker,
        replica_group_size=settings.scaling_config.replica_group_size,
    )
    attempt_id = policy.attempt_id_of(run.run_id, number)
    return bare(planned, f"attempt {number}: {why}", attempt_id)


def _requests(
    run: Run,
    settings: s.RunSettings,
    size: policy.Size,
    there: Collection[int],
    now: Collection[str] = (),
) -> Iterator[e.Event]:
    """Of the slots that are not there; `now` are placement groups that have just got their place."""
    scaling = settings.scaling_config
    first = 0
    gang = next((one for one in run.placements.values() if one.slot == 0), None)
    wanted = policy.slots(size) if gang is not None and _is_placed(gang, now) else [size.smallest]
    for slot, bundles in enumerate(wanted):
        requested = e.PlacementRequested(
            name=f"{run.run_id}/{slot}.{len(run.attempts) + 1}",
            bundles=[scaling.resources_per_worker] * bundles,
            strategy=scaling.placement_strategy or "PACK",
            label_selectors=_label_selectors(scaling, first, bundles),
            slot=slot,
        )
        first += bundles
        if slot not in there:
            what = f"to add when there is room: {bundles}" if slot else f"one gang of {bundles}"
            yield bare(requested, f"{what} bundle{'s' * (bundles > 1)}")


def _is_placed(placement: Placement, now: Collection[str]) -> bool:
    return placement.status is PlacementStatus.READY or placement.name in now


def on_released(run: Run, gone: o.Released, now_ns: int) -> Iterator[e.Event]:
    """Placement groups are given back: for good, or to be asked for anew."""
    settings = run.settings or s.RunSettings()
    lost = policy.lost_extras(run) if run.status in TRAINING else []
    for placement in [run.placements[one] for one in gone.names if one in run.placements]:
        if open_attempt(run) is None and run.status in STOPPING:
            ends = run.status is RunStatus.SHUTTING_DOWN
            why = "the run ends" if ends else "a node of it is gone, or is taken away"
            yield bare(e.PlacementReleased(name=placement.name), why)
        elif placement.name in lost:
            yield bare(e.PlacementReleased(name=placement.name), "its node is gone")
            size = policy.size_of(settings)
            there = {one.slot for one in run.placements.values()} - {placement.slot}
            yield from _requests(run, settings, size, there)


def _label_selectors(
    scaling: s.ScalingConfig, first: int, bundles: int
) -> s.LabelSelectorList | None:
    """What the bundles from the `first` on ask of their nodes."""
    if scaling.WhichOneof("label_selector") == "label_selector_single":
        return s.LabelSelectorList(selectors=[scaling.label_selector_single] * bundles)
    if scaling.WhichOneof("label_selector") == "label_selector_list":
        selectors = scaling.label_selector_list.selectors
        return s.LabelSelectorList(selectors=selectors[first : first + bundles])
    return None


# --- placing --------------------------------------------------------------------------------------


def on_placed(run: Run, placed: o.Placed, now_ns: int) -> Iterator[e.Event]:
    """Records where bundles are now, and goes on with what waited for them."""
    groups = [one for one in placed.groups if _is_ours(run, one)]
    for group in groups:
        yield from _moved(run.placements[group.name], group)
    if run.status in STARTING:
        there = policy.places(run, {one.name: one.node_ids for one in groups})
        attempt = open_attempt(run)
        if attempt is None or not attempt.workers:
            more = tuple(_more(run, [one.name for one in groups]))
            yield from more or _begin(run, attempt, there)
        else:
            yield from _lost_its_place(run, attempt, there)


def _more(run: Run, now: Collection[str]) -> Iterator[e.Event]:
    """The requests of what may be added, once the gang has its place."""
    settings = run.settings or s.RunSettings()
    there = {one.slot for one in run.placements.values()}
    yield from _requests(run, settings, policy.size_of(settings), there, now)


def _is_ours(run: Run, now: o.Reserved) -> bool:
    placement = run.placements.get(now.name)
    return placement is not None and len(placement.bundles) == len(now.node_ids)


def _moved(placement: Placement, now: o.Reserved) -> Iterator[e.Event]:
    if placement.status is not PlacementStatus.READY:
        ready = e.PlacementReady(
            name=now.name, placement_group_id=now.placement_group_id, node_ids=now.node_ids
        )
        nodes = len(set(now.node_ids))
        yield bare(ready, f"{len(now.node_ids)} bundles on {nodes} nodes")
    elif list(now.node_ids) != placement.node_ids:
        changed = e.PlacementChanged(name=now.name, node_ids=now.node_ids)
        gone = now.node_ids.count("")
        lack = f"{gone} of {len(now.node_ids)} bundles have no node now"
        yield bare(changed, lack if gone else "every bundle has a node again")


def _begin(run: Run, attempt: Attempt | None, there: list[policy.Place]) -> Iterator[e.Event]:
    """Starts an attempt in the places there are, if they are enough."""
    settings = run.settings or s.RunSettings()
    size = policy.size_of(settings)
    workers = size.of(len(there)) if attempt is None else attempt.num_workers
    if not workers or workers > len(there):
        return
    if run.status is RunStatus.WAITING:
        each = settings.scaling_config.resources_per_worker
        scheduling = e.RunScheduling(num_workers=workers, resources_per_worker=each)
        yield bare(scheduling, "the resources waited for are there")
    number = attempt.number if attempt is not None else len(run.attempts) + 1
    if attempt is None:
        yield from _sized(run, size, workers, len(there))
        yield _planned(run, settings, workers, f"{workers} workers, as many as there is room for")
    attempt_id = policy.attempt_id_of(run.run_id, number)
    for rank, place in enumerate(policy.by_node(there[:workers])):
        scheduled = e.WorkerScheduled(rank=rank, placement=place.placement, bundle=place.bundle)
        yield bare(scheduled, attempt=attempt_id)


def _sized(run: Run, size: policy.Size, workers: int, there: int) -> Iterator[e.Event]:
    """The size of an elastic attempt, if it is not the one that was decided on."""
    wanted = run.resizes[-1].to_workers if run.resizes else 0
    if workers != wanted:
        decided = e.ScalingDecided(from_workers=wanted, to_workers=workers)
        why = f"{there} bundles have a node, {size.smallest} to {size.largest} workers are wanted"
        yield bare(decided, why)


def _lost_its_place(run: Run, attempt: Attempt, there: list[policy.Place]) -> Iterator[e.Event]:
    """Gives up a start that waits for a bundle whose node is gone."""
    left = {(one.placement, one.bundle) for one in there}
    lost = [one.rank for one in attempt.by_rank if (one.placement, one.bundle) not in left]
    if lost:
        text = f"the node of rank {', '.join(map(str, lost))} went while its workers started"
        error = s.Error(type="NodeLost", message=text, ranks=lost)
        yield from after_failure(run, Cause.START_FAILED, error)


def _is_placing(run: Run) -> bool:
    attempt = open_attempt(run)
    return run.status in STARTING and (attempt is None or not attempt.workers)


def on_short(run: Run, short: o.Short, now_ns: int) -> Iterator[e.Event]:
    """Says what is missing, when that is news."""
    waits_for = (run.have_workers, run.need_workers)
    known = run.status is RunStatus.WAITING and waits_for == (short.have, short.need)
    if _is_placing(run) and not known:
        yield bare(e.RunWaiting(have=short.have, need=short.need), short.text)


def on_not_placed(run: Run, failed: o.NotPlaced, now_ns: int) -> Iterator[e.Event]:
    """Tries again, by the budget; the groups stay requested and keep their turn."""
    if not _is_placing(run):
        return
    for placement in run.placements.values():
        late = e.PlacementTimedOut(name=placement.name, timeout_s=failed.timeout_s)
        yield bare(late, failed.text)
    hint = "ask for fewer or smaller workers, or add nodes; `ray status` shows what is free"
    error = s.Error(type="PlacementTimeout", message=failed.text, hint=hint)
    yield from after_failure(run, Cause.START_TIMEOUT, error)


# --- starting -------------------------------------------------------------------------------------


def _starting(run: Run, attempt_id: str, group: int | None, generation: int) -> Attempt | None:
    """The open attempt, if these of its workers are still to be started or set up."""
    attempt = current(run, attempt_id)
    if attempt is None:
        return None
    if group is None:
        return attempt if run.status in STARTING else None
    under_way = run.status in TRAINING and decide_group.is_replacing(attempt, group, generation)
    return attempt if under_way else None


def on_gang_up(run: Run, up: o.GangUp, now_ns: int) -> Iterator[e.Event]:
    """Gives the workers that came up their ranks."""
    attempt = _starting(run, up.attempt_id, up.group, up.generation)
    if attempt is None:
        return
    gang = attempt.gang(up.group)
    waiting = [one for one in gang if one.status is WorkerStatus.SCHEDULING]
    due = [(one.placement, one.bundle, one.generation) for one in waiting]
    facts = {(one.placement, one.bundle, one.generation): one for one in up.workers}
    if sorted(facts) != sorted(due) or len(facts) != len(up.workers):
        return
    ordered = [facts[one] for one in due]
    if up.group is None:
        ordered = policy.in_rank_order(ordered)
    # Who is being replaced elsewhere has no node yet.
    others = [one for one in attempt.workers.values() if one.node_id]
    seats = policy.seats(others, [one.node_id for one in ordered])
    for worker, seat, found in zip(waiting, seats, ordered, strict=True):
        yield bare(_started(worker, seat, found), attempt=attempt.attempt_id)


def _started(worker: Worker, seat: policy.Seat, found: o.WorkerFacts) -> e.WorkerStarted:
    return e.WorkerStarted(
        rank=worker.rank,
        local_rank=seat.local_rank,
        node_rank=seat.node_rank,
        actor_id=found.actor_id,
        node_id=found.node_id,
        node_ip=found.node_ip,
        pid=found.pid,
        accelerator_ids=found.accelerator_ids,
        log_path=found.log_path,
        bundle=found.bundle,
        placement=found.placement,
    )


def on_start_failed(run: Run, failed: o.StartFailed, now_ns: int) -> Iterator[e.Event]:
    """Has the start tried again: of the attempt, or of one replica group's replacement."""
    attempt = _starting(run, failed.attempt_id, failed.group, failed.generation)
    if attempt is None:
        return
    if failed.group is not None:
        yield from decide_group.replacement_failed(run, attempt, failed.group, failed.error)
        return
    for rank in dict.fromkeys(failed.error.ranks):
        yield from failing(attempt, rank, failed.cause, failed.error)
    yield from after_failure(run, failed.cause, failed.error)


def on_ready(run: Run, ready: o.Ready, now_ns: int) -> Iterator[e.Event]:
    """Training begins."""
    attempt = _starting(run, ready.attempt_id, ready.group, ready.generation)
    if attempt is None:
        return
    gang = attempt.gang(ready.group)
    up = sum(one.status is WorkerStatus.RUNNING for one in gang)
    if up != attempt.gang_size(ready.group):
        return
    if ready.group is not None:
        yield decide_group.replaced(attempt, ready.group)
    elif attempt.status is AttemptStatus.PENDING and run.status is RunStatus.SCHEDULING:
        yield bare(e.AttemptStarted(), f"{up} workers are set up", attempt.attempt_id)
        first = attempt.number == 1 or list(ready.versions) != run.framework_versions
        if ready.versions and first:
            yield bare(e.FrameworkVersionsRecorded(versions=ready.versions))
        yield bare(e.RunRunning(), f"attempt {attempt.number} trains on {up} workers")
