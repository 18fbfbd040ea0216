"""Worker processes, found by their names, on bundles of placement groups (tests/sim/nodes.py)."""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.nodes import Nodes
from tests.sim.scripts import Scripts
from tests.sim.worker import Name, Worker
from tests.sim.world import World

_PENDING_S = 0.1


class Cluster:
    """What there is, and every process that ever was."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.nodes = Nodes(world)
        self.scripts = Scripts(world)
        self.processes: dict[bytes, Worker] = {}
        self.born: Callable[[Worker], None] = lambda worker: None
        # Told of who lives on a placement group that is removed.
        self.evicted: Callable[[Worker], None] = lambda worker: None
        # Whether anybody may still come to talk to a worker.
        self.has_controller: Callable[[], bool] = lambda: True
        self._names: dict[Name, Worker] = {}
        self._replacements_fail = world.draw.choice((0.3, 1))
        self.nodes.on_cut = lambda node_id: self._each(node_id, Worker.cut)
        self.nodes.on_gone = lambda node_id: self._each(node_id, Worker.be_missed)
        self.nodes.on_removed = self._group_removed

    def _each(self, node_id: str, call: Callable[[Worker], None]) -> None:
        for worker in self.processes.values():
            if worker.node_id == node_id:
                call(worker)

    def _group_removed(self, name: str) -> None:
        for worker in self.processes.values():
            if worker.name.placement == name and worker.status != "gone":
                self.evicted(worker)
                worker.go("its placement group was removed")

    def start(self, name: Name, by_zombie: bool) -> Worker:
        """Starts a worker process; there may be one of that name."""
        if (found := self.find(name)) is not None:
            return found
        actor_id = f"actor-{len(self.processes) + 1}".encode()
        worker = self._names[name] = self.processes[actor_id] = Worker(
            self._world, name, actor_id, self.has_controller
        )
        worker.is_stray = by_zombie
        worker.failed = self._failed
        self.born(worker)
        slow = self._world.fault("slow start", 0.1)
        up_s = self._world.draw.uniform(0.1, 2) + 30 * slow
        self._world.after(up_s, lambda: self._come_up(worker))
        return worker

    def find(self, name: Name) -> Worker | None:
        """The process of that name, as far as the cluster knows."""
        worker = self._names.get(name)
        return worker if worker is not None and not worker.is_missed else None

    def on_bundle(self, name: Name) -> list[Worker]:
        """The processes that live where one of that name is to."""
        where = (name.placement, name.bundle)
        return [
            one
            for one in self.processes.values()
            if one.status == "up" and (one.name.placement, one.name.bundle) == where
        ]

    def _come_up(self, worker: Worker) -> None:
        """It waits for its bundle: for a node that takes something new, and for who is on it."""
        node = self.nodes.node_of(worker.name.placement, worker.name.bundle)
        if worker.status != "starting":
            return
        if node is None or not node.takes_new or self.on_bundle(worker.name):
            self._world.after(_PENDING_S, lambda: self._come_up(worker))
        elif self._fails(worker):
            worker.go("it could not start")
        else:
            worker.come_up(node.node_id)

    def _fails(self, worker: Worker) -> bool:
        if worker.name.generation and self._world.fault(
            "replacement fails", self._replacements_fail
        ):
            return True
        return self._world.fault("start fails", 0.1)

    def _failed(self, worker: Worker) -> None:
        """Who trains with one that failed may fail of that, a moment later."""
        for mate in self.of_attempt(worker.name.attempt_id):
            same = (mate.group, mate.name.generation) == (worker.group, worker.name.generation)
            if same and mate is not worker and self._world.fault("mates fail too", 0.8):
                longest_s = self._world.draw.choice((0.05, 2))
                self._world.after(self._world.draw.uniform(0, longest_s), mate.fail)

    def of_attempt(self, attempt_id: str) -> list[Worker]:
        """The processes of an attempt that are there, or are about to be."""
        return [
            one
            for one in self.processes.values()
            if one.status != "gone" and one.name.attempt_id == attempt_id
        ]

    def stop(self, attempt_id: str) -> None:
        """Kills the workers of an attempt."""
        for worker in self.of_attempt(attempt_id):
            worker.go("killed")

    def left(self) -> list[str]:
        """What is still there."""
        workers = [str(one) for one in self.processes.values() if one.status != "gone"]
        return [*self.nodes.groups, *workers]
