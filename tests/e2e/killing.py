"""Killing processes of a run while it runs, at moments that its journal names."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.cluster import Cluster
from trainstate.state import client
from trainstate.store import History, Recorded
from trainstate.store.events import recorded


class Killer:
    """Follows the events of the run called `name`, and kills its controller where `wants` says so.

    `killed` names the kinds of events after which it did.
    """

    def __init__(self, cluster: Cluster, name: str, wants: Callable[[str], bool]) -> None:
        self.killed: list[str] = []
        self._cluster = cluster
        self._name = name
        self._wants = wants
        self._run_id = ""
        self._pid = 0

    def see(self, one: Recorded) -> None:
        event = one.event
        kind = event.WhichOneof("payload") or ""
        if kind == "run_created" and event.run_created.name == self._name:
            self._run_id = event.run_id
        if event.run_id != self._run_id:
            return
        if kind == "controller_started":
            self._pid = event.controller_started.pid
        if self._pid and self._wants(kind):
            self.killed.append(kind)
            os.kill(self._pid, signal.SIGKILL)
            self._pid = 0


@contextmanager
def following(cluster: Cluster, see: Callable[[Recorded], None]) -> Iterator[None]:
    """Has `see` told of every event that is recorded from now on, in a thread of its own."""
    client.greet(client.ensure())
    history = History(cluster.journal)
    tail = history.tail(history.end.next_seq)
    over = threading.Event()

    def follow() -> None:
        while not over.is_set():
            for one in recorded(tail.read(0.1)):
                see(one)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        tail.close()
