"""What `fit()` does on the driver: start a controller, wait for its word, pass signals on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import ActorUnavailableError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from trainstate.controller.actor import Controller
from trainstate.controller.job import Job
from trainstate.controller.outcome import Outcome
from trainstate.core import Cause
from trainstate.errors import StateUnavailable, TrainstateError
from trainstate.state import client
from trainstate.state.names import NAMESPACE, controller_name
from trainstate.v1 import state_pb2 as s

# Ray sends an argument of up to 100 KB as it is.
_INLINE_MAX = 50_000
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# A controller is restarting: it will answer, there is nothing else to do.
_PAUSE_S = 0.1


def run(job: Job, code: Callable[[], s.Provenance]) -> Outcome:
    """Runs a job on the cluster, to its end. Starts a local Ray if this process has none.

    What `code` finds out, while the run begins, is recorded with it.
    Raises StateUnavailable if the state actor is gone for good, or the controller.
    """
    if not ray.is_initialized():
        ray.init()
    client.ensure()  # it starts while the controller does
    held = _packed(job)  # until the end: a restarted controller is given it again
    controller = _start(job.run_id, held)
    threading.Thread(target=_describe, args=(controller, code), daemon=True).start()
    try:
        with _passing_signals(controller) as signals:
            outcome = _wait(controller, job)
    finally:
        ray.kill(controller, no_restart=True)
    return replace(outcome, signal=signals.number)


def _packed(job: Job) -> bytes | list[Any]:
    """A job as an argument that survives restarts.

    What is large Ray moves to its object store, and drops when nobody holds it; so that is ours to hold.
    """
    data: bytes = cloudpickle.dumps(job)  # type: ignore[no-untyped-call]
    return data if len(data) <= _INLINE_MAX else [ray.put(data)]


def find(run_id: str) -> Any:
    """The controller of a run. Raises ValueError if there is none."""
    return ray.get_actor(controller_name(run_id), namespace=NAMESPACE)


def _start(run_id: str, held: bytes | list[Any]) -> Any:
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return (
        ray.remote(Controller)
        .options(
            name=controller_name(run_id),
            namespace=NAMESPACE,
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=0,
            scheduling_strategy=here,
        )
        .remote(held)
    )


def _wait(controller: Any, job: Job) -> Outcome:
    """The controller's word; asked again of its successor, as often as it takes."""
    pause = threading.Event()
    while True:
        # Not ray.get: it looks for signals only once a second.
        answer: Future[Outcome] = controller.run.remote().future()
        try:
            return answer.result()
        except ActorUnavailableError:
            pause.wait(_PAUSE_S)
        except RayActorError as error:
            raise StateUnavailable(
                f"the controller is gone for good: {error}",
                run_id=job.run_id,
                hint=f"trainstate show {job.run_id}",
            ) from error
        except RayTaskError as error:
            if isinstance(error.cause, TrainstateError):
                raise error.cause from None
            raise


def _describe(controller: Any, code: Callable[[], s.Provenance]) -> None:
    """Tells the controller of the code, or its successor."""
    found = code().SerializeToString()
    pause = threading.Event()
    while found:
        try:
            controller.describe.remote("the code", found).future().result()
            return
        except ActorUnavailableError:
            pause.wait(_PAUSE_S)
        except RayError:
            return  # the run is over


class _Signals:
    """A signal to this process, on its way to the controller until that has it."""

    def __init__(self, controller: Any) -> None:
        self.number = 0
        self._controller = controller

    def passed(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal."""
        self.number = self.number or number
        self._send()

    def _send(self) -> None:
        text = f"the driver got {signal.Signals(self.number).name}"
        answer = self._controller.abort.remote(int(Cause.USER_ABORT), text)
        answer.future().add_done_callback(self._answered)

    def _answered(self, answer: Future[None]) -> None:
        """A controller that is starting again did not hear it."""
        if isinstance(answer.exception(), ActorUnavailableError):
            threading.Timer(_PAUSE_S, self._send).start()


@contextmanager
def _passing_signals(controller: Any) -> Iterator[_Signals]:
    """Ctrl-C and SIGTERM abort the run; only the main thread can listen to them."""
    signals = _Signals(controller)
    main = threading.current_thread() is threading.main_thread()
    before = {one: signal.signal(one, signals.passed) for one in _SIGNALS if main}
    try:
        yield signals
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
