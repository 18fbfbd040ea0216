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
    """The reports of one index: encoded ValueMaps by rank, and the checkpoint's directory or ""."""

    index: int
    metrics: dict[int, bytes] = field(default_factory=dict)
    directory: str = ""


class ReportSets:
    """The sets of one attempt. `begun` says how many reports of each rank came before."""

    def __init__(self, begun: Mapping[int, int], sets_max: int = SETS_MAX) -> None:
        self.dropped = 0
        self._position = dict(begun)
        self._sets_max = sets_max
        # In the order of their indices; a plain dict is slow to lose its first again and again.
        self._waiting: OrderedDict[int, ReportSet] = OrderedDict()
        self._committed: set[int] = set()
        # Indices below or from which no set can be had whole any more.
        self._floor = max(begun.values(), default=0)
        self._ceiling: int | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, report: e.ReportReceived) -> None:
        """Takes the next report of a rank."""
        index = self._position[report.rank]
        self._position[report.rank] = index + 1
        if index < self._floor or (self._ceiling is not None and index >= self._ceiling):
            return
        if index not in self._waiting:
            self._begin(index)
        found = self._waiting[index]
        found.metrics[report.rank] = report.metrics.SerializeToString()
        found.directory = found.directory or report.checkpoint

    def commit(self, index: int) -> None:
        """The checkpoint that came with this index is committed."""
        self._committed.add(index)

    def end(self, rank: int) -> None:
        """That rank reports nothing more: sets that lack it stay incomplete."""
        position = self._position[rank]
        self._ceiling = position if self._ceiling is None else min(self._ceiling, position)
        for index in [one for one in self._waiting if one >= self._ceiling]:
            del self._waiting[index]

    def join(self, rank: int) -> None:
        """A successor of that rank counts from where the others are."""
        self._position[rank] = self._floor = max(self._position.values())
        for index in [one for one, found in self._waiting.items() if rank not in found.metrics]:
            del self._waiting[index]

    def due(self) -> Iterator[ReportSet]:
        """The sets that are whole, in order, each once."""
        while self._waiting:
            index, first = next(iter(self._waiting.items()))
            whole = len(first.metrics) == len(self._position)
            if not whole or (first.directory and index not in self._committed):
                return
            del self._waiting[index]
            self._committed.discard(index)
            yield first

    def _begin(self, index: int) -> None:
        if len(self._waiting) >= self._sets_max:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            self._floor = oldest + 1
            self.dropped += 1
        self._waiting[index] = ReportSet(index)
