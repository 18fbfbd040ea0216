"""The pure core: what an event means. No clock, no random, no disk, no Ray.

    initial(run_id) -> Run          nothing has happened
    check(run, event)               raises InvalidTransition if the event does not fit
    evolve(run, event)              applies a recorded event, whatever it is, in place

`store.append` is the one caller of `check`; controller, views and offline replay share `evolve`.
Deciders live beside them: `decide(run, observation, now)` and `plan(run)` arrive with the controller.
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
