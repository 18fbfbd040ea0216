"""How a run gets to where a test wants it: lists of legal events."""

from __future__ import annotations

from trainstate.core import (
    Attempt,
    AttemptStatus,
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
)
from trainstate.core.model import Status
from trainstate.testing import event
from trainstate.v1 import event_pb2 as e

CREATED = [event(e.RunCreated(name="mnist"))]
SCHEDULING = [*CREATED, event(e.RunScheduling(num_workers=2))]
PLANNED = [*SCHEDULING, event(e.AttemptPlanned(num_workers=2, replica_group_size=1), "a1")]
SCHEDULED = [*PLANNED, *(event(e.WorkerScheduled(rank=rank), "a1") for rank in range(2))]
STARTED = [
    *SCHEDULED,
    *(event(e.WorkerStarted(rank=rank, pid=100 + rank), "a1") for rank in range(2)),
    event(e.AttemptStarted(), "a1"),
]
RUNNING = [*STARTED, event(e.RunRunning())]
# Without replica groups all workers make a checkpoint together.
TOGETHER = [
    event(e.AttemptPlanned(num_workers=2), "a1") if one.HasField("attempt_planned") else one
    for one in RUNNING
]
WORKERS_DONE = [*RUNNING, *(event(e.WorkerCompleted(rank=rank), "a1") for rank in range(2))]
ATTEMPT_DONE = [
    *WORKERS_DONE,
    event(e.AttemptEnded(status=AttemptStatus.FINISHED, cause=1), "a1"),
]
FINISHED = [*ATTEMPT_DONE, event(e.RunFinished())]


def run_in(state: Status) -> Run:
    """A run that has one entity of each kind, the one of `state`'s kind in that state."""

    def at(usual: Status) -> Status:
        return state if type(state) is type(usual) else usual

    run = Run("run", status=at(RunStatus.RUNNING), name="mnist", run_seq=1)
    attempt = Attempt("a1", 1, status=at(AttemptStatus.RUNNING), num_workers=3)
    attempt.workers = {0: Worker(0, status=at(WorkerStatus.RUNNING))}
    attempt.groups = {0: ReplicaGroup(0, status=at(ReplicaGroupStatus.RUNNING))}
    run.attempts = [attempt]
    run.placements = {"pg": Placement("pg", status=at(PlacementStatus.READY))}
    run.syncs = {"s1": Sync("s1", status=at(SyncStatus.RUNNING))}
    return run
