"""`num_workers=0`: training in this process, with a journal of its own and without Ray.

It is the controller's loop with a world of one: every effect is done at once, here, and answered with
what the controller would have observed. So decisions, budgets, backoff and retention are the same, and
the journal, `$TRAINSTATE_HOME/journals/local-<uuid>`, tells the same story.

Of the callbacks only UserCallback is called. An ASYNC upload is done before `report()` returns.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstate.controller.failure import cause_of, describe
from trainstate.controller.hooks import Callback, UserCallback
from trainstate.controller.job import RunContext
from trainstate.controller.loop import Loop, Seen
from trainstate.controller.session import set_current
from trainstate.controller.storage import Storage
from trainstate.controller.versions import framework_versions
from trainstate.core import Cause, Run, effects
from trainstate.core import observations as o
from trainstate.core.effects import Effect
from trainstate.core.policy import complete
from trainstate.core.redact import sanitised
from trainstate.core.values import from_map
from trainstate.errors import StorageError
from trainstate.state.home import Owner, journals_of
from trainstate.state.salt import masking_of
from trainstate.store import Store
from trainstate.train.concluding import Ended
from trainstate.train.interrupts import Interrupts, Terminated
from trainstate.train.local_session import LocalSession
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

# Segments are preallocated, and a local run records little.
_SEGMENT_BYTES = 4 * 1024 * 1024
_ONE_NODE = "local"


@dataclass(frozen=True)
class LocalJob:
    """One call of `fit()` with num_workers=0; nothing in it is pickled."""

    run_id: str
    created: e.RunCreated
    train_function: Callable[[], Any]
    framework: str | None
    datasets: Mapping[str, Any]
    callbacks: Sequence[Callback]
    storage: Storage
    context: RunContext


def run_locally(job: LocalJob) -> Ended:
    """Runs the training to its end, which is in the journal when this returns.

    Raises StorageError and DecodeError of what an earlier run of that name left, before anything begins.
    """
    restored = job.storage.restored()
    environ = dict(os.environ)
    path = journals_of(environ) / f"local-{uuid.uuid4()}"
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = str(Owner.of("local run", os.getpid()))
    interrupts = Interrupts()
    with (
        Store.open(
            path, owner=owner, segment_bytes_max=_SEGMENT_BYTES, masking=masking_of(environ)
        ) as store,
        interrupts.listening(),
    ):
        local = LocalRun(job, store, interrupts)
        local.drive(o.Began(created=job.created, restored=restored))
        return local.ended()


class LocalRun:
    """A run in this process: the world that `Loop` acts on."""

    def __init__(self, job: LocalJob, store: Store, interrupts: Interrupts) -> None:
        self.job = job
        self.failure: BaseException | None = None
        self.return_value: Any = None
        self.stop: BaseException | None = None
        self._store = store
        self._interrupts = interrupts
        self._due: list[Effect] = []
        self._lock = threading.RLock()
        opened = store.open_run(job.run_id, "local", time.time_ns())
        self._incarnation = opened.incarnation
        self._loop = Loop(opened.state, self._append, self._start, time.time_ns, store.masking)

    @property
    def run(self) -> Run:
        """The run as it is now."""
        return self._loop.run

    def drive(self, began: o.Began) -> None:
        """Runs to the end. Ctrl-C and SIGTERM abort the run."""
        with self._interrupts.held():
            self.see(began)
            while self._due:
                effect = self._due.pop(0)
                try:
                    seen = self._act(effect)
                except (KeyboardInterrupt, Terminated) as stop:
                    self.stop = stop
                    seen = o.Abort(Cause.USER_ABORT, _stop_text(stop))
                self.see(seen, effect)

    def see(self, observation: o.Observation, ended: Effect | None = None) -> None:
        """Decides, records, and notes what is due."""
        with self._lock, self._interrupts.held():
            _finish(self._loop.step([Seen(observation, ended)]))

    def settle(self) -> None:
        """Does what became due for checkpoints: between two steps of the training function."""
        with self._lock, self._interrupts.held():
            for effect in [one for one in self._due if isinstance(one, _OF_CHECKPOINTS)]:
                self._due.remove(effect)
                self.see(self._act(effect), effect)

    def tell(self, hook: Callable[[UserCallback], None], name: str) -> None:
        """Calls a hook of every UserCallback; one that fails is recorded and changes nothing."""
        for callback in self.job.callbacks:
            if isinstance(callback, UserCallback):
                try:
                    hook(callback)
                except Exception as error:  # the one boundary: what a callback raises is an event
                    who = type(callback).__qualname__
                    self.see(o.HookFailed(who, name, describe(error)))

    def ended(self) -> Ended:
        """How the run ended. Raises what stopped it, if that was a Ctrl-C or an exit."""
        if self.stop is not None:
            raise self.stop
        metrics = self.run.last_metrics
        return Ended(
            self.run.status,
            self.run.cause,
            self.run.status_reason,
            {} if self.failure is None else {0: self.failure},
            None,
            self.return_value,
            from_map(s.ValueMap.FromString(metrics)) if self.run.reports else None,
        )

    async def _append(self, events: Sequence[e.Event]) -> None:
        self._store.append(self.job.run_id, self._incarnation, self.run.run_seq, events)

    def _start(self, effect: Effect, again: bool) -> Callable[[], None]:
        if not isinstance(effect, effects.Watch):  # this process is the only node
            self._due.append(effect)
        return lambda: self._due.remove(effect) if effect in self._due else None

    def _act(self, effect: Effect) -> o.Observation:
        act: Callable[[LocalRun, Any], o.Observation] = _ACTS[type(effect)]
        return act(self, effect)

    def _place(self, effect: effects.Place) -> o.Observation:
        asked = self.run.placements.values()
        here = (o.Reserved(one.name, b"", (_ONE_NODE,) * len(one.bundles)) for one in asked)
        return o.Placed(tuple(here))

    def _release(self, effect: effects.Release) -> o.Observation:
        return o.Released(effect.names)

    def _start_gang(self, effect: effects.StartGang) -> o.Observation:
        assert self.run.attempt is not None
        placement = self.run.attempt.workers[0].placement
        here = o.WorkerFacts(0, 0, b"", b"", "127.0.0.1", os.getpid(), placement=placement)
        return o.GangUp(effect.attempt_id, (here,))

    def _set_up(self, effect: effects.SetUp) -> o.Observation:
        return o.Ready(effect.attempt_id, framework_versions(self.job.framework))

    def _train(self, effect: effects.Train) -> o.Observation:
        who = (effect.attempt_id, effect.rank, effect.generation)
        before = set_current(LocalSession(self, effect.attempt_id))
        try:
            with self._interrupts.allowed():
                self.return_value = self.job.train_function()
        except (KeyboardInterrupt, Terminated):
            raise
        except BaseException as error:  # the one boundary: what training raises is an observation
            self.failure = error
            failures: dict[int, Any] = {0: error}
            self.tell(
                lambda one: one.after_exception(self.job.context, failures), "after_exception"
            )
            return o.WorkerFailed(*who, cause_of(error), describe(error, 0))
        finally:
            set_current(before)  # of the training function that this fit() is in, if it is in one
        self.failure = None
        return o.Completed(*who, sanitised(self.return_value))

    def _publish(self, effect: effects.Publish) -> o.Observation:
        attempt = self.run.attempt
        assert attempt is not None
        size_bytes = self.job.storage.publish(self.run, complete(attempt, effect.group))
        return o.Published(effect.attempt_id, effect.report_index, size_bytes)

    def _delete(self, effect: effects.DeleteCheckpoint) -> o.Observation:
        try:
            self.job.storage.delete(self.run.checkpoints[effect.index].directory)
        except StorageError as error:
            return o.Deleted(effect.index, str(error))
        return o.Deleted(effect.index)

    def _stop(self, effect: effects.Stop) -> o.Observation:
        return o.Cleared(effect.attempt_id)

    def _wake(self, effect: effects.Wake) -> o.Observation:
        with self._interrupts.allowed():
            time.sleep(max(0, effect.time_ns - time.time_ns()) / 10**9)
        return o.Woke()

    def _close(self, effect: effects.Close) -> o.Observation:
        return o.Closed()


_OF_CHECKPOINTS = (effects.Publish, effects.DeleteCheckpoint)
_ACTS: Mapping[type[Effect], Callable[[LocalRun, Any], o.Observation]] = {
    effects.Place: LocalRun._place,
    effects.Release: LocalRun._release,
    effects.StartGang: LocalRun._start_gang,
    effects.SetUp: LocalRun._set_up,
    effects.Train: LocalRun._train,
    effects.Publish: LocalRun._publish,
    effects.DeleteCheckpoint: LocalRun._delete,
    effects.Stop: LocalRun._stop,
    effects.Wake: LocalRun._wake,
    effects.Close: LocalRun._close,
}


def _finish(step: Coroutine[Any, Any, Any]) -> None:
    """Runs a step of the loop: it awaits nothing but `append`, and here that never waits."""
    try:
        step.send(None)
    except StopIteration:
        return
    raise RuntimeError("a step of the loop waited for something")


def _stop_text(stop: BaseException) -> str:
    name = "SIGINT" if isinstance(stop, KeyboardInterrupt) else "SIGTERM"
    return f"the process got {name}"
