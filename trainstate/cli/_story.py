"""A run told for a person: a head, then one table per kind of thing that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from trainstate.cli import _render
from trainstate.cli._failures import tell_error, tell_failures, tell_whole
from trainstate.cli._live import down
from trainstate.cli._plain import plain_metrics
from trainstate.cli._settings import command_line, how_clean, node_type
from trainstate.cli._text import (
    between,
    count,
    fields,
    given,
    headline,
    inline,
    moment,
    size,
    word,
)
from trainstate.core import Attempt, Budget, Run, RunStatus, Worker
from trainstate.core.policy import BUDGET_OF, UNLIMITED, charge, preemption_ends_ns
from trainstate.core.views.event_json import message_json
from trainstate.v1 import state_pb2 as s

Row = tuple[str, Any]

# A traceback or a long list of odd moves is in `--json`; here is how it begins.
_ODD_SHOWN = 10
# Its cause is that of the last restart, which the attempts tell.
_TRAINING = (RunStatus.RUNNING, RunStatus.PREEMPTING)


def tell(run: Run, attempt: Attempt | None, stale: bool = False, tracebacks: bool = False) -> None:
    """Prints the story of a run, with the workers of one of its attempts.

    A stale one is over, and nobody has recorded it. Of `tracebacks` the last line is told otherwise.
    """
    _render.facts(_head(run, stale))
    if tracebacks:
        tell_whole(f"why it is {run.status.name}", run.status_reason)
    tell_error("error", run, run.error, run.cause, tracebacks)
    _attempts(run)
    if attempt is not None:
        _attempt(run, attempt, tracebacks)
    for part in _PARTS:
        part(run)


def _attempt(run: Run, attempt: Attempt, tracebacks: bool) -> None:
    name = f"attempt {attempt.number}"
    if tracebacks:
        tell_whole(f"why {name} is {attempt.status.name}", attempt.status_reason)
    if attempt.error != run.error:
        tell_error(f"error of {name}", run, attempt.error, attempt.cause, tracebacks)
    tell_failures(run, attempt, tracebacks)
    _workers(attempt)
    _groups(attempt)
    _pending(attempt)


def _head(run: Run, stale: bool) -> Iterator[Row]:
    yield "run", run.run_id
    yield "name", run.name
    yield "status", _render.status(run.status)
    yield "stale", "its cluster is gone: trainstate reconcile records its end" if stale else ""
    yield "why", headline(run.status_reason)
    yield "cause", "" if run.status in _TRAINING else word(run.cause)
    yield "waits for", _waits_for(run)
    yield "started", moment(run.start_time_ns)
    yield "ended" if run.end_time_ns else "newest event", moment(run.end_time_ns or run.time_ns)
    yield "lasted" if run.end_time_ns else "so far", _lasted(run)
    yield "events", run.run_seq
    yield "incarnation", f"{run.incarnation} (written by {run.writer})" if run.writer else ""
    yield "controller", run.controller_actor_id.hex()
    yield "controller starts", _controller_starts(run)
    yield "controller log", run.controller_log_path
    yield "job", run.job_id.hex()
    yield from _settings(run.settings)
    yield "frameworks", _versions(run.framework_versions)
    yield from _provenance(run.provenance)
    yield "return value", _return_value(run)
    seen = (
        f"{run.callback_failures} (trainstate tail --run {run.run_id[:12]} --kind CallbackFailed)"
    )
    yield "callback failures", seen if run.callback_failures else ""


def _waits_for(run: Run) -> str:
    if run.status == RunStatus.WAITING:
        return f"{count(run.need_workers, 'worker')}, has {run.have_workers}"
    if run.status == RunStatus.RESTARTING and run.restart_time_ns:
        return f"the next attempt, at {moment(run.restart_time_ns)}"
    if run.status == RunStatus.PREEMPTING:
        until = moment(preemption_ends_ns(run))
        ranks = ", ".join(map(str, run.preempted_ranks))
        return f"a checkpoint, until {until}; ranks {ranks} are to go"
    away = ", ".join(map(str, down(run)))
    return f"replica groups {away}; the others train" if away else ""


def _controller_starts(run: Run) -> str:
    recovered = run.controller_starts - 1
    more = f", of which {recovered} took the run up again" if recovered > 0 else ""
    return f"{run.controller_starts or ''}{more}"


def _lasted(run: Run) -> str:
    return between(run.start_time_ns, run.end_time_ns or run.time_ns)


def _versions(versions: Iterable[s.Version]) -> str:
    return ", ".join(f"{one.name} {one.version}" for one in versions)


def _return_value(run: Run) -> str:
    return "" if run.return_value is None else inline(message_json(run.return_value))


def _provenance(found: s.Provenance | None) -> Iterator[Row]:
    if found is None:
        return
    dirty = how_clean(found.git_dirty if found.HasField("git_dirty") else None)
    yield "command", command_line(["python", *found.argv]) if found.argv else ""
    yield "in", found.working_directory
    yield "git commit", f"{found.git_commit}{dirty}" if found.git_commit else ""
    python = f"{found.python_version} on {found.operating_system}"
    yield "python", python if found.python_version else ""
    yield "nodes", "; ".join(map(node_type, message_json(found)["node_types"]))


def _settings(settings: s.RunSettings | None) -> Iterator[Row]:
    """What was asked for, in a few lines; all of it is in `--json`."""
    if settings is None:
        return
    plain = message_json(settings)
    scaling, config = plain.get("scaling_config", {}), plain.get("run_config", {})
    yield "workers", _asked(scaling)
    yield "placement", scaling.get("placement_strategy", "")
    yield "backend", fields(plain.get("backend_config", {}))
    yield "train loop config", given(plain.get("train_loop_config", {}))
    yield "datasets", ", ".join(plain.get("datasets", []))
    yield "failures allowed", given(config.get("failure_config", {}))
    yield "checkpoints kept", fields(config.get("checkpoint_config", {}))
    yield "storage", config.get("storage_path", "")


def _asked(scaling: dict[str, Any]) -> str:
    between_them = scaling.get("num_workers_range")
    number = (
        f"{between_them['min']} to {between_them['max']}"
        if between_them
        else scaling.get("num_workers_fixed", "")
    )
    each = fields(scaling.get("resources_per_worker", {}))
    kind = " on GPUs" if scaling.get("use_gpu") else " on TPUs" if scaling.get("use_tpu") else ""
    return f"{number}{kind}" + (f", each {each}" if each else "")


def _attempts(run: Run) -> None:
    rows = [
        (
            one.number,
            one.attempt_id,
            _render.status(one.status),
            word(one.cause),
            one.num_workers,
            moment(one.start_time_ns),
            between(one.start_time_ns, one.end_time_ns or run.time_ns),
            _why(one.status_reason, one.error),
        )
        for one in run.attempts
    ]
    columns = (">attempt", "id", "status", "cause", ">workers", "started", ">duration", "why")
    _table("attempts", columns, rows)


def _why(reason: str, error: s.Error | None) -> str:
    if error is None or error.message in reason:
        return headline(reason)
    return headline(f"{reason} {error.type}: {error.message}")


def _workers(attempt: Attempt) -> None:
    rows = [
        _worker(worker)
        for worker in sorted(
            [*attempt.replaced, *attempt.workers.values()],
            key=lambda one: (one.rank, one.generation),
        )
    ]
    columns = (
        ">rank", ">gen", "status", "cause", "actor", "node", ">pid", "accelerators", ">reports",
        "started", ">duration", "why", "log",
    )  # fmt: skip
    _table(f"workers of attempt {attempt.number}", columns, rows)


def _worker(worker: Worker) -> Sequence[Any]:
    return (
        worker.rank,
        worker.generation,
        _render.status(worker.status),
        word(worker.cause),
        worker.actor_id.hex()[:12],
        worker.node_ip or worker.node_id.hex()[:12],
        worker.pid or "",
        ",".join(worker.accelerator_ids),
        worker.reports - worker.first_report or "",
        moment(worker.start_time_ns),
        between(worker.start_time_ns, worker.end_time_ns),
        _why(worker.status_reason, worker.error),
        worker.log_path,
    )


def _groups(attempt: Attempt) -> None:
    rows = [
        (
            one.group,
            one.generation,
            _render.status(one.status),
            word(one.cause),
            one.replacements,
            one.failed_replacements,
            _why(one.status_reason, one.error),
        )
        for one in attempt.groups.values()
    ]
    columns = (">group", ">gen", "status", "cause", ">replaced", ">failed", "why")
    _table(f"replica groups of attempt {attempt.number}", columns, rows)


def _pending(attempt: Attempt) -> None:
    rows = [
        (
            "" if group is None else group,
            one.report_index,
            one.directory,
            f"{one.ranks} of {attempt.gang_size(group)} ranks",
        )
        for group in attempt.sharing
        for one in attempt.keeper(group).pending.values()
    ]
    columns = (">group", ">report", "directory", "reported by")
    _table("checkpoints on their way", columns, rows)


def _placements(run: Run) -> None:
    rows = [
        (
            one.name,
            _render.status(one.status),
            one.strategy,
            len(one.bundles),
            one.node_ids.count("") or "",
            one.placement_group_id.hex(),
            headline(one.status_reason),
        )
        for one in run.placements.values()
    ]
    columns = ("name", "status", "strategy", ">bundles", ">without node", "group", "why")
    _table("placements", columns, rows)


def _resizes(run: Run) -> None:
    rows = [
        (moment(one.time_ns), one.from_workers, one.to_workers, headline(one.reason))
        for one in run.resizes
    ]
    _table("sizes decided on", ("when", ">from", ">to", "why"), rows)


def _checkpoints(run: Run) -> None:
    rows = [
        (
            one.index,
            one.directory,
            moment(one.time_ns),
            size(one.size_bytes) if one.size_bytes else "",
            "" if one.metrics is None else given(message_json(one.metrics)),
        )
        for one in run.checkpoints.values()
    ]
    columns = (">checkpoint", "directory", "committed", ">size", "metrics")
    _table(f"checkpoints ({run.checkpoints_committed} committed so far)", columns, rows)


def _metrics(run: Run) -> None:
    metrics = plain_metrics(run)
    rows = [(name, inline(value)) for name, value in metrics.items()]
    _table(f"last metrics (of {count(run.reports, 'report')})", ("metric", ">value"), rows)


def _syncs(run: Run) -> None:
    rows = [
        (
            one.sync_id,
            _render.status(one.status),
            one.source,
            one.target,
            moment(one.start_time_ns),
            _why(one.status_reason, one.error),
        )
        for one in run.syncs.values()
    ]
    _table("syncs", ("sync", "status", "from", "to", "started", "why"), rows)


def _budgets(run: Run) -> None:
    rows = [
        (word(Budget(one.budget)), one.used, _limit(run, one.budget), one.total)
        for one in run.budgets.values()
    ]
    columns = ("budget", ">used since progress", ">limit", ">used ever")
    _table("restart budgets", columns, rows)


def _limit(run: Run, budget: Budget) -> str:
    causes = (cause for cause, counts_against in BUDGET_OF.items() if counts_against == budget)
    state = next((charge(run, cause) for cause in causes), None)
    if state is None:
        return ""
    return "none" if state.limit == UNLIMITED else str(state.limit)


def _irregular(run: Run) -> None:
    rows = [(one.run_seq, one.text) for one in run.irregular[:_ODD_SHOWN]]
    more = run.irregular_count - len(rows)
    title = f"out of the ordinary ({count(run.irregular_count, 'move')})"
    _table(title, (">event", "what"), rows)
    if more > 0:
        _render.say(f"and {more} more; --json has the first of them")


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        _render.table(columns, rows, title)


_PARTS: Sequence[Callable[[Run], None]] = (
    _resizes,
    _placements,
    _checkpoints,
    _metrics,
    _syncs,
    _budgets,
    _irregular,
)
