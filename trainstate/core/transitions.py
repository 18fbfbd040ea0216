"""The state machines, as tables. An illegal move is a missing entry.

`MOVES[machine][state]` is the set of states that may follow; a state with none is terminal.
`TARGETS[payload]` names the machine a payload moves and the state it moves it to. Payloads whose target
is in the payload itself (`attempt_ended`, `foreign_status_observed`) are not in it.
The diagrams in ARCHITECTURE.md are generated from here (scripts/gen-docs).

Two machines differ from Ray's (reference A6): a failed start ends its attempt with a cause and goes to
RESTARTING, where Ray keeps the attempt and calls it RESCHEDULING; and waiting for resources is a state
that says so, where Ray spins in INITIALIZING (A6.6).
"""

from __future__ import annotations

from collections.abc import Mapping

from trainstate.core.model import (
    AttemptStatus,
    PlacementStatus,
    ReplicaGroupStatus,
    RunStatus,
    Status,
    SyncStatus,
    WorkerStatus,
)

_R, _A, _W = RunStatus, AttemptStatus, WorkerStatus
_G, _P, _S = ReplicaGroupStatus, PlacementStatus, SyncStatus

_RUN_ENDS = {_R.ERRORED, _R.ABORTED}

RUN: Mapping[RunStatus, frozenset[RunStatus]] = {
    _R.UNSPECIFIED: frozenset({_R.INITIALIZING}),
    _R.INITIALIZING: frozenset({_R.SCHEDULING, _R.WAITING, _R.SHUTTING_DOWN} | _RUN_ENDS),
    _R.SCHEDULING: frozenset(
        {_R.RUNNING, _R.WAITING, _R.PREEMPTING, _R.RESTARTING, _R.SHUTTING_DOWN} | _RUN_ENDS
    ),
    _R.WAITING: frozenset({_R.WAITING, _R.SCHEDULING, _R.RESTARTING, _R.SHUTTING_DOWN} | _RUN_ENDS),
    _R.RUNNING: frozenset(
        {_R.PREEMPTING, _R.RESTARTING, _R.RESIZING, _R.SHUTTING_DOWN, _R.FINISHED} | _RUN_ENDS
    ),
    _R.PREEMPTING: frozenset(
        {_R.PREEMPTING, _R.RUNNING, _R.RESTARTING, _R.RESIZING, _R.SHUTTING_DOWN, _R.FINISHED}
        | _RUN_ENDS
    ),
    _R.RESTARTING: frozenset({_R.SCHEDULING, _R.WAITING, _R.SHUTTING_DOWN} | _RUN_ENDS),
    _R.RESIZING: frozenset({_R.SCHEDULING, _R.WAITING, _R.SHUTTING_DOWN} | _RUN_ENDS),
    _R.SHUTTING_DOWN: frozenset({_R.FINISHED} | _RUN_ENDS),
    _R.FINISHED: frozenset(),
    _R.ERRORED: frozenset(),
    _R.ABORTED: frozenset(),
}

ATTEMPT: Mapping[AttemptStatus, frozenset[AttemptStatus]] = {
    _A.UNSPECIFIED: frozenset({_A.PENDING}),
    _A.PENDING: frozenset({_A.RUNNING, _A.ERRORED, _A.ABORTED}),
    _A.RUNNING: frozenset({_A.FINISHED, _A.ERRORED, _A.ABORTED}),
    _A.FINISHED: frozenset(),
    _A.ERRORED: frozenset(),
    _A.ABORTED: frozenset(),
}

WORKER: Mapping[WorkerStatus, frozenset[WorkerStatus]] = {
    _W.UNSPECIFIED: frozenset({_W.SCHEDULING}),
    _W.SCHEDULING: frozenset({_W.RUNNING, _W.FAILING, _W.DEAD}),
    _W.RUNNING: frozenset({_W.COMPLETED, _W.FAILING, _W.DEAD}),
    _W.FAILING: frozenset({_W.SCHEDULING, _W.DEAD}),
    _W.COMPLETED: frozenset(),
    _W.DEAD: frozenset(),
}

REPLICA_GROUP: Mapping[ReplicaGroupStatus, frozenset[ReplicaGroupStatus]] = {
    _G.UNSPECIFIED: frozenset({_G.RUNNING}),
    _G.RUNNING: frozenset({_G.FAILED, _G.ENDED}),
    _G.FAILED: frozenset({_G.REPLACING, _G.ENDED}),
    _G.REPLACING: frozenset({_G.RUNNING, _G.FAILED, _G.ENDED}),
    _G.ENDED: frozenset(),
}

PLACEMENT: Mapping[PlacementStatus, frozenset[PlacementStatus]] = {
    _P.UNSPECIFIED: frozenset({_P.REQUESTED}),
    _P.REQUESTED: frozenset({_P.READY, _P.TIMED_OUT, _P.RELEASED}),
    _P.READY: frozenset({_P.READY, _P.TIMED_OUT, _P.RELEASED}),
    # It stays requested, and so keeps its place in the cluster's queue.
    _P.TIMED_OUT: frozenset({_P.READY, _P.TIMED_OUT, _P.RELEASED}),
    _P.RELEASED: frozenset(),
}

SYNC: Mapping[SyncStatus, frozenset[SyncStatus]] = {
    _S.UNSPECIFIED: frozenset({_S.RUNNING}),
    _S.RUNNING: frozenset({_S.SUCCEEDED, _S.FAILED}),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
}

MOVES: Mapping[type[Status], Mapping[Status, frozenset[Status]]] = {
    RunStatus: RUN,  # type: ignore[dict-item]  # a mapping is invariant in its keys
    AttemptStatus: ATTEMPT,  # type: ignore[dict-item]
    WorkerStatus: WORKER,  # type: ignore[dict-item]
    ReplicaGroupStatus: REPLICA_GROUP,  # type: ignore[dict-item]
    PlacementStatus: PLACEMENT,  # type: ignore[dict-item]
    SyncStatus: SYNC,  # type: ignore[dict-item]
}

TARGETS: Mapping[str, Status] = {
    "run_created": _R.INITIALIZING,
    "run_scheduling": _R.SCHEDULING,
    "run_waiting": _R.WAITING,
    "run_running": _R.RUNNING,
    "run_preempting": _R.PREEMPTING,
    "run_restarting": _R.RESTARTING,
    "run_resizing": _R.RESIZING,
    "run_shutting_down": _R.SHUTTING_DOWN,
    "run_finished": _R.FINISHED,
    "run_errored": _R.ERRORED,
    "run_aborted": _R.ABORTED,
    "attempt_planned": _A.PENDING,
    "attempt_started": _A.RUNNING,
    "placement_requested": _P.REQUESTED,
    "placement_ready": _P.READY,
    "placement_timed_out": _P.TIMED_OUT,
    "placement_changed": _P.READY,
    "placement_released": _P.RELEASED,
    "worker_scheduled": _W.SCHEDULING,
    "worker_started": _W.RUNNING,
    "worker_failing": _W.FAILING,
    "worker_completed": _W.COMPLETED,
    "worker_died": _W.DEAD,
    "replica_group_failed": _G.FAILED,
    "replica_group_replacing": _G.REPLACING,
    "replica_group_replaced": _G.RUNNING,
    "replica_group_replacement_failed": _G.FAILED,
    "sync_started": _S.RUNNING,
    "sync_succeeded": _S.SUCCEEDED,
    "sync_failed": _S.FAILED,
}

# How Ray's log shows a run of ours (A6.3). None: Ray writes nothing and the status before it stands.
RAY_RUN_STATUS: Mapping[RunStatus, str | None] = {
    _R.UNSPECIFIED: "RUN_STATUS_UNSPECIFIED",
    _R.INITIALIZING: "INITIALIZING",
    _R.SCHEDULING: "SCHEDULING",
    _R.WAITING: None,
    _R.RUNNING: "RUNNING",
    _R.PREEMPTING: None,
    _R.RESTARTING: "RESTARTING",
    _R.RESIZING: "RESIZING",
    _R.SHUTTING_DOWN: None,
    _R.FINISHED: "FINISHED",
    _R.ERRORED: "ERRORED",
    _R.ABORTED: "ABORTED",
}


def allowed(current: Status, target: Status) -> bool:
    """Whether the machine of `current` has a move from it to `target`."""
    return target in MOVES[type(current)][current]
