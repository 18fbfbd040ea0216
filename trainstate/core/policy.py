"""The rules a decision follows, each a small function of the state: ranks, budgets, backoff, retention.

Nothing is counted here: what has been used of a budget is folded from the events (design section 5).
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trainstate.core.model import Attempt, Budget, Cause, Checkpoint, PendingCheckpoint, Run
from trainstate.core.observations import WorkerFacts
from trainstate.core.values import from_value
from trainstate.v1 import state_pb2 as s

UNLIMITED = -1
_HUGE = 2**1000  # a score beyond it is that: it fits a float

# What a failure is counted against; a cause that is not in the table is never tried again.
BUDGET_OF: Mapping[Cause, Budget] = {
    Cause.WORKER_ERROR: Budget.FAILURES,
    Cause.WORKER_LOST: Budget.FAILURES,
    Cause.WORKER_HUNG: Budget.FAILURES,
    Cause.UPLOAD_FAILED: Budget.FAILURES,
    Cause.NODE_PREEMPTED: Budget.PREEMPTIONS,
    Cause.START_FAILED: Budget.CONTROLLER,
    Cause.START_TIMEOUT: Budget.CONTROLLER,
}
# The limits of a run whose settings say nothing, as in Ray.
_DEFAULT_LIMITS = {Budget.FAILURES: 0, Budget.PREEMPTIONS: UNLIMITED, Budget.CONTROLLER: UNLIMITED}


def attempt_id_of(run_id: str, number: int) -> str:
    """The id of a run's attempt: derived, so that whoever decides the same names it the same."""
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{run_id}/{number}").hex


def num_workers_of(settings: s.RunSettings) -> int:
    """How many workers a gang has: the number asked for, the smaller one of a range."""
    scaling = settings.scaling_config
    if scaling.WhichOneof("num_workers") == "num_workers_range":
        return scaling.num_workers_range.min
    return scaling.num_workers_fixed or 1


class BudgetState(NamedTuple):
    """A budget after the failure that is being decided: what is used of it, this one included."""

    budget: Budget
    used: int
    limit: int

    @property
    def allows(self) -> bool:
        """Whether the run may try again."""
        return self.limit == UNLIMITED or self.used <= self.limit


def charge(run: Run, cause: Cause) -> BudgetState | None:
    """The budget a failure of that cause counts against, with it; None if no budget allows for it."""
    budget = BUDGET_OF.get(cause)
    if budget is None:
        return None
    return BudgetState(budget, _used(run, budget) + 1, _limit(run, budget))


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

    Nodes come in the order of their first bundle. Ids are numbers or names of any form (row 0-13).
    """
    nodes: dict[bytes, int] = {}
    for worker in sorted(workers, key=lambda one: one.bundle):
        nodes.setdefault(worker.node_id, len(nodes))
    return sorted(workers, key=lambda one: (nodes[one.node_id], _accelerators(one), one.bundle))


def _accelerators(worker: WorkerFacts) -> list[tuple[int, str]]:
    return sorted(
        (int(one), "") if one.isdecimal() else (-1, one) for one in worker.accelerator_ids
    )


def bundles_by_node(node_ids: Sequence[str]) -> list[int]:
    """Bundle indices in the order of ranks, as far as nodes decide it."""
    first: dict[str, int] = {}
    for node_id in node_ids:
        first.setdefault(node_id, len(first))
    return sorted(range(len(node_ids)), key=lambda bundle: first[node_ids[bundle]])


def complete(attempt: Attempt) -> PendingCheckpoint | None:
    """The oldest checkpoint of which every rank has reported, and that is not committed yet."""
    if not attempt.pending:
        return None
    oldest = attempt.pending[min(attempt.pending)]
    return oldest if oldest.ranks >= attempt.num_workers else None


def surplus(run: Run) -> list[Checkpoint]:
    """The checkpoints that are not to be kept, worst first. The newest is always kept."""
    keep = _checkpoint_config(run)
    if not keep.HasField("num_to_keep") or len(run.checkpoints) <= keep.num_to_keep:
        return []
    best_last = in_order_of_worth(run)
    newest = max(run.checkpoints)
    return [one for one in best_last[: -keep.num_to_keep] if one.index != newest]


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
