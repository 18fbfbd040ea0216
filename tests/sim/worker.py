"""A worker process: a train function that reports, and the exchange of reports and acknowledgements.

Reports stay here until they are acknowledged; a report with a checkpoint that is uploaded at once
returns when the checkpoint is committed (design section 7).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.sim.world import World
from trainstate.core.values import to_map
from trainstate.v1 import event_pb2 as e

ANSWER_S = 5.0
ORPHAN_S = 60.0


class Step(NamedTuple):
    """What a train function does next, after `pause_s`: report, checkpoint, async, or how it ends."""

    pause_s: float
    what: str
    directory: str = ""


class Ack(NamedTuple):
    """What the controller knows to be durable of this rank, and committed of its attempt."""

    durable: int
    committed: int


class Answer(NamedTuple):
    """News of a worker; `what` is "" or how its function ended, "lost" or "superseded"."""

    reports: Sequence[e.ReportReceived] = ()
    what: str = ""


class Worker:
    """One process. `released` is told of each report with a checkpoint that returned."""

    def __init__(self, world: World, key: tuple[str, int, int]) -> None:
        self.attempt_id, self.bundle, self.generation = key
        self.rank: int | None = None
        self.status = "starting"  # then "up", then "gone"
        self.preempted = self.was_up = False
        self.reported: list[e.ReportReceived] = []
        self.watch_ack: Callable[[Worker, Ack], None] = lambda worker, ack: None
        self.released: Callable[[Worker, int], None] = lambda worker, index: None
        self._world = world
        self._ack = Ack(0, 0)
        self._script: list[Step] | None = None
        self._blocked: int | None = None
        self._frozen = False
        self.ended = ""
        self._incarnation = 0
        self._call: Callable[[Answer], None] | None = None
        self._heard_s = 0.0

    def __str__(self) -> str:
        return f"{self.attempt_id[:4]}/{self.bundle}"

    def come_up(self) -> None:
        if self.status == "starting":
            self.status, self.was_up = "up", True
            self._hear()

    def go(self, why: str) -> None:
        """The process ends; who waits for its answer hears so."""
        if self.status != "gone":
            self._world.say(str(self), f"gone: {why}")
            self.status = "gone"
            self._answer(Answer(what="lost"))

    def begin(self, script: Sequence[Step]) -> None:
        """Starts the train function, once."""
        if self._script is None:
            self._script = list(script)
            self._go_on()

    def exchange(self, incarnation: int, ack: Ack, reply: Callable[[Answer], None]) -> None:
        """Takes an acknowledgement; `reply` is called with news, or after five seconds without."""
        if self.status == "gone":
            reply(Answer(what="lost"))
        elif self._frozen:
            return
        elif incarnation < self._incarnation:
            reply(Answer(what="superseded"))
        else:
            self._answer(Answer(what="superseded"))
            self._incarnation, self._call = incarnation, reply
            self._hear()
            self._acknowledge(ack)
            self._world.after(ANSWER_S, lambda: self._answer_to(reply))
            self._news()

    def _hear(self) -> None:
        self._heard_s = self._world.time_s
        self._world.after(ORPHAN_S, self._orphaned)

    def _orphaned(self) -> None:
        if self._world.time_s - self._heard_s >= ORPHAN_S - 1e-6:
            self.go("no controller talks to it")

    def _acknowledge(self, ack: Ack) -> None:
        self.watch_ack(self, ack)
        self._ack = Ack(*map(max, self._ack, ack))
        if self._blocked is not None and self._blocked < self._ack.committed:
            index, self._blocked = self._blocked, None
            self.released(self, index)
            self._go_on()

    def _news(self) -> None:
        reports = self.reported[self._ack.durable :]
        if reports:
            self._answer(Answer(reports))
        elif self.ended:
            self._answer(Answer(what=self.ended))

    def _answer(self, answer: Answer) -> None:
        call, self._call = self._call, None
        if call is not None:
            call(answer)

    def _answer_to(self, reply: Callable[[Answer], None]) -> None:
        if self._call is reply and not self._frozen:
            self._answer(Answer())

    def _go_on(self) -> None:
        assert self._script is not None
        step = self._script.pop(0)
        self._world.after(step.pause_s, lambda: self._do(step))

    def _do(self, step: Step) -> None:
        if self.status == "gone":
            return
        if step.what in ("report", "checkpoint", "async"):
            self._report(step)
        elif step.what == "die":
            self.preempted = step.directory == "preempted"
            self.go("it dies")
        elif step.what == "freeze":
            self._frozen, self._call = True, None
        elif step.what != "stuck":
            self.ended = step.what
            self._world.say(str(self), step.what)
        self._news()

    def _report(self, step: Step) -> None:
        index = len(self.reported)
        assert self.rank is not None
        report = e.ReportReceived(rank=self.rank, index=index, checkpoint=step.directory)
        report.metrics.CopyFrom(to_map({"loss": 1 / (index + 1), "rank": self.rank}))
        self.reported.append(report)
        self._world.say(str(self), f"reports {index} {step.what} {step.directory}")
        if step.what == "checkpoint":
            self._blocked = index
        else:
            self._go_on()
