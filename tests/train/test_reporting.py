"""What a training function says and is told."""

from __future__ import annotations

import dataclasses
import inspect

import numpy
import pytest
import ray.train
import ray.train.collective
import torch

from trainstate import train
from trainstate.controller.session import CheckpointUploadMode


@pytest.mark.parametrize(
    "name",
    [
        "report",
        "get_checkpoint",
        "get_context",
        "get_dataset_shard",
        "get_all_reported_checkpoints",
    ],
)
def test_signatures_are_rays(name):
    """Names, order and defaults of the arguments."""

    def shape(function):
        parameters = inspect.signature(function).parameters.values()
        return [(one.name, getattr(one.default, "name", one.default)) for one in parameters]

    assert shape(getattr(ray.train, name)) == shape(getattr(train, name))


def test_enums_are_rays():
    """Names and values."""
    for name in ("CheckpointUploadMode", "CheckpointConsistencyMode"):
        theirs, ours = getattr(ray.train, name), getattr(train, name)
        assert {one.name: one.value for one in theirs} == {one.name: one.value for one in ours}
    for theirs, ours in zip(ray.train.CheckpointUploadMode, CheckpointUploadMode, strict=True):
        default = theirs.default_delete_local_checkpoint_after_upload()
        assert default == ours.default_delete_local_checkpoint_after_upload()


def test_metrics_arrive_as_plain_values(session):
    """Python's numbers exactly, numpy's as Python's, the rest by class name."""
    train.report({"step": 2**70, "loss": numpy.float64(0.25), "model": object(), "t": (1, 2)})
    [(metrics, *rest)] = session.reports
    assert {"step": 2**70, "loss": 0.25, "model": "object", "t": [1, 2]} == metrics
    assert type(metrics["loss"]) is float
    assert [None, None, CheckpointUploadMode.SYNC, False, None] == rest


@pytest.mark.parametrize(
    ("metrics", "why"),
    [
        ([1], "takes a dict of metrics, not a list"),
        ({1: 2}, "metrics with names, and 1 is not a str"),
        ({"loss": torch.tensor(1.0)}, r"metrics\['loss'\] is a torch tensor: .*\.item\(\)"),
        ({"a": {"b": [0, (torch.ones(2),)]}}, r"metrics\['a'\]\['b'\]\[1\]\[0\] is a torch tensor"),
    ],
)
def test_what_is_no_metrics_is_refused(session, metrics, why):
    """Before anything is sent, naming the place."""
    with pytest.raises(ValueError, match=why):
        train.report(metrics)
    assert [] == session.reports


def test_metrics_that_hold_themselves_are_searched_to_an_end(session):
    """A cycle is no reason to hang."""
    metrics: dict = {"a": 1}
    metrics["self"] = metrics
    train.report(metrics)
    assert 1 == len(session.reports)


@pytest.mark.parametrize(
    ("mode", "delete", "expected"),
    [
        (train.CheckpointUploadMode.SYNC, None, False),
        (train.CheckpointUploadMode.ASYNC, None, True),
        (train.CheckpointUploadMode.ASYNC, False, False),
        (ray.train.CheckpointUploadMode.NO_UPLOAD, None, False),
        ("SYNC", True, True),
    ],
)
def test_upload_modes(session, mode, delete, expected):
    """Ours, Ray's, or by name; only ASYNC deletes the local copy unless told."""
    upload_fn = lambda checkpoint, name: checkpoint  # noqa: E731
    train.report({}, "checkpoint", "dir", mode, delete, upload_fn)
    assert [
        (
            {},
            "checkpoint",
            "dir",
            CheckpointUploadMode(getattr(mode, "value", mode)),
            expected,
            upload_fn,
        )
    ] == session.reports


def test_validation_is_refused(session):
    """Not dropped in silence."""
    with pytest.raises(ValueError, match="not supported"):
        train.report({}, "checkpoint", validation=True)


def test_checkpoints_that_were_reported(session):
    """The newest one to resume from, and all of them with their metrics."""
    assert train.get_checkpoint() is None
    session.kept = [("first", {"a": 1}), ("second", {"a": 2})]
    assert "second" == train.get_checkpoint()
    assert [
        train.ReportedCheckpoint("first", {"a": 1}, train.ReportedCheckpointStatus.COMMITTED),
        train.ReportedCheckpoint("second", {"a": 2}),
    ] == train.get_all_reported_checkpoints(train.CheckpointConsistencyMode.COMMITTED, timeout_s=1)


def test_dataset_shards(session):
    """By name; the only one is called "train" as a rule."""
    assert "shard of valid" == train.get_dataset_shard("valid")
    assert "shard of train" == train.get_dataset_shard()


def test_the_context_has_every_accessor_of_rays(session):
    """Those that Ray has deprecated say what to do instead."""
    names = [one for one in dir(ray.train.TrainContext) if one.startswith("get_")]
    context = train.get_context()
    for name in names:
        if name in ("get_metadata", "get_trial_name", "get_trial_id") or "trial" in name:
            with pytest.raises(AttributeError, match="is of Ray Tune; instead: "):
                getattr(context, name)
        else:
            getattr(context, name)()
    with pytest.raises(AttributeError, match="TrainContext has no get_lucky"):
        _ = context.get_lucky


def test_the_context_says_who_the_worker_is(session):
    """All of SessionInfo, under Ray's names and three of ours."""
    numbers = {
        "world_rank": 5,
        "world_size": 8,
        "local_rank": 1,
        "local_world_size": 4,
        "node_rank": 2,
    }
    session.info = dataclasses.replace(session.info, **numbers)
    context = train.get_context()
    assert numbers == {name: getattr(context, f"get_{name}")() for name in numbers}
    assert ("exp", "run-1", "attempt-1", 3) == (
        context.get_experiment_name(),
        context.get_run_id(),
        context.get_attempt_id(),
        context.get_generation(),
    )
    assert session.storage is context.get_storage()


def test_collectives_go_to_the_session(session):
    """Both of Ray's."""
    assert sorted(ray.train.collective.__all__) == sorted(train.collective.__all__)
    assert ("from rank 0", 7) == train.collective.broadcast_from_rank_zero(7)
    train.collective.barrier()
    assert [("barrier",)] == session.reports
