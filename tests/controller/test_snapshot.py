"""The checkpoints of an experiment, written as Ray Train writes them."""

from __future__ import annotations

import json
import math

import pytest

from trainstate.controller.snapshot import Kept, Snapshot, committed, decode, encode, published
from trainstate.core import Checkpoint, Run
from trainstate.core.freeze import copy
from trainstate.core.model import PendingCheckpoint
from trainstate.core.values import from_map, to_map
from trainstate.errors import DecodeError
from trainstate.v1 import state_pb2 as s


def run_with(losses: list[float], **checkpoint_config) -> Run:
    config = s.RunConfig(checkpoint_config=s.CheckpointConfig(**checkpoint_config))
    made = {
        index: Checkpoint(index, f"c{index}", to_map({"loss": loss}))
        for index, loss in enumerate(losses)
    }
    settings = s.RunSettings(run_config=config)
    return Run("r", settings=settings, checkpoints=made, checkpoints_committed=len(made))


def names(snapshot: Snapshot) -> list[str]:
    return [one.directory for one in snapshot.kept]


def test_a_snapshot_survives_its_file():
    """With metrics of every plain kind."""
    metrics = {
        "a": 1,
        "big": 2**70,
        "f": 0.5,
        "none": None,
        "list": [1, {"x": True}],
        "inf": math.inf,
    }
    snapshot = Snapshot([Kept("one", metrics, 4), Kept("two", {}, 2)], "one")
    assert snapshot == decode(encode(snapshot), "path")


def test_metrics_that_json_does_not_know_are_written_as_text():
    """The journal keeps them exactly; the file is for resuming."""
    state = json.loads(encode(Snapshot([Kept("one", {"raw": b"\x00", "object": object()})], "one")))
    assert {"raw": "b'\\x00'", "object": "object"} == state["checkpoint_results"][0]["metrics"]


def test_an_empty_snapshot():
    """Nothing to resume from."""
    assert Snapshot([]) == decode(encode(Snapshot([])), "path")
    assert Snapshot().newest is None


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"checkpoint_results": 3}', b"\xff"])
def test_what_is_no_snapshot_is_said_so(data):
    """With its path, and what to do."""
    with pytest.raises(DecodeError, match="not a checkpoint manager snapshot") as caught:
        decode(data, "the/path")
    assert "the/path" == caught.value.path
    assert caught.value.hint


def test_older_rays_did_not_write_indices():
    """Their order is that of the list."""
    one, two = ({"checkpoint_dir_name": name, "metrics": {}} for name in ("one", "two"))
    state = {"checkpoint_results": [one, two], "latest_checkpoint_result": two}
    snapshot = decode(json.dumps(state).encode(), "path")
    assert Snapshot([Kept("one", {}, 0), Kept("two", {}, 1)], "two") == snapshot


def test_a_checkpoint_about_to_be_committed_is_published():
    """It is the newest, and the run is not touched."""
    run = run_with([3, 2])
    before = copy(run)
    snapshot = published(run, PendingCheckpoint(7, "c2", to_map({"loss": 1})))
    assert ["c0", "c1", "c2"] == names(snapshot)
    assert Kept("c2", {"loss": 1}, 2) == snapshot.newest
    assert before == run


def test_what_is_about_to_be_deleted_is_not_published():
    """Else Ray, which looks for every checkpoint, would refuse the directory."""
    snapshot = published(run_with([1, 2], num_to_keep=2), PendingCheckpoint(2, "c2"))
    assert ["c1", "c2"] == names(snapshot)
    worst = run_with(
        [1, 2], num_to_keep=2, checkpoint_score_attribute="loss", checkpoint_score_order=2
    )
    snapshot = published(worst, PendingCheckpoint(2, "c2", to_map({"loss": 9})))
    assert ["c2", "c0"] == names(snapshot)[:1] + names(snapshot)[-1:]
    assert "c2" == snapshot.latest


def test_a_run_that_resumes_records_what_it_found():
    """Counted anew, oldest first, the newest last."""
    snapshot = Snapshot([Kept("best", {"a": 1}, 9), Kept("old", {}, 3), Kept("new", {}, 5)], "new")
    made = committed(snapshot)
    assert [(0, "old"), (1, "best"), (2, "new")] == [(one.index, one.directory) for one in made]
    assert {"a": 1} == from_map(made[1].metrics)
