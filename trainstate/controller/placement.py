"""Placement groups: reserved for as long as an attempt lasts, found again by name.

Groups are detached, so that they outlive controllers; whoever takes the run up finds them in the
cluster's table of all namespaces. Nothing here polls: waiting is one call that the cluster answers, cut
into slices so that what is missing can be said.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import ray
from ray._private.state import available_resources_per_node
from ray._raylet import PlacementGroupID
from ray.util import placement_group, placement_group_table
from ray.util.placement_group import PlacementGroup

from trainstate.core import Placement
from trainstate.core.observations import NotPlaced, Placed, Short
from trainstate.v1 import state_pb2 as s

_FIRST_S, _SLICE_S = 1, 4  # whole seconds: Ray cuts fractions

Resources = Mapping[str, float]


def resources_of(bundle: s.ResourceSet) -> dict[str, float]:
    """A bundle in Ray's form."""
    return {one.name: one.amount for one in bundle.resources}


async def place(
    placement: Placement,
    labels: Mapping[str, str] | None,
    timeout_s: float,
    say: Callable[[Short], None],
) -> Placed | NotPlaced:
    """Reserves the group, or finds it; `say` is told what is missing as long as it is not there.

    `labels` are asked of the node of every bundle, in place of those that were requested.
    """
    deadline = time.monotonic() + timeout_s
    group = await asyncio.to_thread(find_or_make, placement, labels)
    short: Short | None = None
    # It returns as soon as the group is ready; the slices are for looking at what is missing.
    while not await asyncio.to_thread(group.wait, _FIRST_S if short is None else _SLICE_S):
        now = await asyncio.to_thread(_short, placement)
        if now != short:
            short = now
            say(now)
        if time.monotonic() > deadline:
            return NotPlaced(placement.name, timeout_s, f"{now.text}, after {timeout_s:g} s")
    return await asyncio.to_thread(_placed, placement.name, group)


def find_or_make(placement: Placement, labels: Mapping[str, str] | None) -> PlacementGroup:
    """The group of that name, wherever it was made."""
    for group_id, known in placement_group_table().items():
        if known["name"] == placement.name and known["state"] != "REMOVED":
            return PlacementGroup(PlacementGroupID.from_hex(group_id))
    made: PlacementGroup = placement_group(
        [resources_of(bundle) for bundle in placement.bundles],
        strategy=placement.strategy,
        name=placement.name,
        lifetime="detached",
        bundle_label_selector=_selectors(placement, labels) or None,
    )
    return made


def _selectors(placement: Placement, labels: Mapping[str, str] | None) -> list[dict[str, str]]:
    """What each bundle asks of its node, in Ray's form."""
    if labels:
        return [dict(labels) for _ in placement.bundles]
    return [{one.key: one.value for one in each.labels} for each in placement.label_selectors]


def _placed(name: str, group: PlacementGroup) -> Placed:
    nodes = placement_group_table(group)["bundles_to_node_id"]
    return Placed(name, group.id.binary(), tuple(nodes[index] for index in sorted(nodes)))


def _short(placement: Placement) -> Short:
    bundles = [resources_of(bundle) for bundle in placement.bundles]
    free = [dict(one) for one in available_resources_per_node().values()]  # type: ignore[no-untyped-call]
    have, need = sum(_take(free, bundle) for bundle in bundles), len(bundles)
    each = ", ".join(f"{name}: {amount:g}" for name, amount in bundles[0].items())
    total = ray.cluster_resources()  # type: ignore[no-untyped-call]
    there = ", ".join(f"{name}: {total.get(name, 0.0):g}" for name in bundles[0])
    text = (
        f"waiting for {need} workers of {{{each}}}: there is room for {have} now,"
        f" the whole cluster has {{{there}}}"
    )
    return Short(placement.name, have, need, text)


def _take(free: Sequence[dict[str, float]], bundle: Resources) -> bool:
    """Takes a bundle from the first node that has room for it."""
    for node in free:
        if all(node.get(name, 0.0) >= amount for name, amount in bundle.items()):
            for name, amount in bundle.items():
                node[name] -= amount
            return True
    return False
