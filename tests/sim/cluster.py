"""Placement groups and worker processes, found by their names; and the scripts of train functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.sim.worker import Step, Worker
from tests.sim.world import World

Key = tuple[str, int, int]  # attempt, bundle, generation


@dataclass
class Group:
    """A placement group; until `ready_s` there is room for `have` workers only."""

    name: str
    need: int
    have: int
    ready_s: float
    node_ids: tuple[str, ...]


class Cluster:
    """What there is, and everything that ever was."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.groups: dict[str, Group] = {}
        self.workers: dict[Key, Worker] = {}
        self.born: Callable[[Worker], None] = lambda worker: None
        self._scripts: dict[str, list[list[Step]]] = {}

    def create_group(self, name: str, need: int) -> None:
        """Asks for a placement group; there may be one of that name."""
        world = self._world
        if name in self.groups:
            return
        ready_s, have = world.time_s + world.draw.uniform(0.01, 1), need
        if world.fault("short", 0.5):
            ready_s, have = ready_s + world.draw.uniform(0, 12), world.draw.randrange(need)
        if world.fault("never placed", 0.3):
            ready_s += 10**6
        nodes = tuple(f"node-{world.draw.randrange(3)}" for _ in range(need))
        self.groups[name] = Group(name, need, have, ready_s, nodes)

    def start(self, key: Key) -> Worker:
        """Starts a worker process; there may be one of that name."""
        world = self._world
        if key not in self.workers:
            worker = self.workers[key] = Worker(world, key)
            self.born(worker)
            slow = world.fault("slow start", 0.1)
            up_s = world.draw.uniform(0.1, 2) + 30 * slow
            if world.fault("start fails", 0.1):
                world.after(up_s, lambda: worker.go("it could not start"))
            world.after(up_s, worker.come_up)
        return self.workers[key]

    def remove(self, attempt_id: str) -> None:
        """Kills the workers and removes the groups of an attempt."""
        self._kill(attempt_id)
        for name in [one for one in self.groups if one.endswith(attempt_id)]:
            del self.groups[name]

    def _kill(self, attempt_id: str) -> None:
        for worker in self.workers.values():
            if worker.attempt_id == attempt_id:
                worker.go("killed")

    def left(self, attempt_id: str = "") -> list[str]:
        """What is still there, of an attempt or at all."""
        groups = [name for name in self.groups if name.endswith(attempt_id)]
        workers = [
            str(one)
            for one in self.workers.values()
            if one.status != "gone" and attempt_id in ("", one.attempt_id)
        ]
        return groups + workers

    def script(self, attempt_id: str, rank: int, size: int) -> Sequence[Step]:
        """What the train function of that rank does in that attempt."""
        if attempt_id not in self._scripts:
            self._scripts[attempt_id] = self._write(size)
        return self._scripts[attempt_id][rank]

    def _write(self, size: int) -> list[list[Step]]:
        draw = self._world.draw
        whats = draw.choices(("report", "checkpoint", "async"), (3, 1, 1), k=draw.randrange(1, 9))
        pace = draw.choice((0.02, 0.5, 3))
        return [self._of_rank(rank, whats, pace) for rank in range(size)]

    def _of_rank(self, rank: int, whats: Sequence[str], pace: float) -> list[Step]:
        draw = self._world.draw
        steps = []
        for index, what in enumerate(whats):
            name = f"checkpoint-{index}" if what != "report" else ""
            if what != "report" and draw.random() < 0.2:  # a rank may have nothing to upload
                what, name = "report", ""
            steps.append(Step(draw.uniform(0, pace), what, name))
        if steps[-1].directory and self._world.fault("mismatch", 0.1):
            steps[-1] = steps[-1]._replace(directory="elsewhere")
        if self._world.fault("mismatch", 0.05):
            steps.pop()
        end = Step(draw.uniform(0, pace), self._ending())
        steps.append(end._replace(directory="preempted") if end.what == "preempted" else end)
        if end.what != "return":
            del steps[draw.randrange(len(steps)) : -1]
        names = {"preempted": "die", "return": "completed", "raise": "failed"}
        steps[-1] = steps[-1]._replace(what=names.get(end.what, end.what))
        return steps

    def _ending(self) -> str:
        ways = {
            "worker raises": "raise",
            "worker dies": "die",
            "worker preempted": "preempted",
            "worker freezes": "freeze",
            "worker stuck": "stuck",
        }
        for fault, way in ways.items():
            if self._world.fault(fault, 0.2):
                return way
        return "return"
