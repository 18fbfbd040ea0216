"""What a recorded event does to the state of its run. The only implementation of what events mean.

`evolve` is total over recorded history: a move outside today's tables is applied and noted in
`run.irregular`; a payload this version does not know only advances `run_seq`. So no journal ever
becomes unreadable. It never raises and changes nothing but `run`, in place.

Appliers take (run, event, payload). They find the entity, move it, and take over what it carries; those
of what an attempt holds are in core/evolve_attempt.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainstate.core import evolve_attempt
from trainstate.core.applying import (
    Applier,
    after,
    known,
    later,
    move,
    observe,
    own,
    own_error,
    target_of,
)
from trainstate.core.model import (
    Budget,
    BudgetUse,
    Cause,
    Checkpoint,
    Placement,
    Resize,
    Run,
    RunStatus,
    Sync,
    SyncStatus,
)
from trainstate.core.tracebacks import ERRING, note
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s


def evolve(run: Run, event: e.Event) -> None:
    """Applies `event` to `run`, in place."""
    kind = event.WhichOneof("payload")
    run.run_seq = event.run_seq
    run.time_ns = event.time_unix_nano
    if not run.first_time_ns:
        run.first_time_ns = event.time_unix_nano
    if event.incarnation > run.incarnation:
        run.incarnation = event.incarnation
    apply = _APPLIERS.get(kind) if kind else None
    if apply is not None:
        apply(run, event, getattr(event, kind))
    if kind in ERRING:
        note(run, event)


def _move_run(run: Run, event: e.Event, target: RunStatus) -> None:
    move(run, run, target, event.reason, "run")
    run.status_time_ns = event.time_unix_nano


def _run_opened(run: Run, event: e.Event, opened: e.RunOpened) -> None:
    run.writer = opened.writer
    run.imported = run.imported or opened.foreign


def _run_created(run: Run, event: e.Event, created: e.RunCreated) -> None:
    if not run.status:
        _move_run(run, event, RunStatus.INITIALIZING)
    run.name = created.name
    run.job_id = created.job_id
    run.controller_actor_id = created.controller_actor_id
    run.controller_log_path = created.controller_log_path
    run.start_time_ns = created.start_time_ns or event.time_unix_nano
    mine = own(created)  # one copy, of which the run keeps the parts
    run.settings = mine.settings if mine.HasField("settings") else None
    run.provenance = mine.provenance if mine.HasField("provenance") else None
    run.framework_versions = list(mine.framework_versions)
    run.run_panels = list(mine.run_panels)
    run.worker_panels = list(mine.worker_panels)


def _controller_started(run: Run, event: e.Event, started: e.ControllerStarted) -> None:
    run.controller_actor_id = started.actor_id or run.controller_actor_id
    run.controller_starts += 1


def _framework_versions(run: Run, event: e.Event, recorded: e.FrameworkVersionsRecorded) -> None:
    run.framework_versions = list(own(recorded).versions)


def _provenance(run: Run, event: e.Event, recorded: e.ProvenanceRecorded) -> None:
    run.provenance = run.provenance or s.Provenance()
    run.provenance.MergeFrom(recorded.provenance)


def _run_moved(run: Run, event: e.Event, payload: Any) -> None:
    _move_run(run, event, target_of(event))


def _run_running(run: Run, event: e.Event, payload: Any) -> None:
    _move_run(run, event, RunStatus.RUNNING)
    run.scaling_time_ns = event.time_unix_nano
    # Of the attempt before:
    run.error = None
    run.preempted_ranks = []
    run.preemption_deadline_ns = None


def _run_waiting(run: Run, event: e.Event, waiting: e.RunWaiting) -> None:
    _move_run(run, event, RunStatus.WAITING)
    run.have_workers = waiting.have
    run.need_workers = waiting.need


def _run_preempting(run: Run, event: e.Event, preempting: e.RunPreempting) -> None:
    _move_run(run, event, RunStatus.PREEMPTING)
    # A node that was to go stays one to avoid: its id never comes back.
    run.preempted_nodes = list(dict.fromkeys([*run.preempted_nodes, *preempting.node_ids]))
    run.preempted_ranks = list(preempting.ranks)
    named = preempting.HasField("deadline_unix_nano")
    run.preemption_deadline_ns = preempting.deadline_unix_nano if named else None


def _run_moved_by_cause(run: Run, event: e.Event, payload: Any) -> None:
    _move_run(run, event, target_of(event))
    run.cause = known(Cause, payload.cause)


def _run_shutting_down(run: Run, event: e.Event, ending: e.RunShuttingDown) -> None:
    _run_moved_by_cause(run, event, ending)
    run.next_status = known(RunStatus, ending.next)
    run.error = own_error(ending)


def _run_finished(run: Run, event: e.Event, finished: e.RunFinished) -> None:
    _move_run(run, event, RunStatus.FINISHED)
    run.cause = Cause.COMPLETED
    run.end_time_ns = finished.end_time_ns or event.time_unix_nano
    if finished.HasField("return_value"):
        run.return_value = own(finished.return_value)


def _run_errored(run: Run, event: e.Event, errored: e.RunErrored) -> None:
    _run_moved_by_cause(run, event, errored)
    run.end_time_ns = errored.end_time_ns or event.time_unix_nano
    run.error = own_error(errored)


def _run_aborted(run: Run, event: e.Event, aborted: e.RunAborted) -> None:
    _run_moved_by_cause(run, event, aborted)
    run.end_time_ns = aborted.end_time_ns or event.time_unix_nano


def _failure_decided(run: Run, event: e.Event, decided: e.FailureDecided) -> None:
    if decided.budget:
        budget = known(Budget, decided.budget)
        use = run.budgets.setdefault(budget, BudgetUse(budget))
        use.used = decided.used or use.used + 1
        use.total += 1
        use.reports = run.reports
        use.time_ns = event.time_unix_nano
    if decided.decision == e.FAILURE_DECISION_REPLACE:
        return  # the run goes on
    run.error = own_error(decided)
    run.restart_time_ns = later(event.time_unix_nano, decided.backoff_s)


def _scaling_decided(run: Run, event: e.Event, decided: e.ScalingDecided) -> None:
    run.scaling_time_ns = event.time_unix_nano
    made = Resize(event.time_unix_nano, decided.from_workers, decided.to_workers, event.reason)
    run.resizes.append(made)


def _callback_failed(run: Run, event: e.Event, failed: e.CallbackFailed) -> None:
    run.callback_failures += 1


def _placement_moved(run: Run, event: e.Event, payload: Any) -> None:
    placement = run.placements.setdefault(payload.name, Placement(payload.name, event.attempt_id))
    move(run, placement, target_of(event), event.reason, f"placement {payload.name!r}")
    if placement.status.is_terminal:
        del run.placements[payload.name]


def _placement_requested(run: Run, event: e.Event, requested: e.PlacementRequested) -> None:
    _placement_moved(run, event, requested)
    placement = run.placements[requested.name]
    placement.bundles = [own(bundle) for bundle in requested.bundles]
    placement.strategy = requested.strategy
    placement.label_selectors = [own(one) for one in requested.label_selectors.selectors]
    placement.slot = requested.slot


def _placement_ready(run: Run, event: e.Event, ready: e.PlacementReady) -> None:
    _placement_moved(run, event, ready)
    placement = run.placements[ready.name]
    placement.placement_group_id = ready.placement_group_id
    placement.node_ids = list(ready.node_ids)


def _placement_changed(run: Run, event: e.Event, changed: e.PlacementChanged) -> None:
    _placement_moved(run, event, changed)
    run.placements[changed.name].node_ids = list(changed.node_ids)


def _checkpoint_committed(run: Run, event: e.Event, made: e.CheckpointCommitted) -> None:
    metrics = own(made.metrics) if made.HasField("metrics") else None
    run.checkpoints[made.index] = Checkpoint(
        made.index,
        made.directory,
        metrics,
        event.time_unix_nano,
        made.size_bytes,
        made.report_index,
        made.group if made.HasField("group") else None,
    )
    run.checkpoints_committed = after(made.index)
    if run.attempt is not None:
        evolve_attempt.committed(run.attempt, made)
    # Progress was saved: what failed before it no longer counts (design section 5, budgets). Not that
    # of others, for a replica group that comes to nothing.
    if run.attempt is None or not run.attempt.is_waited_for:
        for use in run.budgets.values():
            use.used = 0


def _checkpoint_deleted(run: Run, event: e.Event, gone: e.CheckpointDeleted) -> None:
    run.checkpoints.pop(gone.index, None)


def _sync_started(run: Run, event: e.Event, started: e.SyncStarted) -> None:
    before = run.syncs.get(started.sync_id)
    if before is None or before.status.is_terminal:
        before = run.syncs[started.sync_id] = Sync(started.sync_id)
    move(run, before, SyncStatus.RUNNING, event.reason, f"sync {started.sync_id!r}")
    before.source = started.source
    before.target = started.target
    before.start_time_ns = event.time_unix_nano


def _sync_ended(run: Run, event: e.Event, payload: Any) -> None:
    sync = run.syncs.setdefault(payload.sync_id, Sync(payload.sync_id))
    move(run, sync, target_of(event), event.reason, f"sync {payload.sync_id!r}")
    if sync.status == SyncStatus.SUCCEEDED:
        del run.syncs[payload.sync_id]
    else:
        sync.error = own_error(payload)


def _sync_skipped(run: Run, event: e.Event, skipped: e.SyncSkipped) -> None:
    run.syncs_skipped += 1


def _foreign_status(run: Run, event: e.Event, observed: e.ForeignStatusObserved) -> None:
    if observed.entity == e.FOREIGN_ENTITY_RUN:
        _foreign_run(run, event, observed)
    elif observed.entity == e.FOREIGN_ENTITY_ATTEMPT:
        evolve_attempt.foreign_attempt(run, event, observed)
    elif observed.entity == e.FOREIGN_ENTITY_WORKER:
        evolve_attempt.foreign_worker(run, event, observed)


def _foreign_run(run: Run, event: e.Event, observed: e.ForeignStatusObserved) -> None:
    observe(run, event, run, known(RunStatus, observed.status), "run")
    run.status_time_ns = event.time_unix_nano
    run.start_time_ns = observed.start_time_ns or run.start_time_ns
    run.end_time_ns = observed.end_time_ns


_APPLIERS: Mapping[str, Applier] = {
    "run_opened": _run_opened,
    "run_created": _run_created,
    "controller_started": _controller_started,
    "framework_versions_recorded": _framework_versions,
    "provenance_recorded": _provenance,
    "run_scheduling": _run_moved,
    "run_waiting": _run_waiting,
    "run_running": _run_running,
    "run_preempting": _run_preempting,
    "run_restarting": _run_moved_by_cause,
    "run_resizing": _run_moved,
    "run_shutting_down": _run_shutting_down,
    "run_finished": _run_finished,
    "run_errored": _run_errored,
    "run_aborted": _run_aborted,
    "failure_decided": _failure_decided,
    "scaling_decided": _scaling_decided,
    "callback_failed": _callback_failed,
    "placement_requested": _placement_requested,
    "placement_ready": _placement_ready,
    "placement_changed": _placement_changed,
    "placement_timed_out": _placement_moved,
    "placement_released": _placement_moved,
    "checkpoint_committed": _checkpoint_committed,
    "checkpoint_deleted": _checkpoint_deleted,
    "sync_started": _sync_started,
    "sync_succeeded": _sync_ended,
    "sync_failed": _sync_ended,
    "sync_skipped": _sync_skipped,
    "foreign_status_observed": _foreign_status,
    **evolve_attempt.APPLIERS,
}
