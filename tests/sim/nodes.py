"""Nodes, and the placement groups on them, by Ray's rules: measured on 2.60.

* A group gets all its bundles at once. A bundle whose node is gone comes back on another as soon as
  there is room, before anything that was asked for later; the others of its group stay where they are.
* That a node is gone is noticed after a while, by everybody at once; until then, who talks to it waits.
* A node that is drained takes nothing new, not even a worker on a bundle it has; what is on it goes on.
  One that holds nothing is gone at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.sim.world import World


@dataclass
class Node:
    """Room for so many bundles. `works` until it is gone, `is_alive` until that is noticed."""

    node_id: str
    room: int
    works: bool = True
    is_alive: bool = True
    is_draining: bool = False
    deadline_s: float | None = None

    @property
    def takes_new(self) -> bool:
        return self.works and not self.is_draining


@dataclass
class Group:
    """A placement group; `node_ids` of its bundles, "" for one without. Not served before `from_s`."""

    name: str
    bundles: int
    from_s: float
    node_ids: list[str] = field(default_factory=list)

    @property
    def missing(self) -> list[int]:
        """The bundles without a node."""
        found = [*self.node_ids, *[""] * (self.bundles - len(self.node_ids))]
        return [bundle for bundle, node_id in enumerate(found) if not node_id]


class Nodes:
    """What there is of both. `on_cut`, then `on_gone` are told of a node that went."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.nodes: dict[str, Node] = {}
        self.groups: dict[str, Group] = {}
        self.on_cut: Callable[[str], None] = lambda node_id: None
        self.on_gone: Callable[[str], None] = lambda node_id: None
        self.on_removed: Callable[[str], None] = lambda name: None
        self._others: dict[str, int] = {}

    # --- nodes ----------------------------------------------------------------------------------------

    def add(self, room: int) -> None:
        node = Node(f"{len(self.nodes) + 1:04x}", room)
        self.nodes[node.node_id] = node
        self._world.say("cluster", f"node {node.node_id} comes, with room for {room}")
        self._soon()

    @property
    def working(self) -> list[str]:
        return [node_id for node_id, node in self.nodes.items() if node.works]

    def end(self, node_id: str, missed_s: float = 0.02) -> None:
        """The node is gone; the cluster notices after `missed_s`."""
        node = self.nodes[node_id]
        if node.works:
            node.works = False
            self._world.say("cluster", f"node {node_id} is gone")
            self.on_cut(node_id)
            self._world.after(missed_s, lambda: self._noticed(node))

    def _noticed(self, node: Node) -> None:
        self._world.say("cluster", f"node {node.node_id} is missed")
        node.is_alive = False
        for group in self.groups.values():
            group.node_ids = [one if one != node.node_id else "" for one in group.node_ids]
        self.on_gone(node.node_id)
        self._soon()

    def drain(self, node_id: str, deadline_s: float | None) -> None:
        """Gives notice: nothing new is put there."""
        node = self.nodes[node_id]
        self._world.say("cluster", f"node {node_id} is drained, deadline {deadline_s}")
        node.is_draining, node.deadline_s = True, deadline_s
        self._end_idle()

    @property
    def draining(self) -> dict[str, float | None]:
        """Deadlines, as the simulation's seconds, of the nodes that are drained and not missed yet."""
        return {
            node_id: node.deadline_s
            for node_id, node in self.nodes.items()
            if node.is_draining and node.is_alive
        }

    def _end_idle(self) -> None:
        for node in list(self.nodes.values()):
            if node.works and node.is_draining and not self._taken(node.node_id):
                self.end(node.node_id)

    def take(self, node_id: str, room: int, for_s: float) -> None:
        """Somebody else takes what is free on a node, for a while."""
        taken = min(room, self._free(self.nodes[node_id]))
        self._others[node_id] = self._others.get(node_id, 0) + taken
        self._world.after(for_s, lambda: self._give_back(node_id, taken))

    def _give_back(self, node_id: str, taken: int) -> None:
        self._others[node_id] -= taken
        self._soon()

    def _taken(self, node_id: str) -> int:
        ours = sum(group.node_ids.count(node_id) for group in self.groups.values())
        return ours + self._others.get(node_id, 0)

    def _free(self, node: Node) -> int:
        return node.room - self._taken(node.node_id) if node.takes_new else 0

    # --- placement groups -----------------------------------------------------------------------------

    def ask(self, name: str, bundles: int) -> None:
        """Asks for a group; there may be one of that name."""
        if name not in self.groups:
            late_s = self._world.draw.uniform(0.01, 1)
            if "/0." not in name and self._world.fault("late extra", 0.2):
                late_s += self._world.draw.uniform(0, 20)
            self.groups[name] = Group(name, bundles, self._world.time_s + late_s)
            self._world.after(late_s, self._serve)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            if self.groups.pop(name, None) is not None:
                self._world.say("cluster", f"group {name} is removed")
                self.on_removed(name)
        self._end_idle()
        self._soon()

    def node_of(self, name: str, bundle: int) -> Node | None:
        """Where a bundle is."""
        group = self.groups.get(name)
        if group is None or not group.node_ids or not group.node_ids[bundle]:
            return None
        return self.nodes[group.node_ids[bundle]]

    def _soon(self) -> None:
        self._world.after(self._world.draw.uniform(0.01, 0.5), self._serve)

    def _serve(self) -> None:
        """Gives bundles their nodes: first those that lost one, then as they were asked for."""
        ready = [one for one in self.groups.values() if one.from_s <= self._world.time_s + 1e-6]
        for group in sorted(ready, key=lambda one: not one.node_ids):
            missing = group.missing
            found = self._find(len(missing))
            if missing and found:
                group.node_ids = group.node_ids or [""] * group.bundles
                for bundle, node_id in zip(missing, found, strict=True):
                    group.node_ids[bundle] = node_id
                self._world.say("cluster", f"group {group.name} is on {group.node_ids}")

    def _find(self, bundles: int) -> list[str]:
        """Nodes for all of them, or none."""
        free = {node_id: self._free(node) for node_id, node in self.nodes.items()}
        found: list[str] = []
        while len(found) < bundles:
            fit = [node_id for node_id, room in free.items() if room > 0]
            if not fit:
                return []
            node_id = self._world.draw.choice(fit)
            together = min(free[node_id], bundles - len(found), self._world.draw.randint(1, 3))
            free[node_id] -= together
            found += [node_id] * together
        return found
