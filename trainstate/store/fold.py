"""The fold over a whole journal: open runs in memory, ended ones reduced to a summary.

A run that has ended stays resident for a while (what closes it is often followed by a few events more);
the oldest of more than `ENDED_KEPT` ended ones is archived: its summary is kept, its state is dropped,
and folded again from its events if somebody asks. So memory follows the open runs, not the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trainstate.core import Run, evolve, initial
from trainstate.core.freeze import from_proto, to_proto
from trainstate.store.events import EventBatch, Recorded
from trainstate.v1 import view_pb2 as v

ENDED_KEPT = 64


@dataclass(slots=True)
class Resident:
    """A run in memory, and where in the journal its first and newest event are."""

    run: Run
    first_seq: int
    last_seq: int


class Fold:
    """The state of every run at one position of a journal.

    `runs` are resident, `archived` are the summaries of ended ones. `reload` gives back the state of an
    archived run that had one more event; `on_archive`, if set, is told of every summary.
    """

    on_archive: Callable[[v.RunSummary], None] | None = None

    def __init__(self, reload: Callable[[v.RunSummary], Run]) -> None:
        self.seq = 0
        self.runs: dict[str, Resident] = {}
        self.archived: dict[str, v.RunSummary] = {}
        self._ended: dict[str, None] = {}
        self._reload = reload

    def apply_batch(self, batch: EventBatch) -> None:
        """Applies the events of a frame: what `apply` does to each, for long histories."""
        resident = None
        for seq, event in enumerate(batch.events, batch.first_seq):
            if resident is None or resident.run.run_id != event.run_id:
                resident = self.take(event.run_id)
            evolve(resident.run, event)
            self.advance(resident, seq, seq)

    def apply(self, recorded: Recorded) -> None:
        """Applies one recorded event."""
        seq, event = recorded
        resident = self.runs.get(event.run_id) or self.take(event.run_id)
        evolve(resident.run, event)
        self.advance(resident, seq, seq)

    def extent(self, run_id: str) -> range:
        """The positions between which all events of a run are; empty for an unknown one."""
        known = self.runs.get(run_id) or self.archived.get(run_id)
        return range(known.first_seq, known.last_seq + 1) if known else range(0)

    def take(self, run_id: str) -> Resident:
        """The run, made resident: from memory, from the archive, or new."""
        resident = self.runs.get(run_id)
        if resident is None:
            summary = self.archived.pop(run_id, None)
            if summary is None:
                resident = Resident(initial(run_id), 0, 0)
            else:
                resident = Resident(self._reload(summary), summary.first_seq, summary.last_seq)
            self.runs[run_id] = resident
        return resident

    def advance(self, resident: Resident, first_seq: int, last_seq: int) -> None:
        """Notes where the run's newest events are, and archives what has been over for long."""
        self.seq = resident.last_seq = last_seq
        if not resident.first_seq:
            resident.first_seq = first_seq
        if resident.run.status.is_terminal:
            self._ended.pop(resident.run.run_id, None)
            self._ended[resident.run.run_id] = None
            if len(self._ended) > ENDED_KEPT:
                self._archive(next(iter(self._ended)))

    def rebuild(self, resident: Resident) -> None:
        """Folds a run again from the journal, up to its newest recorded event."""
        resident.run = self._reload(summary_of(resident))

    def _archive(self, run_id: str) -> None:
        del self._ended[run_id]
        resident = self.runs.pop(run_id)
        # It may have been reopened by another system's word since it ended.
        if not resident.run.status.is_terminal:
            self.runs[run_id] = resident
            return
        summary = self.archived[run_id] = summary_of(resident)
        if self.on_archive is not None:
            self.on_archive(summary)

    def summaries(self) -> list[v.RunSummary]:
        """Every run, archived or resident, in the order of its first event."""
        resident = [summary_of(resident) for resident in self.runs.values() if resident.last_seq]
        return sorted([*self.archived.values(), *resident], key=lambda summary: summary.first_seq)

    def snapshot(self) -> v.Snapshot:
        """The resident runs as a message; the caller adds how much of the archive belongs to it."""
        return v.Snapshot(
            runs=[
                v.ResidentRun(run=to_proto(r.run), first_seq=r.first_seq, last_seq=r.last_seq)
                for r in self.runs.values()
            ]
        )

    def restore(self, seq: int, snapshot: v.Snapshot, archived: Iterable[v.RunSummary]) -> None:
        """Becomes what it was when `snapshot` was taken at `seq`."""
        self.seq = seq
        for kept in snapshot.runs:
            resident = Resident(from_proto(Run, kept.run), kept.first_seq, kept.last_seq)
            self.runs[resident.run.run_id] = resident
            if resident.run.status.is_terminal:
                self._ended[resident.run.run_id] = None
        for summary in archived:
            if summary.run_id not in self.runs:
                self.archived[summary.run_id] = summary


def summary_of(resident: Resident) -> v.RunSummary:
    """One line of the list of runs."""
    run = resident.run
    return v.RunSummary(
        run_id=run.run_id,
        name=run.name,
        status=run.status,  # type: ignore[arg-type]  # the model's enums are the schema's numbers
        cause=run.cause,  # type: ignore[arg-type]
        status_reason=run.status_reason,
        run_seq=run.run_seq,
        incarnation=run.incarnation,
        first_seq=resident.first_seq,
        last_seq=resident.last_seq,
        start_time_ns=run.start_time_ns,
        end_time_ns=run.end_time_ns,
        time_ns=run.time_ns,
        attempts=len(run.attempts),
        reports=run.reports,
        irregular_count=run.irregular_count,
    )
