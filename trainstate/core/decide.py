"""What follows from an observation: `decide(run, observation, now_ns)` gives events and a reason.

Pure, and the only place where a run's course is decided: the controller, the reaper that ends what a
dead controller left, and local mode all ask it. It never changes `run`. An observation that comes too
late (of an attempt, a rank or a generation that is over) gives no events; so any may be repeated.

decide_start.py     how an attempt gets its place, and its workers come up
decide_train.py     what training brings: reports, checkpoints, workers that complete or fail
decide_group.py     replica groups: one that fails is replaced while the others train on
decide_size.py      growing, shrinking, and making way for what is taken away
decide_end.py       what ends, and whether it is tried again
decide_again.py     what a successor makes of a decision that was recorded in part

Time is filled in below; identity and position are the store's to give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from trainstate.core import (
    decide_again,
    decide_end,
    decide_group,
    decide_size,
    decide_start,
    decide_train,
    policy,
)
from trainstate.core import observations as o
from trainstate.core.deciding import ANEW, Handler, bare, open_attempt
from trainstate.core.model import Run, RunStatus
from trainstate.core.tracebacks import once
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
    events = tuple(once(run, _HANDLERS[type(observation)](run, observation, now_ns)))
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
        yield from decide_start.schedule(run, began.created.settings)
    else:
        yield from decide_again.half_done(run)


def _on_described(run: Run, described: o.Described, now_ns: int) -> Iterator[e.Event]:
    found = e.ProvenanceRecorded(provenance=described.provenance)
    for field, _ in run.provenance.ListFields() if run.provenance is not None else ():
        found.provenance.ClearField(field.name)  # known: it may be said again
    if found.provenance.ListFields():
        yield bare(found, f"found out: {described.what}")


def _on_woke(run: Run, woke: o.Woke, now_ns: int) -> Iterator[e.Event]:
    waiting = run.status in ANEW and open_attempt(run) is None
    if waiting and now_ns >= run.restart_time_ns and not policy.stale_placements(run):
        yield from decide_start.schedule(run, run.settings or s.RunSettings())
    elif run.status is RunStatus.RUNNING:
        replacing = tuple(decide_group.replace_due(run, now_ns))
        yield from replacing or decide_size.grow_if_due(run, now_ns)
    elif run.status is RunStatus.PREEMPTING:
        yield from decide_size.make_way_if_due(run, now_ns)


_HANDLERS: Mapping[type[o.Observation], Handler] = {
    o.Began: _on_began,
    o.Described: _on_described,
    o.Woke: _on_woke,
    o.Placed: decide_start.on_placed,
    o.Short: decide_start.on_short,
    o.NotPlaced: decide_start.on_not_placed,
    o.Released: decide_start.on_released,
    o.Preempted: decide_size.on_preempted,
    o.GangUp: decide_start.on_gang_up,
    o.StartFailed: decide_start.on_start_failed,
    o.Ready: decide_start.on_ready,
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
