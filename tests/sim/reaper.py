"""Ends what the controller of a dead driver left, by the same decisions (trainstate/state/ending.py)."""

from __future__ import annotations

from tests.sim.cluster import Cluster
from tests.sim.store import Client, Store
from tests.sim.world import Died, World
from trainstate.core import Cause, Run, evolve
from trainstate.core import observations as o
from trainstate.core.applying import stamp
from trainstate.core.decide import decide
from trainstate.core.effects import Release, Stop
from trainstate.core.plan import plan
from trainstate.errors import ConcurrencyError, Fenced


class Reaper:
    """One life of it; what is refused to it, it tries again from the beginning."""

    def __init__(self, world: World, store: Store, cluster: Cluster) -> None:
        self._world = world
        self._cluster = cluster
        self._client = Client(world, store, "reaper")

    async def reap(self) -> None:
        """Ends the run."""
        try:
            await self._end(await self._client.open("reaper"))
        except (Fenced, ConcurrencyError) as refused:
            raise Died(str(refused)) from refused

    async def _end(self, run: Run) -> None:
        await self._observe(run, o.Abort(Cause.DRIVER_EXITED, "the driver exited"))
        while due := [one for one in plan(run) if isinstance(one, Stop | Release)]:
            for effect in due:
                await self._world.sleep(self._world.draw.uniform(0, 1))
                await self._observe(run, self._done(effect))
        await self._observe(run, o.Closed())

    def _done(self, effect: Stop | Release) -> o.Observation:
        if isinstance(effect, Stop):
            self._cluster.stop(effect.attempt_id)
            return o.Cleared(effect.attempt_id)
        self._cluster.nodes.remove(effect.names)
        return o.Released(effect.names)

    async def _observe(self, run: Run, observation: o.Observation) -> None:
        events = decide(run, observation, self._world.now_ns).events
        for event in events:
            stamp(run, event)
            evolve(run, event)
        if events:
            await self._client.append(events)
