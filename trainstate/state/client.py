"""Finding the state actor of the cluster this process is connected to, or making it."""

from __future__ import annotations

from typing import Any

import ray

from trainstate.state.names import NAMESPACE, STATE_ACTOR
from trainstate.state.version import version

_GREETING_TIMEOUT_S = 60.0
# A resource that the head node has, and no other.
_HEAD_NODE = "node:__internal_head__"


def ensure() -> Any:
    """A handle of the state actor, which is made if there is none. Blocks for a round trip or two.

    That it answers is not known yet. Who calls this once in a process also calls `greet`.
    """
    try:
        return find()
    except ValueError:
        return _make()


def find() -> Any:
    """A handle of the state actor. Raises ValueError if there is none."""
    return ray.get_actor(STATE_ACTOR, namespace=NAMESPACE)


def greet(actor: Any) -> str:
    """Waits until the actor answers; its version.

    Raises UsageError if it is of another release than we are, ActorDiedError if it could not start.
    """
    answer: str = ray.get(actor.hello.remote(version()), timeout=_GREETING_TIMEOUT_S)
    return answer


def _make() -> Any:
    # Only who makes it needs its class, and all that it stands on.
    from trainstate.state.actor import TrainStateActor

    return (
        ray.remote(TrainStateActor)
        .options(
            name=STATE_ACTOR,
            namespace=NAMESPACE,
            get_if_exists=True,
            lifetime="detached",
            num_cpus=0,
            resources={_HEAD_NODE: 0.001},
            max_restarts=-1,
            max_task_retries=0,
        )
        .remote()
    )
