"""Making the workers of an attempt, and the placement groups of a run, go away.

Every actor that belongs to an attempt has a name that begins with the attempt's, so it is found by its
name in the cluster's own list: also what was started and never recorded. Called again it does what is
left to do.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Collection

import ray
from ray._raylet import PlacementGroupID
from ray.util import list_named_actors, placement_group_table
from ray.util.placement_group import PlacementGroup, remove_placement_group

from trainstate.core.effects import Release, Stop
from trainstate.state.names import NAMESPACE, attempt_name

WAIT_S = 10.0
_PAUSE_FIRST_S, _PAUSE_MAX_S = 0.01, 0.25


async def remove(run_id: str, effect: Stop | Release) -> Collection[str]:
    """`remove_now` for who must not block. Returns the names of what is still there; normally none."""
    return await asyncio.to_thread(remove_now, run_id, effect)


def remove_now(run_id: str, effect: Stop | Release, wait_s: float = WAIT_S) -> Collection[str]:
    """Kills the actors, or removes the placement groups, of a run, and waits until they are gone.

    Returns the names of what is still there after `wait_s`; normally none.
    """
    if isinstance(effect, Release):
        strike = functools.partial(_remove_groups, effect.names)
    else:
        strike = functools.partial(_kill_all, f"{attempt_name(run_id, effect.attempt_id)}/")
    deadline = time.monotonic() + wait_s
    pause_s = _PAUSE_FIRST_S
    while left := strike():
        if time.monotonic() >= deadline:
            break
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_MAX_S)
    return left


def remove_leftovers(
    run_id: str, attempt_ids: Collection[str], names: Collection[str] = ()
) -> None:
    """Kills what is left of attempts that are over, and these actors. Does not wait."""
    if attempt_ids or names:
        prefixes = (f"{attempt_name(run_id, one)}/" for one in attempt_ids)
        _kill_all(*prefixes, names=names)


def _kill_all(*prefixes: str, names: Collection[str] = ()) -> list[str]:
    """Kills what there is now whose name begins so, or is one of these; the names of what there was."""
    actors = [
        one["name"]
        for one in list_named_actors(all_namespaces=True)
        if one["namespace"] == NAMESPACE
        and (one["name"].startswith(prefixes) or one["name"] in names)
    ]
    for name in actors:
        _kill(name)
    return actors


def _kill(name: str) -> None:
    try:
        ray.kill(ray.get_actor(name, namespace=NAMESPACE), no_restart=True)
    except ValueError:
        return  # it went by itself after the list was made


def _remove_groups(names: Collection[str]) -> list[str]:
    """Groups are found in the table of all namespaces: a detached one belongs to its first driver's."""
    found = []
    for group_id, group in placement_group_table().items():
        if group["name"] in names and group["state"] != "REMOVED":
            remove_placement_group(PlacementGroup(PlacementGroupID.from_hex(group_id)))
            found.append(group["name"])
    return found
