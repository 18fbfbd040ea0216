"""Faults at chosen steps of a training function: what a job makes of them, as a test.

    faults = Faults(tmp_path).fail_at(1, 3).kill_worker(0, 5, times=2).slow_placement(1.5)

    def function():
        for step in range(10):
            faults.at(step)
            train.report({"step": step})

    DataParallelTrainer(function, run_config=RunConfig(callbacks=[*faults.callbacks])).fit()
    faults.assert_all_fired()

A fault fires so many `times` in all, however often its worker is started anew: each firing is a file of
its own, made just before the fault is. No Ray is loaded until a fault needs it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from trainstate.controller.hooks import ControllerCallback
from trainstate.controller.session import Session, current
from trainstate.errors import UsageError
from trainstate.state.home import raylet_of

# A resource that the head node has, and no other.
_HEAD_NODE = "node:__internal_head__"

Claim = Callable[[], bool]


class InjectedFailure(RuntimeError):
    """What `Faults.fail_at` makes a training function raise."""


class _Fault(NamedTuple):
    kind: str
    times: int
    arguments: Mapping[str, float]

    @property
    def name(self) -> str:
        """As it was asked for, without `times`."""
        return f"{self.kind}({', '.join(f'{key}={one}' for key, one in self.arguments.items())})"

    def is_due(self, rank: int, step: int) -> bool:
        """Whether a training function comes to it there."""
        return {"rank": rank, "step": step} == self.arguments


class Faults:
    """Planned faults, and how often each has fired. Immutable: every plan returns another object.

    `directory` keeps the firings. Every process of the run must see it, under the same path; give each
    test one of its own, for what has fired there does not fire again. It is made when it is needed.

    `rank` is a world rank, `step` the number that the training function passes to `at`, `times` how
    often the fault fires in all: a worker that starts anew and comes to the step again meets it again
    until then. A plan raises UsageError for a fault that is planned already, and for `times` below 1.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory).absolute()
        self._planned: tuple[_Fault, ...] = ()

    # --- the plan ---------------------------------------------------------------------------------

    def fail_at(self, rank: int, step: int, *, times: int = 1) -> Faults:
        """The training function of that rank raises InjectedFailure. Works in local mode too."""
        return self._and("fail_at", times, rank=rank, step=step)

    def kill_worker(self, rank: int, step: int, *, times: int = 1) -> Faults:
        """The worker's process is killed (SIGKILL), and with it reports that are still on their way."""
        return self._and("kill_worker", times, rank=rank, step=step)

    def kill_node(self, rank: int, step: int, *, times: int = 1) -> Faults:
        """The worker's node is lost: its raylet and all that this has started are killed (SIGKILL).

        Ray takes its time to notice: about 15 s, unless its `health_check_*` settings say otherwise. On
        the head node it is refused, for no cluster survives that.
        """
        return self._and("kill_node", times, rank=rank, step=step)

    def lose_report(self, rank: int, step: int, *, times: int = 1) -> Faults:
        """The next `times` answers of that worker that carry reports never arrive at the controller."""
        return self._and("lose_report", times, rank=rank, step=step)

    def slow_placement(self, seconds: float, *, times: int = 1) -> Faults:
        """The first `times` placements of workers begin so much later; needs `callbacks`.

        A controller waits 30 s for a callback, no longer.
        """
        return self._and("slow_placement", times, seconds=seconds)

    def _and(self, kind: str, times: int, **arguments: float) -> Faults:
        fault = _Fault(kind, times, arguments)
        if any(one < 0 for one in arguments.values()):
            raise UsageError(f"{fault.name} is of nobody", hint="ranks and steps count from 0")
        if times < 1:
            raise UsageError(f"{fault.name} with times={times}", hint="a fault fires once or more")
        if fault.name in {one.name for one in self._planned}:
            raise UsageError(f"{fault.name} is planned already", hint="say how often with times=")
        more = Faults(self._directory)
        more._planned = (*self._planned, fault)
        return more

    # --- in the run -------------------------------------------------------------------------------

    def at(self, step: int) -> None:
        """The training function is at that step: what is planned for it and its rank happens now.

        Raises InjectedFailure where that is planned; UsageError for a fault that is impossible here;
        RuntimeError outside a training function.
        """
        session = current()
        for fault in self._planned:
            if fault.is_due(session.info.world_rank, step):
                _FIRE[fault.kind](session, fault.name, partial(self._claim, fault))

    @property
    def callbacks(self) -> tuple[ControllerCallback, ...]:
        """What `RunConfig(callbacks=[...])` must have for `slow_placement`."""
        return tuple(
            SlowPlacement(fault.arguments["seconds"], partial(self._claim, fault))
            for fault in self._planned
            if fault.kind == "slow_placement"
        )

    # --- what has fired ---------------------------------------------------------------------------

    def fired(self) -> dict[str, int]:
        """How often each fault has fired; "fail_at(rank=1, step=3)" is the name of one."""
        return {
            fault.name: sum(path.exists() for path in self._files(fault)) for fault in self._planned
        }

    def assert_all_fired(self) -> None:
        """Raises AssertionError unless every fault has fired as often as it was planned."""
        fired = self.fired()
        missing = [
            f"{fault.name} has fired {fired[fault.name]} of {fault.times} times"
            for fault in self._planned
            if fired[fault.name] < fault.times
        ]
        if missing:
            raise AssertionError("; ".join(missing))

    def _claim(self, fault: _Fault) -> bool:
        """Counts one more firing; False if there were enough."""
        self._directory.mkdir(parents=True, exist_ok=True)
        return any(map(_made, self._files(fault)))

    def _files(self, fault: _Fault) -> list[Path]:
        """A file for each firing; it is there once that has happened."""
        return [self._directory / f"{fault.name}.{number}" for number in range(fault.times)]


class SlowPlacement(ControllerCallback):
    """Keeps the controller from placing workers for a while."""

    def __init__(self, seconds: float, claim: Claim) -> None:
        self._seconds = seconds
        self._claim = claim

    def on_controller_start_worker_group(self, *, scaling_config: Any, num_workers: int) -> None:
        """Before workers are placed."""
        if self._claim():
            time.sleep(self._seconds)


def _made(path: Path) -> bool:
    """Makes a file, which only one process can."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


# --- what each fault does -------------------------------------------------------------------------


def _fail(session: Session, name: str, claim: Claim) -> None:
    if claim():
        raise InjectedFailure(name)


def _kill_worker(session: Session, name: str, claim: Claim) -> None:
    _buffer(session, name)
    if claim():
        os.kill(os.getpid(), signal.SIGKILL)


def _kill_node(session: Session, name: str, claim: Claim) -> None:
    _buffer(session, name)
    _refuse_on_head(name)
    raylet, here = raylet_of(os.getpid()).pid, os.getpid()
    others = [pid for pid in _children(raylet) if pid != here]
    if claim():
        for pid in (raylet, *others, here):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    """The processes that a process has started, by whichever thread."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for each in lists for child in each.read_text().split()]


def _lose_report(session: Session, name: str, claim: Claim) -> None:
    """What an answer is made of raises what Ray raises of a call whose answer got lost."""
    from ray.exceptions import ActorUnavailableError

    buffer = _buffer(session, name)
    ready = buffer.ready

    def lossy() -> list[bytes]:
        reports: list[bytes] = ready()
        if reports and claim():
            raise ActorUnavailableError(name, None)
        return reports

    buffer.ready = lossy


def _buffer(session: Session, name: str) -> Any:
    """The ReportBuffer of a worker. Raises UsageError in local mode, which has neither."""
    found = getattr(session, "buffer", None)
    if found is None:
        raise UsageError(
            f"{name} needs a worker in a process of its own", hint="set num_workers to 1 or more"
        )
    return found


def _refuse_on_head(name: str) -> None:
    import ray

    here = ray.get_runtime_context().get_node_id()
    resources = [node["Resources"] for node in ray.nodes() if node["NodeID"] == here]  # type: ignore[no-untyped-call]
    if any(_HEAD_NODE in one for one in resources):
        raise UsageError(
            f"{name} would kill the head node, and with it the cluster",
            hint="give the head node no CPUs, so that workers are placed on others",
        )


_FIRE: Mapping[str, Callable[[Session, str, Claim], None]] = {
    "fail_at": _fail,
    "kill_worker": _kill_worker,
    "kill_node": _kill_node,
    "lose_report": _lose_report,
}
