"""The tables are whole: every state can be reached, the ends are ends, no payload is forgotten."""

from __future__ import annotations

import pytest

from trainstate.core.check import _AFTER_THE_END, _BEFORE_THE_CREATION, _GUARDS
from trainstate.core.evolve import _APPLIERS
from trainstate.core.model import (
    AttemptStatus,
    PlacementStatus,
    ReplicaGroupStatus,
    RunStatus,
    Status,
    WorkerStatus,
)
from trainstate.core.transitions import MOVES, RAY_RUN_STATUS, TARGETS, allowed
from trainstate.v1 import event_pb2

PAYLOADS = [field.name for field in event_pb2.Event.DESCRIPTOR.oneofs_by_name["payload"].fields]
MACHINES = list(MOVES)

# Payloads that move a machine and carry the state they move it to.
CARRY_THEIR_TARGET = {"attempt_ended", "foreign_status_observed"}
# Payloads that move nothing.
MOVE_NOTHING = {
    "run_opened",
    "controller_started",
    "framework_versions_recorded",
    "provenance_recorded",
    "scaling_decided",
    "failure_decided",
    "callback_failed",
    "report_received",
    "checkpoint_committed",
    "checkpoint_deleted",
    "sync_skipped",
    "line_imported",
}
# Facts that fit any run that has begun: nothing in its state can contradict them.
HAVE_NO_GUARD = {
    "run_opened",
    "controller_started",
    "framework_versions_recorded",
    "provenance_recorded",
    "scaling_decided",
    "failure_decided",
    "callback_failed",
    "sync_skipped",
    "line_imported",
}
# Facts for a reader that leave no trace in the state.
CHANGE_NOTHING = {"line_imported"}


def by_name(machine: type[Status]) -> str:
    return machine.__name__


@pytest.mark.parametrize("machine", MACHINES, ids=by_name)
def test_every_state_has_a_row_and_is_reachable(machine):
    """From UNSPECIFIED, a walk along the table sees every state of the machine."""
    assert set(machine) == set(MOVES[machine])
    seen: set[Status] = set()
    queue = [machine(0)]
    while queue:
        state = queue.pop()
        seen.add(state)
        queue += MOVES[machine][state] - seen
    assert set(machine) == seen


@pytest.mark.parametrize("machine", MACHINES, ids=by_name)
def test_terminal_is_without_exits(machine):
    """A status says it is terminal exactly when its row is empty; from every other an end is near."""
    for state, exits in MOVES[machine].items():
        assert state.is_terminal == (not exits), state


@pytest.mark.parametrize("machine", MACHINES, ids=by_name)
def test_every_state_leads_to_an_end(machine):
    """No state is a trap: a terminal one can be reached from each."""
    ends = {state for state in machine if state.is_terminal}
    while more := {s for s in machine if MOVES[machine][s] & ends} - ends:
        ends |= more
    assert set(machine) == ends


@pytest.mark.parametrize("machine", MACHINES, ids=by_name)
def test_nothing_goes_back_to_unspecified(machine):
    """What has begun does not become unknown."""
    assert not any(machine(0) in exits for exits in MOVES[machine].values())


@pytest.mark.parametrize("machine", MACHINES, ids=by_name)
def test_every_state_is_some_payloads_target(machine):
    """A state nothing moves to is no state: all but what AttemptEnded carries have a payload."""
    by_attempt_ended = [state for state in AttemptStatus if state.is_terminal]
    targets = [*TARGETS.values(), *by_attempt_ended, ReplicaGroupStatus.ENDED]
    assert set(machine) - {machine(0)} == {state for state in targets if type(state) is machine}


def test_every_payload_moves_something_or_is_known_not_to():
    """TARGETS, and the two short lists above, name every payload of the schema once."""
    assert sorted(PAYLOADS) == sorted([*TARGETS, *CARRY_THEIR_TARGET, *MOVE_NOTHING])


def test_every_payload_is_guarded_or_is_known_to_fit():
    """A payload forgotten in core/check.py would be taken in any state."""
    assert sorted(PAYLOADS) == sorted([*_GUARDS, *HAVE_NO_GUARD])


def test_every_payload_is_applied_or_is_known_to_change_nothing():
    """A payload forgotten in core/evolve.py would be recorded and never seen."""
    assert sorted(PAYLOADS) == sorted([*_APPLIERS, *CHANGE_NOTHING])


def test_what_the_lists_of_check_name_exists():
    """The whitelists before the creation and after the end name payloads of the schema."""
    named = _AFTER_THE_END | _BEFORE_THE_CREATION
    assert named <= set(PAYLOADS)


# --- against Ray's tables -------------------------------------------------------------------------

R, A, W = RunStatus, AttemptStatus, WorkerStatus
# A6.3: the moves of a run and of an attempt as a reader of Ray's log sees them.
RAY_RUN_MOVES = {
    R.UNSPECIFIED: {R.INITIALIZING},
    R.INITIALIZING: {R.SCHEDULING, R.ERRORED, R.ABORTED},
    R.SCHEDULING: {R.SCHEDULING, R.RUNNING, R.ERRORED, R.ABORTED},
    R.RUNNING: {R.RESTARTING, R.RESIZING, R.FINISHED, R.ERRORED, R.ABORTED},
    R.RESTARTING: {R.SCHEDULING, R.ERRORED, R.ABORTED},
    R.RESIZING: {R.SCHEDULING, R.ERRORED, R.ABORTED},
}
RAY_ATTEMPT_MOVES = {
    A.UNSPECIFIED: {A.PENDING},
    A.PENDING: {A.PENDING, A.RUNNING, A.ABORTED},
    A.RUNNING: {A.FINISHED, A.ERRORED, A.ABORTED},
}


@pytest.mark.parametrize("moves", [RAY_RUN_MOVES, RAY_ATTEMPT_MOVES], ids=["run", "attempt"])
def test_rays_moves_are_ours(moves):
    """A6.3: what Ray writes is legal here, but for a state that is written twice (re-exports)."""
    refused = {(a, b) for a, targets in moves.items() for b in targets if not allowed(a, b)}
    assert refused <= {(R.SCHEDULING, R.SCHEDULING), (A.PENDING, A.PENDING)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (R.INITIALIZING, R.RUNNING),  # nothing was scheduled
        (R.INITIALIZING, R.FINISHED),
        (R.SCHEDULING, R.FINISHED),
        (R.SCHEDULING, R.RESIZING),
        (R.RESTARTING, R.RUNNING),
        (R.RESIZING, R.RUNNING),
        (R.SHUTTING_DOWN, R.RUNNING),
        (A.UNSPECIFIED, A.RUNNING),
        (A.PENDING, A.FINISHED),
        (A.PENDING, A.PENDING),  # a failed start ends its attempt
        (W.SCHEDULING, W.COMPLETED),
        (W.FAILING, W.RUNNING),
        (W.FAILING, W.COMPLETED),
        (ReplicaGroupStatus.RUNNING, ReplicaGroupStatus.REPLACING),  # it fails first
        (ReplicaGroupStatus.FAILED, ReplicaGroupStatus.RUNNING),
        (PlacementStatus.RELEASED, PlacementStatus.READY),
    ],
    ids=lambda status: status.name,
)
def test_no_shortcut(before, after):
    """Moves that would leave out what must have happened between."""
    assert not allowed(before, after)


def test_worker_machine_of_torchx():
    """1-09: SCHEDULING -> RUNNING -> COMPLETED or FAILING; FAILING -> SCHEDULING; DEAD is ours."""
    row_1_09 = {
        (W.SCHEDULING, W.RUNNING),
        (W.RUNNING, W.COMPLETED),
        (W.RUNNING, W.FAILING),
        (W.FAILING, W.SCHEDULING),
    }
    # A worker that dies without a word, or while it is started; one that fails while it is started.
    ours = {(W.SCHEDULING, W.FAILING), (W.UNSPECIFIED, W.SCHEDULING)}
    moves = {(a, b) for a, targets in MOVES[W].items() for b in targets if b != W.DEAD}
    assert row_1_09 | ours == moves


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        (R.UNSPECIFIED, "RUN_STATUS_UNSPECIFIED"),
        (R.INITIALIZING, "INITIALIZING"),
        (R.SCHEDULING, "SCHEDULING"),
        (R.WAITING, None),
        (R.RUNNING, "RUNNING"),
        (R.PREEMPTING, None),
        (R.RESTARTING, "RESTARTING"),
        (R.RESIZING, "RESIZING"),
        (R.SHUTTING_DOWN, None),
        (R.FINISHED, "FINISHED"),
        (R.ERRORED, "ERRORED"),
        (R.ABORTED, "ABORTED"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_projection_to_ray(status, shown):
    """A6.3: each state as Ray shows it; None where Ray writes nothing."""
    assert shown == RAY_RUN_STATUS[status]


def test_projection_to_ray_is_whole():
    """Every state of a run has an entry."""
    assert set(RunStatus) == set(RAY_RUN_STATUS)
