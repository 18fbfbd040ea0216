"""`trainstate abort`: asking a run's controller to end it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from trainstate.cli import _render
from trainstate.cli._options import run_argument
from trainstate.core import Cause
from trainstate.errors import NotFound, StateUnavailable, UsageError

_ANSWER_TIMEOUT_S = 30.0
_TEXT = "aborted by a user (trainstate abort)"


@click.command()
@run_argument
@click.option(
    "--address", default="auto", show_default=True, help="The cluster's, as ray.init() takes it."
)
def abort(prefix: str, address: str) -> None:
    """Ask a running training to end.

    RUN is the id of an open run, a prefix that fits only one, or a name. Needs the cluster: its
    controller stops the workers and records the end, which `trainstate show` then tells.
    """
    with _connected(address):
        run_id = _find(prefix)
        _ask(run_id)
    _render.say(f"{run_id}: asked to end")


@contextmanager
def _connected(address: str) -> Iterator[None]:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise UsageError(
            "Ray is not installed here", hint="pip install 'trainstate[train]'"
        ) from error
    try:
        ray.init(address=address, configure_logging=False, log_to_driver=False)
    except (ConnectionError, TimeoutError, ValueError) as error:
        said = str(error).strip().splitlines()
        raise StateUnavailable(
            f"no Ray cluster at {address!r}: {said[0] if said else type(error).__name__}",
            hint="name one with --address HOST:PORT",
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _find(prefix: str) -> str:
    from trainstate.state import client

    try:
        actor = client.find()
    except ValueError as error:
        raise NotFound(
            "this cluster has no trainstate state actor, and so no run",
            hint="name the cluster with --address HOST:PORT",
        ) from error
    run_id: str = _answer(actor.find_open.remote(prefix))
    return run_id


def _ask(run_id: str) -> None:
    import ray

    from trainstate.state.names import NAMESPACE, controller_name

    try:
        controller: Any = ray.get_actor(controller_name(run_id), namespace=NAMESPACE)
        _answer(controller.abort.remote(int(Cause.USER_ABORT), _TEXT))
    except (ValueError, ray.exceptions.ActorDiedError) as error:
        raise StateUnavailable(
            "its controller is gone; the state actor is about to record its end",
            run_id=run_id,
            hint=f"trainstate show {run_id}",
        ) from error


def _answer(ref: Any) -> Any:
    """What an actor answers; what it raises, as it raised it."""
    import ray

    try:
        return ray.get(ref, timeout=_ANSWER_TIMEOUT_S)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except (ray.exceptions.ActorUnavailableError, ray.exceptions.GetTimeoutError) as error:
        raise StateUnavailable(
            f"the cluster did not answer within {_ANSWER_TIMEOUT_S:g} s", hint="try again"
        ) from error
