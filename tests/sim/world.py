"""Time and chance. Whatever happens in a simulation is called by `World`, at its time, in one order."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from trainstate.testing.given import START_NS

# What may go wrong. Each seed takes some of them, so that they are seen alone and together.
FAULTS = (
    "abort",
    "answer lost",
    "broke",
    "cancelled late",
    "controller dies",
    "controller dies before append",
    "controller dies after append",
    "controller dies while it acts",
    "delayed",
    "driver dies",
    "exchange lost",
    "hook fails",
    "late extra",
    "late request",
    "mates fail too",
    "mismatch",
    "node dies",
    "node drained",
    "node drained early",
    "node drained for ever",
    "node missed late",
    "others take room",
    "partly durable",
    "replacement fails",
    "room comes late",
    "set-up fails",
    "slow start",
    "start fails",
    "state dies",
    "worker dies",
    "worker freezes",
    "worker raises",
    "worker stuck",
    "worker told to end",
    "zombie",
)
Done = Callable[[Any], None]


class Died(BaseException):
    """A process ends where it is."""


class Until:
    """What a coroutine waits for: `begin` is given whom to call, with a result or an exception."""

    def __init__(self, begin: Callable[[Done], None]) -> None:
        self.begin = begin

    def __await__(self) -> Generator[Until, Any, Any]:
        return (yield self)


class Task:
    """A coroutine on its way. `on_died` is called when it raised Died."""

    def __init__(self, work: Coroutine[Until, Any, Any], on_died: Callable[[str], None]) -> None:
        self._work = work
        self._on_died = on_died
        self.over = False
        self._resume(None)

    def cancel(self) -> None:
        self.over = True
        self._work.close()

    def _resume(self, value: Any) -> None:
        if self.over:
            return
        try:
            failed = isinstance(value, Exception)
            until = self._work.throw(value) if failed else self._work.send(value)
        except StopIteration:
            self.over = True
        except Died as died:
            self.over = True
            self._on_died(str(died))
        else:
            until.begin(_once(self._resume))


def _once(call: Done) -> Done:
    left = [call]
    return lambda value: left.pop()(value) if left else None


class World:
    """The clock, the dice and the trace of one seed. Faults happen in its first `FAULTY_S` seconds."""

    FAULTY_S = 60.0

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now_ns = START_NS
        self.trace: list[str] = []
        self.faults: Counter[str] = Counter()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        often = self.draw.choice((0.15, 0.35, 0.7))
        self._possible = {name for name in FAULTS if self.draw.random() < often}

    @property
    def time_s(self) -> float:
        return (self.now_ns - START_NS) / 10**9

    def say(self, who: str, text: str) -> None:
        self.trace.append(f"{self.time_s:9.3f}  {who:<12} {text}")

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        at_ns = self.now_ns + max(0, round(seconds * 10**9))
        heapq.heappush(self._due, (at_ns, next(self._numbers), call))

    def sleep(self, seconds: float) -> Until:
        return Until(lambda done: self.after(seconds, lambda: done(None)))

    def latency(self) -> float:
        """Seconds that a message takes."""
        return self.draw.uniform(0.001, 0.02)

    def fault(self, name: str, chance: float, who: str = "", count: bool = True) -> bool:
        """Whether that goes wrong now."""
        assert name in FAULTS
        happens = self.draw.random() < chance and self.time_s < self.FAULTY_S
        if not happens or name not in self._possible:
            return False
        if count:
            self.faults[name] += 1
            self.say(who or "fault", f"*** {name}")
        return True

    def run(self, until: Callable[[], bool], limit_s: float) -> None:
        """Lets things happen until `until()`. Raises AssertionError if that takes too long."""
        while not until():
            assert self._due, "nothing is left to happen"
            at_ns, _, call = heapq.heappop(self._due)
            self.now_ns = max(self.now_ns, at_ns)
            assert self.time_s < limit_s, f"still not there after {limit_s:g} simulated seconds"
            call()
