"""A whole run in a world: a driver, its controllers one after the other, and what befalls them."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import NamedTuple

from tests.sim.cluster import Cluster
from tests.sim.controller import Controller
from tests.sim.invariants import Invariants
from tests.sim.misfortunes import Misfortunes
from tests.sim.reaper import Reaper
from tests.sim.settings import draw_settings
from tests.sim.store import Store
from tests.sim.worker import ORPHAN_S
from tests.sim.world import Task, World
from trainstate.core import Cause, Run
from trainstate.core import observations as o
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

# Faults stop after a minute; so long after that every run has ended.
LIMIT_S = 600.0


class Simulated(NamedTuple):
    """What came of a seed; `covered` counts what befell it besides faults."""

    run: Run
    faults: Counter[str]
    covered: Counter[str]
    trace: list[str]
    events: list[bytes]

    @property
    def digest(self) -> str:
        text = "\n".join(self.trace).encode()
        return hashlib.sha256(text + b"".join(self.events)).hexdigest()


class Failed(AssertionError):
    """A seed that breaks a promise: why, and how to see it again."""

    def __init__(self, seed: int, why: BaseException, trace: list[str]) -> None:
        what = f"{type(why).__name__}: {why}"
        tail = "\n".join(trace[-12:])
        super().__init__(f"{what}\n{tail}\n\nsee all of it: python -m tests.sim {seed}")
        self.trace = trace


def simulate(seed: int) -> Simulated:
    """Leads a run from `fit()` to its end. Raises Failed."""
    life = Life(seed)
    try:
        life.lead()
    except Exception as error:  # whatever the code under test raises is a finding of this seed
        raise Failed(seed, error, life.world.trace) from error
    world = life.world
    covered = life.invariants.covered
    return Simulated(life.store.run, world.faults, covered, world.trace, life.store.events)


class Life:
    """One seed's run and its surroundings."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.store = Store(self.world, f"run-{seed}")
        self.cluster = Cluster(self.world)
        self.invariants = Invariants(self.world, self.store, self.cluster)
        self.created = e.RunCreated(name="sim", settings=draw_settings(self.world))
        self.misfortunes = Misfortunes(self.world, self.cluster, self.created.settings)
        self._controllers: list[Controller] = []
        self._driver_lives = True
        self._reaped = False
        self.cluster.has_controller = self._has_controller

    def lead(self) -> None:
        """Until the run has ended, and then until every process had time to notice."""
        self._start_controller()
        self.misfortunes.begin()
        self._misfortunes()
        self.world.run(self._is_over, LIMIT_S)
        late: list[bool] = []
        self.world.after(2 * ORPHAN_S, lambda: late.append(True))
        self.world.run(lambda: bool(late), LIMIT_S + 3 * ORPHAN_S)
        self.invariants.ended()

    def _is_over(self) -> bool:
        status = self.store.run.status
        never_begun = self._reaped and not status  # its driver died before it was created
        return (status.is_terminal or never_begun) and all(one.is_over for one in self._controllers)

    def _has_controller(self) -> bool:
        """Whether there is one, or soon will be: workers are no orphans then."""
        over = self.store.run.status.is_terminal
        return self._driver_lives and not over

    def _start_controller(self) -> None:
        if not self._driver_lives:
            return
        number = len(self._controllers) + 1
        controller = Controller(self.world, self.store, self.cluster, number, self.created)
        self.invariants.watch(controller)
        controller.on_death = self._on_death
        self._controllers.append(controller)

    def _on_death(self, dead: Controller) -> None:
        if dead is self._controllers[-1]:
            self.world.after(self.world.draw.uniform(0.3, 1), self._start_controller)

    def _misfortunes(self) -> None:
        """What happens to a run from outside, each at its time."""
        world = self.world
        for name, chance, call in (
            ("controller dies", 0.9, lambda: self._controllers[-1].die("killed")),
            ("controller dies", 0.7, lambda: self._controllers[-1].die("killed")),
            ("zombie", 0.7, self._zombie),
            ("state dies", 0.9, self.store.crash),
            ("abort", 0.3, self._abort),
            ("driver dies", 0.3, self._driver_dies),
            ("broke", 0.2, self._broke),
            ("hook fails", 0.9, self._hook_fails),
        ):
            at_s = world.draw.choice((3, 15, 50)) * world.draw.random()
            if world.fault(name, chance, count=False):
                world.after(at_s, lambda name=name, call=call: self._befall(name, call))  # type: ignore[misc]

    def _befall(self, name: str, call: object) -> None:
        if not self._is_over():
            self.world.fault(name, 1)
            call()  # type: ignore[operator]

    def _zombie(self) -> None:
        """A controller that everybody takes for dead goes on."""
        zombie = self._controllers[-1]
        zombie.is_zombie = True
        zombie.on_death = lambda dead: None
        self.world.after(self.world.draw.uniform(1, 40), lambda: zombie.die("it is found"))
        if not zombie.is_over:
            self._start_controller()

    def _abort(self) -> None:
        """Somebody asks until a controller hears it."""
        controller = self._controllers[-1]
        if self.store.run.status.is_terminal or not self._driver_lives:
            return
        if controller.is_over or controller.loop is None:
            self.world.after(0.5, self._abort)
        else:
            controller.observe(o.Abort(Cause.USER_ABORT, "Ctrl-C"))

    def _broke(self) -> None:
        cause = self.world.draw.choice(
            (Cause.CONTROLLER_ERROR, Cause.CALLBACK_ERROR, Cause.UPLOAD_FAILED)
        )
        self._controllers[-1].observe(o.Broke(cause, s.Error(message="it broke")))

    def _hook_fails(self) -> None:
        error = s.Error(message="a callback raised")
        self._controllers[-1].observe(o.HookFailed("Callback", "after_report", error))

    def _driver_dies(self) -> None:
        self._driver_lives = False
        for controller in self._controllers:
            controller.die("its driver died")
        self.world.after(0.5, self._reap)

    def _reap(self) -> None:
        reaper = Reaper(self.world, self.store, self.cluster)
        Task(self._reaping(reaper), lambda why: self.world.after(1, self._reap))

    async def _reaping(self, reaper: Reaper) -> None:
        await reaper.reap()
        self._reaped = True
