"""Replica groups on Ray: one that fails is replaced, and the others train on."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.killing import Killer, following
from tests.e2e.running import Apart, Groups, left_behind, run
from trainstate import train
from trainstate.controller.backend import Backend, BackendConfig
from trainstate.core import AttemptStatus, Cause, Run, RunStatus, evolve, initial
from trainstate.core.views.ray_log import log_line
from trainstate.store import History
from trainstate.train import Checkpoint
from trainstate.v1 import event_pb2 as e

pytestmark = pytest.mark.slow
PACE_S = 0.02


def until_replaced(folder: Path, failing: dict[int, int], saves: bool = False) -> Callable[[], int]:
    """Trains until every rank of `failing` has failed so often, and trains again."""

    def function() -> int:
        context = train.get_context()
        rank, generation = context.get_world_rank(), context.get_generation()
        step = 0
        while True:
            if saves and rank == 0 and step % 5 == 0:
                made = folder / f"local-{step}"
                made.mkdir()
                train.report({"step": step}, Checkpoint.from_directory(str(made)))
            else:
                train.report({"step": step, "generation": generation})
            (folder / f"trains-{rank}").touch()
            together = all((folder / f"trains-{one}").exists() for one in failing)
            if together and generation < failing.get(rank, 0):
                raise ValueError(f"rank {rank} in generation {generation}")
            if together and rank in failing:
                (folder / f"again-{rank}").touch()
            if all((folder / f"again-{one}").exists() for one in failing):
                return rank
            step += 1
            time.sleep(PACE_S)

    return function


def events_of(cluster: Cluster, run_id: str) -> list[e.Event]:
    return [one.event for one in History(cluster.journal).events_of(run_id)]


def kinds_of(cluster: Cluster, found: Run) -> list[str]:
    return [event.WhichOneof("payload") or "" for event in events_of(cluster, found.run_id)]


def test_2_03_a_group_is_replaced_on_its_bundles(cluster: Cluster, tmp_path: Path) -> None:
    """Its two ranks start anew, in the same places; nobody else notices (2-03, 2-13, 2-16, 2-19)."""
    function = until_replaced(tmp_path, {3: 1})
    ran = run(
        cluster,
        function,
        "replaced",
        tmp_path,
        workers=6,
        cpus=0.25,
        backend_config=Groups(2),
        max_failures=1,
    )
    assert ran.error is None
    (attempt,) = ran.run.attempts
    assert (RunStatus.FINISHED, AttemptStatus.FINISHED) == (ran.run.status, attempt.status)
    assert [0, 0, 1, 1, 0, 0] == [one.generation for one in attempt.by_rank]
    old = {one.rank: one for one in attempt.replaced}
    assert {2, 3} == old.keys()
    for rank, before in old.items():
        now = attempt.workers[rank]
        assert (before.placement, before.bundle) == (now.placement, now.bundle)
        assert (before.local_rank, before.node_rank) == (now.local_rank, now.node_rank)
        assert before.actor_id != now.actor_id
    assert (None, "ValueError") == (old[2].error, old[3].error and old[3].error.type)
    reports = [
        event.report_received
        for event in events_of(cluster, ran.run.run_id)
        if event.HasField("report_received")
    ]
    for rank in (0, 1, 4, 5):
        steps = [one.metrics.entries[0].value.int for one in reports if one.rank == rank]
        assert [*range(len(steps))] == steps
        assert len(steps) == attempt.workers[rank].reports
    assert "run_restarting" not in kinds_of(cluster, ran.run)
    assert [] == left_behind(ran.run.run_id)


def test_2_08_the_journal_and_rays_log_have_the_new_workers(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Each completed replacement has a line with the new actor ids; why it came is recorded."""
    function = until_replaced(tmp_path, {1: 1})
    ran = run(
        cluster, function, "logged", tmp_path, workers=2, backend_config=Groups(), max_failures=1
    )
    folded = initial(ran.run.run_id)
    lines = []
    for event in events_of(cluster, ran.run.run_id):
        evolve(folded, event)
        if event.HasField("replica_group_replaced"):
            lines.append(log_line(event, folded))
    (line,) = lines
    assert line is not None
    told = {one["world_rank"]: one["actor_id"] for one in line["event_data"]["workers"]}
    (attempt,) = ran.run.attempts
    assert {one.rank: b64encode(one.actor_id).decode() for one in attempt.by_rank} == told
    assert attempt.replaced[0].actor_id != attempt.workers[1].actor_id
    (decided,) = [
        event.failure_decided
        for event in events_of(cluster, ran.run.run_id)
        if event.HasField("failure_decided")
    ]
    assert (e.FAILURE_DECISION_REPLACE, 1, 1) == (decided.decision, decided.used, decided.limit)


def test_2_15_groups_are_replaced_at_the_same_time(cluster: Cluster, tmp_path: Path) -> None:
    """Both are on their way before the first is back; the checkpoints of another go on meanwhile."""
    function = until_replaced(tmp_path, {1: 1, 2: 1}, saves=True)
    ran = run(
        cluster,
        function,
        "two",
        tmp_path,
        workers=4,
        cpus=0.25,
        backend_config=Groups(),
        max_failures=2,
    )
    assert ran.error is None
    kinds = kinds_of(cluster, ran.run)
    begun = [index for index, kind in enumerate(kinds) if kind == "replica_group_replacing"]
    assert 2 == len(begun)
    assert max(begun) < kinds.index("replica_group_replaced")
    assert "checkpoint_committed" in kinds[max(begun) : kinds.index("replica_group_replaced")]
    assert 1 == len(ran.run.attempts)


class Reluctant(Apart):
    """The replacement of group 1 cannot be set up."""

    def on_start(self, worker_group: object, backend_config: object) -> None:
        if worker_group.replica_group == 1 and worker_group.generation:  # type: ignore[attr-defined]
            raise RuntimeError("its store does not answer")


@dataclass
class ReluctantConfig(Groups):
    @property
    def backend_cls(self) -> type[Backend]:
        return Reluctant


def once_an_attempt(folder: Path) -> Callable[[], None]:
    """Rank 1 fails in the first attempt; in the second all return at once."""

    def function() -> None:
        context = train.get_context()
        mine = folder / context.get_attempt_id()
        mine.mkdir(exist_ok=True)
        if len([one for one in folder.iterdir() if one.is_dir()]) > 1:
            return
        if context.get_world_rank() == 1:
            raise ValueError("rank 1")
        while True:
            train.report({})
            time.sleep(PACE_S)

    return function


@pytest.mark.parametrize("budget", [-1, 0])
def test_2_11_a_replacement_that_never_comes_up(
    cluster: Cluster, tmp_path: Path, budget: int
) -> None:
    """After three tries the whole attempt starts again, if the budget of failed starts allows it."""
    (tmp_path / "attempts").mkdir()
    config: BackendConfig = ReluctantConfig()
    ran = run(
        cluster,
        once_an_attempt(tmp_path / "attempts"),
        f"reluctant{budget}",
        tmp_path / "results",
        workers=3,
        cpus=0.25,
        backend_config=config,
        max_failures=1,
        controller_failure_limit=budget,
        backoff_first_s=0.0,
    )
    kinds = kinds_of(cluster, ran.run)
    assert 3 == kinds.count("replica_group_replacement_failed")
    assert Cause.REPLACEMENT_FAILED is ran.run.attempts[0].cause
    ends = (RunStatus.FINISHED, 2) if budget else (RunStatus.ERRORED, 1)
    assert ends == (ran.run.status, len(ran.run.attempts))
    assert [] == left_behind(ran.run.run_id)


KILLS = (
    "replica_group_failed",
    "failure_decided",
    "replica_group_replacing",
    "worker_scheduled",
    "worker_started",
    "replica_group_replaced",
)


def test_a_controller_is_killed_in_a_replacement(cluster: Cluster, tmp_path: Path) -> None:
    """After each of its events; the successor goes on with it, and no survivor is restarted."""
    seen: list[str] = []

    def wants(kind: str) -> bool:
        seen.append(kind)
        replacing = "replica_group_failed" in seen
        return replacing and kind in KILLS and kind not in killer.killed

    killer = Killer(cluster, "killed-replacing", wants)
    with following(cluster, killer.see):
        ran = run(
            cluster,
            until_replaced(tmp_path, {1: len(KILLS)}),
            "killed-replacing",
            tmp_path,
            workers=3,
            cpus=0.25,
            backend_config=Groups(),
            max_failures=-1,
            backoff_first_s=0.0,
        )
    assert ran.error is None
    assert {*KILLS} == {*killer.killed}
    (attempt,) = ran.run.attempts
    assert [0, len(KILLS), 0] == [one.generation for one in attempt.by_rank]
    assert [] == left_behind(ran.run.run_id)


def test_a_group_meets_its_own(cluster: Cluster, tmp_path: Path) -> None:
    """Collectives are inside a group, whichever ranks come first; so are the values of callbacks."""

    def function() -> None:
        rank = train.get_context().get_world_rank()
        for turn in range(3):
            early = rank in ((0, 3), (1, 2), (3, 0))[turn]
            if early:
                (tmp_path / f"{turn}-{rank}").touch()
            while not early and len(list(tmp_path.glob(f"{turn}-*"))) < 2:
                time.sleep(PACE_S)
            first = train.collective.broadcast_from_rank_zero(rank)
            assert rank // 2 * 2 == first, f"rank {rank} heard {first}"

    ran = run(
        cluster,
        function,
        "meet",
        tmp_path / "results",
        workers=4,
        cpus=0.25,
        backend_config=Groups(2),
    )
    assert ran.error is None
    assert RunStatus.FINISHED is ran.run.status
