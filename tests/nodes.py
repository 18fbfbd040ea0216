"""A Ray cluster of several nodes, all on this machine; the fixture is in conftest.py.

`ray.cluster_utils.Cluster` changes what is global in its process, and Ray's note of which cluster of the
machine is the newest. So it lives in a process of its own, with a folder of its own for all that Ray
writes. That process ends the cluster when it is told to, and when who started it is gone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from tests.cluster import Cluster

# A killed raylet refuses connections, and is taken for dead after two of that. One that is only slow is
# not: it has as long to answer as ever.
HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 100,
    "health_check_failure_threshold": 2,
}


class Node(NamedTuple):
    """A node: what Ray calls it (hex), and the process of its raylet."""

    node_id: str
    pid: int


class Nodes:
    """A cluster that begins as its head: tests give it nodes, and take them away."""

    def __init__(self, cluster: Cluster, head: Node, pipe: Connection) -> None:
        self.cluster = cluster
        self.head = head
        self._pipe = pipe

    @property
    def address(self) -> str:
        """What a driver gives to `ray.init`."""
        return self.cluster.address

    def add(
        self,
        num_cpus: int = 1,
        resources: Mapping[str, float] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Node:
        """Another node; the cluster has it when this returns."""
        return Node(*self._ask("add", num_cpus, dict(resources or {}), dict(labels or {})))

    def kill(self, node: Node) -> None:
        """Kills (SIGKILL) a node's raylet; its workers end themselves within about a second."""
        os.kill(node.pid, signal.SIGKILL)

    def drain(self, node: Node, deadline_s: float | None) -> int:
        """Announces that a node goes away, as for a preemption; its deadline as Ray tells it.

        That is in ms since the Unix epoch, 0 for none. Ray places nothing on the node any more, and ends
        it when the last bundle on it is released: at once if there is none, but not for its deadline.
        """
        deadline_ms = 0 if deadline_s is None else round((time.time() + deadline_s) * 1000)
        self._ask("drain", node.node_id, deadline_ms)
        return deadline_ms

    @contextmanager
    def busy_head(self) -> Iterator[None]:
        """The head's control service answers nobody meanwhile."""
        pid = self._ask("gcs")
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def alive(self) -> set[str]:
        """The ids of the nodes that Ray takes for alive."""
        found: set[str] = self._ask("alive")
        return found

    def _ask(self, method: str, *args: Any) -> Any:
        self._pipe.send((method, args))
        done, answer = self._pipe.recv()
        assert done, answer
        return answer


@contextmanager
def starting(folder: Path, head_cpus: int = 0) -> Iterator[Nodes]:
    """A cluster of one head node, which has so many CPUs; its state actor is at home below `folder`."""
    # Not forked: a fork would have the threads and connections of a Ray that this process is in.
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    host = context.Process(target=_host, args=(theirs, folder, head_cpus))
    host.start()
    theirs.close()
    try:
        address, *head = pipe.recv()
        yield Nodes(Cluster(folder / "home", address), Node(*head), pipe)
    finally:
        pipe.close()
        host.join()


# --- in the process that has the cluster --------------------------------------------------------


def _host(pipe: Connection, folder: Path, head_cpus: int) -> None:
    os.setpgrp()  # Ctrl-C in a terminal is for the tests; this ends when they do
    os.environ.update(
        TRAINSTATE_HOME=str(folder / "home"),
        RAY_TMPDIR=str(folder),
        RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",
    )
    host = _Host(head_cpus)
    try:
        pipe.send((host.cluster.address, *host.node(host.cluster.head_node)))
        while True:
            method, args = pipe.recv()
            pipe.send(_answer(host, method, args))
    except EOFError:
        return
    finally:
        host.cluster.shutdown()


def _answer(host: _Host, method: str, args: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return True, getattr(host, method)(*args)
    except Exception as error:  # the test that asked fails of it
        return False, repr(error)


class _Host:
    """The cluster, and what is done to it."""

    def __init__(self, head_cpus: int) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        head = {"num_cpus": head_cpus, "include_dashboard": False, "_system_config": HEALTH}
        self.cluster = RayCluster(initialize_head=True, head_node_args=head)

    def node(self, node: Any) -> Node:
        raylet = node.all_processes["raylet"][0].process
        # Workers do not notice that their raylet is dead as long as nobody has waited for it.
        threading.Thread(target=raylet.wait, daemon=True).start()
        return Node(node.node_id, raylet.pid)

    def add(self, num_cpus: int, resources: dict[str, float], labels: dict[str, str]) -> Node:
        return self.node(
            self.cluster.add_node(num_cpus=num_cpus, resources=resources, labels=labels)
        )

    def drain(self, node_id: str, deadline_ms: int) -> None:
        from ray._raylet import GcsClient
        from ray.core.generated import autoscaler_pb2

        taken, why = GcsClient(address=self.cluster.address).drain_node(
            node_id, autoscaler_pb2.DRAIN_NODE_REASON_PREEMPTION, "a test", deadline_ms
        )
        assert taken, why

    def gcs(self) -> int:
        pid: int = self.cluster.head_node.all_processes["gcs_server"][0].process.pid
        return pid

    def alive(self) -> set[str]:
        return set(self.cluster.global_state._live_node_ids())
