"""Placement groups: what fits, what is reserved, and what becomes of it when nodes come and go."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, TypeAlias

import pytest
import ray
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.util import placement_group_table, remove_placement_group

from tests.nodes import Nodes
from trainstate.controller import placement as module
from trainstate.controller.placement import Bundle, Node, matches, room, units
from trainstate.core import Attempt, Placement, PlacementStatus, Run, Worker, initial
from trainstate.core.observations import NotPlaced, Placed, Preempted, Short
from trainstate.v1 import state_pb2 as s

# --- what fits ------------------------------------------------------------------------------------

ANY: Mapping[str, str] = {}


def bundle(selector: Mapping[str, str] = ANY, **amounts: float) -> Bundle:
    return Bundle(units(amounts), selector)


def node(labels: Mapping[str, str] = ANY, **free: float) -> Node:
    return Node(units(free), labels)


def test_fractions_add_up():
    """Ten tenths of a GPU are a GPU, however floats count; an eleventh is too many."""
    assert 10 == room([bundle(GPU=0.1)] * 11, [node(GPU=1.0)])
    assert 1 == room([bundle(CPU=0.3)], [node(CPU=0.1 + 0.2)])


def test_a_bundle_is_on_one_node():
    """What is free on two nodes together is room for nothing; a node has all that a bundle needs."""
    assert 0 == room([bundle(CPU=2)], [node(CPU=1), node(CPU=1)])
    assert 0 == room([bundle(CPU=1, GPU=1)], [node(CPU=1), node(GPU=1)])
    assert 1 == room([bundle(CPU=1, GPU=0)] * 2, [node(CPU=1)])


def test_a_selector_leaves_nodes_out():
    """A bundle is on a node whose labels it asks for; the others keep their room."""
    nodes = [node({"zone": "a"}, CPU=1), node({"zone": "b"}, CPU=2), node(CPU=4)]
    assert 2 == room([bundle({"zone": "b"}, CPU=1)] * 4, nodes)
    assert 3 == room([bundle({"zone": "a"}, CPU=1)] * 2 + [bundle({"zone": "b"}, CPU=1)] * 2, nodes)


def test_counting_takes_nothing():
    """Nodes are counted on, not changed."""
    nodes = [node(CPU=1)]
    assert 1 == room([bundle(CPU=1)], nodes) == room([bundle(CPU=1)], nodes)


@pytest.mark.parametrize(
    ("asked", "zone", "expected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", None, False),
        ("!a", "b", True),
        ("!a", "a", False),
        ("!a", None, True),
        ("in(a,b)", "b", True),
        ("in(a, b)", "b", True),
        ("in(a, b)", "c", False),
        ("in(a)", None, False),
        ("!in(a, b)", "b", False),
        ("!in(a, b)", "c", True),
        ("!in(a, b)", None, True),
    ],
)
def test_selectors_are_rays(asked, zone, expected):
    """Equality, negation and sets, as Ray's label selectors have them."""
    labels = {} if zone is None else {"zone": zone}
    assert expected is matches({"zone": asked}, labels)
    assert matches({}, labels)


ZONES = st.sampled_from([ANY, {"zone": "a"}, {"zone": "b"}])
AMOUNTS = st.dictionaries(st.sampled_from(["CPU", "GPU"]), st.integers(0, 30).map(lambda n: n / 10))
BUNDLES = st.builds(lambda amounts, zone: bundle(zone, **amounts), AMOUNTS, ZONES)
NODES = st.builds(lambda free, zone: node(zone, **free), AMOUNTS, ZONES)


def holds(bundles: Sequence[Bundle], on: Node) -> bool:
    names = {name for one in bundles for name in one.amounts}
    taken = {name: sum(one.amounts.get(name, 0) for one in bundles) for name in names}
    labels = on.labels.items()
    return all(taken[name] <= on.free.get(name, 0) for name in names) and all(
        one.selector.items() <= labels for one in bundles
    )


def most(bundles: Sequence[Bundle], nodes: Sequence[Node]) -> int:
    """The greatest number of bundles that fit at once: every way to spread them is tried."""
    best = 0
    for where in itertools.product([None, *range(len(nodes))], repeat=len(bundles)):
        on = [
            [one for one, index in zip(bundles, where, strict=True) if index == here]
            for here in range(len(nodes))
        ]
        if all(map(holds, on, nodes)):
            best = max(best, sum(index is not None for index in where))
    return best


@settings(deadline=None)
@given(st.lists(BUNDLES, max_size=4), st.lists(NODES, max_size=3))
def test_never_more_is_counted_than_fits(bundles, nodes):
    """Whatever is asked of whatever is free, there is a way to place as many."""
    assert room(bundles, nodes) <= most(bundles, nodes)


@settings(deadline=None)
@given(BUNDLES, st.integers(0, 4), st.lists(NODES, max_size=3))
def test_of_equal_bundles_all_that_fit_are_counted(one, count, nodes):
    """Workers of a run are alike: for them, the count is the greatest possible."""
    assert most([one] * count, nodes) == room([one] * count, nodes)


# --- what is reserved -----------------------------------------------------------------------------


def wanted(
    name: str,
    bundles: int = 1,
    strategy: str = "PACK",
    asks: Mapping[str, str] = ANY,
    **each: float,
) -> Placement:
    resources = [
        s.Resource(name=key, amount=amount) for key, amount in (each or {"CPU": 1}).items()
    ]
    labels = [s.Label(key=key, value=value) for key, value in asks.items()]
    return Placement(
        name,
        bundles=[s.ResourceSet(resources=resources)] * bundles,
        strategy=strategy,
        label_selectors=[s.LabelSelector(labels=labels)] * bundles if asks else [],
    )


Placing: TypeAlias = tuple[Placed | NotPlaced, list[Short]]


def place(
    placements: Sequence[Placement],
    need: int,
    timeout_s: float | None = None,
    avoid: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
) -> Placing:
    """What placing ends in, and what was said on the way."""
    said: list[Short] = []
    call = module.place(placements, need, avoid, labels, timeout_s, said.append)
    return asyncio.run(call), said


def nodes_of(placed: object) -> dict[str, tuple[str, ...]]:
    assert isinstance(placed, Placed)
    return {group.name: group.node_ids for group in placed.groups}


@pytest.fixture
def removed() -> Iterator[None]:
    """Nothing that a test reserves is left."""
    yield
    for name, (group_id, _) in module._table().items():
        if name.startswith("test/"):
            remove_placement_group(module._group(group_id))


@pytest.mark.usefixtures("cluster", "removed")
def test_groups_are_made_once():
    """Who asks again finds the group that is there; all are detached."""
    gang, extra = wanted("test/0.1", 2), wanted("test/1.1")
    first, _ = place([gang, extra], 3)
    (here,) = ray.nodes()
    assert {"test/0.1": (here["NodeID"],) * 2, "test/1.1": (here["NodeID"],)} == nodes_of(first)
    assert (first, []) == place([gang, extra], 3)
    names = [row["name"] for row in placement_group_table().values() if row["state"] == "CREATED"]
    assert [1, 1] == [names.count("test/0.1"), names.count("test/1.1")]


@pytest.mark.usefixtures("cluster", "removed")
def test_extras_are_not_waited_for():
    """What there is no room for is asked for, and no part of what is reserved."""
    placed, _ = place([wanted("test/0.1", 2), wanted("test/1.1", CPU=64)], 2)
    assert ["test/0.1"] == list(nodes_of(placed))
    assert "PENDING" == module._table()["test/1.1"][1]["state"]


@pytest.mark.usefixtures("cluster", "removed")
def test_what_is_missing_is_said():
    """What is asked for and what there is, once; and again where it says that it is over (1-07)."""
    last, said = place([wanted("test/0.1", 5, CPU=64)], 5, timeout_s=0.5)
    text = (
        "waiting for 5 workers of {CPU: 64}: there is room for 0 now,"
        " the whole cluster has {CPU: 4}"
    )
    assert [Short(0, 5, text)] == said
    assert NotPlaced(0.5, f"{text}, after 0.5 s") == last


@pytest.mark.usefixtures("cluster", "removed")
def test_nodes_that_are_avoided_have_no_room():
    """A bundle on such a node is none, and nothing more fits there."""
    gang = wanted("test/0.1", 2)
    (here,) = ray.nodes()
    place([gang], 2)
    last, said = place([gang], 2, timeout_s=0.3, avoid=[here["NodeID"]])
    assert isinstance(last, NotPlaced)
    assert [(0, 2)] == [(one.have, one.need) for one in said]


@pytest.mark.usefixtures("cluster", "removed")
def test_labels_are_asked_of_every_bundle():
    """A callback's labels take the place of those of the run's configuration."""
    asking = wanted("test/0.1", 2, asks={"zone": "!nowhere"})
    last, said = place([asking], 2, timeout_s=0.3, labels={"zone": "nowhere"})
    assert isinstance(last, NotPlaced)
    assert [(0, 2)] == [(one.have, one.need) for one in said]
    placed, _ = place([wanted("test/0.2", 2, asks={"zone": "!nowhere"})], 2)
    assert ["test/0.2"] == list(nodes_of(placed))


# --- when nodes come and go -----------------------------------------------------------------------


def run_of(placements: Sequence[Placement], placed: object) -> Run:
    """A run that has these groups as they were, and a worker on each of their nodes."""
    known = nodes_of(placed)
    run = initial("run")
    there = dict.fromkeys(node_id for group in known.values() for node_id in group if node_id)
    workers = {
        rank: Worker(rank, node_id=bytes.fromhex(node_id)) for rank, node_id in enumerate(there)
    }
    run.attempts.append(Attempt("attempt", 1, workers=workers))
    for one in placements:
        if one.name in known:
            one.node_ids = list(known[one.name])
            one.status = PlacementStatus.READY
        run.placements[one.name] = one
    return run


def watch(run: Run) -> Placed | Preempted:
    """The first that watching says."""

    async def ask(missing: Sequence[Placement]) -> None:
        module.ask(missing, None)

    async def first() -> Placed | Preempted:
        said: asyncio.Queue[Placed | Preempted] = asyncio.Queue()
        watching = asyncio.create_task(module.watch("attempt", lambda: run, said.put_nowait, ask))
        try:
            return await said.get()
        finally:
            watching.cancel()

    return asyncio.run(first())


@pytest.fixture
def begin(nodes: Nodes) -> Iterator[Callable[..., Future[Any]]]:
    """Has a function called in a process that is a driver of the cluster of several nodes."""
    context = multiprocessing.get_context("spawn")
    options = (nodes.address,)
    with ProcessPoolExecutor(1, context, initializer=ray.init, initargs=options) as process:
        yield process.submit


@pytest.mark.slow
def test_a_lost_bundle_comes_back(nodes, begin):
    """The group is kept: what is left of it counts, and a new node is its own before an extra's."""
    there = [nodes.add(), nodes.add()]
    gang, extra = wanted("run/0.1", 2, "SPREAD"), wanted("run/1.1")
    before, said = begin(place, [gang, extra], 2).result()
    assert {one.node_id for one in there} == set(nodes_of(before)["run/0.1"])
    assert [] == said

    nodes.kill(there[0])
    moved = begin(watch, run_of([gang, extra], before)).result()
    assert {"", there[1].node_id} == set(nodes_of(moved)["run/0.1"])
    left, said = begin(place, [gang, extra], 2, timeout_s=0.3).result()
    assert isinstance(left, NotPlaced)
    assert [(1, 2)] == [(one.have, one.need) for one in said]

    waiting = begin(place, [gang, extra], 2)
    new = nodes.add()
    after, _ = waiting.result()
    assert {new.node_id, there[1].node_id} == set(nodes_of(after)["run/0.1"])
    assert ["run/0.1"] == list(nodes_of(after))
    assert before.groups[0].placement_group_id == after.groups[0].placement_group_id


@pytest.mark.slow
def test_nodes_are_watched(nodes, begin):
    """An extra that gets its place is told of, and a node of the run's that is drained."""
    first = nodes.add(labels={"zone": "a"})
    gang, extra = wanted("run/0.1", asks={"zone": "in(a, b)"}), wanted("run/1.1")
    placed, _ = begin(place, [gang, extra], 1).result()
    assert {"run/0.1": (first.node_id,)} == nodes_of(placed)

    second = nodes.add()
    both = begin(watch, run_of([gang, extra], placed)).result()
    assert {"run/0.1": (first.node_id,), "run/1.1": (second.node_id,)} == nodes_of(both)

    deadline_ms = nodes.drain(first, 60.0)
    notice = begin(watch, run_of([gang, extra], both)).result()
    assert Preempted("attempt", (first.node_id,), deadline_ns=deadline_ms * 1_000_000) == notice
