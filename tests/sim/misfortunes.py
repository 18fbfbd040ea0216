"""What befalls the nodes of a cluster, each at its time: they come, go, and are taken away.

After the first minute nothing more does, and there is room for everybody.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.cluster import Cluster
from tests.sim.world import World
from trainstate.core import policy
from trainstate.v1 import state_pb2 as s


class Misfortunes:
    """Nodes, and who else wants them."""

    def __init__(self, world: World, cluster: Cluster, settings: s.RunSettings) -> None:
        self._world = world
        self._cluster = cluster
        self._nodes = cluster.nodes
        self._size = policy.size_of(settings)

    def begin(self) -> None:
        """The first nodes; and what will happen to them, and which come later."""
        world, draw = self._world, self._world.draw
        wanted = draw.randint(self._size.smallest, self._size.largest + 1)
        if world.fault("room comes late", 0.4):
            wanted = draw.randrange(self._size.smallest)
        self._add(wanted)
        for _ in range(draw.randrange(4)):
            world.after(draw.uniform(0, world.FAULTY_S), lambda: self._add(draw.randint(1, 3)))
        for name, chance, times, call in (
            ("node dies", 0.5, 3, self._die),
            ("node drained", 0.5, 3, self._drain),
            ("others take room", 0.6, 2, self._take),
            ("worker told to end", 0.4, 2, self._warn),
        ):
            for _ in range(times):
                if world.fault(name, chance, count=False):
                    at_s = draw.choice((3, 15, 50)) * draw.random()
                    world.after(at_s, lambda name=name, call=call: self._befall(name, call))  # type: ignore[misc]
        world.after(world.FAULTY_S, lambda: self._nodes.add(self._size.largest))

    def _add(self, room: int) -> None:
        """Nodes with so much room together."""
        while room > 0:
            one = min(room, self._world.draw.randint(1, 4))
            self._nodes.add(one)
            room -= one

    def _befall(self, name: str, call: Callable[[str], None]) -> None:
        if self._nodes.working and self._world.fault(name, 1):
            call(self._world.draw.choice(self._nodes.working))

    def _die(self, node_id: str) -> None:
        late = self._world.fault("node missed late", 0.5)
        self._nodes.end(node_id, self._world.draw.uniform(5, 14) if late else 0.2)

    def _drain(self, node_id: str) -> None:
        world, draw = self._world, self._world.draw
        left_s = draw.choice((1, 10, 40)) * draw.random()
        deadline_s = world.time_s + left_s
        self._nodes.drain(node_id, deadline_s if draw.random() < 0.7 else None)
        if world.fault("node drained for ever", 0.5):
            return
        if world.fault("node drained early", 0.3):
            left_s *= draw.random()
        world.after(left_s, lambda: self._nodes.end(node_id))

    def _take(self, node_id: str) -> None:
        draw = self._world.draw
        self._nodes.take(node_id, draw.randint(1, 3), draw.uniform(1, 40))

    def _warn(self, node_id: str) -> None:
        """Somebody tells a worker to end; it may be ended some time after that."""
        draw = self._world.draw
        there = [one for one in self._cluster.processes.values() if one.status == "up"]
        if there:
            worker = draw.choice(there)
            worker.warn()
            if draw.random() < 0.5:
                self._world.after(draw.uniform(1, 40), lambda: worker.go("it was told to end"))
