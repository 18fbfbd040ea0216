"""Placement groups: a run's, asked for by name and found again by it.

Groups are detached, so that they outlive controllers; whoever takes the run up finds them in the
cluster's table of all namespaces. They heal by themselves: a bundle whose node is gone comes back on
another as soon as there is room, before anything that was asked for later (rows 1-02, 1-03). What is
reserved is therefore never remembered here: it is looked at. A look costs the cluster a millisecond or
two; there is at most one a second for as long as a run lasts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import ray
from ray._private.state import state as cluster_state
from ray._raylet import PlacementGroupID
from ray.exceptions import RayError
from ray.util import placement_group, placement_group_table
from ray.util.placement_group import PlacementGroup

from trainstate.core import Placement, Run
from trainstate.core.observations import NotPlaced, Placed, Preempted, Reserved, Short
from trainstate.v1 import state_pb2 as s

# Once there is enough, what else is about to be reserved gets so long.
SETTLE_S = 0.25
LOOK_S = 1.0
_SETTLING_S = 0.05
# What is placed sooner was never short of anything.
_SILENT_S = 0.25
# Who waits is woken when the gang is there; in between it looks what is missing.
_SLICE_S = 4  # whole seconds: Ray cuts fractions

# In these states of a group, its bundles that have a node are reserved.
_HELD = {"CREATED", "RESCHEDULING"}
_NEVER_MS = 2**63 // 10**6  # that is no time in ns
# Ray counts resources in ten-thousandths.
_UNITS = 10_000

Labels = Mapping[str, str]


class Bundle(NamedTuple):
    """What a bundle takes, in `units`, and what it asks of its node's labels."""

    amounts: Mapping[str, int]
    selector: Labels


class Node(NamedTuple):
    """What is free on a node, in `units`, and its labels."""

    free: Mapping[str, int]
    labels: Labels


class _Look(NamedTuple):
    """What there is now: each placement's group, and the nodes to use, by id in hex.

    Nothing starts on a node that is `going`, so it is none of them; its deadline is in ms since the Unix
    epoch, 0 if nobody said.
    """

    groups: Sequence[Reserved]
    nodes: Mapping[str, Mapping[str, Any]]
    going: Mapping[str, int]

    def live(self, avoid: Collection[str]) -> int:
        """How many bundles have a node that is none of those."""
        gone = {"", *avoid}
        return sum(node_id not in gone for group in self.groups for node_id in group.node_ids)


def resources_of(bundle: s.ResourceSet) -> dict[str, float]:
    """A bundle in Ray's form."""
    return {one.name: one.amount for one in bundle.resources}


async def place(
    placements: Sequence[Placement],
    need: int,
    avoid: Collection[str],
    labels: Labels | None,
    timeout_s: float | None,
    say: Callable[[Short], None],
    make: Callable[..., Awaitable[Any]] = asyncio.to_thread,
) -> Placed | NotPlaced:
    """Asks for all groups, and returns once `need` bundles have a node that is not one of `avoid`.

    `labels` are asked of the node of every bundle, in place of those that were requested. `say` is told
    what is missing, and whenever that changes. Without a `timeout_s` it waits for ever. `make` calls in
    a thread what asks for groups.
    """
    began_s = time.monotonic()
    gang = _Gang(await make(ask, placements, labels))
    short: Short | None = None
    while (seen := await _settled(placements, need, avoid)).live(avoid) < need:
        waited_s = time.monotonic() - began_s
        if waited_s >= _SILENT_S:
            now = await asyncio.to_thread(_short, placements, seen, need, avoid, labels)
            if now != short:
                say(now)
            short = now
            if timeout_s is not None and waited_s >= timeout_s:
                return NotPlaced(timeout_s, f"{now.text}, after {timeout_s:g} s")
        await gang.wait(_SLICE_S if short else _SILENT_S)
    return _placed(placements, seen)


async def _settled(placements: Sequence[Placement], need: int, avoid: Collection[str]) -> _Look:
    """What there is; when it is enough, after what else comes at once has come."""
    everything = sum(len(one.bundles) for one in placements)
    ends_s = time.monotonic() + SETTLE_S
    while True:
        seen = await asyncio.to_thread(_look, placements)
        may_grow = need <= seen.live(avoid) < everything
        if not may_grow or time.monotonic() >= ends_s:
            return seen
        await asyncio.sleep(_SETTLING_S)


async def watch(
    attempt_id: str,
    run: Callable[[], Run],
    say: Callable[[Placed | Preempted], None],
    ask: Callable[[Sequence[Placement]], Awaitable[object]],
) -> NoReturn:
    """Tells of every bundle that is not where the run has it, and of nodes that are drained.

    It tells so once a second until the run has it. `run` is asked for the run as it is by now; `ask`
    makes groups that are requested and not there. While the cluster answers nobody there is no news.
    """
    while True:
        await asyncio.sleep(LOOK_S)
        now = run()
        placements = list(now.placements.values())
        try:
            seen = await asyncio.to_thread(_look, placements)
        except RayError:
            continue
        both = zip(placements, seen.groups, strict=True)
        missing = [one for one, group in both if not group.placement_group_id]
        if missing:
            await ask(missing)
        placed = _placed(placements, seen)
        known = {one.name: tuple(one.node_ids) for one in placements}
        workers = now.attempt.workers.values() if now.attempt is not None else ()
        ours = {worker.node_id.hex() for worker in workers} & seen.going.keys()
        going = {node_id: seen.going[node_id] for node_id in sorted(ours)}
        if not going.keys() <= set(now.preempted_nodes):
            say(_preempted(attempt_id, going))
        if any(known[group.name] != group.node_ids for group in placed.groups):
            say(placed)


def _preempted(attempt_id: str, going: Mapping[str, int]) -> Preempted:
    """`going` has the deadline of each node, in ms since the Unix epoch; 0, or no time: nobody said."""
    deadline_ms = min((one for one in going.values() if 0 < one < _NEVER_MS), default=None)
    deadline_ns = None if deadline_ms is None else deadline_ms * 1_000_000
    return Preempted(attempt_id, tuple(going), deadline_ns=deadline_ns)


# --- asking ---------------------------------------------------------------------------------------


class _Gang:
    """The group that all others wait for: what waits for it is woken by the cluster."""

    def __init__(self, group: PlacementGroup) -> None:
        self._group = group
        self._ready: asyncio.Future[bool] | None = None

    async def wait(self, pause_s: float) -> None:
        """Returns when the group is ready, and after `pause_s` at the latest."""
        if self._ready is None or (self._ready.done() and not self._ready.result()):
            loop = asyncio.get_running_loop()
            self._ready = loop.run_in_executor(None, self._group.wait, _SLICE_S)
        if self._ready.done():  # it is there, and not enough
            await asyncio.sleep(pause_s)
        else:
            await asyncio.wait({self._ready}, timeout=pause_s)


def ask(placements: Sequence[Placement], labels: Labels | None) -> PlacementGroup:
    """Makes the groups that are not there; returns the first."""
    there = {name: _group(group_id) for name, (group_id, _) in _table().items()}
    groups = [there.get(one.name) or _make(one, labels) for one in placements]
    return groups[0]


def _group(group_id: str) -> PlacementGroup:
    return PlacementGroup(PlacementGroupID.from_hex(group_id))


def _make(placement: Placement, labels: Labels | None) -> PlacementGroup:
    made: PlacementGroup = placement_group(
        [resources_of(bundle) for bundle in placement.bundles],
        strategy=placement.strategy,
        name=placement.name,
        lifetime="detached",
        bundle_label_selector=_selectors(placement, labels) or None,
    )
    return made


def _selectors(placement: Placement, labels: Labels | None) -> list[dict[str, str]]:
    """What each bundle asks of its node, in Ray's form; nothing if none asks for anything."""
    if labels:
        return [dict(labels) for _ in placement.bundles]
    return [{one.key: one.value for one in each.labels} for each in placement.label_selectors]


# --- looking --------------------------------------------------------------------------------------


def _table() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Id and row of every group that has not been removed, by name."""
    table = placement_group_table().items()
    return {row["name"]: (key, row) for key, row in table if row["state"] != "REMOVED"}


def _look(placements: Sequence[Placement]) -> _Look:
    table = _table()
    # After the table: a node that came meanwhile is known, and one that went is not counted.
    going = cluster_state.get_draining_nodes()
    alive = {one["NodeID"]: one for one in ray.nodes() if one["Alive"]}  # type: ignore[no-untyped-call]
    nodes = {node_id: one for node_id, one in alive.items() if node_id not in going}
    return _Look([_reserved(one, table, nodes) for one in placements], nodes, going)


def _reserved(
    placement: Placement,
    table: Mapping[str, tuple[str, Mapping[str, Any]]],
    alive: Collection[str],
) -> Reserved:
    group_id, row = table.get(placement.name, (placement.placement_group_id.hex(), {}))
    node_ids = row["bundles_to_node_id"] if row.get("state") in _HELD else {}
    found = [node_ids.get(bundle, "") for bundle in range(len(placement.bundles))]
    here = tuple(node_id if node_id in alive else "" for node_id in found)
    return Reserved(placement.name, bytes.fromhex(group_id), here)


def _placed(placements: Sequence[Placement], seen: _Look) -> Placed:
    """What is reserved, and what is known to have been."""
    both = zip(placements, seen.groups, strict=True)
    return Placed(tuple(now for known, now in both if any(now.node_ids) or known.node_ids))


def _short(
    placements: Sequence[Placement],
    seen: _Look,
    need: int,
    avoid: Collection[str],
    labels: Labels | None,
) -> Short:
    """What there is room for: bundles that have a node, and those that would fit what is free."""
    free = cluster_state.available_resources_per_node()  # type: ignore[no-untyped-call]
    nodes = [
        Node(units(free[node_id]), node["Labels"])
        for node_id, node in seen.nodes.items()
        if node_id in free and node_id not in avoid
    ]
    missing = _missing(placements, seen, avoid, labels)
    have = min(need, seen.live(avoid) + room(missing, nodes))
    return Short(have, need, _text(placements[0].bundles[0], seen, have, need))


def _missing(
    placements: Sequence[Placement], seen: _Look, avoid: Collection[str], labels: Labels | None
) -> list[Bundle]:
    gone = {"", *avoid}
    missing = []
    for placement, group in zip(placements, seen.groups, strict=True):
        selectors = _selectors(placement, labels) or [{}] * len(placement.bundles)
        asked = zip(placement.bundles, selectors, group.node_ids, strict=True)
        missing += [
            Bundle(units(resources_of(bundle)), selector)
            for bundle, selector, node_id in asked
            if node_id in gone
        ]
    return missing


def _text(bundle: s.ResourceSet, seen: _Look, have: int, need: int) -> str:
    wanted = resources_of(bundle)
    total = {
        name: sum(node["Resources"].get(name, 0.0) for node in seen.nodes.values())
        for name in wanted
    }
    each = ", ".join(f"{name}: {amount:g}" for name, amount in wanted.items())
    there = ", ".join(f"{name}: {amount:g}" for name, amount in total.items())
    return (
        f"waiting for {need} workers of {{{each}}}: there is room for {have} now,"
        f" the whole cluster has {{{there}}}"
    )


# --- what fits ------------------------------------------------------------------------------------


def units(resources: Mapping[str, float]) -> dict[str, int]:
    """Amounts as whole numbers, which add up."""
    return {name: round(amount * _UNITS) for name, amount in resources.items()}


def room(bundles: Sequence[Bundle], nodes: Sequence[Node]) -> int:
    """How many of the bundles find a node when each takes the first that has room; more may fit."""
    left = list(nodes)
    return sum(_take(bundle, left) for bundle in bundles)


def _take(bundle: Bundle, nodes: list[Node]) -> bool:
    for index, node in enumerate(nodes):
        if _fits(bundle, node):
            taken = {name: node.free.get(name, 0) - of for name, of in bundle.amounts.items()}
            nodes[index] = Node({**node.free, **taken}, node.labels)
            return True
    return False


def _fits(bundle: Bundle, node: Node) -> bool:
    enough = all(node.free.get(name, 0) >= amount for name, amount in bundle.amounts.items())
    return enough and matches(bundle.selector, node.labels)


def matches(selector: Labels, labels: Labels) -> bool:
    """Whether a node with these labels is what a selector of Ray's asks for.

    Values are `a`, `in(a, b)`, and what is not: `!a`, `!in(a, b)`, which a node without the label is.
    """
    return all(_allows(value, labels.get(key)) for key, value in selector.items())


def _allows(wanted: str, label: str | None) -> bool:
    value = wanted.removeprefix("!")
    several = value.startswith("in(") and value.endswith(")")
    among = [one.strip() for one in value[3:-1].split(",")] if several else [value]
    return (label in among) != wanted.startswith("!")
