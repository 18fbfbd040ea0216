"""The nodes and the environment of a run, as Ray tells of them."""

from __future__ import annotations

import pytest

from trainstate.controller.surroundings import hash_of, image_of, node_types
from trainstate.v1 import state_pb2 as s


def a_node(cpus: float = 8, labels: dict | None = None, **more: float) -> dict:
    """A node as `ray.nodes()` lists it."""
    own = {"node:10.0.0.1": 1.0, "memory": 1e9, "object_store_memory": 1e8, "CPU_group_0_ab": 1.0}
    return {"Resources": {"CPU": cpus, **own, **more}, "Labels": labels or {}}


def test_alike_nodes_are_counted():
    """What is of one node alone does not tell them apart: names, memory, ids, reservations."""
    big = [
        a_node(8, {"ray.io/node-id": str(n), "zone": "a"}, GPU=4, **{"accelerator_type:A100": 1.0})
        for n in range(3)
    ]
    first, second = node_types([a_node(2), *big])
    assert (3, "A100", 1) == (first.count, first.accelerator_type, second.count)
    assert [("CPU", 8), ("GPU", 4)] == [(one.name, one.amount) for one in first.resources.resources]
    assert [s.Label(key="zone", value="a")] == list(first.labels)
    assert [] == node_types([])


def test_the_hash_is_of_what_matters():
    """The order of keys and the secrets do not; everything else does."""
    one = {"env_vars": {"A": "1", "HF_TOKEN": "first"}, "pip": ["torch"]}
    same = {"pip": ["torch"], "env_vars": {"HF_TOKEN": "second", "A": "1"}}
    assert hash_of(one) == hash_of(same)
    assert hash_of(one) != hash_of({**one, "pip": ["torch==2"]})
    assert 32 == len(hash_of({"odd": object(), "bytes": b"\xff"}))


@pytest.mark.parametrize(
    ("environment", "image"),
    [
        ({"image_uri": "docker.io/me/it:1"}, "docker.io/me/it:1"),
        ({"container": {"image": "it:2"}}, "it:2"),
        ({"container": "odd"}, ""),
        ({}, ""),
    ],
    ids=str,
)
def test_the_image_is_what_the_environment_names(environment: dict, image: str):
    """In the new form or the old one."""
    assert image == image_of(environment)
