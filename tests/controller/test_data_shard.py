"""What we assume of Ray Data and is not in its documentation: a new Ray that changes it fails here."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest
import ray.data
from ray.data import DataIterator
from ray.data._internal.iterator.stream_split_iterator import StreamSplitDataIterator
from ray.data._internal.stats import DatasetStats

from tests.cluster import Cluster
from trainstate.controller.data_shard import RaySplit, RelayedShard, is_split


def rows_of(split: RaySplit) -> int:
    return sum(split.rows(block) for block in split.blocks())


def test_what_an_iterator_has_to_implement():
    """We implement all that is abstract, and what a split overrides but for what is its own."""
    assert {"_to_ref_bundle_iterator", "stats", "schema", "get_context"} == set(
        DataIterator.__abstractmethods__
    )
    overridden = {
        name
        for name, _ in inspect.getmembers(StreamSplitDataIterator, inspect.isfunction)
        if name in vars(StreamSplitDataIterator) and name in vars(DataIterator)
    }
    assert overridden <= set(vars(RelayedShard))


def test_the_hooks_of_an_iterator_take_what_we_pass():
    """Their parameters, by name."""
    hooks = ["_to_ref_bundle_iterator", "_on_iteration_end", "_get_dataset_tag"]
    parameters = [list(inspect.signature(getattr(DataIterator, one)).parameters) for one in hooks]
    assert [["self"], ["self", "executor"], ["self"]] == parameters


def test_what_statistics_count():
    """Rows given to the function, and bytes it holds."""
    stats = DatasetStats(metadata={}, parent=None)
    assert (0, 0) == (stats.iter_rows_total, stats.iter_prefetched_bytes)


@pytest.mark.slow
def test_a_split_is_lazy_and_may_end_at_any_time(cluster: Cluster) -> None:
    """Who asks for its blocks and takes none meets nobody; an epoch that was left ends."""
    shards = ray.data.range(100, override_num_blocks=10).streaming_split(2, equal=True)
    assert [True, True, False] == [is_split(one) for one in (*shards, ray.data.range(1).iterator())]
    splits = [RaySplit(one) for one in shards]
    for split in splits:
        split.blocks()
    with ThreadPoolExecutor(2) as threads:
        for first in threads.map(lambda split: next(split.blocks()), splits):
            assert 0 < splits[0].rows(first) < 50
        for split in splits:
            split.hold(1000)
            split.end()
        assert [50, 50] == list(threads.map(rows_of, splits))
