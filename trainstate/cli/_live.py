"""Runs as they go: what the journals of a root say of those that begin from now on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainstate.cli import _render
from trainstate.cli._follow import Follower
from trainstate.cli._plain import plain_metrics
from trainstate.cli._text import clean, count, fields, headline, moment, short, word
from trainstate.core import Run, RunStatus, WorkerStatus, evolve, initial
from trainstate.core.model import ReplicaGroupStatus
from trainstate.core.views.goodput import goodput
from trainstate.errors import NotAJournal, TrainstateError
from trainstate.state.home import stale
from trainstate.store import History
from trainstate.store.root import journals_at
from trainstate.v1 import event_pb2 as e

# Reports per second are those of the last so many seconds.
_RATE_S = 10.0
_METRICS_SHOWN = 5
_DOWN = (ReplicaGroupStatus.FAILED, ReplicaGroupStatus.REPLACING)
_ALIVE = (WorkerStatus.RUNNING, WorkerStatus.FAILING)


def down(run: Run) -> list[int]:
    """The replica groups of a run that do not train now."""
    groups = run.attempt.groups.values() if run.attempt else ()
    return [one.group for one in groups if one.status in _DOWN]


class Live:
    """A run that is watched, and the journal it is in."""

    def __init__(self, run_id: str, journal: Path) -> None:
        self.run = initial(run_id)
        self.journal = journal
        self._told: list[e.Event] = []
        self._looks: deque[tuple[float, int]] = deque()

    def apply(self, event: e.Event) -> bool:
        """Applies an event; whether the run, or an attempt of it, is in another state now."""
        before = self._state
        evolve(self.run, event)
        if event.WhichOneof("payload") != "report_received":
            # Where time went is told by everything else. A copy: a part would keep its whole frame.
            kept = e.Event()
            kept.CopyFrom(event)
            self._told.append(kept)
        return self._state != before and bool(self.run.status)

    @property
    def _state(self) -> tuple[RunStatus, int, int]:
        return self.run.status, self.run.have_workers, len(self.down)

    @property
    def down(self) -> list[int]:
        """Replica groups that do not train now."""
        return down(self.run)

    @property
    def replacements(self) -> int:
        """How often a replica group was replaced, in all attempts."""
        attempts = self.run.attempts
        return sum(one.replacements for each in attempts for one in each.groups.values())

    def looked(self, now_s: float) -> None:
        """Notes how many reports there are at a moment of a monotonic clock."""
        self._looks.append((now_s, self.run.reports))
        while len(self._looks) > 2 and self._looks[1][0] <= now_s - _RATE_S:
            self._looks.popleft()

    @property
    def reports_per_s(self) -> float:
        """Of all ranks, in the last seconds."""
        if len(self._looks) < 2:
            return 0.0
        (first_s, first), (last_s, last) = self._looks[0], self._looks[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0

    @property
    def alive(self) -> int:
        """Workers of the newest attempt that train."""
        workers = self.run.attempt.workers.values() if self.run.attempt else ()
        return sum(one.status in _ALIVE for one in workers)

    @property
    def size(self) -> int:
        """Workers that the newest attempt has, or is to have."""
        return self.run.attempt.num_workers if self.run.attempt else 0

    @property
    def goodput(self) -> float:
        """The part of the time so far that was productive, from 0 to 1."""
        found = goodput(self._told, self.run.time_ns)
        return found.buckets["productive"] / found.wall_ns if found.wall_ns else 0.0


class Lives:
    """The runs that begin in the journals of a root from now on, in that order.

    Without those that say that another launch began them.
    """

    def __init__(self, root: Path, launch_id: str = "") -> None:
        self.all: dict[str, Live] = {}
        self._launch_id = launch_id
        self._follower = Follower(root, {path: _end_of(path) for path in _known(root)})

    def look(self, now_s: float) -> Iterator[Live]:
        """Takes in what is new: a run as it is after each change of its state. Raises as a tail does."""
        for journal, events in self._follower.look():
            for _, event in events:
                live = self._live(journal, event)
                if live is not None and live.apply(event):
                    yield live
        for live in self.all.values():
            live.looked(now_s)

    def _live(self, journal: Path, event: e.Event) -> Live | None:
        begins = event.run_seq == 1 and not event.run_opened.foreign
        if begins and event.run_id not in self.all:
            self.all[event.run_id] = Live(event.run_id, journal)
        if event.run_created.provenance.launch_id not in ("", self._launch_id):
            self.all.pop(event.run_id, None)
        return self.all.get(event.run_id)

    @property
    def open(self) -> list[Live]:
        """Those that have not ended."""
        return [one for one in self.all.values() if not one.run.status.is_terminal]

    def pause_s(self, least_s: float) -> float:
        """How long to wait before the next look."""
        return self._follower.pause_s(least_s)

    def close(self) -> None:
        """Lets go of the files."""
        self._follower.close()


def _known(root: Path) -> list[Path]:
    try:
        return journals_at(root)
    except NotAJournal:
        return []


def _end_of(journal: Path) -> int | None:
    """Where what is to come begins; None for a journal that no run will begin in."""
    try:
        return None if stale(journal) else History(journal).end.next_seq
    except TrainstateError:
        return None  # damage that was there before is not this script's business


def line(live: Live) -> list[str | _render.Styled]:
    """A run in one line: which it is, its status, and how far it has come."""
    run = live.run
    head = f"{clean(run.name)} {short(run.run_id)}  ".lstrip()
    status = _render.in_colour(run.status.name, run.status)
    return [head, status, *(f" · {part}" for part in _parts(live) if part)]


def _parts(live: Live) -> Iterator[str]:
    run = live.run
    if run.attempt is not None:
        yield f"attempt {run.attempt.number}"
    yield from _workers(live)
    if run.status is RunStatus.RESTARTING and run.restart_time_ns > run.time_ns:
        yield f"next attempt at {moment(run.restart_time_ns)}"
    if run.reports:
        yield count(run.reports, "report")
        yield f"{live.reports_per_s:.1f} reports/s"
        yield fields(dict(list(plain_metrics(run).items())[:_METRICS_SHOWN]))


def _workers(live: Live) -> Iterator[str]:
    run = live.run
    if run.status is RunStatus.WAITING:
        yield f"{run.have_workers}/{run.need_workers} workers fit"
    elif live.size and not run.status.is_terminal:
        yield f"{live.alive}/{live.size} workers"
    if live.down and not run.status.is_terminal:
        yield f"replaces replica group {', '.join(map(str, live.down))}"


def why(live: Live) -> str:
    """The reason of its status."""
    return headline(live.run.status_reason)


def summary(live: Live) -> list[str | _render.Styled]:
    """How a run ended, where it is recorded, and what to run next."""
    run = live.run
    gone = " (its cluster is gone: trainstate reconcile)" if _is_stale(live) else ""
    rest = [
        f"{word(run.cause)}{gone}",
        count(len(run.attempts), "attempt"),
        count(live.replacements, "replacement") if live.replacements else "",
        count(run.reports, "report"),
        f"goodput {live.goodput:.1%}",
        str(live.journal),
        f"trainstate show {run.run_id}",
    ]
    head = f"{clean(run.name)} "
    status = _render.in_colour(run.status.name, run.status)
    return [head.lstrip(), status, *(f" · {part}" for part in rest if part)]


def _is_stale(live: Live) -> bool:
    return not live.run.status.is_terminal and stale(live.journal)


def plain(live: Live, kind: str) -> dict[str, Any]:
    """A change as JSON."""
    run = live.run
    return {
        "kind": kind,
        "time_unix_nano": run.time_ns,
        "run_id": run.run_id,
        "name": run.name,
        "status": run.status.name,
        "cause": run.cause.name,
        "reason": run.status_reason,
        "attempt": len(run.attempts),
        "workers_alive": live.alive,
        "workers": live.size,
        "reports": run.reports,
        "reports_per_s": round(live.reports_per_s, 3),
        "metrics": plain_metrics(run),
        "journal": str(live.journal),
    }


def plain_end(live: Live) -> dict[str, Any]:
    """The end of a run as JSON."""
    return {**plain(live, "end"), "goodput": round(live.goodput, 6), "stale": _is_stale(live)}
