"""The writer of a run, wherever its controller is: appends to the state actor, and waits for it.

It keeps no copy of the state, only what an append names: run, incarnation, position. While the state
actor is away it asks again, and makes a new one if the old one will not be back; an append whose answer
was lost is repeated as it was, and recognised by its position. Made from static data, so that nothing
dynamic travels in a pickle (row 0-16).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from ray.exceptions import RayError, RayTaskError

from trainstate.core import Run
from trainstate.core.freeze import thaw
from trainstate.core.mask import EventMask, Masking, Unmasked
from trainstate.errors import Fenced, StateUnavailable, StorageError, TrainstateError
from trainstate.state import client
from trainstate.state.version import version
from trainstate.v1 import event_pb2 as e

_PAUSE_FIRST_S, _PAUSE_MAX_S = 0.02, 1.0
# An answer that takes longer is asked for again: it may have been lost on the way.
_ANSWER_TIMEOUT_S = 30.0


class TrainStateManager:
    """Writes one run. One call at a time: positions follow each other.

    Every method raises StateUnavailable when the state actor could not be reached for `timeout_s`, and
    as they are the errors of our rules: Fenced, ConcurrencyError, InvalidTransition, NotFound.
    """

    def __init__(self, run_id: str, writer: str = "controller", timeout_s: float = 300.0) -> None:
        self.run_id = run_id
        self.writer = writer
        self.timeout_s = timeout_s
        self.incarnation = 0
        self.run_seq = 0
        # What the journal's owner masks secrets by; with it from `open` on.
        self.masking: Masking = Unmasked()
        self._actor: Any = None

    async def open(self, time_ns: int) -> Run:
        """Takes the run up at `time_ns`, now: fences whoever had it. Returns its state."""
        frozen, self.run_seq, self.incarnation, salt = await self._ask(
            "open_run", self.run_id, self.writer, time_ns
        )
        self.masking = EventMask(salt)
        return thaw(frozen)

    async def append(self, events: Sequence[e.Event]) -> tuple[int, int]:
        """Records events, all or none; when it returns they are durable. Their first and last position.

        Of each event the caller sets time, attempt, reason and payload.
        """
        batch = e.Batch(events=events).SerializeToString()
        first, last = await self._ask("append", self.run_id, self.incarnation, self.run_seq, batch)
        self.run_seq += len(events)
        return first, last

    async def watch(self, controller: str) -> None:
        """Has the run ended when the actor of that name (in our namespace) is gone for good."""
        await self._ask("watch", self.run_id, controller)

    async def _ask(self, method: str, *args: object) -> Any:
        """Calls the state actor until it answers, or `timeout_s` have passed."""
        deadline = time.monotonic() + self.timeout_s
        reason: BaseException = TimeoutError("no answer")
        pause_s = _PAUSE_FIRST_S
        while True:
            left_s = max(deadline - time.monotonic(), _PAUSE_FIRST_S)
            try:
                async with asyncio.timeout(min(left_s, _ANSWER_TIMEOUT_S)):
                    return await self._call(method, *args)
            except RayTaskError as error:
                reason = _retriable(error)
            except RayError as error:
                reason = error
            except TimeoutError:
                pass  # it says less than what came before
            self._actor = None
            if time.monotonic() + pause_s >= deadline:
                raise self._unavailable(reason) from reason
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    async def _call(self, method: str, *args: object) -> Any:
        if self._actor is None:
            # It blocks, and the loop of a controller has workers to listen to.
            actor = await asyncio.to_thread(client.ensure)
            await actor.hello.remote(version())
            self._actor = actor
        return await getattr(self._actor, method).remote(*args)

    def _unavailable(self, reason: BaseException) -> StateUnavailable:
        return StateUnavailable(
            f"the state actor was not to be had for {self.timeout_s:g} s: {_said(reason)}",
            run_id=self.run_id,
            hint=getattr(reason, "hint", None)
            or "look at the journal's disk and at Ray's worker logs on the head node",
        )


def _retriable(error: RayTaskError) -> TrainstateError:
    """What the state actor raised, if another process may do better. Raises it if not."""
    cause: BaseException = error.cause
    # Without a run it is the journal's own: another process writes it, and this one opens it again.
    of_the_journal = isinstance(cause, Fenced) and cause.run_id is None
    if isinstance(cause, TrainstateError):
        if isinstance(cause, StorageError) or of_the_journal:
            return cause
        raise cause from None
    raise error


def _said(reason: BaseException) -> str:
    """The line of an error that says why; of an actor that failed to start, its traceback's last."""
    lines = [line.strip() for line in str(reason).splitlines()]
    lines = [line for line in lines if line and not line.startswith("hint: ")]
    return lines[-1] if lines else type(reason).__name__
