"""The reports of all ranks, put together: the n-th of every rank is one set.

Ranks may be far apart, so sets wait until the slowest has caught up; no more than a bound of them, of
which the oldest go. A set that a checkpoint came with waits until that is committed, and those behind it
wait with it. What is kept of a report is its encoded metrics.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from trainstate.v1 import event_pb2 as e

SETS_MAX = 10_000


@dataclass(slots=True)
class ReportSet:
    """The reports of one index: encoded ValueMaps, and directories of checkpoints, by rank."""

    index: int
    metrics: dict[int, bytes] = field(default_factory=dict)
    directories: dict[int, str] = field(default_factory=dict)

    @property
    def directory(self) -> str:
        """The checkpoint's, or "" without one; with replica groups, one of theirs."""
        return next(iter(self.directories.values()), "")


class ReportSets:
    """The sets of one attempt. `begun` says how many reports of each rank came before."""

    def __init__(self, begun: Mapping[int, int], sets_max: int = SETS_MAX) -> None:
        self.dropped = 0
        self._position = dict(begun)
        self._sets_max = sets_max
        # In the order of their indices; a plain dict is slow to lose its first again and again.
        self._waiting: OrderedDict[int, ReportSet] = OrderedDict()
        self._committed: set[str] = set()
        # From which set on a rank that came later takes part.
        self._since: dict[int, int] = {}
        # Indices below or from which no set can be had whole any more.
        self._floor = max(begun.values(), default=0)
        self._ceiling: int | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, report: e.ReportReceived) -> None:
        """Takes the next report of a rank; one that has left makes no more."""
        index = self._position.get(report.rank)
        if index is None:
            return
        self._position[report.rank] = index + 1
        if index < self._floor or (self._ceiling is not None and index >= self._ceiling):
            return
        if index not in self._waiting:
            self._begin(index)
        found = self._waiting[index]
        found.metrics[report.rank] = report.metrics.SerializeToString()
        if report.checkpoint:
            found.directories[report.rank] = report.checkpoint

    def commit(self, directory: str) -> None:
        """The checkpoint of this directory is committed."""
        self._committed.add(directory)

    def end(self, rank: int) -> None:
        """That rank reports nothing more: sets that lack it stay incomplete."""
        position = self._position.get(rank, self._floor)
        self._ceiling = position if self._ceiling is None else min(self._ceiling, position)
        for index in [one for one in self._waiting if one >= self._ceiling]:
            del self._waiting[index]

    def leave(self, rank: int) -> None:
        """That rank is being replaced: the others' sets are whole without it, and what it saved."""
        self._position.pop(rank, None)
        for found in self._waiting.values():
            if found.directories.get(rank) not in self._committed:
                found.directories.pop(rank, None)

    def join(self, rank: int) -> None:
        """A successor of that rank takes part from where the others are."""
        self._position[rank] = self._since[rank] = max(self._position.values(), default=0)

    def due(self) -> Iterator[ReportSet]:
        """The sets that are whole, in order, each once."""
        while self._waiting:
            index, first = next(iter(self._waiting.items()))
            saved = set(first.directories.values())
            if saved - self._committed or not self._is_whole(first):
                return
            del self._waiting[index]
            self._committed -= saved
            yield first

    def _is_whole(self, found: ReportSet) -> bool:
        if len(found.metrics) + len(self._since) < len(self._position):
            return False
        missing = self._position.keys() - found.metrics.keys()
        return all(self._since.get(rank, 0) > found.index for rank in missing)

    def _begin(self, index: int) -> None:
        if len(self._waiting) >= self._sets_max:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            self._floor = oldest + 1
            self.dropped += 1
        self._waiting[index] = ReportSet(index)
