"""Histories made by hypothesis: legal ones, and whatever bytes may ever have been recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from trainstate.core import Run, check, evolve, initial
from trainstate.core.model import Attempt, AttemptStatus
from trainstate.core.values import to_map
from trainstate.errors import InvalidTransition
from trainstate.testing import event, stamp
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

# --- legal histories: numbers pick one of the moves that fit ---------------------------------------

ERROR = s.Error(type="ValueError", message="bad batch", ranks=[0])
CPU = s.ResourceSet(resources=[s.Resource(name="CPU", amount=1)])
SETTINGS = s.RunSettings(train_loop_config=to_map({"lr": 0.1, "n": 2**70, "deep": [{}, None]}))
# One of so many picks may be a fact that moves nothing, something that goes wrong, an end.
FACT, FAILURE, END = 4, 3, 11


def legal(picks: Sequence[int]) -> list[e.Event]:
    """A history of at most that many events: each number picks an event that fits, if any does."""
    run, events = initial("run"), []
    for pick in picks:
        fitting = [one for one in _offers(run, pick) if _fits(run, one)]
        if fitting:
            recorded = stamp(run, fitting[pick % len(fitting)])
            evolve(run, recorded)
            events.append(recorded)
    return events


legal_histories = st.lists(st.integers(0, 2**16), min_size=1, max_size=80).map(legal)


def _fits(run: Run, bare: e.Event) -> bool:
    try:
        check(run, stamp(run, bare))
    except InvalidTransition:
        return False
    return True


def _offers(run: Run, pick: int) -> Iterator[e.Event]:
    """Events that may fit, with the numbers (generation, index) that are due."""
    for payload in _payloads(run, pick):
        one = event(payload, run.attempt.attempt_id if run.attempt else "", f"because of {pick}")
        if payload.DESCRIPTOR.name == "AttemptPlanned":
            one.attempt_id = f"a{len(run.attempts) + 1}"
        one.time_unix_nano = run.time_ns + pick * 10**6
        yield one


def _payloads(run: Run, pick: int) -> Iterator[Message]:
    if not run.status:
        yield e.RunCreated(name="mnist", job_id=b"\x01", settings=SETTINGS, provenance={"seed": 0})
        yield e.RunOpened(writer="controller")
        return
    yield from _moves(run, pick)
    if run.attempt is not None:
        yield from _moves_of_the_attempt(run.attempt, pick)
    if pick % FACT == 0:
        yield from _facts(run, pick)
    if pick % END == 0:
        yield from _ends(pick % 19)


def _moves(run: Run, pick: int) -> Iterator[Message]:
    yield e.RunScheduling(num_workers=2)
    yield e.RunWaiting(have=2, need=4)
    yield e.RunRunning()
    yield e.RunPreempting(node_ids=["n1"], deadline_unix_nano=0, ranks=[pick % 2])
    yield e.AttemptPlanned(num_workers=2 + pick % 2 * 2, replica_group_size=pick % 3)
    yield e.CheckpointCommitted(index=run.checkpoints_committed, metrics=to_map({}))
    if run.attempt is not None and run.attempt.groups:
        yield e.CheckpointCommitted(index=run.checkpoints_committed, group=pick % 2)
    if pick % FAILURE == 0:
        yield e.RunRestarting(cause=pick % 19)
        yield e.RunResizing(from_workers=2, to_workers=3)


def _ends(cause: int) -> Iterator[Message]:
    yield e.RunShuttingDown(next=9, cause=cause)
    yield e.RunFinished(return_value=s.Value(null=True))
    yield e.RunErrored(cause=cause, error=ERROR)
    yield e.RunAborted(cause=cause)


def _facts(run: Run, pick: int) -> Iterator[Message]:
    yield e.RunOpened(writer="controller")
    yield e.ControllerStarted(actor_id=b"\x02", recovered=True)
    yield e.FrameworkVersionsRecorded(versions=[s.Version(name="ray", version="2.60.0")])
    yield e.ScalingDecided(from_workers=2, to_workers=3)
    yield e.FailureDecided(decision=1 + pick % 2, budget=pick % 3, used=1, limit=-1)
    yield e.CallbackFailed(callback="c", hook="h", error=ERROR)
    slot = pick % 3
    yield e.PlacementRequested(name=f"pg{slot}", bundles=[CPU], strategy="PACK", slot=slot)
    yield e.PlacementReady(name=f"pg{slot}", placement_group_id=b"\x03", node_ids=["n1"])
    yield e.PlacementChanged(name=f"pg{slot}", node_ids=[["", "n2"][pick % 2]])
    yield e.PlacementTimedOut(name=f"pg{pick % 3}")
    yield e.PlacementReleased(name=f"pg{pick % 3}")
    yield e.CheckpointDeleted(index=min(run.checkpoints, default=0))
    yield e.SyncStarted(sync_id=f"s{pick % 3}", source="a", target="b")
    yield e.SyncSucceeded(sync_id=f"s{pick % 3}")
    yield e.SyncFailed(sync_id=f"s{pick % 3}", error=s.Error())
    yield e.SyncSkipped()


def _moves_of_the_attempt(attempt: Attempt, pick: int) -> Iterator[Message]:
    yield e.AttemptStarted()
    for status in (AttemptStatus.FINISHED, AttemptStatus.ERRORED, AttemptStatus.ABORTED):
        yield e.AttemptEnded(status=status, cause=1, error=ERROR)
    for rank in range(attempt.num_workers):
        worker = attempt.workers.get(rank)
        due = worker.reports if worker else 0
        yield e.WorkerScheduled(
            rank=rank,
            generation=worker.generation + 1 if worker else 0,
            placement="pg0",
            first_report=due,
        )
        yield e.WorkerStarted(rank=rank, accelerator_ids=["0", "GPU-1"], resources=CPU)
        yield e.ReportReceived(rank=rank, index=due, metrics=to_map({"loss": 0.5}))
        yield e.ReportReceived(rank=rank, index=due, checkpoint=f"c{due}")
        if pick % FAILURE == 0:
            yield e.WorkerFailing(rank=rank, cause=2, error=ERROR)
            yield e.WorkerCompleted(rank=rank)
            yield e.WorkerDied(rank=rank, cause=3)
    if pick % FAILURE == 0:
        yield from _moves_of_groups(attempt)


def _moves_of_groups(attempt: Attempt) -> Iterator[Message]:
    for group in attempt.groups.values():
        ours = {"group": group.group, "generation": group.generation + 1}
        yield e.ReplicaGroupFailed(group=group.group, cause=2, error=ERROR, backoff_s=2)
        yield e.ReplicaGroupReplacing(**ours)
        yield e.ReplicaGroupReplaced(**ours)
        yield e.ReplicaGroupReplacementFailed(**ours, error=ERROR, backoff_s=1)


# --- anything: every field at random, enum numbers of the future, ranks below zero ----------------

INT32 = st.sampled_from([-(2**31), -1, 0, 1, 2, 3, 2**31 - 1])
INT64 = st.sampled_from([-(2**63), -1, 0, 1, 2, 2**63 - 1])
UINT64 = st.sampled_from([0, 1, 2, 3, 2**64 - 1])
SCALARS = {
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=3),
    FieldDescriptor.TYPE_DOUBLE: st.floats(),
    FieldDescriptor.TYPE_ENUM: st.sampled_from([*range(20), -1, 99, 2**31 - 1]),
    FieldDescriptor.TYPE_FIXED32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_FIXED64: UINT64,
    FieldDescriptor.TYPE_INT32: INT32,
    FieldDescriptor.TYPE_INT64: INT64,
    FieldDescriptor.TYPE_SINT64: INT64,
    FieldDescriptor.TYPE_STRING: st.sampled_from(["", "a1", "a2", "s", "\u00e9\U0001f680", "~/"]),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: UINT64,
}
SPECIAL = {
    # A plan of two thousand million groups is a memory test, not a rule test.
    "AttemptPlanned.num_workers": st.integers(-2, 8),
    "Value.big_int": st.integers(-(2**80), 2**80).map(str),
}


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor, depth: int = 4) -> Message:
    """A message of that type, some of its fields set."""
    made = GetMessageClass(descriptor)()
    fields = st.lists(st.sampled_from([*descriptor.fields]), unique_by=id, max_size=5)
    for field in draw(fields) if descriptor.fields else ():
        _set(draw, made, field, depth)
    return made


def _set(draw: st.DrawFn, made: Message, field: FieldDescriptor, depth: int) -> None:
    if field.type != FieldDescriptor.TYPE_MESSAGE:
        value = SPECIAL.get(f"{made.DESCRIPTOR.name}.{field.name}", SCALARS[field.type])
    elif depth:
        value = messages(field.message_type, depth - 1)
    else:
        return
    if isinstance(field.default_value, list):
        getattr(made, field.name).extend(draw(st.lists(value, max_size=2)))
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        getattr(made, field.name).CopyFrom(draw(value))
    else:
        setattr(made, field.name, draw(value))


PAYLOADS = [*e.Event.DESCRIPTOR.oneofs_by_name["payload"].fields]


@st.composite
def any_events(draw: st.DrawFn) -> e.Event:
    """An event of any payload, or of one that this version does not know."""
    made = e.Event(
        run_id="run",
        attempt_id=draw(st.sampled_from(["", "a1", "a2"])),
        time_unix_nano=draw(UINT64),
        incarnation=draw(UINT64),
        reason=draw(st.sampled_from(["", "because"])),
    )
    field = draw(st.sampled_from([*PAYLOADS, None]))
    if field is None:
        made.MergeFromString(b"\xa2\x1f\x02\x08\x01")  # field 500
    else:
        getattr(made, field.name).CopyFrom(draw(messages(field.message_type)))
    return made
