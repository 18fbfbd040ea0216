"""Growing, and making way: what follows from room, and from nodes that are about to be taken away.

A run grows when it loses nothing by it, right after a checkpoint was committed, or when it has waited
for one long enough. Shrinking needs no rule: a node that goes fails its workers, and the next attempt
takes the places that are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainstate.core import observations as o
from trainstate.core import policy
from trainstate.core.decide_end import after_failure
from trainstate.core.deciding import TRAINING, bare, current
from trainstate.core.model import Cause, Run, RunStatus, Worker
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s


def grow_if_due(run: Run, now_ns: int) -> Iterator[e.Event]:
    """Grows a run that waited for a checkpoint as long as it was to."""
    if now_ns >= policy.resize_due_ns(run):
        yield from grow(run, "no checkpoint was committed meanwhile")


def grow(run: Run, when: str) -> Iterator[e.Event]:
    """Takes the room there is, if there is any."""
    attempt, more = run.attempt, policy.room(run)
    if attempt is None or not more or run.status is not RunStatus.RUNNING:
        return
    before, after = attempt.num_workers, attempt.num_workers + more
    why = f"there is room for {more} more: {before} to {after} workers; {when}"
    yield bare(e.ScalingDecided(from_workers=before, to_workers=after), why)
    yield bare(e.RunResizing(from_workers=before, to_workers=after), why)


def on_preempted(run: Run, notice: o.Preempted, now_ns: int) -> Iterator[e.Event]:
    """Says that nodes or workers are to go, when that is news of this attempt."""
    attempt = current(run, notice.attempt_id)
    if attempt is None or run.status not in (RunStatus.SCHEDULING, *TRAINING):
        return
    node_ids = {one.rank: _node_of(run, one) for one in attempt.workers.values()}
    nodes = set(notice.node_ids).intersection(node_ids.values())
    hit = {rank for rank, node_id in node_ids.items() if node_id in nodes}
    hit |= attempt.workers.keys() & set(notice.ranks)
    known_ns = run.preemption_deadline_ns
    deadlines = [one for one in (known_ns, notice.deadline_ns) if one is not None]
    known = hit <= set(run.preempted_ranks) and nodes <= set(run.preempted_nodes)
    if not hit or (known and min(deadlines, default=None) == known_ns):
        return
    ranks = sorted(hit | set(run.preempted_ranks))
    preempting = e.RunPreempting(
        node_ids=sorted(nodes),
        deadline_unix_nano=min(deadlines, default=None),
        ranks=ranks,
    )
    left = f" in {(min(deadlines) - now_ns) / 1e9:.0f} s" if deadlines else ""
    where = f"{len(nodes)} nodes are to go" if nodes else "workers were told to end"
    yield bare(preempting, f"{where}{left}: ranks {', '.join(map(str, ranks))}")
    if run.status is RunStatus.SCHEDULING:  # a node that is to go starts nothing any more
        yield from _make_way(run, ranks, "before they trained")


def _node_of(run: Run, worker: Worker) -> str:
    """Where a worker is; one that is still to start, where its bundle is."""
    if worker.node_id:
        return worker.node_id.hex()
    placement = run.placements.get(worker.placement)
    return placement.node_of(worker.bundle) if placement is not None else ""


def make_way_if_due(run: Run, now_ns: int) -> Iterator[e.Event]:
    """Restarts elsewhere when time is up."""
    if now_ns >= policy.preemption_ends_ns(run):
        yield from make_way(run, "its time is up")


def make_way(run: Run, when: str, saved: bool = False) -> Iterator[e.Event]:
    """Restarts a run that is preempted, without what is taken away."""
    yield from _make_way(run, run.preempted_ranks, when, saved)


def _make_way(run: Run, ranks: Sequence[int], when: str, saved: bool = False) -> Iterator[e.Event]:
    text = f"ranks {', '.join(map(str, ranks))} are taken away; {when}"
    error = s.Error(type="Preempted", message=text, ranks=ranks)
    yield from after_failure(run, Cause.NODE_PREEMPTED, error, saved)
