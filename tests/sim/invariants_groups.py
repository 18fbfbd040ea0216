"""What must hold of replica groups, of reports and of checkpoints."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from tests.sim.cluster import Cluster
from tests.sim.scripts import Gang
from trainstate.core import (
    Attempt,
    ReplicaGroupStatus,
    Run,
    Worker,
    WorkerStatus,
)
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

_STOPPED = (ReplicaGroupStatus.FAILED, ReplicaGroupStatus.REPLACING)


class GroupInvariants:
    """Watches what is recorded; keeps a count of its own of all that may happen only so often."""

    def __init__(self, cluster: Cluster, covered: Counter[str]) -> None:
        self._cluster = cluster
        self._covered = covered
        # Directories by rank, of each report index of each gang.
        self._reports: dict[tuple[Gang, int], dict[int, str]] = defaultdict(dict)
        self._seen: set[tuple[str, int, int]] = set()
        self._next: Counter[tuple[str, int]] = Counter()
        self._failed_tries: Counter[tuple[str, int]] = Counter()
        self._failures: Counter[tuple[str, int]] = Counter()

    def recorded(self, run: Run, event: e.Event, kind: str, payload: Any) -> None:
        watch = _WATCHED.get(kind)
        attempt = run.find_attempt(event.attempt_id)
        if watch is not None and attempt is not None:
            watch(self, run, attempt, payload)

    # --- reports and checkpoints ----------------------------------------------------------------------

    def _report(self, run: Run, attempt: Attempt, report: e.ReportReceived) -> None:
        """It is what the worker reported, it is nobody's before it, and none is left out."""
        worker = attempt.workers[report.rank]
        process = self._cluster.processes[worker.actor_id]
        assert process.reported.get(report.index) == report, "not what the worker reported"
        key = (attempt.attempt_id, report.rank, report.index)
        assert key not in self._seen, "a report is recorded twice"
        self._seen.add(key)
        first = min(process.reported)
        due = max(first, self._next[key[:2]])
        assert due == report.index, f"report {due} of rank {report.rank} is left out"
        self._next[key[:2]] = due + 1
        gang = Gang(attempt.attempt_id, attempt.group_of(report.rank), worker.generation)
        self._reports[gang, report.index][report.rank] = report.checkpoint

    def _committed(self, run: Run, attempt: Attempt, made: e.CheckpointCommitted) -> None:
        """Every rank of its gang reported it, and all of them in one generation."""
        group = made.group if made.HasField("group") else None
        gang = {one.rank for one in attempt.gang(group)}
        assert len(gang) == attempt.gang_size(group)
        newest = max((one.generation for one in attempt.gang(group)), default=0)
        of_generation = [
            self._reports.get((Gang(attempt.attempt_id, group, one), made.report_index), {})
            for one in range(newest + 1)
        ]
        whole = [one for one in of_generation if set(one) == gang]
        assert whole, f"not all of {gang} reported it: {of_generation}"
        assert set(whole[0].values()) - {""} == {made.directory}, "a part of it is elsewhere"
        self._covered["checkpoints of replica groups"] += group is not None
        self._covered["checkpoints of an old generation"] += bool(of_generation[-1] != whole[0])

    # --- replacements ---------------------------------------------------------------------------------

    def _failed(self, run: Run, attempt: Attempt, failed: e.ReplicaGroupFailed) -> None:
        """A group is replaced because one of its workers, as it is now, failed; and others train on."""
        gang = attempt.gang(failed.group)
        failing = [one for one in gang if one.status is WorkerStatus.FAILING and one.error]
        assert failing, f"replica group {failed.group} is to be replaced, and none of it failed"
        others = [one for one in attempt.groups.values() if one.group != failed.group]
        trains = any(one.status is ReplicaGroupStatus.RUNNING for one in others)
        assert trains, "nobody is left to train on"
        self._none_is_done(attempt)
        self._failures[attempt.attempt_id, failed.group] += 1
        at_once = sum(one.status in _STOPPED for one in attempt.groups.values())
        self._covered["replica groups that failed"] += 1
        self._covered["replica groups that failed together"] += at_once > 1

    def _none_is_done(self, attempt: Attempt) -> None:
        done = [one.rank for one in attempt.workers.values() if _is_done(one)]
        assert not done, f"ranks {done} are done, and a replica group is to be replaced"

    def _replacing(self, run: Run, attempt: Attempt, begun: e.ReplicaGroupReplacing) -> None:
        key = (attempt.attempt_id, begun.group)
        assert self._failures[key] > 0, f"replica group {begun.group} is replaced for nothing"
        self._failures[key] -= 1
        tries = self._failed_tries[key] + 1
        limit = _replacements(run)
        assert tries <= limit, f"try {tries} to replace group {begun.group}, of {limit}"
        size = attempt.replica_group_size
        keeper = attempt.groups[begun.group]
        parts = [one.report_index for one in keeper.pending.values() if one.ranks < size]
        assert not parts, f"reports {parts} of the generation before would be mixed with the next"

    def _replaced(self, run: Run, attempt: Attempt, replaced: e.ReplicaGroupReplaced) -> None:
        for worker in attempt.gang(replaced.group):
            assert worker.generation == replaced.generation, f"rank {worker.rank} is of another"
            assert worker.status is WorkerStatus.RUNNING, f"rank {worker.rank} is not up"
        self._failed_tries[attempt.attempt_id, replaced.group] = 0
        self._covered["replacements"] += 1

    def _replacement_failed(
        self, run: Run, attempt: Attempt, failed: e.ReplicaGroupReplacementFailed
    ) -> None:
        key = (attempt.attempt_id, failed.group)
        self._failed_tries[key] += 1
        self._failures[key] += 1
        limit = _replacements(run)
        assert self._failed_tries[key] <= limit, "more tries than there are to be"
        self._covered["replacements that failed"] += 1
        self._covered["replacements given up"] += self._failed_tries[key] == limit

    def _scheduled(self, run: Run, attempt: Attempt, scheduled: e.WorkerScheduled) -> None:
        """A worker is started anew only with its group, where it was, and counts on."""
        if not scheduled.generation:
            return
        group = attempt.group_of(scheduled.rank)
        assert group is not None
        assert attempt.groups[group].status is ReplicaGroupStatus.REPLACING, "a survivor is stopped"
        assert attempt.groups[group].generation == scheduled.generation, "generations are mixed"
        before = [one for one in attempt.replaced if one.rank == scheduled.rank][-1]
        was = (before.placement, before.bundle)
        assert was == (scheduled.placement, scheduled.bundle), "it is started elsewhere"
        ranks = range(group * attempt.replica_group_size, (group + 1) * attempt.replica_group_size)
        due = max(self._next[attempt.attempt_id, rank] for rank in ranks)
        first = scheduled.first_report
        assert first == due, f"rank {scheduled.rank} begins at report {first}, not {due}"

    def _failing(self, run: Run, attempt: Attempt, failing: e.WorkerFailing) -> None:
        """Who is stopped without a failure of its own belongs to a group that failed."""
        group = attempt.group_of(failing.rank)
        stopped = group is not None and attempt.groups[group].status in _STOPPED
        assert stopped or failing.HasField("error"), f"rank {failing.rank} is stopped for nothing"


def _replacements(run: Run) -> int:
    """How often a replacement may fail."""
    failure = run.settings.run_config.failure_config if run.settings else s.FailureConfig()
    return failure.max_replacements if failure.HasField("max_replacements") else 3


def _is_done(worker: Worker) -> bool:
    return worker.status is WorkerStatus.COMPLETED


Watch = Callable[[GroupInvariants, Run, Attempt, Any], None]
_WATCHED: Mapping[str, Watch] = {
    "report_received": GroupInvariants._report,
    "checkpoint_committed": GroupInvariants._committed,
    "replica_group_failed": GroupInvariants._failed,
    "replica_group_replacing": GroupInvariants._replacing,
    "replica_group_replaced": GroupInvariants._replaced,
    "replica_group_replacement_failed": GroupInvariants._replacement_failed,
    "worker_scheduled": GroupInvariants._scheduled,
    "worker_failing": GroupInvariants._failing,
}
