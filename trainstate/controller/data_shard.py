"""Ray Data's side of a shard that outlives its worker; `data_relay` is ours.

All that we know of Ray Data beyond its documentation is here: what a `DataIterator` has to implement,
that the blocks of a split begin to flow when the first is asked for, and what its statistics count. The
tests of this module fail when Ray changes that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ray
from ray.data import DataIterator


def is_split(shard: Any) -> bool:
    """Whether a shard is one of several that are read together; any other one starts by itself."""
    from ray.data._internal.iterator.stream_split_iterator import StreamSplitDataIterator

    return isinstance(shard, StreamSplitDataIterator)


class RaySplit:
    """A split as a relay reads it."""

    def __init__(self, split: Any) -> None:
        self._split = split
        self._stats: Any = None

    def blocks(self) -> Iterator[Any]:
        """An epoch of bundles of blocks."""
        bundles, self._stats, _ = self._split._to_ref_bundle_iterator()
        found: Iterator[Any] = bundles
        return found

    def rows(self, block: Any) -> int:
        """Of a bundle; a splitter refuses bundles that do not know."""
        return int(block.num_rows())

    def hold(self, size_bytes: int) -> None:
        """For Ray's backpressure, which counts what consumers hold."""
        if self._stats is not None:
            self._stats.iter_prefetched_bytes = size_bytes

    def end(self) -> None:
        """Tells the coordinator of the splits."""
        self._split._on_iteration_end(None)


class RelayedShard(DataIterator):
    """A split whose blocks come by way of the data host, for one generation of a rank."""

    def __init__(self, split: Any, host: Any, name: str, rank: int, generation: int) -> None:
        self._split = split
        self._host = host
        self._reader = name, rank, generation
        self._loop: tuple[int, Any, int] | None = None  # the epoch, statistics, rows given before

    def _to_ref_bundle_iterator(self) -> tuple[Iterator[Any], Any, None]:
        _, stats, _ = self._split._to_ref_bundle_iterator()  # for the statistics: nothing flows yet
        return self._bundles(stats), stats, None

    def _bundles(self, stats: Any) -> Iterator[Any]:
        before = stats.iter_rows_total
        number = ray.get(self._host.begin.remote(*self._reader))
        self._loop = number, stats, before
        while True:
            rows, held = stats.iter_rows_total - before, stats.iter_prefetched_bytes
            bundle = ray.get(self._host.take.remote(*self._reader, number, rows, held))
            if bundle is None:
                return
            yield bundle

    def _on_iteration_end(self, executor: Any) -> None:
        if self._loop is not None:
            number, stats, before = self._loop
            self._loop = None
            self._host.end.remote(*self._reader, number, stats.iter_rows_total - before)

    def _get_dataset_tag(self) -> Any:
        return self._split._get_dataset_tag()

    def stats(self) -> Any:
        """As of any shard."""
        return self._split.stats()

    def schema(self) -> Any:
        """As of any shard."""
        return self._split.schema()

    def get_context(self) -> Any:
        """As of any shard."""
        return self._split.get_context()
