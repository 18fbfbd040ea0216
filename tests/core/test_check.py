"""What `check` refuses: exactly what the tables lack, and what the rules across entities forbid."""

from __future__ import annotations

from itertools import product

import pytest

from tests.core.stories import (
    ATTEMPT_DONE,
    CREATED,
    FINISHED,
    PLANNED,
    RUNNING,
    SCHEDULED,
    SCHEDULING,
    STARTED,
    WORKERS_DONE,
    run_in,
)
from trainstate.core import (
    AttemptStatus,
    ReplicaGroupStatus,
    RunStatus,
    SyncStatus,
    WorkerStatus,
    check,
)
from trainstate.core.freeze import freeze
from trainstate.core.transitions import MOVES, TARGETS
from trainstate.errors import InvalidTransition
from trainstate.testing import event, given
from trainstate.testing.given import START_NS
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

PAYLOADS = {field.name: field for field in e.Event.DESCRIPTOR.oneofs_by_name["payload"].fields}
# Which entity of `run_in` a payload is about, where the default (rank 0, group 0, index 0) is not it.
NAMES = {"placement": {"name": "pg"}, "sync": {"sync_id": "s1"}}


def make(kind, **fields):
    """An event of that payload, about the one entity of its kind that `run_in` makes."""
    named = NAMES.get(kind.partition("_")[0], {}) if kind in TARGETS else {}
    made = e.Event(run_id="run", run_seq=2, incarnation=1, attempt_id="a1", time_unix_nano=START_NS)
    getattr(made, kind).SetInParent()
    for name, value in {**named, **fields}.items():
        setattr(getattr(made, kind), name, value)
    return made


def refusal(run, event):
    """Why `check` refuses, or None; it changes nothing either way."""
    before = freeze(run)
    try:
        check(run, event)
    except InvalidTransition as refused:
        return refused.message
    finally:
        assert before == freeze(run)
    return None


# --- the tables -----------------------------------------------------------------------------------

# A plan makes a new attempt: its id must be new, whatever the state of the old one (tested below).
BY_STATE = [(kind, target) for kind, target in TARGETS.items() if kind != "attempt_planned"]
# A sync id may be used again once the transfer is over, so these go on from an end.
AGAIN = {("sync_started", SyncStatus.SUCCEEDED), ("sync_started", SyncStatus.FAILED)}


PAIRS = [
    pytest.param(kind, target, state, id=f"{kind}-{state.name}")
    for kind, target in BY_STATE
    for state in type(target)
]


@pytest.mark.parametrize(("kind", "target", "state"), PAIRS)
def test_refuses_exactly_what_the_table_lacks(kind, target, state):
    """A0.5: for every state of a payload's machine, taken if the table has the move, else refused."""
    run = run_in(state)
    if type(target) is RunStatus:
        run.attempts.clear()
    generation = int(kind in {"worker_scheduled", "replica_group_replacing"})
    made = make(kind, generation=generation) if generation else make(kind)
    legal = target in MOVES[type(target)][state] or (kind, state) in AGAIN
    assert legal == (refusal(run, made) is None)


@pytest.mark.parametrize(
    ("state", "end"), [*product(AttemptStatus, AttemptStatus)], ids=lambda status: status.name
)
def test_an_attempt_ends_as_the_table_says(state, end):
    """`AttemptEnded` carries its target: only an end, and only from a state that leads to it."""
    run = run_in(state)
    run.attempts[0].workers.clear()
    legal = end.is_terminal and end in MOVES[AttemptStatus][state]
    assert legal == (refusal(run, make("attempt_ended", status=end)) is None)


@pytest.mark.parametrize("kind", PAYLOADS)
def test_nothing_happens_to_a_run_that_is_not_created(kind):
    """Before RunCreated only a writer's opening and what it imports are recorded."""
    legal = kind in {"run_opened", "run_created", "line_imported"}
    why = refusal(run_in(RunStatus.UNSPECIFIED), make(kind))
    assert None is why if legal else "the run is not created" in why


AFTER_THE_END = {
    "run_opened",
    "callback_failed",
    "checkpoint_deleted",
    "placement_released",
    "sync_started",
    "sync_succeeded",
    "sync_failed",
    "sync_skipped",
    "line_imported",
    "foreign_status_observed",
}


@pytest.mark.parametrize("end", [RunStatus.FINISHED, RunStatus.ERRORED, RunStatus.ABORTED])
@pytest.mark.parametrize("kind", PAYLOADS)
def test_after_the_end_there_is_only_cleaning_up(kind, end):
    """A run that has ended takes what cleans up after it and what others say of it, nothing else."""
    why = refusal(run_in(end), make(kind)) or ""
    assert (kind not in AFTER_THE_END) == (f"the run ended as {end.name}" in why)


def test_clean_up_goes_on_after_the_end():
    """Placements are released, checkpoints deleted and transfers made when the run is over."""
    placed = event(e.PlacementRequested(name="pg"))
    checkpoint = event(e.CheckpointCommitted())
    given(*CREATED, placed, checkpoint, event(e.RunAborted())).when(
        event(e.RunOpened(writer="reaper")),
        event(e.CallbackFailed(callback="after_end")),
        event(e.CheckpointDeleted(index=0)),
        event(e.PlacementReleased(name="pg")),
        event(e.SyncStarted(sync_id="s1")),
        event(e.SyncSucceeded(sync_id="s1")),
        event(e.SyncSkipped()),
        event(e.LineImported()),
    ).then(status=RunStatus.ABORTED, placements={}, checkpoints={}, syncs={}, syncs_skipped=1)


def test_the_refusal_names_event_state_and_run():
    """The error says what was refused, in which state, of which run, and what to run next."""
    run = given(*CREATED).run
    with pytest.raises(InvalidTransition) as refused:
        check(run, event(e.RunResizing()))
    assert "run" == refused.value.run_id
    assert "trainstate show run" == refused.value.hint
    expected = (
        "run_resizing refused while the run is INITIALIZING: "
        "a run does not go from INITIALIZING to RESIZING (run run)"
    )
    assert expected == str(refused.value)


def test_an_event_without_a_payload_is_refused():
    """A payload that only a newer version knows is not written by this one."""
    newer = e.Event.FromString(b"\xa2\x1f\x00")  # field 500, empty
    given(*CREATED).when(newer).refused("no payload this version knows")


# --- rules across entities ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [e.RunFinished(), e.RunErrored(), e.RunAborted()],
    ids=lambda payload: payload.DESCRIPTOR.name,
)
@pytest.mark.parametrize("before", [PLANNED, RUNNING], ids=["PENDING", "RUNNING"])
def test_a_run_does_not_end_before_its_attempt(before, end):
    """B.3 row 3: an end of the run is refused while an attempt is open."""
    given(*before).when(event(end)).refused("attempt a1 is still")


@pytest.mark.parametrize("end", [AttemptStatus.FINISHED, AttemptStatus.ERRORED])
@pytest.mark.parametrize(
    ("rank", "last"),
    [(0, None), (1, e.WorkerCompleted(rank=0)), (1, e.WorkerDied(rank=0))],
    ids=["both-alive", "one-completed", "one-dead"],
)
def test_an_attempt_does_not_end_before_its_workers(rank, last, end):
    """B.3 row 3: the end of an attempt is refused while a worker is alive, and names the rank."""
    ends = [event(last, "a1")] if last else []
    alive = f"{2 - len(ends)} of its workers are alive, first rank {rank}"
    given(*RUNNING, *ends).when(event(e.AttemptEnded(status=end), "a1")).refused(alive)


def test_a_whole_run_is_legal():
    """From creation to the end: the story the other tests cut short."""
    given(*FINISHED[:-1]).when(FINISHED[-1]).then(
        {"attempt.status": AttemptStatus.FINISHED, "attempt.groups.0.status": 4},
        status=RunStatus.FINISHED,
        irregular=[],
    )


@pytest.mark.parametrize("end", [e.RunFinished, e.RunErrored, e.RunAborted])
def test_a_run_does_not_end_before_its_start(end):
    """A0.3, A0.5: end < start is refused, equal times are not."""
    start_ns = START_NS + 10**8
    created = [event(e.RunCreated(start_time_ns=start_ns)), *RUNNING[1:2], event(e.RunRunning())]
    given(*created).when(event(end(end_time_ns=start_ns - 1))).refused("before its start")
    given(*created).when(event(end(end_time_ns=start_ns))).then(end_time_ns=start_ns)


def test_an_end_without_a_time_of_its_own_ends_at_the_events():
    """A source clock finer than the event's time: the default end may not lie before the start."""
    start_ns = START_NS + 10**12
    created = event(e.RunCreated(start_time_ns=start_ns))
    given(created).when(event(e.RunErrored())).refused("before its start")
    given(created).when(event(e.RunErrored(), at_s=1000)).then(end_time_ns=start_ns)


def test_an_attempt_does_not_end_before_its_start():
    """A0.4, A0.5: end < start is refused."""
    start_ns = START_NS + 10**8
    planned = event(e.AttemptPlanned(start_time_ns=start_ns), "a1")
    ended = e.AttemptEnded(status=AttemptStatus.ERRORED, end_time_ns=start_ns - 1)
    given(*SCHEDULING, planned).when(event(ended, "a1")).refused("before its start")
    ended.end_time_ns = start_ns
    given(*SCHEDULING, planned).when(event(ended, "a1")).then({"attempt.end_time_ns": start_ns})


def test_one_attempt_is_open_at_a_time():
    """A second attempt is planned only when the first has ended."""
    second = event(e.AttemptPlanned(num_workers=1), "a2")
    given(*PLANNED).when(second).refused("attempt a1 is still PENDING")
    given(*RUNNING).when(second).refused("attempt a1 is still RUNNING")
    given(*ATTEMPT_DONE).when(second).then({"attempt.number": 2, "attempt.attempt_id": "a2"})


@pytest.mark.parametrize("state", AttemptStatus, ids=lambda state: state.name)
def test_an_attempt_is_planned_once(state):
    """An attempt id is never used again, whatever became of the first."""
    assert "attempt a1 exists" in refusal(run_in(state), make("attempt_planned"))


def test_another_system_may_plan_again_what_did_not_start():
    """A6.3: Ray retries a failed start under the same id, perhaps in another size; we do not."""
    imported = [event(e.RunOpened(writer="ray-export", foreign=True)), *PLANNED]
    again = event(e.AttemptPlanned(num_workers=1), "a1")
    given(*imported).when(again).then({"attempt.num_workers": 1, "attempt.groups": {}})
    given(*imported, event(e.AttemptStarted(), "a1")).when(again).refused("attempt a1 exists")
    given(*PLANNED).when(again).refused("attempt a1 exists")


def test_a_planned_attempt_has_an_id():
    """An attempt without an id could not be named by what belongs to it."""
    given(*SCHEDULING).when(event(e.AttemptPlanned(num_workers=1))).refused("names no attempt")


@pytest.mark.parametrize(("workers", "size"), [(-1, 0), (4, -1), (4, 3), (2, 4)])
def test_a_plan_must_add_up(workers, size):
    """No negative sizes, and replica groups hold all workers."""
    plan = e.AttemptPlanned(num_workers=workers, replica_group_size=size)
    given(*SCHEDULING).when(event(plan, "a1")).refused("do not make replica groups")


OF_THE_ATTEMPT = [
    e.AttemptStarted(),
    e.AttemptEnded(status=AttemptStatus.ERRORED),
    e.WorkerScheduled(),
    e.WorkerStarted(),
    e.WorkerFailing(),
    e.WorkerCompleted(),
    e.WorkerDied(),
    e.ReplicaGroupFailed(),
    e.ReplicaGroupReplacing(),
    e.ReplicaGroupReplaced(),
    e.ReplicaGroupReplacementFailed(),
    e.ReportReceived(),
]


@pytest.mark.parametrize("payload", OF_THE_ATTEMPT, ids=lambda payload: payload.DESCRIPTOR.name)
def test_what_belongs_to_an_attempt_belongs_to_the_open_one(payload):
    """Refused without an attempt, for another than the newest, and after its end."""
    given(*SCHEDULING).when(event(payload, "a1")).refused("'a1' is not the run's newest")
    given(*RUNNING).when(event(payload, "a0")).refused("'a0' is not the run's newest")
    given(*RUNNING).when(event(payload)).refused("'' is not the run's newest")
    given(*ATTEMPT_DONE).when(event(payload, "a1")).refused("attempt a1 ended as FINISHED")
    second = event(e.AttemptPlanned(num_workers=1), "a2")
    given(*ATTEMPT_DONE, second).when(event(payload, "a1")).refused("'a1' is not the run's newest")


@pytest.mark.parametrize("rank", [-1, 2, 4096])
def test_ranks_are_the_attempts(rank):
    """A worker has a rank below the attempt's size."""
    scheduled = event(e.WorkerScheduled(rank=rank), "a1")
    given(*PLANNED).when(scheduled).refused("outside the attempt's 2 workers")


@pytest.mark.parametrize(
    "payload",
    [e.WorkerStarted, e.WorkerFailing, e.WorkerCompleted, e.WorkerDied, e.ReportReceived],
    ids=lambda payload: payload.DESCRIPTOR.name,
)
def test_a_worker_is_scheduled_first(payload):
    """Nothing is recorded of a rank that was never scheduled."""
    given(*PLANNED).when(event(payload(rank=1), "a1")).refused("rank 1 was never scheduled")


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_generations_count_without_gaps(generation):
    """The replacement of a rank is the next generation, the first is 0."""
    first = e.WorkerScheduled(rank=0, generation=1)
    given(*PLANNED).when(event(first, "a1")).refused("rank 0 is due generation 0, not 1")
    failing = event(e.WorkerFailing(rank=0), "a1")
    again = event(e.WorkerScheduled(rank=0, generation=generation), "a1")
    given(*RUNNING, failing).when(again).refused("rank 0 is due generation 1")


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_replica_groups_count_without_gaps(generation):
    """A replacement is the next generation of its group."""
    failed = event(e.ReplicaGroupFailed(group=1), "a1")
    replacing = event(e.ReplicaGroupReplacing(group=1, generation=generation), "a1")
    given(*RUNNING, failed).when(replacing).refused("replica group 1 is due generation 1")


def test_replica_groups_are_the_attempts():
    """A group the plan did not make does not fail."""
    failed = event(e.ReplicaGroupFailed(group=2), "a1")
    given(*RUNNING).when(failed).refused("the attempt has no replica group 2")


@pytest.mark.parametrize("index", [0, 2, 2**64 - 1])
def test_reports_count_without_gaps(index):
    """The reports of a rank are numbered from 0; one is neither lost nor repeated."""
    report = event(e.ReportReceived(rank=1, index=0), "a1")
    other = event(e.ReportReceived(rank=1, index=index), "a1")
    given(*RUNNING, report).when(other).refused(f"rank 1 is due report 1, not {index}")


@pytest.mark.parametrize("first", [0, 1, 5])
def test_reports_of_a_replacement_go_on(first):
    """2-19: from the index that its start names, whatever the rank had reported before."""
    story = given(
        *RUNNING,
        event(e.ReportReceived(rank=0, index=0), "a1"),
        event(e.WorkerFailing(rank=0), "a1"),
        event(e.WorkerScheduled(rank=0, generation=1, first_report=first), "a1"),
        event(e.WorkerStarted(rank=0), "a1"),
    )
    other = event(e.ReportReceived(rank=0, index=first + 1), "a1")
    story.when(other).refused(f"rank 0 is due report {first}, not {first + 1}")
    story.when(event(e.ReportReceived(rank=0, index=first), "a1")).then(
        {"attempt.workers.0.reports": first + 1, "attempt.replaced.0.reports": 1}, reports=2
    )


@pytest.mark.parametrize("index", [1, 2**64 - 1])
def test_checkpoints_count_without_gaps(index):
    """The checkpoints of a run are numbered from 0, across its attempts."""
    given(*RUNNING).when(event(e.CheckpointCommitted(index=index))).refused("checkpoint 0 is due")
    first = event(e.CheckpointCommitted(index=0))
    given(*RUNNING, first).when(first).refused("checkpoint 1 is due, not 0")


def test_only_what_is_there_is_deleted():
    """A checkpoint is deleted once, and not before it is committed."""
    made, gone = event(e.CheckpointCommitted()), event(e.CheckpointDeleted())
    given(*RUNNING).when(gone).refused("there is no checkpoint 0")
    given(*RUNNING, made, gone).when(gone).refused("there is no checkpoint 0")


@pytest.mark.parametrize(
    "payload",
    [e.PlacementReady, e.PlacementChanged, e.PlacementTimedOut, e.PlacementReleased],
    ids=lambda payload: payload.DESCRIPTOR.name,
)
def test_a_placement_is_requested_first(payload):
    """A name nobody requested does not become ready; a released one is free for a new request."""
    given(*CREATED).when(event(payload(name="pg"))).refused(
        "placement 'pg' does not go from UNSPEC"
    )
    used = [event(e.PlacementRequested(name="pg")), event(e.PlacementReleased(name="pg"))]
    given(*CREATED, *used).when(event(payload(name="pg"))).refused("from UNSPECIFIED")
    given(*CREATED, *used).when(used[0]).then({"placements.pg.status": 1})


@pytest.mark.parametrize("nodes", [[], ["n1"], ["n1", "", "n2"]])
def test_a_placement_that_changed_has_a_node_for_each_bundle(nodes):
    """The empty one for a bundle without; another number would be another placement."""
    asked = e.PlacementRequested(name="pg", bundles=[s.ResourceSet()] * 2)
    changed = event(e.PlacementChanged(name="pg", node_ids=nodes))
    given(*CREATED, event(asked)).when(changed).refused("placement 'pg' has 2 bundles")


@pytest.mark.parametrize(
    "payload", [e.SyncSucceeded, e.SyncFailed], ids=lambda payload: payload.DESCRIPTOR.name
)
def test_a_sync_is_started_first_and_ends_once(payload):
    """An end without a start, and a second end, are refused; the id can be used again."""
    started, ended = event(e.SyncStarted(sync_id="s")), event(payload(sync_id="s"))
    given(*CREATED).when(ended).refused("sync 's' does not go from UNSPECIFIED")
    given(*CREATED, started).when(started).refused("sync 's' does not go from RUNNING to RUNNING")
    given(*CREATED, started, ended).when(ended).refused("sync 's' does not go from")
    given(*CREATED, started, ended).when(started).then({"syncs.s.status": SyncStatus.RUNNING})


def test_a_run_is_created_once():
    """But one first seen through an attempt has no name, and gets it when its own line is seen."""
    given(*CREATED).when(*CREATED).refused("the run exists, as 'mnist'")
    nameless = event(e.RunCreated())
    given(nameless, event(e.RunScheduling())).when(*CREATED).then(
        name="mnist", status=RunStatus.SCHEDULING, irregular=[]
    )


# --- A0.5: "assignment is not validated" ----------------------------------------------------------


@pytest.mark.parametrize("number", [-1, 6, 99, 2**31 - 1])
def test_a_garbage_status_is_refused(number):
    """A0.5: a number no status has is refused wherever an event carries a status."""
    ended = event(e.AttemptEnded(status=number), "a1")
    given(*WORKERS_DONE).when(ended).refused(f"does not end with status {number}")
    for entity in (e.FOREIGN_ENTITY_ATTEMPT, e.FOREIGN_ENTITY_WORKER):
        observed = e.ForeignStatusObserved(entity=entity, status=number)
        given(*RUNNING).when(event(observed, "a1")).refused(f"has no status {number}")


@pytest.mark.parametrize("number", [-1, 0, 12])
def test_a_garbage_run_status_is_refused(number):
    """A0.5: the same for a run; unspecified is no status to go to."""
    observed = e.ForeignStatusObserved(entity=e.FOREIGN_ENTITY_RUN, status=number)
    given(*RUNNING).when(event(observed)).refused(f"has no status {number}")


@pytest.mark.parametrize("entity", [0, 4, 99])
def test_a_garbage_entity_is_refused(entity):
    """A foreign status is of a run, an attempt or a worker."""
    observed = e.ForeignStatusObserved(entity=entity, status=1)
    given(*RUNNING).when(event(observed)).refused(f"foreign entity {entity}")


def test_an_ended_attempt_does_not_go_back():
    """A0.5: FINISHED -> PENDING, which Ray's store takes, is refused."""
    given(*ATTEMPT_DONE).when(event(e.AttemptPlanned(), "a1")).refused("attempt a1 exists")
    given(*ATTEMPT_DONE).when(event(e.AttemptStarted(), "a1")).refused("ended as FINISHED")


@pytest.mark.parametrize("status", [s for s in RunStatus if s], ids=lambda status: status.name)
def test_any_foreign_move_passes(status):
    """Design section 5: what another system recorded is kept even where our table lacks the move."""
    observed = e.ForeignStatusObserved(entity=e.FOREIGN_ENTITY_RUN, status=status)
    given(*STARTED).when(event(observed)).then(status=status, irregular_count=1)


def test_replacement_of_a_group():
    """2-08..2-14: a group fails, is replaced, fails to be replaced, and ends with its attempt."""
    ours = {"group": 0, "generation": 1}
    given(
        *SCHEDULED,
        event(e.WorkerStarted(rank=0), "a1"),
        event(e.ReplicaGroupFailed(group=0, cause=3), "a1"),
    ).when(
        event(e.ReplicaGroupReplacing(**ours), "a1"),
        event(e.ReplicaGroupReplacementFailed(**ours), "a1"),
        event(e.ReplicaGroupReplacing(group=0, generation=2), "a1"),
        event(e.ReplicaGroupReplaced(group=0, generation=2), "a1"),
    ).then(
        {
            "attempt.groups.0.status": ReplicaGroupStatus.RUNNING,
            "attempt.groups.0.generation": 2,
            "attempt.groups.0.replacements": 1,
            "attempt.groups.0.failed_replacements": 0,
            "attempt.groups.1.generation": 0,
            "attempt.workers.0.status": WorkerStatus.RUNNING,
        },
        irregular=[],
    )


@pytest.mark.parametrize("workers", [-1, 1_000_001, 2**31 - 1])
def test_an_attempt_of_an_impossible_size_is_refused(workers):
    """One event cannot make a fold build billions of replica groups."""
    planned = event(e.AttemptPlanned(num_workers=workers, replica_group_size=1), "a1")
    given(event(e.RunOpened()), event(e.RunCreated())).when(planned).refused("workers")
