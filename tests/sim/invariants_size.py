"""What must hold of placement groups, of a run's size, and of notices that nodes are taken away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tests.sim.cluster import Cluster
from tests.sim.store import Store
from tests.sim.world import World
from trainstate.core import Attempt, Run, RunStatus, WorkerStatus, policy
from trainstate.v1 import event_pb2 as e

# Seconds until everybody has heard of something, whoever dies meanwhile.
PATIENCE_S = 20.0
_NOTICE_NS = 120 * 10**9
_LOOK_S = 5.0


class SizeInvariants:
    """Watches what is recorded, and now and then how long a run has been where it is."""

    def __init__(self, world: World, store: Store, cluster: Cluster, covered: Counter[str]) -> None:
        self._world = world
        self._store = store
        self._cluster = cluster
        self._covered = covered
        self._kind_before = ""
        self._committed_at = -1
        self._sized_ns = 0
        self._grown_from_ns = 0
        self._deadlines: list[int] = []
        self._notice_ns = 0
        self._sizes: list[int] = []
        self._held: dict[str, list[str]] = {}
        self._lack: dict[str, bool] = {}

    def recorded(self, run: Run, event: e.Event, kind: str, payload: Any) -> None:
        watch = _WATCHED.get(kind)
        if watch is not None:
            watch(self, run, event, payload)
        if run.status is RunStatus.RUNNING:
            self._deadlines, self._notice_ns = [], 0

    def _attempt(self, run: Run) -> Attempt:
        return run.attempts[-1]

    # --- sizes ----------------------------------------------------------------------------------------

    def _planned(self, run: Run, event: e.Event, planned: e.AttemptPlanned) -> None:
        """Every attempt has a size that was asked for: whole replica groups, never too few."""
        size = policy.size_of(run.settings)
        workers = planned.num_workers
        assert size.smallest <= workers <= size.largest, f"{workers} workers are not of {size}"
        assert not (size.group and workers % size.group), f"{workers} workers are not whole groups"
        if size.is_elastic and workers != size.smallest:
            assert workers <= len(policy.places(run)), "more workers than there are places"
        before = self._sizes[-1] if self._sizes else workers
        self._covered["attempts that are smaller"] += workers < before
        self._covered["attempts that are larger"] += workers > before
        self._sizes.append(workers)

    def _checkpoint(self, run: Run, event: e.Event, made: e.CheckpointCommitted) -> None:
        self._committed_at = event.run_seq

    def _sized(self, run: Run, event: e.Event, payload: Any) -> None:
        self._grown_from_ns, self._sized_ns = self._sized_ns, event.time_unix_nano

    def _resizing(self, run: Run, event: e.Event, resizing: e.RunResizing) -> None:
        """A run grows right after a checkpoint, or when it has waited long enough for one."""
        attempt = self._attempt(run)
        assert resizing.to_workers > resizing.from_workers == attempt.num_workers
        assert resizing.to_workers <= len(policy.places(run)), "it grows to where there is no room"
        done = [one for one in attempt.workers.values() if one.status is WorkerStatus.COMPLETED]
        assert not done, "it grows though some of it is done"
        saved = self._committed_at == event.run_seq - 2  # then the decision, then this
        interval_s = run.settings.scaling_config.elastic_resize_monitor_interval_s  # type: ignore[union-attr]
        waited_s = (event.time_unix_nano - self._grown_from_ns) / 10**9
        assert saved or waited_s >= interval_s, f"it grows after {waited_s} s and no checkpoint"
        self._covered["grown after a checkpoint" if saved else "grown after a while"] += 1

    def _waiting(self, run: Run, event: e.Event, waiting: e.RunWaiting) -> None:
        assert waiting.have < waiting.need, "it waits though there is enough"
        self._covered["waits"] += 1

    # --- placement groups -----------------------------------------------------------------------------

    def _released(self, run: Run, event: e.Event, released: e.PlacementReleased) -> None:
        """They are kept until the run ends, but for those with a node that is taken away, or gone."""
        assert released.name not in self._cluster.nodes.groups, "it is still there"
        if run.status is not RunStatus.SHUTTING_DOWN:
            self._covered["placement groups given back before the end"] += 1
            held = self._held.pop(released.name, [])
            drained = [one for one in held if one and self._cluster.nodes.nodes[one].is_draining]
            extra = not released.name.startswith(f"{run.run_id}/0.")
            # One that lost a node, and with the gang all that was added to it.
            alone = not any(one.slot == 0 for one in run.placements.values())
            gone = extra and (alone or self._lack.get(released.name, False))
            assert drained or gone, f"{released.name} is given back, and has all its nodes"

    def _requested(self, run: Run, event: e.Event, requested: e.PlacementRequested) -> None:
        same = [one.name for one in run.placements.values() if one.slot == requested.slot]
        assert [requested.name] == same, "two placement groups for one slot"

    def _reserved(self, run: Run, event: e.Event, payload: Any) -> None:
        """The node of each bundle; of one that has none now, the one it had."""
        before = self._held.get(payload.name, [""] * len(payload.node_ids))
        both = zip(payload.node_ids, before, strict=True)
        self._lack[payload.name] = "" in payload.node_ids
        self._held[payload.name] = [now or last for now, last in both]

    def _scheduled(self, run: Run, event: e.Event, scheduled: e.WorkerScheduled) -> None:
        """On a bundle that nobody else is on, and that has a node which is not to be taken away."""
        attempt = self._attempt(run)
        where = (scheduled.placement, scheduled.bundle)
        there = [
            one.rank for one in attempt.workers.values() if (one.placement, one.bundle) == where
        ]
        assert [scheduled.rank] == there, f"ranks {there} share a bundle"
        node_id = run.placements[scheduled.placement].node_ids[scheduled.bundle]
        if not scheduled.generation:  # a replacement waits until its bundle is back
            assert node_id, f"rank {scheduled.rank} is placed on a bundle without a node"
            assert node_id not in run.preempted_nodes, "it is placed on a node that is taken away"

    # --- notices --------------------------------------------------------------------------------------

    def _preempting(self, run: Run, event: e.Event, preempting: e.RunPreempting) -> None:
        self._notice_ns = event.time_unix_nano
        if preempting.HasField("deadline_unix_nano"):
            self._deadlines.append(preempting.deadline_unix_nano)
        self._covered["notices"] += 1

    def _restarting(self, run: Run, event: e.Event, restarting: e.RunRestarting) -> None:
        if self._notice_ns:
            self._in_time(run, event.time_unix_nano)
            self._covered["restarts elsewhere"] += 1
            self._deadlines, self._notice_ns = [], 0

    def _in_time(self, run: Run, now_ns: int) -> None:
        """A run that is preempted has gone on by its deadline and what it is given beyond that."""
        grace_s = run.settings.run_config.failure_config.preemption_grace_s if run.settings else 0
        ends_ns = min(self._deadlines, default=self._notice_ns + _NOTICE_NS)
        late_s = (now_ns - max(ends_ns, self._notice_ns)) / 10**9 - grace_s
        assert late_s <= PATIENCE_S, f"it makes way {late_s:g} s too late"

    # --- now and then ---------------------------------------------------------------------------------

    def look(self) -> None:
        """Looks whether the run makes way in time, and says that it waits when it does."""
        self._world.after(_LOOK_S, self.look)
        run = self._store.run
        if run.status is RunStatus.PREEMPTING:
            self._in_time(run, self._world.now_ns)
        size = policy.size_of(run.settings)
        if run.status is RunStatus.SCHEDULING and not (run.attempt and run.attempt.workers):
            waited_s = (self._world.now_ns - run.status_time_ns) / 10**9
            live = len(policy.places(run))
            silent = waited_s > 2 * PATIENCE_S and live < size.smallest
            assert not silent, f"it waits for {waited_s:g} s and does not say so"


Watch = Callable[[SizeInvariants, Run, e.Event, Any], None]
_WATCHED: Mapping[str, Watch] = {
    "attempt_planned": SizeInvariants._planned,
    "checkpoint_committed": SizeInvariants._checkpoint,
    "run_running": SizeInvariants._sized,
    "scaling_decided": SizeInvariants._sized,
    "run_resizing": SizeInvariants._resizing,
    "run_waiting": SizeInvariants._waiting,
    "placement_released": SizeInvariants._released,
    "placement_requested": SizeInvariants._requested,
    "placement_ready": SizeInvariants._reserved,
    "placement_changed": SizeInvariants._reserved,
    "worker_scheduled": SizeInvariants._scheduled,
    "run_preempting": SizeInvariants._preempting,
    "run_restarting": SizeInvariants._restarting,
}
