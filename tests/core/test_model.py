"""The model and the schema are one: same entities, same fields, same numbers."""

from __future__ import annotations

import dataclasses

import pytest

from trainstate.core import model
from trainstate.v1 import state_pb2, view_pb2

ENTITIES = [
    model.Run,
    model.Attempt,
    model.Worker,
    model.ReplicaGroup,
    model.PendingCheckpoint,
    model.Placement,
    model.Checkpoint,
    model.Sync,
    model.BudgetUse,
    model.Resize,
    model.Irregularity,
]
ENUMS = [
    model.RunStatus,
    model.AttemptStatus,
    model.WorkerStatus,
    model.ReplicaGroupStatus,
    model.PlacementStatus,
    model.SyncStatus,
    model.Cause,
    model.Budget,
]
# Messages of view.proto that are about runs, not the state of one.
AROUND = {"RunSummary", "Snapshot", "ResidentRun"}


@pytest.mark.parametrize("entity", ENTITIES, ids=lambda entity: entity.__name__)
def test_entity_has_the_fields_of_its_message(entity):
    """Field by field, by name and in order: a field added to one side only is found here."""
    message = view_pb2.DESCRIPTOR.message_types_by_name[entity.__name__]
    ours = [field.name for field in dataclasses.fields(entity)]
    assert sorted(field.name for field in message.fields) == sorted(ours)


def test_every_view_message_has_an_entity():
    """No part of the state is in the schema only."""
    messages = set(view_pb2.DESCRIPTOR.message_types_by_name) - AROUND
    assert messages == {entity.__name__ for entity in ENTITIES}


@pytest.mark.parametrize("entity", ENTITIES, ids=lambda entity: entity.__name__)
def test_entities_have_slots(entity):
    """A run of 4,096 workers has no 4,096 dicts, and a misspelt field is an error."""
    assert "__slots__" in vars(entity)
    assert "__dict__" not in dir(entity)


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.__name__)
def test_enum_is_the_schemas(enum):
    """The same names with the same numbers, and none on one side only."""
    descriptor = state_pb2.DESCRIPTOR.enum_types_by_name[enum.__name__]
    prefix = descriptor.values_by_number[0].name.removesuffix("UNSPECIFIED")
    schema = {value.name.removeprefix(prefix): value.number for value in descriptor.values}
    assert schema == {member.name: member.value for member in enum}


def test_the_newest_attempt_is_the_attempt():
    """`attempt` is the newest or None; `find_attempt` finds every one by id."""
    run = model.initial("run")
    assert run.attempt is None
    assert run.find_attempt("a1") is None
    run.attempts = [model.Attempt("a1", 1), model.Attempt("a2", 2)]
    assert "a2" == run.attempt.attempt_id
    assert 1 == run.find_attempt("a1").number
    assert run.find_attempt("a3") is None


@pytest.mark.parametrize(
    ("size", "groups", "gangs"),
    [
        (0, [None] * 4, {None: [0, 1, 2, 3]}),
        (1, [0, 1, 2, 3], {0: [0], 1: [1], 2: [2], 3: [3]}),
        (2, [0, 0, 1, 1], {0: [0, 1], 1: [2, 3]}),
        (4, [0] * 4, {0: [0, 1, 2, 3]}),
    ],
)
def test_a_replica_group_is_consecutive_ranks(size, groups, gangs):
    """Group g of size s has ranks g*s to (g+1)*s; without groups all ranks are one gang."""
    attempt = model.Attempt("a1", num_workers=4, replica_group_size=size)
    attempt.workers = {rank: model.Worker(rank) for rank in (2, 0, 3, 1)}
    attempt.groups = {group: model.ReplicaGroup(group) for group in gangs if group is not None}
    assert groups == [attempt.group_of(rank) for rank in range(4)]
    assert gangs == {one: [worker.rank for worker in attempt.gang(one)] for one in attempt.sharing}
    assert {len(gang) for gang in gangs.values()} == {attempt.gang_size(one) for one in gangs}


def test_checkpoints_are_kept_by_who_makes_them():
    """The attempt, or each of its groups."""
    attempt = model.Attempt("a1", num_workers=2)
    assert attempt is attempt.keeper(None)
    attempt.replica_group_size, attempt.groups = 1, {1: model.ReplicaGroup(1)}
    assert attempt.groups[1] is attempt.keeper(1)
    assert not attempt.has_pending
    attempt.groups[1].pending[0] = model.PendingCheckpoint(0)
    assert attempt.has_pending


def test_a_bundle_without_a_node_has_none():
    """Nor has one of a placement that is not there yet."""
    placement = model.Placement("pg", node_ids=["n1", ""])
    assert ["n1", "", ""] == [placement.node_of(bundle) for bundle in range(3)]


def test_of_an_initial_run_nothing_is_known():
    """Every field but the id has its default."""
    assert model.Run("r1") == model.initial("r1")
    assert model.RunStatus.UNSPECIFIED == model.initial("r1").status
