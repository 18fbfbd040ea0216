"""Making the workers, the data host and the placement groups of an attempt go away.

Everything that belongs to an attempt has a name that begins with the attempt's, so it is found by its
name in the cluster's own lists: also what was started and never recorded. Called again it does what is
left to do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

import ray
from ray._raylet import PlacementGroupID
from ray.util import list_named_actors, placement_group_table
from ray.util.placement_group import PlacementGroup, remove_placement_group

from trainstate.core import Run
from trainstate.state.names import NAMESPACE, attempt_name

WAIT_S = 10.0
_PAUSE_FIRST_S, _PAUSE_MAX_S = 0.01, 0.25


async def remove(run: Run, attempt_id: str) -> Collection[str]:
    """`remove_now` for who must not block. Returns the names of what is still there; normally none."""
    return await asyncio.to_thread(remove_now, run, attempt_id)


def remove_now(run: Run, attempt_id: str, wait_s: float = WAIT_S) -> Collection[str]:
    """Kills the actors of an attempt, removes its placement groups, and waits until they are gone.

    Returns the names of what is still there after `wait_s`; normally none.
    """
    groups = {
        placement.name
        for placement in run.placements.values()
        if placement.attempt_id == attempt_id
    }
    groups.add(attempt_name(run.run_id, attempt_id))
    deadline = time.monotonic() + wait_s
    pause_s = _PAUSE_FIRST_S
    while left := _strike(attempt_name(run.run_id, attempt_id), groups):
        if time.monotonic() >= deadline:
            break
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_MAX_S)
    return left


def _strike(attempt: str, groups: Collection[str]) -> list[str]:
    """Removes what is there now; the names of what there was."""
    actors = [
        one["name"]
        for one in list_named_actors(all_namespaces=True)
        if one["namespace"] == NAMESPACE and one["name"].startswith(f"{attempt}/")
    ]
    for name in actors:
        _kill(name)
    return actors + _remove_groups(attempt, groups)


def _kill(name: str) -> None:
    try:
        ray.kill(ray.get_actor(name, namespace=NAMESPACE), no_restart=True)
    except ValueError:
        return  # it went by itself after the list was made


def _remove_groups(attempt: str, groups: Collection[str]) -> list[str]:
    """Groups are found in the table of all namespaces: a detached one belongs to its first driver's."""
    found = []
    for group_id, group in placement_group_table().items():
        name = group["name"]
        if group["state"] != "REMOVED" and (name in groups or name.startswith(f"{attempt}/")):
            remove_placement_group(PlacementGroup(PlacementGroupID.from_hex(group_id)))
            found.append(name)
    return found
