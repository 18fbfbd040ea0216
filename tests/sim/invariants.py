"""What must hold at every step of a simulated run, whoever dies when.

Here: of journals, workers and controllers. invariants_groups.py has what is of replica groups and
checkpoints, invariants_size.py what is of places, sizes and notices.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from tests.sim.cluster import Cluster
from tests.sim.controller import Controller
from tests.sim.invariants_groups import GroupInvariants
from tests.sim.invariants_size import SizeInvariants
from tests.sim.store import Store
from tests.sim.worker import Ack, Worker
from tests.sim.world import World
from trainstate.core import Cause, Run, RunStatus, WorkerStatus, model
from trainstate.core import effects as f
from trainstate.core.plan import plan
from trainstate.v1 import event_pb2 as e

# More steps of a loop in one simulated second, and it spins.
STEPS_A_SECOND_MAX = 300

# What runs do, and is counted.
COVERED = (
    "attempts that are larger",
    "attempts that are smaller",
    "checkpoints of an old generation",
    "checkpoints of replica groups",
    "grown after a checkpoint",
    "grown after a while",
    "notices",
    "placement groups given back before the end",
    "replacements",
    "replacements given up",
    "replacements that failed",
    "replica groups that failed",
    "replica groups that failed together",
    "restarts elsewhere",
    "waits",
)


class Invariants:
    """Watches store, cluster and controllers. Raises AssertionError. `covered` counts what happened."""

    def __init__(self, world: World, store: Store, cluster: Cluster) -> None:
        self.covered: Counter[str] = Counter()
        self._world = world
        self._store = store
        self._cluster = cluster
        self._used: Counter[int] = Counter()
        self._reports_at: Counter[int] = Counter()
        self._going: dict[str, set[int]] = defaultdict(set)
        groups = GroupInvariants(cluster, self.covered)
        size = SizeInvariants(world, store, cluster, self.covered)
        self._watching = [self._recorded, groups.recorded, size.recorded]
        store.watch = self._watch
        cluster.born = self._born
        cluster.evicted = self._evicted
        size.look()

    def _watch(self, run: Run, event: e.Event) -> None:
        kind = event.WhichOneof("payload") or ""
        for watch in self._watching:
            watch(run, event, kind, getattr(event, kind))

    # --- the journal ----------------------------------------------------------------------------------

    def _recorded(self, run: Run, event: e.Event, kind: str, payload: object) -> None:
        """`check` let it pass already; every end has a cause, every report is a worker's next."""
        if isinstance(payload, e.AttemptEnded):
            assert payload.cause, "an attempt ended without a cause"
            self._attempt_ended(run, event.attempt_id)
        elif isinstance(payload, e.FailureDecided):
            self._charged(run, payload)
        elif isinstance(payload, e.WorkerStarted | e.WorkerFailing | e.WorkerCompleted):
            self._worker(kind, run.attempts[-1].workers[payload.rank])
        elif isinstance(payload, e.CheckpointCommitted):
            workers = run.attempts[-1].workers.values() if run.attempts else ()
            # Not by the others' progress, while a replacement has come to nothing yet.
            if all(one.reports > one.first_report for one in workers if one.generation):
                self._used.clear()
        elif isinstance(payload, e.RunPreempting):
            self._going[run.attempts[-1].attempt_id].update(payload.ranks)
        elif run.status.is_terminal:
            assert run.cause, "the run ended without a cause"
            whole = run.status is not RunStatus.FINISHED or not run.attempts[-1].has_pending
            assert whole, "a checkpoint was forgotten"

    def _charged(self, run: Run, decided: e.FailureDecided) -> None:
        """What is used of a budget is counted right, and no more than it has."""
        if decided.decision == e.FAILURE_DECISION_RAISE or not decided.budget:
            return
        enough = run.settings.limits.reset_after_reports if run.settings else 0
        if enough and run.reports - self._reports_at[decided.budget] >= enough:
            self._used[decided.budget] = 0
        self._used[decided.budget] += 1
        self._reports_at[decided.budget] = run.reports
        assert self._used[decided.budget] == decided.used, "a budget is counted wrong"
        assert decided.limit in (-1, *range(decided.used, 100)), "tried again beyond its limit"

    def _worker(self, kind: str, worker: model.Worker) -> None:
        """What is recorded of a worker is so: it is not another's, of an attempt long over."""
        process = self._cluster.processes.get(worker.actor_id)
        if kind == "worker_started":
            assert process is not None
            assert process.node_id, f"{process} never came up"
            at = (process.name.placement, process.name.bundle, process.name.generation)
            assert at == (worker.placement, worker.bundle, worker.generation), "somebody else's"
            self._alone(process)
        elif kind == "worker_completed":
            assert process is not None
            assert "completed" == process.ended, f"{process} has not completed"
            assert len(process.reported) == sum(
                index < worker.reports for index in process.reported
            ), f"reports of {process} are lost"
        elif worker.error is not None:
            self._failed(worker, process)

    def _failed(self, worker: model.Worker, process: Worker | None) -> None:
        error = worker.error
        if worker.cause is Cause.WORKER_LOST:
            assert process is not None
            assert "gone" == process.status, f"{process} lives"
        elif error is not None and error.type == "ValueError":
            assert process is not None
            assert "failed" == process.ended, f"{process} has not raised"

    def _attempt_ended(self, run: Run, attempt_id: str) -> None:
        left = [str(one) for one in self._cluster.of_attempt(attempt_id) if not one.is_stray]
        assert [] == left, "an attempt ended before its workers"
        attempt = run.find_attempt(attempt_id)
        assert attempt is not None
        for worker in [*attempt.workers.values(), *attempt.replaced]:
            assert worker.cause, f"worker {worker.rank} ended without a cause"

    # --- workers --------------------------------------------------------------------------------------

    def _born(self, worker: Worker) -> None:
        """Who was on its bundle before it is gone: nobody lives that the journal has forgotten."""
        if not worker.is_stray:
            self._alone(worker)
        worker.watch_ack = self._acknowledged
        worker.released = self._released

    def _alone(self, worker: Worker) -> None:
        there = [one for one in self._cluster.on_bundle(worker.name) if one is not worker]
        others = [str(one) for one in there if not one.is_stray]
        assert [] == others, f"{others} on the bundle of {worker}"

    def _evicted(self, worker: Worker) -> None:
        """Placement groups are given back when nobody is on them."""
        attempt = self._store.run.find_attempt(worker.name.attempt_id)
        over = attempt is None or attempt.status.is_terminal
        assert over, f"the placement group of {worker} is removed under it"

    def _acknowledged(self, worker: Worker, ack: Ack) -> None:
        attempt = self._store.run.find_attempt(worker.name.attempt_id)
        assert attempt is not None
        assert worker.rank is not None
        assert ack.durable <= attempt.workers[worker.rank].reports, "acknowledged before durable"
        committed = attempt.keeper(worker.group).committed
        assert ack.committed <= committed, "committed before durable"
        told = self._going[worker.name.attempt_id]
        assert told.issuperset(ack.preempted), "told of a notice before it is durable"

    def _released(self, worker: Worker, index: int) -> None:
        attempt = self._store.run.find_attempt(worker.name.attempt_id)
        assert attempt is not None
        committed = attempt.keeper(worker.group).committed
        assert index < committed, "report() returned before its checkpoint was committed"

    # --- controllers ----------------------------------------------------------------------------------

    def watch(self, controller: Controller) -> None:
        controller.on_start = self._begun
        controller.on_step = self._stepped

    def _begun(self, controller: Controller, effect: f.Effect) -> None:
        """Append comes before act, and nothing is begun for an attempt that is over."""
        assert controller.loop is not None
        durable = self._store.run
        assert controller.loop.run.run_seq <= durable.run_seq, "acted before it appended"
        attempt = durable.find_attempt(getattr(effect, "attempt_id", ""))
        if attempt is not None and not controller.is_zombie:
            assert not attempt.status.is_terminal, f"{effect} of an attempt that is over"

    def _stepped(self, controller: Controller) -> None:
        loop = controller.loop
        assert loop is not None
        due = sorted(set(plan(loop.run)), key=repr)
        assert due == sorted(loop._under_way, key=repr), f"due is {due}"
        lately = [
            at for at in controller.steps[-STEPS_A_SECOND_MAX:] if at > self._world.time_s - 1
        ]
        assert len(lately) < STEPS_A_SECOND_MAX, "it spins"

    # --- the end --------------------------------------------------------------------------------------

    def ended(self) -> None:
        """The run is over and everybody had time to go: nothing of it is left."""
        run = self._store.run
        assert run.status.is_terminal or not run.status
        assert [] == self._cluster.left(), "orphans"
        assert not run.placements, "placement groups are not recorded as given back"
        for attempt in run.attempts:
            assert attempt.status.is_terminal
            assert all(one.status.is_terminal for one in attempt.workers.values())
        if run.status is RunStatus.FINISHED:
            done = [one.status for one in run.attempts[-1].workers.values()]
            assert {WorkerStatus.COMPLETED} == set(done)
