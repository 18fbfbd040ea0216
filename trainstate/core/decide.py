"""What follows from an observation: `decide(run, observation, now_ns)` gives events and a reason.

Pure, and the only place where a run's course is decided: the controller, the reaper that ends what a
dead controller left, and local mode all ask it. It never changes `run`. An observation that comes too
late (of an attempt, a rank or a generation that is over) gives no events; so any may be repeated.

Here is how a run begins and its workers are started. What training brings is in core/decide_train.py,
what ends in core/decide_end.py. Time is filled in below; identity and position are the store's to give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from trainstate.core import decide_end, decide_train, policy
from trainstate.core import observations as o
from trainstate.core.decide_again import half_done
from trainstate.core.decide_end import after_failure, failing
from trainstate.core.deciding import STARTING, Handler, bare, current, open_attempt
from trainstate.core.model import (
    Attempt,
    AttemptStatus,
    Cause,
    PlacementStatus,
    Run,
    RunStatus,
    WorkerStatus,
)
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s


class Decision(NamedTuple):
    """Events to record, all or none, and why, in a sentence for a person."""

    events: tuple[e.Event, ...]
    reason: str


def decide(run: Run, observation: o.Observation, now_ns: int) -> Decision:
    """The events that follow from `observation`; none if it changes nothing.

    `now_ns` is the wall clock, in ns since the Unix epoch.
    """
    if run.status.is_terminal and not isinstance(observation, o.HookFailed):
        return Decision((), f"the run ended as {run.status.name}")
    if not run.status and not isinstance(observation, o.Began):
        return Decision((), "the run has not begun")
    events = tuple(_HANDLERS[type(observation)](run, observation, now_ns))
    for event in events:
        event.time_unix_nano = now_ns
    said = (event.reason for event in reversed(events) if event.reason)
    return Decision(events, next(said, "nothing to do"))


def _on_began(run: Run, began: o.Began, now_ns: int) -> Iterator[e.Event]:
    started = e.ControllerStarted(actor_id=began.actor_id, node_id=began.node_id, pid=began.pid)
    if run.status:
        started.recovered = True
        yield bare(started, f"controller {run.controller_starts + 1} takes the run up")
    else:
        yield bare(began.created, "fit() was called")
        yield bare(started, "the first controller started")
    if run.status in (RunStatus.UNSPECIFIED, RunStatus.INITIALIZING) and not run.attempts:
        for made in began.restored[run.checkpoints_committed :]:
            yield bare(made, "committed by an earlier fit() of this name and storage path")
        yield from _schedule(run, began.created.settings)
    else:
        yield from half_done(run)


def _on_woke(run: Run, woke: o.Woke, now_ns: int) -> Iterator[e.Event]:
    waiting = run.status in (RunStatus.RESTARTING, RunStatus.RESIZING) and open_attempt(run) is None
    if waiting and now_ns >= run.restart_time_ns:
        yield from _schedule(run, run.settings or s.RunSettings())


def _schedule(run: Run, settings: s.RunSettings) -> Iterator[e.Event]:
    """Plans the next attempt and asks for its placement."""
    scaling = settings.scaling_config
    number = len(run.attempts) + 1
    workers = policy.num_workers_of(settings)
    attempt_id = policy.attempt_id_of(run.run_id, number)
    name = f"{run.run_id}/{attempt_id}"
    each = scaling.resources_per_worker
    text = ", ".join(f"{one.name}: {one.amount:g}" for one in each.resources)
    why = f"scheduling {workers} workers, each requiring {{{text}}}"
    yield bare(e.RunScheduling(num_workers=workers, resources_per_worker=each), why)
    planned = e.AttemptPlanned(num_workers=workers, resources_per_worker=each)
    yield bare(planned, f"attempt {number}: {why}", attempt_id)
    requested = e.PlacementRequested(
        name=name,
        bundles=[each] * workers,
        strategy=scaling.placement_strategy or "PACK",
        label_selectors=_label_selectors(scaling, workers),
    )
    yield bare(requested, f"one gang of {workers} bundles", attempt_id)


def _label_selectors(scaling: s.ScalingConfig, workers: int) -> s.LabelSelectorList | None:
    if scaling.WhichOneof("label_selector") == "label_selector_single":
        return s.LabelSelectorList(selectors=[scaling.label_selector_single] * workers)
    if scaling.WhichOneof("label_selector") == "label_selector_list":
        return s.LabelSelectorList(selectors=scaling.label_selector_list.selectors[:workers])
    return None


# --- placing and starting -------------------------------------------------------------------------


def _on_placed(run: Run, placed: o.Placed, now_ns: int) -> Iterator[e.Event]:
    attempt = _placing(run, placed.name)
    if attempt is None or attempt.workers or len(placed.node_ids) != attempt.num_workers:
        return
    if run.status is RunStatus.WAITING:
        scheduling = e.RunScheduling(
            num_workers=attempt.num_workers, resources_per_worker=attempt.resources_per_worker
        )
        yield bare(scheduling, "the resources waited for are there")
    ready = e.PlacementReady(
        name=placed.name,
        placement_group_id=placed.placement_group_id,
        node_ids=placed.node_ids,
    )
    nodes = len(set(placed.node_ids))
    yield bare(ready, f"{len(placed.node_ids)} bundles on {nodes} nodes", attempt.attempt_id)
    for rank, bundle in enumerate(policy.bundles_by_node(placed.node_ids)):
        scheduled = e.WorkerScheduled(rank=rank, placement=placed.name, bundle=bundle)
        yield bare(scheduled, attempt=attempt.attempt_id)


def _placing(run: Run, name: str) -> Attempt | None:
    """The open attempt that waits for this placement, if one does."""
    placement = run.placements.get(name)
    if placement is None or placement.status is not PlacementStatus.REQUESTED:
        return None
    return current(run, placement.attempt_id) if run.status in STARTING else None


def _on_short(run: Run, short: o.Short, now_ns: int) -> Iterator[e.Event]:
    waits_for = (run.have_workers, run.need_workers)
    known = run.status is RunStatus.WAITING and waits_for == (short.have, short.need)
    if _placing(run, short.name) is not None and not known:
        yield bare(e.RunWaiting(have=short.have, need=short.need), short.text)


def _on_not_placed(run: Run, failed: o.NotPlaced, now_ns: int) -> Iterator[e.Event]:
    attempt = _placing(run, failed.name)
    if attempt is not None:
        late = e.PlacementTimedOut(name=failed.name, timeout_s=failed.timeout_s)
        yield bare(late, failed.text, attempt.attempt_id)
        hint = "ask for fewer or smaller workers, or add nodes; `ray status` shows what is free"
        error = s.Error(type="PlacementTimeout", message=failed.text, hint=hint)
        yield from after_failure(run, Cause.START_TIMEOUT, error)


def _on_gang_up(run: Run, up: o.GangUp, now_ns: int) -> Iterator[e.Event]:
    attempt = current(run, up.attempt_id)
    if attempt is None or run.status not in STARTING:
        return
    waiting = [one for one in attempt.workers.values() if one.status is WorkerStatus.SCHEDULING]
    places = sorted((one.bundle, one.generation) for one in up.workers)
    if places != sorted((one.bundle, one.generation) for one in waiting):
        return
    ordered = policy.in_rank_order(up.workers)
    nodes = list(dict.fromkeys(one.node_id for one in ordered))
    ranks = sorted(worker.rank for worker in waiting)
    seats: dict[bytes, int] = {}
    for rank, facts in zip(ranks, ordered, strict=True):
        local_rank = seats.setdefault(facts.node_id, 0)
        seats[facts.node_id] += 1
        started = _started(rank, local_rank, nodes.index(facts.node_id), facts)
        yield bare(started, attempt=attempt.attempt_id)


def _started(rank: int, local_rank: int, node_rank: int, facts: o.WorkerFacts) -> e.WorkerStarted:
    return e.WorkerStarted(
        rank=rank,
        local_rank=local_rank,
        node_rank=node_rank,
        actor_id=facts.actor_id,
        node_id=facts.node_id,
        node_ip=facts.node_ip,
        pid=facts.pid,
        accelerator_ids=facts.accelerator_ids,
        log_path=facts.log_path,
        bundle=facts.bundle,
    )


def _on_start_failed(run: Run, failed: o.StartFailed, now_ns: int) -> Iterator[e.Event]:
    attempt = current(run, failed.attempt_id)
    if attempt is not None and run.status in STARTING:
        for rank in dict.fromkeys(failed.error.ranks):
            yield from failing(attempt, rank, failed.cause, failed.error)
        yield from after_failure(run, failed.cause, failed.error)


def _on_ready(run: Run, ready: o.Ready, now_ns: int) -> Iterator[e.Event]:
    attempt = current(run, ready.attempt_id)
    if attempt is None or attempt.status is not AttemptStatus.PENDING:
        return
    if run.status is not RunStatus.SCHEDULING:
        return
    workers = sum(one.status is WorkerStatus.RUNNING for one in attempt.workers.values())
    if workers != attempt.num_workers:
        return
    yield bare(e.AttemptStarted(), f"{workers} workers are set up", attempt.attempt_id)
    if ready.versions and not run.framework_versions:
        yield bare(e.FrameworkVersionsRecorded(versions=ready.versions))
    yield bare(e.RunRunning(), f"attempt {attempt.number} trains on {workers} workers")


_HANDLERS: Mapping[type[o.Observation], Handler] = {
    o.Began: _on_began,
    o.Woke: _on_woke,
    o.Placed: _on_placed,
    o.Short: _on_short,
    o.NotPlaced: _on_not_placed,
    o.GangUp: _on_gang_up,
    o.StartFailed: _on_start_failed,
    o.Ready: _on_ready,
    o.Reported: decide_train.on_reported,
    o.Completed: decide_train.on_completed,
    o.WorkerFailed: decide_train.on_worker_failed,
    o.Published: decide_train.on_published,
    o.Deleted: decide_train.on_deleted,
    o.Cleared: decide_end.on_cleared,
    o.Closed: decide_end.on_closed,
    o.Abort: decide_end.on_abort,
    o.Broke: decide_end.on_broke,
    o.HookFailed: decide_end.on_hook_failed,
}
