"""The rules a decision follows, each a small function of the state: ranks, budgets, backoff, retention.

Nothing is counted here: what has been used of a budget is folded from the events (design section 5).
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trainstate.core.applying import later
from trainstate.core.model import (
    Attempt,
    Budget,
    Cause,
    Checkpoint,
    PendingCheckpoint,
    Placement,
    PlacementStatus,
    Run,
    Worker,
    WorkerStatus,
)
from trainstate.core.observations import WorkerFacts
from trainstate.core.values import from_value
from trainstate.v1 import state_pb2 as s

UNLIMITED = -1
_HUGE = 2**1000  # a score beyond it is that: it fits a float

# As in Ray (A5): seconds between resizes, and for a preemption whose deadline nobody said.
_RESIZE_S = 60.0
_NOTICE_NS = 120 * 10**9
_REPLACEMENTS = 3
_EVER_S = 1e9  # some thirty years: of who does not want it, an infinity

# What a failure is counted against; a cause that is not in the table is never tried again.
BUDGET_OF: Mapping[Cause, Budget] = {
    Cause.WORKER_ERROR: Budget.FAILURES,
    Cause.WORKER_LOST: Budget.FAILURES,
    Cause.WORKER_HUNG: Budget.FAILURES,
    Cause.UPLOAD_FAILED: Budget.FAILURES,
    Cause.NODE_PREEMPTED: Budget.PREEMPTIONS,
    Cause.START_FAILED: Budget.CONTROLLER,
    Cause.START_TIMEOUT: Budget.CONTROLLER,
    Cause.REPLACEMENT_FAILED: Budget.CONTROLLER,
}
# The limits of a run whose settings say nothing, as in Ray.
_DEFAULT_LIMITS = {Budget.FAILURES: 0, Budget.PREEMPTIONS: UNLIMITED, Budget.CONTROLLER: UNLIMITED}


def attempt_id_of(run_id: str, number: int) -> str:
    """The id of a run's attempt: derived, so that whoever decides the same names it the same."""
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{run_id}/{number}").hex


class Size(NamedTuple):
    """How many workers a run may have: from `smallest` to `largest`, whole replica groups of `group`."""

    smallest: int
    largest: int
    group: int

    @property
    def is_elastic(self) -> bool:
        """Whether it is a range."""
        return self.smallest < self.largest

    @property
    def unit(self) -> int:
        """Workers are added and removed by so many."""
        return self.group or 1

    def of(self, bundles: int) -> int:
        """The number of workers for so many bundles; 0 if they are too few."""
        fits = min(self.largest, bundles) // self.unit * self.unit
        return fits if fits >= self.smallest else 0


def size_of(settings: s.RunSettings | None) -> Size:
    """The number, or the range of numbers, that was asked for."""
    scaling = settings.scaling_config if settings is not None else s.ScalingConfig()
    group = scaling.replica_group_size
    if scaling.WhichOneof("num_workers") == "num_workers_range":
        asked = scaling.num_workers_range
        return Size(asked.min or asked.max, asked.max, group)  # row 1-15
    workers = scaling.num_workers_fixed or 1
    return Size(workers, workers, group)


class Place(NamedTuple):
    """A bundle that has a node."""

    placement: str
    bundle: int
    node_id: str


def places(run: Run, now: Mapping[str, Sequence[str]] | None = None) -> list[Place]:
    """The bundles that workers can run on, in the order of their slots, the gang's first.

    `now` has newer node ids of placement groups, by name. A node that is being taken away is none.
    """
    gone = {"", *run.preempted_nodes}
    newer = now or {}
    ordered = sorted(run.placements.values(), key=lambda one: one.slot)
    there = [one for one in ordered if one.status is PlacementStatus.READY or one.name in newer]
    return [
        Place(one.name, bundle, node_id)
        for one in there
        for bundle, node_id in enumerate(newer.get(one.name, one.node_ids))
        if node_id not in gone
    ]


def slots(size: Size) -> list[int]:
    """How many bundles each placement group has: the gang of the minimum, then what may be added."""
    return [size.smallest] + [size.unit] * ((size.largest - size.smallest) // size.unit)


def stale_placements(run: Run) -> list[str]:
    """The placement groups to give back before the next attempt: they hold a node that is taken away.

    The gang of an elastic run is kept as long as what is left of all groups is enough: what it has on
    other nodes would else be anybody's.
    """
    size = size_of(run.settings)
    enough = size.is_elastic and size.of(len(places(run))) > 0
    gone = set(run.preempted_nodes)
    stale = [
        one
        for one in run.placements.values()
        if (one.slot and "" in one.node_ids)
        or (gone & {*one.node_ids, *_lost_nodes(run, one)} and not (enough and one.slot == 0))
    ]
    # With the gang goes what was added: it could take the very room that the gang waits for.
    whole = any(one.slot == 0 for one in stale)
    given_back = run.placements.values() if whole else stale
    return [one.name for one in sorted(given_back, key=lambda one: one.slot)]


def lost_extras(run: Run) -> list[str]:
    """What was added, has lost a node, and nobody runs on: to be given back, and asked for anew.

    It would come back by itself. But as long as there is no room for it, Ray 2.60 tries that without a
    pause; what is asked for it tries when there is news.
    """
    attempt = run.attempt
    workers = attempt.workers.values() if attempt is not None else ()
    used = {one.placement for one in workers if not one.status.is_terminal}
    lost = (one for one in run.placements.values() if one.slot and "" in one.node_ids)
    return [one.name for one in lost if one.name not in used]


def _lost_nodes(run: Run, placement: Placement) -> set[str]:
    """The nodes that workers of the newest attempt had, on bundles that have none now."""
    workers = run.attempt.workers.values() if run.attempt is not None else ()
    return {
        one.node_id.hex()
        for one in workers
        if one.placement == placement.name and not placement.node_of(one.bundle)
    }


def room(run: Run) -> int:
    """How many workers an elastic run in training could have more; not once a worker is done (1-13)."""
    attempt = run.attempt
    size = size_of(run.settings)
    if attempt is None or not size.is_elastic or attempt.num_workers >= size.largest:
        return 0
    if any(one.status is WorkerStatus.COMPLETED for one in attempt.workers.values()):
        return 0
    return max(0, size.of(len(places(run))) - attempt.num_workers)


def resize_due_ns(run: Run) -> int:
    """When a run that commits no checkpoint is resized all the same, in ns since the Unix epoch."""
    scaling = run.settings.scaling_config if run.settings is not None else s.ScalingConfig()
    named = scaling.HasField("elastic_resize_monitor_interval_s")
    interval_s = scaling.elastic_resize_monitor_interval_s if named else _RESIZE_S
    return later(run.scaling_time_ns, min(interval_s, _EVER_S))


def preemption_ends_ns(run: Run) -> int:
    """How long a run that is preempted trains on if it commits no checkpoint."""
    failure = run.settings.run_config.failure_config if run.settings else s.FailureConfig()
    known = run.preemption_deadline_ns
    deadline_ns = run.status_time_ns + _NOTICE_NS if known is None else known
    return later(deadline_ns, min(failure.preemption_grace_s, _EVER_S))


def max_replacements(run: Run) -> int:
    """How often the replacement of a replica group may fail before the whole attempt is restarted."""
    failure = run.settings.run_config.failure_config if run.settings else s.FailureConfig()
    return failure.max_replacements if failure.HasField("max_replacements") else _REPLACEMENTS


class BudgetState(NamedTuple):
    """A budget after the failure that is being decided: what is used of it, this one included."""

    budget: Budget
    used: int
    limit: int

    @property
    def allows(self) -> bool:
        """Whether the run may try again."""
        return self.limit == UNLIMITED or self.used <= self.limit

    @property
    def text(self) -> str:
        """What is used of what, for a person."""
        limit = "any number" if self.limit == UNLIMITED else self.limit
        return f"{self.budget.name.lower()} {self.used} of {limit}"


def charge(run: Run, cause: Cause, saved: bool = False) -> BudgetState | None:
    """The budget a failure of that cause counts against, with it; None if no budget allows for it.

    `saved`: a checkpoint is being committed, and nothing before it counts.
    """
    budget = BUDGET_OF.get(cause)
    if budget is None:
        return None
    used = 0 if saved else _used(run, budget)
    return BudgetState(budget, used + 1, _limit(run, budget))


def _used(run: Run, budget: Budget) -> int:
    use = run.budgets.get(budget)
    if use is None:
        return 0
    enough = _limits(run).reset_after_reports
    progressed = enough and run.reports - use.reports >= enough
    return 0 if progressed else use.used


def _limit(run: Run, budget: Budget) -> int:
    if run.settings is None or not run.settings.run_config.HasField("failure_config"):
        return _DEFAULT_LIMITS[budget]
    failure = run.settings.run_config.failure_config
    if budget is Budget.PREEMPTIONS:
        set_ = failure.HasField("max_preemption_failures")
        return failure.max_preemption_failures if set_ else UNLIMITED
    return failure.max_failures if budget is Budget.FAILURES else failure.controller_failure_limit


def _limits(run: Run) -> s.Limits:
    return run.settings.limits if run.settings is not None else s.Limits()


def backoff_s(run: Run, used: int) -> float:
    """Seconds before the next attempt: none after a first failure, then doubling up to a bound."""
    limits = _limits(run)
    if used < 2:
        return 0.0
    doublings = min(used - 2, 60)
    return min(limits.backoff_first_s * 2.0**doublings, limits.backoff_max_s)


def in_rank_order(workers: Sequence[WorkerFacts]) -> list[WorkerFacts]:
    """Workers by rank, as Ray assigns them: node by node, on a node by the lowest accelerator id.

    Nodes come in the order of their first worker here. Ids are numbers or names of any form (row 0-13).
    """
    nodes: dict[bytes, int] = {}
    for worker in workers:
        nodes.setdefault(worker.node_id, len(nodes))
    # It is a stable sort: what is left is the order they are given in.
    return sorted(workers, key=lambda one: (nodes[one.node_id], _accelerators(one)))


def _accelerators(worker: WorkerFacts) -> list[tuple[int, str]]:
    return sorted(
        (int(one), "") if one.isdecimal() else (-1, one) for one in worker.accelerator_ids
    )


def by_node(found: Sequence[Place]) -> list[Place]:
    """Places in the order of ranks, as far as nodes decide it."""
    first: dict[str, int] = {}
    for place in found:
        first.setdefault(place.node_id, len(first))
    return sorted(found, key=lambda place: first[place.node_id])


class Seat(NamedTuple):
    """Where a worker is among the others of its node, and its node among the nodes."""

    local_rank: int
    node_rank: int


def seats(taken: Sequence[Worker], node_ids: Sequence[bytes]) -> list[Seat]:
    """Seats for workers on these nodes, in order, beside those that are `taken`: the lowest free."""
    nodes = {worker.node_id: worker.node_rank for worker in taken}
    used: dict[bytes, set[int]] = {}
    for worker in taken:
        used.setdefault(worker.node_id, set()).add(worker.local_rank)
    found = []
    for node_id in node_ids:
        if node_id not in nodes:
            nodes[node_id] = _lowest_free(set(nodes.values()))
        local_rank = _lowest_free(used.setdefault(node_id, set()))
        used[node_id].add(local_rank)
        found.append(Seat(local_rank, nodes[node_id]))
    return found


def _lowest_free(used: set[int]) -> int:
    return next(number for number in range(len(used) + 1) if number not in used)


def complete(attempt: Attempt, group: int | None) -> PendingCheckpoint | None:
    """The oldest checkpoint that all ranks of a gang have reported, and that is not committed yet."""
    pending = attempt.keeper(group).pending
    if not pending:
        return None
    oldest = pending[min(pending)]
    return oldest if oldest.ranks >= attempt.gang_size(group) else None


def surplus(run: Run) -> list[Checkpoint]:
    """The checkpoints that are not to be kept, worst first. The newest is always kept."""
    keep = _checkpoint_config(run)
    if not keep.HasField("num_to_keep") or len(run.checkpoints) <= keep.num_to_keep:
        return []
    best_last = in_order_of_worth(run)
    needed = {max(run.checkpoints), *_being_loaded(run)}
    return [one for one in best_last[: -keep.num_to_keep] if one.index not in needed]


def _being_loaded(run: Run) -> list[int]:
    """What replica groups that have not all reported yet began with: others may be ahead of them."""
    attempt = run.attempt
    if attempt is None or attempt.status.is_terminal:
        return []
    starting = [
        one.visible
        for one in attempt.groups.values()
        if any(worker.reports == worker.first_report for worker in attempt.gang(one.group))
    ]
    newest = (max((i for i in run.checkpoints if i < end), default=None) for end in starting)
    return [index for index in newest if index is not None]


def in_order_of_worth(run: Run) -> list[Checkpoint]:
    """The checkpoints of a run, the best last: by score if it has one, else by age."""
    keep = _checkpoint_config(run)
    checkpoints = [run.checkpoints[index] for index in sorted(run.checkpoints)]
    if not keep.HasField("checkpoint_score_attribute"):
        return checkpoints
    sign = -1.0 if keep.checkpoint_score_order == s.SCORE_ORDER_MIN else 1.0
    name = keep.checkpoint_score_attribute
    return sorted(checkpoints, key=lambda one: _score(one, name, sign))


def _score(checkpoint: Checkpoint, attribute: str, sign: float) -> float:
    """What a checkpoint is worth; one without a usable score is worth least."""
    value = _metric(checkpoint.metrics or s.ValueMap(), attribute)
    if isinstance(value, int | float) and value == value:  # isnan() takes no huge int
        return sign * max(-_HUGE, min(value, _HUGE))
    return -math.inf


def _metric(metrics: s.ValueMap, name: str) -> Any:
    """A metric by its name; one inside a map by the path to it, "eval/loss", as in Ray."""
    for entry in metrics.entries:
        if entry.key == name:
            return from_value(entry.value)
        inner = name.removeprefix(f"{entry.key}/")
        if inner != name and entry.value.WhichOneof("kind") == "map":
            return _metric(entry.value.map, inner)
    return None


def _checkpoint_config(run: Run) -> s.CheckpointConfig:
    return run.settings.run_config.checkpoint_config if run.settings else s.CheckpointConfig()
