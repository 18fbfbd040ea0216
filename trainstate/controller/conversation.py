"""Talking with one worker: the effect Train.

One call is open at a time. Its answer brings reports; they are recorded, and the next call acknowledges
them. Its error is the death notice, within milliseconds; its silence, or that of the train function,
means a hang.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from ray.exceptions import ActorUnavailableError, RayActorError

from trainstate.controller.failure import describe, lost
from trainstate.controller.messages import Ack, Answer
from trainstate.core import Cause
from trainstate.core.effects import Train
from trainstate.core.observations import (
    Completed,
    HookFailed,
    Observation,
    Preempted,
    Reported,
    WorkerFailed,
)
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

# A node that cannot be reached for a moment is asked again after this.
_PAUSE_S = 0.2


def hook_failures(answer: Answer) -> Iterator[HookFailed]:
    """What failed in callbacks of the worker that gives this answer."""
    for one in answer.hook_failures:
        yield HookFailed(one.callback, one.hook, s.Error.FromString(one.error))


class Conversation:
    """The talk with the worker of `train`.

    `ack(version)` is what to acknowledge now, for a worker that knows checkpoints up to `version`;
    `news` returns when that has changed; `record` makes an observation durable.
    """

    def __init__(
        self,
        handle: Any,
        train: Train,
        incarnation: int,
        node_id: str,
        limits: s.Limits,
        ack: Callable[[int], Ack],
        news: Callable[[], Awaitable[object]],
        record: Callable[[Observation], Awaitable[None]],
    ) -> None:
        self._handle = handle
        self._train = train
        self._incarnation = incarnation
        self._node_id = node_id
        self._limits = limits
        self._ack = ack
        self._news = news
        self._record = record
        self._calls = 0
        self._version = -1
        self._heard_s = self._reported_s = time.monotonic()

    async def run(self, train_fn: bytes) -> tuple[Observation, Answer]:
        """Has the worker train to its end: how it ended, and its last answer."""
        try:
            await self._handle.start.remote(train_fn, self._ack(self._version))
            while True:
                answer = await self._exchange()
                for failure in hook_failures(answer):
                    await self._record(failure)
                if answer.terminating:
                    ranks = (self._train.rank,)
                    await self._record(Preempted(self._train.attempt_id, ranks=ranks))
                if answer.reports:
                    await self._take(answer)
                elif answer.ended in ("completed", "failed"):
                    return self._ended(answer), answer
        except RayActorError as error:
            return self._failed(Cause.WORKER_LOST, self._lost(error)), Answer()
        except TimeoutError:
            return await self._hung(), Answer()

    async def _exchange(self) -> Answer:
        """One call's answer, or that of the call that took over because there was news to tell."""
        while True:
            self._calls += 1
            ack = self._ack(self._version)
            call = asyncio.ensure_future(
                self._awaited(self._handle.exchange.remote(self._incarnation, self._calls, ack))
            )
            news = asyncio.ensure_future(self._news())
            try:
                await asyncio.wait(
                    {call, news}, timeout=self._left_s(), return_when="FIRST_COMPLETED"
                )
                if call.done():
                    return self._heard(call.result())
                if not news.done():
                    raise TimeoutError
            except ActorUnavailableError:
                await asyncio.sleep(_PAUSE_S)
            finally:
                news.cancel()
                call.cancel()

    async def _awaited(self, reference: Any) -> Answer:
        answer: Answer = await reference
        return answer

    def _heard(self, answer: Answer) -> Answer:
        self._heard_s = time.monotonic()
        self._version = max(self._version, answer.version)
        return answer

    async def _take(self, answer: Answer) -> None:
        self._reported_s = time.monotonic()
        reports = tuple(map(e.ReportReceived.FromString, answer.reports))
        at = self._train
        await self._record(Reported(at.attempt_id, at.rank, at.generation, reports))

    def _left_s(self) -> float:
        """Until the worker is taken for hung."""
        return max(0.0, min(self._answer_due_s(), self._report_due_s()) - time.monotonic())

    def _answer_due_s(self) -> float:
        return self._heard_s + self._limits.worker_timeout_s

    def _report_due_s(self) -> float:
        if not self._limits.HasField("report_timeout_s"):
            return math.inf
        return self._reported_s + self._limits.report_timeout_s

    def _ended(self, answer: Answer) -> Observation:
        if answer.ended == "failed":
            return self._failed(Cause(answer.cause), s.Error.FromString(answer.error))
        at = self._train
        value = s.Value.FromString(answer.summary) if answer.summary else None
        return Completed(at.attempt_id, at.rank, at.generation, value)

    def _failed(self, cause: Cause, error: s.Error) -> WorkerFailed:
        at = self._train
        return WorkerFailed(at.attempt_id, at.rank, at.generation, cause, error)

    def _lost(self, error: BaseException) -> s.Error:
        return lost(error, self._train.rank, self._node_id)

    async def _hung(self) -> WorkerFailed:
        silent = self._report_due_s() < self._answer_due_s()
        what = "reported nothing" if silent else "answered nothing"
        since_s = time.monotonic() - (self._reported_s if silent else self._heard_s)
        text = f"rank {self._train.rank} {what} for {since_s:.1f} s"
        error = describe(TimeoutError(text), self._train.rank, self._node_id)
        error.type = "WorkerHung"
        error.traceback = await self._stack()
        error.hint = (
            "the traceback is where the train function is; another rank may keep it waiting"
        )
        return self._failed(Cause.WORKER_HUNG, error)

    async def _stack(self) -> str:
        """Where the train function is, if the worker still says so."""
        try:
            async with asyncio.timeout(1.0):
                stack: str = await self._handle.stack.remote()
                return stack
        except (TimeoutError, RayActorError):
            return ""
