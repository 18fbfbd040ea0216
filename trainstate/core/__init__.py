"""The pure core: what an event means. No clock, no random, no disk, no Ray.

    initial(run_id) -> Run          nothing has happened
    check(run, event)               raises InvalidTransition if the event does not fit
    evolve(run, event)              applies a recorded event, whatever it is, in place

    decide.decide(run, observation, now_ns) -> Decision    the events that follow, and why
    plan.plan(run) -> effects                              what should be under way now

`store.append` is the one caller of `check`; controller, views and offline replay share `evolve`.
"""

from trainstate.core.check import check
from trainstate.core.evolve import evolve
from trainstate.core.model import (
    Attempt,
    AttemptStatus,
    Budget,
    Cause,
    Checkpoint,
    Placement,
    PlacementStatus,
    ReplicaGroup,
    ReplicaGroupStatus,
    Run,
    RunStatus,
    Sync,
    SyncStatus,
    Worker,
    WorkerStatus,
    initial,
)

__all__ = [
    "Attempt",
    "AttemptStatus",
    "Budget",
    "Cause",
    "Checkpoint",
    "Placement",
    "PlacementStatus",
    "ReplicaGroup",
    "ReplicaGroupStatus",
    "Run",
    "RunStatus",
    "Sync",
    "SyncStatus",
    "Worker",
    "WorkerStatus",
    "check",
    "evolve",
    "initial",
]
