"""What a line of Ray's log says that is new: the events it changes the state of its run by.

Pure: (state, line) -> events. The state is evolved along with them. A move that Ray recorded and our
tables refuse (A6.4, A6.5) becomes a `ForeignStatusObserved` whose reason is the refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from trainstate.core import check, evolve, json_patch
from trainstate.core.model import Attempt, AttemptStatus, Run, RunStatus, Worker, WorkerStatus
from trainstate.core.units import NS_PER_S
from trainstate.core.views import ray_line
from trainstate.core.views.ray_settings import PANELS, RESOURCES, SETTINGS, VERSIONS
from trainstate.errors import InvalidTransition
from trainstate.integrations.ray_export.lines import Line, LineRefused
from trainstate.v1 import event_pb2 as e

_RUN_MOVES: Mapping[RunStatus, Callable[[int], e.Event]] = {
    RunStatus.SCHEDULING: lambda _: e.Event(run_scheduling=e.RunScheduling()),
    RunStatus.RUNNING: lambda _: e.Event(run_running=e.RunRunning()),
    RunStatus.RESTARTING: lambda _: e.Event(run_restarting=e.RunRestarting()),
    RunStatus.RESIZING: lambda _: e.Event(run_resizing=e.RunResizing()),
    RunStatus.FINISHED: lambda end: e.Event(run_finished=e.RunFinished(end_time_ns=end)),
    RunStatus.ERRORED: lambda end: e.Event(run_errored=e.RunErrored(end_time_ns=end)),
    RunStatus.ABORTED: lambda end: e.Event(run_aborted=e.RunAborted(end_time_ns=end)),
}


def deltas(run: Run, line: Line) -> list[e.Event]:
    """The events of one line; `run` is evolved by them.

    Raises LineRefused for a line whose values have other types than Ray's, before anything is evolved.
    """
    try:
        read = _READERS[line.source_type](line.data)
    except (
        TypeError,
        ValueError,
        KeyError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise LineRefused(f"its event_data is not in Ray's form: {error}") from error
    recorder = _Recorder(run, line.timestamp_s * NS_PER_S)
    read(recorder)
    attempt_id = line.data["attempt_id"] if line.source_type == ray_line.ATTEMPT_LINE else ""
    recorder.record(e.Event(line_imported=_imported(run, line, attempt_id)), attempt_id)
    return recorder.events


def _imported(run: Run, line: Line, attempt_id: str) -> e.LineImported:
    data = ray_line.run_line(run, line.version)
    if attempt_id:
        attempt = run.find_attempt(attempt_id)
        assert attempt is not None  # the line's deltas made it
        data = ray_line.attempt_line(run, attempt, line.version)
    ours = ray_line.envelope(line.event_id, line.timestamp_s, line.source_type, data)
    residue = list(json_patch.diff(ours, line.document))
    return e.LineImported(
        ray_event_id=line.event_id,
        source_type=line.source_type,
        schema_version=line.version,
        timestamp_s=line.timestamp_s,
        residue=orjson.dumps(residue) if residue else b"",
        line_crc32c=line.crc,
    )


class _Recorder:
    """Collects a line's events, each checked and applied as the store will do it again."""

    def __init__(self, run: Run, time_ns: int) -> None:
        self.run = run
        self.events: list[e.Event] = []
        self._time_ns = max(time_ns, run.time_ns)

    def record(
        self,
        event: e.Event,
        attempt_id: str = "",
        reason: str = "",
        observed: e.ForeignStatusObserved | None = None,
    ) -> None:
        """Records `event`; if the tables refuse it, `observed` in its place."""
        self._stamp(event, attempt_id, reason)
        try:
            check(self.run, event)
        except InvalidTransition as refused:
            if observed is None:
                return  # the line's residue keeps what it said
            event = e.Event(foreign_status_observed=observed)
            self._stamp(event, attempt_id, refused.message)
        evolve(self.run, event)
        self.events.append(event)

    def _stamp(self, event: e.Event, attempt_id: str, reason: str) -> None:
        event.run_id = self.run.run_id
        event.run_seq = self.run.run_seq + 1
        event.incarnation = self.run.incarnation
        event.time_unix_nano = self._time_ns
        event.attempt_id = attempt_id
        event.reason = reason


Deltas = Callable[[_Recorder], None]


def _read_run(data: Mapping[str, Any]) -> Deltas:
    """Reads a run line; what is returned records what it changes."""
    created = e.RunCreated(
        name=data.get("name", ""),
        job_id=ray_line.decode_id(data.get("job_id", "")),
        controller_actor_id=ray_line.decode_id(data.get("controller_actor_id", "")),
        controller_log_path=data.get("controller_log_file_path", ""),
        start_time_ns=_ns(data, "start_time_ns"),
        framework_versions=VERSIONS.load(data.get("framework_versions", {})),
        run_panels=PANELS.load(data.get("train_run_panels", [])),
        worker_panels=PANELS.load(data.get("train_worker_panels", [])),
    )
    if "run_settings" in data:
        created.settings.CopyFrom(SETTINGS.load(data["run_settings"]))
    status = ray_line.RAY_TO_RUN_STATUS[data["status"]]
    detail = _text(data, "status_detail")
    end_ns = _ns(data, "end_time_ns")

    def record(to: _Recorder) -> None:
        _record_identity(to, created, detail if status == RunStatus.INITIALIZING else "")
        if (to.run.status, to.run.status_reason) != (status, detail):
            _record_run_status(to, status, detail, end_ns)

    return record


def _record_identity(to: _Recorder, created: e.RunCreated, detail: str) -> None:
    if not to.run.status or not to.run.name:
        to.record(e.Event(run_created=created), reason=detail)
    elif _versions(to.run.framework_versions) != _versions(created.framework_versions):
        recorded = e.FrameworkVersionsRecorded(versions=created.framework_versions)
        to.record(e.Event(framework_versions_recorded=recorded))


def _versions(versions: Any) -> dict[str, str]:
    return {version.name: version.version for version in versions}


def _record_run_status(to: _Recorder, status: RunStatus, detail: str, end_ns: int) -> None:
    observed = e.ForeignStatusObserved(
        entity=e.FOREIGN_ENTITY_RUN, status=status, text=detail, end_time_ns=end_ns
    )
    # INITIALIZING is reached by creation alone: seen again, no payload of ours fits.
    make = _RUN_MOVES.get(status)
    if make is None:
        to.record(e.Event(foreign_status_observed=observed), reason="it is initializing again")
    else:
        to.record(make(end_ns), reason=detail, observed=observed)


def _read_attempt(data: Mapping[str, Any]) -> Deltas:
    """Reads an attempt line; what is returned records what it changes."""
    attempt_id: str = data["attempt_id"]
    sets = [RESOURCES.load(one["resources"]) for one in data.get("resources", [])]
    planned = e.AttemptPlanned(num_workers=len(sets), start_time_ns=_ns(data, "start_time_ns"))
    if sets and all(one == sets[0] for one in sets):
        planned.resources_per_worker.CopyFrom(sets[0])
    else:
        planned.resources.extend(sets)
    workers = [(_worker(one), one.get("status") == "DEAD") for one in data.get("workers", [])]
    status, detail = AttemptStatus[data["status"]], _text(data, "status_detail")
    observed = e.ForeignStatusObserved(
        entity=e.FOREIGN_ENTITY_ATTEMPT,
        status=status,
        text=detail,
        start_time_ns=planned.start_time_ns,
        end_time_ns=_ns(data, "end_time_ns"),
    )

    def record(to: _Recorder) -> None:
        attempt = _record_plan(to, attempt_id, planned, observed)
        for started, dead in workers:
            _record_worker(to, attempt, started, dead)
        restamped = attempt.start_time_ns != planned.start_time_ns
        if restamped or (attempt.status, attempt.status_reason) != (status, detail):
            _record_attempt_status(to, attempt_id, observed)
        if status == AttemptStatus.PENDING and not _is_plan_of(attempt, planned):
            # Planned again after a failed start, the attempt may have another size (A6.3).
            to.record(e.Event(attempt_planned=planned), attempt_id, detail)

    return record


def _is_plan_of(attempt: Attempt, planned: e.AttemptPlanned) -> bool:
    alike = planned.resources_per_worker if planned.HasField("resources_per_worker") else None
    return (attempt.num_workers, attempt.resources_per_worker, attempt.resources) == (
        planned.num_workers,
        alike,
        list(planned.resources),
    )


def _record_plan(
    to: _Recorder, attempt_id: str, planned: e.AttemptPlanned, observed: e.ForeignStatusObserved
) -> Attempt:
    """Plans the attempt if it is new, and creates its run if the log has lost the run's first lines."""
    if not to.run.status:
        created = e.RunCreated(start_time_ns=planned.start_time_ns)
        to.record(e.Event(run_created=created), reason="the log does not hold its first lines")
    attempt = to.run.find_attempt(attempt_id)
    if attempt is None:
        detail = observed.text if observed.status == AttemptStatus.PENDING else ""
        to.record(e.Event(attempt_planned=planned), attempt_id, detail, observed)
        attempt = to.run.find_attempt(attempt_id)
    assert attempt is not None  # planned or observed, it exists now
    return attempt


def _worker(data: Mapping[str, Any]) -> e.WorkerStarted:
    started = e.WorkerStarted(
        rank=data["world_rank"],
        local_rank=data["local_rank"],
        node_rank=data["node_rank"],
        actor_id=ray_line.decode_id(data["actor_id"]),
        node_id=ray_line.decode_id(data["node_id"]),
        node_ip=data["node_ip"],
        pid=data["pid"],
        accelerator_ids=[str(one) for one in data.get("gpu_ids", [])],
        log_path=data.get("log_file_path", ""),
    )
    if "resources" in data:
        started.resources.CopyFrom(RESOURCES.load(data["resources"]["resources"]))
    return started


def _record_worker(to: _Recorder, attempt: Attempt, started: e.WorkerStarted, dead: bool) -> None:
    """Records that a worker started, and that it died, as far as that is news."""
    attempt_id, rank = attempt.attempt_id, started.rank
    observed = e.ForeignStatusObserved(
        entity=e.FOREIGN_ENTITY_WORKER,
        rank=rank,
        status=WorkerStatus.DEAD if dead else WorkerStatus.RUNNING,
    )
    worker = attempt.workers.get(rank)
    if worker is None:
        to.record(e.Event(worker_scheduled=e.WorkerScheduled(rank=rank)), attempt_id)
    # One that is still scheduled was left so by a crash between the two events.
    if worker is None or worker.status == WorkerStatus.SCHEDULING:
        to.record(e.Event(worker_started=started), attempt_id, observed=observed)
        worker = attempt.workers[rank]
    if dead and not worker.status.is_terminal:
        to.record(e.Event(worker_died=e.WorkerDied(rank=rank)), attempt_id, observed=observed)
    elif not dead and _is_dead(worker):
        to.record(
            e.Event(foreign_status_observed=observed), attempt_id, "it is alive after its death"
        )


def _is_dead(worker: Worker) -> bool:
    return worker.status.is_terminal


def _record_attempt_status(
    to: _Recorder, attempt_id: str, observed: e.ForeignStatusObserved
) -> None:
    if observed.status == AttemptStatus.PENDING:
        # Ray plans the same attempt again after a failed start (A6.3); ours has ended by then.
        event, reason = e.Event(foreign_status_observed=observed), "it is planned again"
        to.record(event, attempt_id, reason)
    elif observed.status == AttemptStatus.RUNNING:
        started = e.Event(attempt_started=e.AttemptStarted())
        to.record(started, attempt_id, observed.text, observed)
    else:
        ended = e.AttemptEnded(
            status=observed.status,  # type: ignore[arg-type]  # our enum number, as read
            end_time_ns=observed.end_time_ns,
        )
        to.record(e.Event(attempt_ended=ended), attempt_id, observed.text, observed)


def _ns(data: Mapping[str, Any], key: str) -> int:
    """A time in ns, which Ray prints as a string; 0 if it is absent."""
    time_ns = int(data.get(key, 0))
    if not 0 <= time_ns < 2**64:
        raise ValueError(f"{key} is {time_ns}, outside 64 bits")
    return time_ns


def _text(data: Mapping[str, Any], key: str) -> str:
    text = data.get(key, "")
    if not isinstance(text, str):
        raise TypeError(f"{key} is a {type(text).__name__}")
    return text


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Deltas]] = {
    ray_line.RUN_LINE: _read_run,
    ray_line.ATTEMPT_LINE: _read_attempt,
}
