"""Faults: each happens where it is planned, as often as it is planned, and says that it did."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.e2e.running import left_behind, run
from trainstate import train
from trainstate.controller.session import set_current
from trainstate.core import Cause, RunStatus
from trainstate.errors import UsageError
from trainstate.store import History
from trainstate.testing import Faults, InjectedFailure

STEPS = 8


@pytest.fixture
def rank_one() -> Iterator[None]:
    """A training function runs here, as rank 1, and not in a worker."""
    set_current(SimpleNamespace(info=SimpleNamespace(world_rank=1)))  # type: ignore[arg-type]
    yield
    set_current(None)


# --- the plan and the count -------------------------------------------------------------------


def test_a_plan_changes_nothing(tmp_path: Path) -> None:
    """Plans are values: each is another one, and none of them touches the disk."""
    none = Faults(tmp_path / "faults")
    assert {} == none.fired()
    planned = none.fail_at(1, 3).kill_worker(0, 5, times=2).slow_placement(0.5)
    assert {} == none.fired()
    names = [
        "fail_at(rank=1, step=3)",
        "kill_worker(rank=0, step=5)",
        "slow_placement(seconds=0.5)",
    ]
    assert dict.fromkeys(names, 0) == planned.fired()
    assert not (tmp_path / "faults").exists()


def test_it_fires_where_it_is_planned(tmp_path: Path, rank_one: None) -> None:
    """At its rank and its step, as often as planned and then no more; a copy counts with it."""
    faults = Faults(tmp_path).fail_at(1, 3, times=2).fail_at(0, 2)
    copy = pickle.loads(pickle.dumps(faults))
    for one in (faults, copy):
        one.at(2)
        with pytest.raises(InjectedFailure, match=r"^fail_at\(rank=1, step=3\)$"):
            one.at(3)
    faults.at(3)
    copy.at(3)
    assert {"fail_at(rank=1, step=3)": 2, "fail_at(rank=0, step=2)": 0} == faults.fired()


def test_many_at_once_fire_no_more_than_planned(tmp_path: Path) -> None:
    """Two that come to a fault together are two firings, or one of them goes on."""
    faults = Faults(tmp_path).slow_placement(0, times=3)
    (callback,) = faults.callbacks

    def start(_: int) -> None:
        callback.on_controller_start_worker_group(scaling_config=None, num_workers=1)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(start, range(50)))
    assert {"slow_placement(seconds=0)": 3} == faults.fired()


def test_what_has_not_fired_is_named(tmp_path: Path, rank_one: None) -> None:
    """A test whose fault never came about proves nothing, and must not pass."""
    faults = Faults(tmp_path).fail_at(1, 3, times=2).fail_at(1, 4)
    for step in (3, 4):
        with pytest.raises(InjectedFailure):
            faults.at(step)
    with pytest.raises(AssertionError, match=r"^fail_at\(rank=1, step=3\) has fired 1 of 2 times$"):
        faults.assert_all_fired()
    with pytest.raises(InjectedFailure):
        faults.at(3)
    faults.assert_all_fired()


def test_a_plan_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    """Twice the same would be counted as one, and none is no plan."""
    with pytest.raises(UsageError, match="planned already"):
        Faults(tmp_path).fail_at(1, 3).fail_at(1, 3)
    with pytest.raises(UsageError, match="times=0"):
        Faults(tmp_path).fail_at(1, 3, times=0)


def test_outside_a_training_function_there_is_no_step(tmp_path: Path) -> None:
    """As with everything that asks for the session."""
    with pytest.raises(RuntimeError, match="no training function"):
        Faults(tmp_path).at(0)


@pytest.mark.parametrize("kind", ["kill_worker", "kill_node", "lose_report"])
def test_a_process_that_is_no_worker_is_spared(tmp_path: Path, rank_one: None, kind: str) -> None:
    """In local mode the process is the user's own, and nothing is sent: refused, and not counted."""
    faults: Faults = getattr(Faults(tmp_path), kind)(1, 0)
    with pytest.raises(UsageError, match="a process of its own"):
        faults.at(0)
    assert [0] == list(faults.fired().values())


# --- in real runs -----------------------------------------------------------------------------


def steps(faults: Faults, times: int = STEPS) -> Any:
    """A training function of so many steps, each reported."""

    def function() -> None:
        for step in range(times):
            faults.at(step)
            train.report({"step": step})

    return function


def test_a_local_run_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fail_at in local mode: the run fails, is retried, and finishes."""
    monkeypatch.setenv("TRAINSTATE_HOME", str(tmp_path / "home"))
    faults = Faults(tmp_path / "faults").fail_at(0, 3)
    trainer = train.DataParallelTrainer(
        steps(faults),
        scaling_config=train.ScalingConfig(num_workers=0),
        run_config=train.RunConfig(
            name="local",
            storage_path=str(tmp_path),
            failure_config=train.FailureConfig(max_failures=1),
        ),
    )
    assert STEPS - 1 == trainer.fit().metrics["step"]
    faults.assert_all_fired()


@pytest.mark.parametrize(
    ("kind", "cause"), [("fail_at", Cause.WORKER_ERROR), ("kill_worker", Cause.WORKER_LOST)]
)
def test_a_worker_fails(cluster: Cluster, tmp_path: Path, kind: str, cause: Cause) -> None:
    """Twice as planned, though its process is another one each time; the third attempt is the last."""
    faults: Faults = getattr(Faults(tmp_path / "faults"), kind)(1, 3, times=2)
    ran = run(cluster, steps(faults), f"faults-{kind}", tmp_path, max_failures=2)
    assert ran.error is None
    faults.assert_all_fired()
    assert (RunStatus.FINISHED, 3) == (ran.run.status, len(ran.run.attempts))
    assert [cause, cause] == [one.cause for one in ran.run.attempts[:2]]
    assert [] == left_behind(ran.run.run_id)


def test_an_answer_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    """Its reports are sent again: all are in the journal, each once, and nobody failed."""
    faults = Faults(tmp_path / "faults").lose_report(1, 3, times=2).lose_report(0, 5)
    ran = run(cluster, steps(faults), "faults-lost", tmp_path)
    assert ran.error is None
    faults.assert_all_fired()
    assert (RunStatus.FINISHED, 1) == (ran.run.status, len(ran.run.attempts))
    events = [one.event for one in History(cluster.journal).events_of(ran.run.run_id)]
    reports = [one.report_received for one in events if one.HasField("report_received")]
    for rank in range(2):
        assert [*range(STEPS)] == [one.index for one in reports if one.rank == rank]


def test_workers_are_placed_late(cluster: Cluster, tmp_path: Path) -> None:
    """The run waits as long as it is told to, and then is like any other."""
    faults = Faults(tmp_path / "faults").slow_placement(1.0)
    ran = run(cluster, steps(faults, 1), "faults-slow", tmp_path, callbacks=[*faults.callbacks])
    assert ran.error is None
    faults.assert_all_fired()
    events = [one.event for one in History(cluster.journal).events_of(ran.run.run_id)]
    at = {one.WhichOneof("payload"): one.time_unix_nano for one in events}
    assert 10**9 <= at["placement_ready"] - at["placement_requested"]


def test_the_head_node_is_spared(cluster: Cluster, tmp_path: Path) -> None:
    """Without it there is no cluster that could show what comes of a lost node."""
    faults = Faults(tmp_path / "faults").kill_node(0, 2)
    ran = run(cluster, steps(faults), "faults-head", tmp_path)
    assert "would kill the head node" in str(ran.error)
    assert RunStatus.ERRORED == ran.run.status
    assert {"kill_node(rank=0, step=2)": 0} == faults.fired()
