"""Elastic runs on several nodes: they wait, and grow and shrink with the cluster."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.driving import driving
from tests.e2e.running import Groups, newest, trainer
from tests.nodes import Nodes
from trainstate import train
from trainstate.core import AttemptStatus, Cause, Run, RunStatus
from trainstate.errors import NotAJournal
from trainstate.store import History
from trainstate.train import Checkpoint, ScalingConfig

pytestmark = pytest.mark.slow
PACE_S = 0.02
PATIENCE_S = 90.0


def until(folder: Path, saves: bool = True) -> Callable[[], int]:
    """Trains, and saves what it has, until it is told to end."""

    def function() -> int:
        context = train.get_context()
        while not (folder / "enough").exists():
            if saves and context.get_world_rank() == 0:
                made = folder / f"local-{time.time_ns()}"
                made.mkdir()
                train.report({"size": context.get_world_size()}, Checkpoint(str(made)))
            else:
                train.report({"size": context.get_world_size()})
            time.sleep(PACE_S)
        return context.get_world_size()

    return function


def job(
    name: str, folder: Path, workers: Any, function: Callable[[], Any], **more: Any
) -> Callable[[], object]:
    """`fit()` of workers that take a CPU each; `interval_s` and `labels` are of ScalingConfig."""
    scaling = ScalingConfig(
        num_workers=workers,
        resources_per_worker={"CPU": more.pop("cpus", 1)},
        elastic_resize_monitor_interval_s=more.pop("interval_s", 3600.0),
        label_selector=more.pop("labels", None),
    )
    made = trainer(function, name, folder, max_failures=-1, backoff_first_s=0.0, **more)
    made.scaling_config = scaling
    return made.fit


class Watched:
    """A run in a driver of its own, seen through its journal."""

    def __init__(self, nodes: Nodes, name: str, process: Any) -> None:
        self._nodes = nodes
        self._name = name
        self.process = process

    def until(self, holds: Callable[[Run], bool]) -> Run:
        """The run as soon as that holds."""
        ends_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends_s:
            if (found := self.now()) is not None and holds(found):
                return found
            time.sleep(PACE_S)
        raise AssertionError(f"it did not come to it: {self.now()}")

    def now(self) -> Run | None:
        try:
            return newest(self._nodes.cluster, self._name)
        except (ValueError, IndexError, NotAJournal):
            return None  # it has not begun

    def trains_on(self, workers: int) -> Run:
        """The run as soon as it trains on so many."""

        def does(found: Run) -> bool:
            return found.status is RunStatus.RUNNING and workers == found.attempts[-1].num_workers

        return self.until(does)


@contextmanager
def running(nodes: Nodes, name: str, fit: Callable[[], object]) -> Iterator[Watched]:
    with driving(nodes.address, fit) as process:
        yield Watched(nodes, name, process)


def sizes(run: Run) -> list[int]:
    return [attempt.num_workers for attempt in run.attempts]


def test_1_05_a_run_grows_and_shrinks_with_the_cluster(nodes: Nodes, tmp_path: Path) -> None:
    """A gang of the minimum; more at the next checkpoint; less when a node is lost (1-03 to 1-06)."""
    nodes.add()
    with running(nodes, "elastic", job("elastic", tmp_path, (1, 3), until(tmp_path))) as seen:
        seen.trains_on(1)
        more = [nodes.add(), nodes.add()]
        grown = seen.trains_on(3)
        groups = {one.name: one.placement_group_id for one in grown.placements.values()}
        assert [1, 1, 1] == [len(one.bundles) for one in grown.placements.values()]
        nodes.kill(more[0])
        seen.trains_on(2)
        back = nodes.add()
        healed = seen.trains_on(3)
        (tmp_path / "enough").touch()
        assert 0 == seen.process.wait(PATIENCE_S)
    now = {one.name: one.placement_group_id for one in healed.placements.values()}
    assert 2 == len(groups.items() & now.items())  # what lost its node was asked for anew
    assert back.node_id in {one.node_id.hex() for one in healed.attempts[-1].by_rank}
    run = newest(nodes.cluster, "elastic")
    assert RunStatus.FINISHED is run.status
    assert {} == run.placements
    causes = {(one.status, one.cause) for one in run.attempts[:-1]}
    assert {
        (AttemptStatus.FINISHED, Cause.RESIZE),
        (AttemptStatus.ERRORED, Cause.WORKER_LOST),
    } == causes
    decided = [(one.from_workers, one.to_workers) for one in run.resizes]
    assert (0, 1) == decided[0]
    assert decided == list(
        zip([0, *[to for _, to in decided]], [to for _, to in decided], strict=False)
    )
    assert all(one.reason for one in run.resizes)


def test_a6_6_it_waits_for_its_minimum(nodes: Nodes, tmp_path: Path) -> None:
    """WAITING says what it has and needs, Ctrl-C is heard, and nothing is left (A6.6, 1-07)."""
    nodes.add(2)
    fit = job("waits", tmp_path, (4, 6), until(tmp_path))
    with running(nodes, "waits", fit) as seen:
        waiting = seen.until(lambda run: run.status is RunStatus.WAITING)
        assert (2, 4) == (waiting.have_workers, waiting.need_workers)
        assert "waiting for 4 workers of {CPU: 1}" in waiting.status_reason
        assert [] == waiting.attempts
        os.kill(seen.process.pid, signal.SIGINT)
        run = seen.until(lambda run: run.status.is_terminal)
        seen.process.wait(PATIENCE_S)
    assert (RunStatus.ABORTED, Cause.USER_ABORT) == (run.status, run.cause)
    assert {} == run.placements


def test_it_starts_when_nodes_arrive(nodes: Nodes, tmp_path: Path) -> None:
    """As soon as the minimum is there, in one attempt; fractions of a CPU count (elastic.py:60)."""
    with running(
        nodes, "arrive", job("arrive", tmp_path, (2, 4), until(tmp_path), cpus=0.5)
    ) as seen:
        seen.until(lambda run: run.status is RunStatus.WAITING)
        nodes.add(1)
        seen.trains_on(2)
        (tmp_path / "enough").touch()
        assert 0 == seen.process.wait(PATIENCE_S)
    run = newest(nodes.cluster, "arrive")
    assert ([2], 0) == (sizes(run), run.irregular_count)


def test_what_may_be_added_never_blocks_the_gang(nodes: Nodes, tmp_path: Path) -> None:
    """Four to six on two CPUs, and then on four: it starts with four (1-05)."""
    nodes.add(2)
    with running(nodes, "gang", job("gang", tmp_path, (4, 6), until(tmp_path))) as seen:
        seen.until(lambda run: run.status is RunStatus.WAITING)
        nodes.add(2)
        seen.trains_on(4)
        (tmp_path / "enough").touch()
        assert 0 == seen.process.wait(PATIENCE_S)


def test_without_checkpoints_it_grows_after_the_interval(nodes: Nodes, tmp_path: Path) -> None:
    """And only on nodes with the labels it asks for."""
    nodes.add(labels={"zone": "a"})
    function = until(tmp_path, saves=False)
    fit = job("interval", tmp_path, (1, 2), function, interval_s=0.5, labels={"zone": "a"})
    with running(nodes, "interval", fit) as seen:
        seen.trains_on(1)
        nodes.add(labels={"zone": "b"})
        nodes.add(labels={"zone": "a"})
        seen.trains_on(2)
        (tmp_path / "enough").touch()
        assert 0 == seen.process.wait(PATIENCE_S)
    run = newest(nodes.cluster, "interval")
    assert [1, 2] == sizes(run)
    assert "no checkpoint" in run.resizes[-1].reason


def test_2_17_replica_groups_come_and_go_whole(nodes: Nodes, tmp_path: Path) -> None:
    """Groups of two on nodes of one: a third node adds nobody, a fourth adds a group."""
    for _ in range(3):
        nodes.add()
    fit = job("whole", tmp_path, (2, 4), until(tmp_path), backend_config=Groups(2))
    with running(nodes, "whole", fit) as seen:
        seen.trains_on(2)
        nodes.add()
        grown = seen.trains_on(4)
        (tmp_path / "enough").touch()
        assert 0 == seen.process.wait(PATIENCE_S)
    assert [2, 4] == sizes(grown)
    assert [0, 1] == sorted(grown.attempts[-1].groups)


def test_1_02_a_reservation_is_kept(nodes: Nodes, tmp_path: Path) -> None:
    """Three nodes, a job of three, another that waits for one: it does not get the replacement node."""
    there = [nodes.add() for _ in range(3)]
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    fit = job("first", first, 3, until(first))
    with running(nodes, "first", fit) as one:
        one.trains_on(3)
        with running(nodes, "second", job("second", second, 1, until(second))) as other:
            other.until(lambda run: run.status is RunStatus.WAITING)
            nodes.kill(there[1])
            one.until(lambda run: run.status is not RunStatus.RUNNING)
            new = nodes.add()
            again = one.until(lambda run: len(run.attempts) > 1 and run.status is RunStatus.RUNNING)
            assert new.node_id in {one.node_id.hex() for one in again.attempts[-1].by_rank}
            waiting = other.now()
            assert waiting is not None
            assert RunStatus.WAITING is waiting.status
            (first / "enough").touch()
            assert 0 == one.process.wait(PATIENCE_S)
            other.trains_on(1)
            (second / "enough").touch()
            assert 0 == other.process.wait(PATIENCE_S)


def test_a_busy_head_harms_nobody(nodes: Nodes, tmp_path: Path) -> None:
    """Its control service answers nobody for a while, also to looks at the nodes: training goes on."""
    nodes.add(2)
    with running(nodes, "busy", job("busy", tmp_path, (1, 2), until(tmp_path))) as seen:
        before = seen.trains_on(2).reports
        with nodes.busy_head():
            seen.until(lambda run: run.reports > before + 100)
        (tmp_path / "enough").touch()
        assert 0 == seen.process.wait(PATIENCE_S)
    run = newest(nodes.cluster, "busy")
    assert ([2], RunStatus.FINISHED) == (sizes(run), run.status)
    assert 1 == run.controller_starts
    assert 0 < len(History(nodes.cluster.journal).summaries())


def heeding(folder: Path) -> Callable[[], int]:
    """Trains on until it hears that something is taken away, then saves; in the next attempt it ends."""

    def function() -> int:
        context = train.get_context()
        if train.get_checkpoint() is not None:
            return context.get_world_rank()
        while (info := train.get_preemption_info()) is None:
            train.report({})
            time.sleep(PACE_S)
        (folder / f"told-{context.get_world_rank()}").write_text(
            f"{info.deadline_ms} {info.preempted_ranks}"
        )
        made = folder / f"local-{context.get_world_rank()}"
        made.mkdir()
        train.report({}, Checkpoint(str(made)))
        while True:
            train.report({})
            time.sleep(PACE_S)

    return function


def test_a_drained_node_is_left_in_time(nodes: Nodes, tmp_path: Path) -> None:
    """PREEMPTING with its deadline; a checkpoint just in time; then elsewhere, by its own budget."""
    there = [nodes.add() for _ in range(3)]
    fit = job("drained", tmp_path, 2, heeding(tmp_path), max_preemption_failures=1)
    with running(nodes, "drained", fit) as seen:
        trains = seen.trains_on(2)
        used = {one.node_id.hex() for one in trains.attempts[0].by_rank}
        going = next(one for one in there if one.node_id in used)
        deadline_ms = nodes.drain(going, 300.0)
        assert 0 == seen.process.wait(PATIENCE_S)
    run = newest(nodes.cluster, "drained")
    assert (RunStatus.FINISHED, [2, 2]) == (run.status, sizes(run))
    assert Cause.NODE_PREEMPTED is run.attempts[0].cause
    assert going.node_id not in {one.node_id.hex() for one in run.attempts[1].by_rank}
    (rank,) = [one.rank for one in run.attempts[0].by_rank if one.node_id.hex() == going.node_id]
    assert f"{deadline_ms} [{rank}]" == (tmp_path / "told-0").read_text()
    kinds = [
        one.event.WhichOneof("payload")
        for one in History(nodes.cluster.journal).events_of(run.run_id)
    ]
    heard, saved = kinds.index("run_preempting"), kinds.index("checkpoint_committed")
    assert heard < saved < kinds.index("run_restarting")
    assert "placement_released" in kinds[kinds.index("run_restarting") :]


def test_a_worker_that_gets_sigterm_is_preempted(nodes: Nodes, tmp_path: Path) -> None:
    """It does not die of it: it says so, saves, and is started anew where it was."""
    nodes.add(2)
    fit = job("sigterm", tmp_path, 2, heeding(tmp_path), max_preemption_failures=1)
    with running(nodes, "sigterm", fit) as seen:
        trains = seen.trains_on(2)
        os.kill(trains.attempts[0].workers[1].pid, signal.SIGTERM)
        assert 0 == seen.process.wait(PATIENCE_S)
    run = newest(nodes.cluster, "sigterm")
    assert (RunStatus.FINISHED, [2, 2]) == (run.status, sizes(run))
    assert Cause.NODE_PREEMPTED is run.attempts[0].cause
    assert "None [1]" == (tmp_path / "told-1").read_text()
