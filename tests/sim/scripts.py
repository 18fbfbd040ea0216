"""What train functions do: drawn for each gang, all its ranks alike but for what goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.sim.world import World

# How a train function may end other than by returning.
_ENDINGS = {
    "worker raises": "failed",
    "worker dies": "die",
    "worker freezes": "freeze",
    "worker stuck": "stuck",
}


class Step(NamedTuple):
    """What a train function does next, after `pause_s`: report, checkpoint, async, or how it ends."""

    pause_s: float
    what: str
    directory: str = ""


class Gang(NamedTuple):
    """Workers that train together: all of an attempt, or one generation of a replica group."""

    attempt_id: str
    group: int | None
    generation: int


class Scripts:
    """The scripts there are, by gang and by rank in it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._scripts: dict[Gang, list[list[Step]]] = {}

    def of(self, gang: Gang, rank: int, size: int) -> Sequence[Step]:
        if gang not in self._scripts:
            self._scripts[gang] = self._write(gang, size)
        return self._scripts[gang][rank]

    def _write(self, gang: Gang, size: int) -> list[list[Step]]:
        draw = self._world.draw
        whats = draw.choices(("report", "checkpoint", "async"), (3, 1, 1), k=draw.randrange(1, 13))
        pace = draw.choice((0.02, 0.5, 0.5, 3, 8))
        own = "" if gang.group is None else f"g{gang.group}.{gang.generation}-"
        directories = [f"checkpoint-{own}{index}" for index in range(len(whats))]
        return [self._of_rank(whats, directories, pace, size) for _ in range(size)]

    def _of_rank(
        self, whats: Sequence[str], directories: Sequence[str], pace: float, size: int
    ) -> list[Step]:
        draw, world = self._world.draw, self._world
        steps = []
        for what, directory in zip(whats, directories, strict=True):
            # A rank may have nothing to upload.
            nothing = what == "report" or draw.random() < 0.2
            step = ("report", "") if nothing else (what, directory)
            steps.append(Step(draw.uniform(0, pace), *step))
        if steps[-1].directory and world.fault("mismatch", 0.1):
            steps[-1] = steps[-1]._replace(directory="elsewhere")
        if world.fault("mismatch", 0.05):
            steps.pop()
        ending = self._ending(size)
        if ending != "completed":
            del steps[draw.randrange(len(steps) + 1) :]
        return [*steps, Step(draw.uniform(0, pace), ending)]

    def _ending(self, size: int) -> str:
        for fault, way in _ENDINGS.items():
            if self._world.fault(fault, 0.7 / size):
                return way
        return "completed"
