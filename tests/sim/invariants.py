"""What must hold at every step of a simulated run, whoever dies when."""

from __future__ import annotations

from tests.sim.cluster import Cluster
from tests.sim.controller import Controller
from tests.sim.store import Store
from tests.sim.worker import Ack, Worker
from tests.sim.world import World
from trainstate.core import Cause, Run, RunStatus, WorkerStatus, model
from trainstate.core import effects as f
from trainstate.core.plan import plan
from trainstate.v1 import event_pb2 as e

# More steps of a loop in one simulated second, and it spins.
STEPS_A_SECOND_MAX = 300


class Invariants:
    """Watches store, cluster and controllers. Raises AssertionError."""

    def __init__(self, world: World, store: Store, cluster: Cluster) -> None:
        self._world = world
        self._store = store
        self._cluster = cluster
        self._asked: dict[tuple[str, int], int] = {}
        store.watch = self._recorded
        cluster.born = self._born

    # --- the journal ----------------------------------------------------------------------------------

    def _recorded(self, run: Run, event: e.Event) -> None:
        """`check` let it pass already; every end has a cause, every report is a worker's next."""
        kind = event.WhichOneof("payload")
        payload = getattr(event, kind)
        if kind == "report_received":
            self._report(event.attempt_id, payload)
        elif kind == "attempt_ended":
            assert payload.cause, "an attempt ended without a cause"
            self._attempt_ended(run, event.attempt_id)
        elif kind == "failure_decided" and payload.decision == e.FAILURE_DECISION_RETRY:
            assert payload.limit in (-1, *range(payload.used, 100)), "tried again beyond its limit"
        elif kind in ("worker_started", "worker_failing", "worker_completed"):
            self._worker(kind, run.attempts[-1].workers[payload.rank])
        elif kind == "checkpoint_committed":
            self._committed(run, payload)
        elif run.status.is_terminal:
            assert run.cause, "the run ended without a cause"
            whole = run.status is not RunStatus.FINISHED or not run.attempts[-1].pending
            assert whole, "a checkpoint was forgotten"

    def _report(self, attempt_id: str, report: e.ReportReceived) -> None:
        worker = self._of_rank(attempt_id, report.rank)
        assert worker.reported[report.index] == report, "not what the worker reported"

    def _of_rank(self, attempt_id: str, rank: int) -> Worker:
        of_attempt = [one for one in self._cluster.workers.values() if one.rank == rank]
        (worker,) = [one for one in of_attempt if one.attempt_id == attempt_id]
        return worker

    def _worker(self, kind: str, worker: model.Worker) -> None:
        """What is recorded of a worker is so: it is not another's, of an attempt long over."""
        attempt_id = self._store.run.attempts[-1].attempt_id
        process = self._cluster.workers[attempt_id, worker.bundle, worker.generation]
        if kind == "worker_started":
            assert process.was_up, f"{process} never came up"
        elif kind == "worker_completed":
            assert "completed" == process.ended, f"{process} has not completed"
        elif worker.cause in (Cause.WORKER_LOST, Cause.NODE_PREEMPTED):
            assert "gone" == process.status, f"{process} lives"

    def _attempt_ended(self, run: Run, attempt_id: str) -> None:
        assert [] == self._cluster.left(attempt_id), "an attempt ended before its workers"
        attempt = run.find_attempt(attempt_id)
        assert attempt is not None
        for worker in attempt.workers.values():
            assert worker.cause, f"worker {worker.rank} ended without a cause"

    def _committed(self, run: Run, made: e.CheckpointCommitted) -> None:
        attempt = run.attempts[-1]
        assert len(attempt.workers) == attempt.num_workers
        for rank in attempt.workers:
            reports = self._of_rank(attempt.attempt_id, rank).reported
            assert made.report_index < len(reports), f"rank {rank} has no such report"
            directory = reports[made.report_index].checkpoint
            assert directory in ("", made.directory), f"rank {rank} put its part elsewhere"

    # --- workers --------------------------------------------------------------------------------------

    def _born(self, worker: Worker) -> None:
        worker.watch_ack = self._acknowledged
        worker.released = self._released

    def _acknowledged(self, worker: Worker, ack: Ack) -> None:
        attempt = self._store.run.find_attempt(worker.attempt_id)
        assert attempt is not None
        assert worker.rank is not None
        assert ack.durable <= attempt.workers[worker.rank].reports, "acknowledged before durable"
        assert ack.committed <= attempt.committed, "committed before durable"

    def _released(self, worker: Worker, index: int) -> None:
        attempt = self._store.run.find_attempt(worker.attempt_id)
        assert attempt is not None
        assert index < attempt.committed, "report() returned before its checkpoint was committed"

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
        due = sorted(plan(loop.run), key=repr)
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
        for attempt in run.attempts:
            assert attempt.status.is_terminal
            assert all(one.status.is_terminal for one in attempt.workers.values())
        if run.status is RunStatus.FINISHED:
            done = [one.status for one in run.attempts[-1].workers.values()]
            assert {WorkerStatus.COMPLETED} == set(done)
