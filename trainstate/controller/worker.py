"""The process a training function runs in: a detached actor that outlives controllers.

It never calls the controller. It answers `exchange`, which says what is durable and asks what is new; a
later call, of the same controller or of a successor, releases and fences the earlier one. Every method
may be called again and then does nothing twice: a successor repeats what it does not know was done.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import ray
from ray import cloudpickle
from ray.exceptions import RayError

from trainstate.controller import session as sessions
from trainstate.controller.failure import cause_of, describe, pickled
from trainstate.controller.hooks import WorkerCallback
from trainstate.controller.messages import Ack, Answer, Assignment
from trainstate.controller.worker_session import WorkerSession
from trainstate.core.markers import Mask
from trainstate.core.observations import WorkerFacts
from trainstate.core.redact import sanitised
from trainstate.core.secrets import Names
from trainstate.errors import Fenced
from trainstate.state.names import NAMESPACE
from trainstate.v1 import state_pb2 as s

ANSWER_S = 5.0
# Ray warns of a blocking get anywhere in an asyncio actor; ours are in threads, never in its loop.
NO_WARNING = ("RAY_WARN_BLOCKING_GET_INSIDE_ASYNC", "0")


class _Meeting(NamedTuple):
    """Ranks at a collective: what each brought, and the word that all are here."""

    over: asyncio.Future[Any]
    brought: dict[int, Any]


def _called(call: bytes) -> Any:
    function, args, kwargs = cloudpickle.loads(call)
    return function(*args, **kwargs)


def _print(error: s.Error, names: Names) -> None:
    try:
        sys.stderr.write(Mask(None, names).text(error.traceback))
    except (OSError, ValueError):  # the stream is full, or closed; the journal has the story
        return


def _dumped(value: Any) -> bytes:
    data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return data


def _is_gone(controller: str) -> bool:
    """Whether the cluster knows no such actor, alive or about to be."""
    try:
        ray.get_actor(controller, namespace=NAMESPACE)
    except ValueError:
        return True
    except RayError:
        return False
    return False


async def _awaited(work: asyncio.Future[Any]) -> Any:
    return await work


def _on_sigterm(callback: Callable[[], None]) -> None:
    """Calls back for SIGTERM, in place of ending. Only a main thread can listen."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, frame: callback())
        # Not for what the training function forks: that ends as ever.
        os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))


class Worker:
    """A worker that has no rank yet.

    It ends itself when no controller has talked to it for `orphan_timeout_s`, and none of that name is
    there any more: one that starts again, waits for the journal, or sets up for long, still is. SIGTERM
    is a notice that its machine is taken away: it says so, and trains on.
    """

    def __new__(cls, *args: object) -> Worker:
        # The one thing of an asyncio actor that Ray runs in the main thread.
        self = super().__new__(cls)
        _on_sigterm(self._warned)
        return self

    def _warned(self) -> None:
        loop: asyncio.AbstractEventLoop | None = getattr(self, "_loop", None)
        if loop is not None:  # else it has nothing to save yet
            loop.call_soon_threadsafe(self._terminate)

    def _terminate(self) -> None:
        self._terminating = True
        self._wake()

    def __init__(self, orphan_timeout_s: float, controller: str) -> None:
        os.environ.setdefault(*NO_WARNING)
        self._loop = asyncio.get_running_loop()
        self._tasks = ThreadPoolExecutor(1, "task")
        self._executed: dict[str, asyncio.Task[Any]] = {}
        self._meetings: dict[int, _Meeting] = {}
        self._caller = (0, 0)
        self._waiter: asyncio.Future[None] | None = None
        self._assignment: Assignment | None = None
        self._thread: threading.Thread | None = None
        self._ended: Answer | None = None
        self._terminating = self._said_so = False
        self._heard_s = time.monotonic()
        self._orphan = self._loop.create_task(self._end_when_orphaned(orphan_timeout_s, controller))

    async def facts(self, placement: str, bundle: int, generation: int) -> WorkerFacts:
        """Where and what this process is."""
        context = ray.get_runtime_context()
        ids = context.get_accelerator_ids()
        return WorkerFacts(
            placement=placement,
            bundle=bundle,
            generation=generation,
            actor_id=bytes.fromhex(context.get_actor_id() or ""),
            node_id=bytes.fromhex(context.get_node_id()),
            node_ip=ray.util.get_node_ip_address(),  # type: ignore[no-untyped-call]
            pid=os.getpid(),
            accelerator_ids=tuple(one for group in ids.values() for one in group),
            log_path=ray._private.worker.global_worker.get_out_file_path(),
        )

    async def assign(self, assignment: Assignment) -> None:
        """Tells the worker who it is."""
        if self._assignment is None:
            self._assignment = assignment
            self._session = WorkerSession(assignment, self._notify, self._fail)
            sessions.set_current(self._session)
            await self._loop.run_in_executor(self._tasks, self._hook, "after_init_train_context")

    async def execute(self, key: str, call: bytes) -> Any:
        """Runs a pickled call; asked again with the same key, gives the same result."""
        if key not in self._executed:
            work = self._loop.run_in_executor(self._tasks, _called, call)
            self._executed[key] = self._loop.create_task(_awaited(work))
        return await asyncio.shield(self._executed[key])

    async def start(self, train_fn: bytes, ack: Ack) -> None:
        """Begins training."""
        if self._thread is None:
            self._acknowledge(ack)
            self._thread = threading.Thread(
                target=self._train, args=(train_fn,), name="train", daemon=True
            )
            self._thread.start()

    async def exchange(self, incarnation: int, call: int, ack: Ack) -> Answer:
        """What is new since `ack`, at once if something is, else after ANSWER_S. Raises Fenced."""
        self._heard_s = time.monotonic()
        if (incarnation, call) < self._caller:
            raise Fenced("a newer controller talks to this worker", hint="this one must stop")
        self._caller = (incarnation, call)
        self._wake()
        self._acknowledge(ack)
        waiter = self._waiter = self._loop.create_future()
        if self._nothing_new():
            await asyncio.wait({waiter}, timeout=ANSWER_S)
        if self._caller != (incarnation, call):
            return Answer(ended="superseded")
        return self._answer()

    async def meet(self, meeting: int, rank: int, size: int, data: Any) -> Any:
        """One rank comes to a collective; returns what rank 0 brought when all are here."""
        here = self._meetings.setdefault(meeting, _Meeting(self._loop.create_future(), {}))
        here.brought[rank] = data
        if len(here.brought) == size:
            del self._meetings[meeting]
            here.over.set_result(here.brought[0])
        return await asyncio.shield(here.over)

    async def stack(self) -> str:
        """Where the training thread is."""
        ident = self._thread.ident if self._thread is not None else None
        frame = sys._current_frames().get(ident or 0)
        return "" if frame is None else "".join(traceback.format_stack(frame))

    async def stop(self) -> Answer:
        """Runs what is to run before the process is ended; what the worker ended with, if it did."""
        await self._loop.run_in_executor(None, self._hook, "before_worker_shutdown")
        sys.stdout.flush()
        failures = self._session.hook_failures if self._assignment else ()
        return replace(self._ended or Answer(), hook_failures=tuple(failures))

    # --- the training thread ----------------------------------------------------------------------

    def _train(self, train_fn: bytes) -> None:
        try:
            value = cloudpickle.loads(train_fn)()
            self._end(self._completed(value))
        except BaseException as error:  # the boundary: what a train function raises, it fails of
            self._fail(error)

    def _completed(self, value: Any) -> Answer:
        summary = sanitised(value).SerializeToString() if self._rank == 0 else b""
        return Answer(ended="completed", value=_dumped(value), summary=summary)

    def _fail(self, error: BaseException) -> None:
        node_id = ray.get_runtime_context().get_node_id()
        assert self._assignment is not None
        names = Names(self._assignment.secret_keys)
        described = describe(error, self._rank, node_id, names)
        _print(described, names)
        self._end(
            Answer(
                ended="failed",
                error=described.SerializeToString(),
                cause=int(cause_of(error)),
                exception=pickled(error),
            )
        )

    def _end(self, answer: Answer) -> None:
        if self._ended is None or self._ended.ended == "completed":
            self._ended = answer
        self._notify()

    @property
    def _rank(self) -> int:
        assert self._assignment is not None
        return self._assignment.info.world_rank

    # --- news -------------------------------------------------------------------------------------

    def _notify(self) -> None:
        self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _acknowledge(self, ack: Ack) -> None:
        session = self._session
        if ack.kept is not None:
            session.kept, session.version = ack.kept, ack.version
        session.taken_away, session.visible = ack.preemption, ack.visible
        session.buffer.acknowledge(ack.durable, ack.committed)

    def _nothing_new(self) -> bool:
        if self._terminating and not self._said_so:
            return False
        return not self._session.buffer.has_ready and not self._over()

    def _over(self) -> bool:
        """Whether it ended, and nothing is to be said before that."""
        ended = self._ended
        return ended is not None and (ended.ended == "failed" or self._session.buffer.drained)

    def _answer(self) -> Answer:
        reports = self._session.buffer.ready()
        if self._over() and not reports:
            assert self._ended is not None
            return self._ended
        failures = tuple(self._session.hook_failures)
        self._session.hook_failures.clear()
        self._said_so = self._terminating  # in every answer from now on: one may be lost
        return Answer(
            reports=reports,
            version=self._session.version,
            hook_failures=failures,
            terminating=self._terminating,
        )

    def _hook(self, name: str) -> None:
        if self._assignment is None:
            return
        for callback in self._assignment.callbacks:
            if isinstance(callback, WorkerCallback):
                with self._session.guarded(callback, name):
                    getattr(callback, name)()

    async def _end_when_orphaned(self, timeout_s: float, controller: str) -> None:
        while True:
            while (left_s := self._heard_s + timeout_s - time.monotonic()) > 0:
                await asyncio.sleep(left_s)
            if await asyncio.to_thread(_is_gone, controller):
                sys.stderr.write(f"no controller for {timeout_s:g} s: an orphan, and ends itself\n")
                sys.stderr.flush()
                os._exit(1)
            self._heard_s = time.monotonic()
