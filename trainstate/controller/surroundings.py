"""What a run has around it, as its controller sees it: the nodes of the cluster and the environment.

Optional facts: what Ray does not say is left out, and nothing waits for them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import ray

from trainstate.core.markers import HIDDEN
from trainstate.core.redact import plain
from trainstate.v1 import state_pb2 as s

_ACCELERATOR = "accelerator_type:"
# Every node has its own of these.
_OF_ONE_NODE = ("node:", "memory", "object_store_memory")
# What a placement group has of a node is a resource of its own.
_RESERVED = "_group_"
_LABELS_OF_ONE_NODE = frozenset({"ray.io/node-id"})


def look(worker_runtime_env: Mapping[str, Any]) -> s.Provenance:
    """The nodes there are, and what the job's and the workers' runtime environments say. It blocks."""
    job_env = dict(ray.get_runtime_context().runtime_env)
    return s.Provenance(
        runtime_env_hash=hash_of({"job": job_env, "workers": dict(worker_runtime_env)}),
        image=image_of(worker_runtime_env) or image_of(job_env),
        node_types=node_types(one for one in _nodes() if one["Alive"]),
    )


def _nodes() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return found


def hash_of(environment: Mapping[str, Any]) -> str:
    """The same for the same environment, whatever its secrets are: nobody can try them against it."""
    text = json.dumps(HIDDEN.plain(plain(environment)), sort_keys=True, default=repr)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def image_of(runtime_env: Mapping[str, Any]) -> str:
    """The container image of a runtime environment; "" if it names none."""
    container = runtime_env.get("container")
    named = container.get("image") if isinstance(container, Mapping) else None
    return str(runtime_env.get("image_uri") or named or "")


def node_types(nodes: Iterable[Mapping[str, Any]]) -> list[s.NodeType]:
    """Alike nodes counted, the most frequent first."""
    counted = Counter(_type_of(node).SerializeToString(deterministic=True) for node in nodes)
    types = []
    for encoded, count in counted.most_common():
        kind = s.NodeType.FromString(encoded)
        kind.count = count
        types.append(kind)
    return types


def _type_of(node: Mapping[str, Any]) -> s.NodeType:
    resources, labels = node["Resources"], node.get("Labels") or {}
    marks = (name for name in resources if name.startswith(_ACCELERATOR))
    shared = {
        name: amount
        for name, amount in sorted(resources.items())
        if not name.startswith((*_OF_ONE_NODE, _ACCELERATOR)) and _RESERVED not in name
    }
    return s.NodeType(
        accelerator_type=next(marks, "").removeprefix(_ACCELERATOR),
        resources=s.ResourceSet(
            resources=[s.Resource(name=name, amount=amount) for name, amount in shared.items()]
        ),
        labels=[
            s.Label(key=key, value=value)
            for key, value in sorted(labels.items())
            if key not in _LABELS_OF_ONE_NODE
        ],
    )
