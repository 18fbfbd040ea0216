"""A Ray cluster on this machine: a head, and nodes of two CPUs that come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

NODE_CPUS = 2
_PAUSE_S = 0.01


class Nodes:
    """The nodes besides the head."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._added: list[Any] = []

    def add(self) -> int:
        """Adds a node; the wall clock in ns when the cluster had it, which is before this returns."""
        seen_ns: list[int] = []
        watch = threading.Thread(target=_watch, args=(_alive() + 1, seen_ns))
        watch.start()
        self._added.append(self._cluster.add_node(num_cpus=NODE_CPUS, wait=False))
        watch.join()
        return seen_ns[0]

    def remove(self) -> int:
        """Ends the newest node; the wall clock in ns just before.

        With SIGTERM, at which it leaves the cluster at once. Of one killed with -9 Ray itself, and so
        any library on it, hears after 14 s: that would be most of what is measured.
        """
        before = _alive()
        began_ns = time.time_ns()
        self._cluster.remove_node(self._added.pop())
        _watch(before - 1, [])
        return began_ns


def _watch(count: int, seen_ns: list[int]) -> None:
    """Notes when so many nodes are alive."""
    while _alive() != count:
        time.sleep(_PAUSE_S)
    seen_ns.append(time.time_ns())


def _alive() -> int:
    return sum(node["Alive"] for node in ray.nodes())


@contextmanager
def nodes(folder: Path, head_cpus: int, count: int = 0) -> Iterator[Nodes]:
    """A cluster with a head of so many CPUs and so many nodes; this process is its driver."""
    head = {"num_cpus": head_cpus, "include_dashboard": False, "temp_dir": f"{folder}/r"}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        made = Nodes(cluster)
        for _ in range(count):
            made.add()
        yield made
    finally:
        ray.shutdown()
        cluster.shutdown()
