"""Elastic training: a node of two workers out of four goes, and another comes."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from marking import OURS, RAYS, Side, Training
from measuring import Row, Seconds, at_most
from nodes import NODE_CPUS, Nodes, nodes

FEW, MANY = NODE_CPUS, 2 * NODE_CPUS
SETTLE_S = 3.0


def resize_rows(folder: Path, rounds: int) -> list[Row]:
    """From the end of the node, or the new one's arrival, until every rank of the new size trains."""
    ours: list[tuple[Seconds, Seconds]] = []
    rays: list[tuple[Seconds, Seconds]] = []
    with nodes(folder, head_cpus=0, count=2) as cluster:
        for _ in range(rounds):
            ours.append(_resized(OURS, folder, cluster))
            rays.append(_resized(RAYS, folder, cluster))
    mine = [statistics.median(one) for one in (*zip(*ours, strict=True), map(sum, ours))]
    his = [statistics.median(one) for one in (*zip(*rays, strict=True), map(sum, rays))]
    return [
        at_most(what, mine[index], his[index], "Ray Train V2", 0.4, "s")
        for index, what in enumerate(
            (
                f"node lost, {MANY} -> {FEW} workers",
                f"node added, {FEW} -> {MANY} workers",
                f"both, {MANY} -> {FEW} -> {MANY}",
            )
        )
    ]


def _resized(side: Side, folder: Path, cluster: Nodes) -> tuple[Seconds, Seconds]:
    with Training(
        side, folder, num_workers=(FEW, MANY), elastic_resize_monitor_interval_s=0.0
    ) as training:
        training.started(MANY, range(MANY))
        time.sleep(SETTLE_S)
        removed_ns = cluster.remove()
        few_ns = training.started(FEW, range(FEW), removed_ns)
        time.sleep(SETTLE_S)
        added_ns = cluster.add()
        many_ns = training.started(MANY, range(MANY), added_ns)
    return (few_ns - removed_ns) / 1e9, (many_ns - added_ns) / 1e9
