"""A worker process: a train function that reports, and the exchange of reports and acknowledgements.

Reports stay here until they are acknowledged; a report with a checkpoint that is uploaded at once
returns when the checkpoint is committed (design section 7).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.sim.scripts import Step
from tests.sim.world import World
from trainstate.core.values import to_map
from trainstate.v1 import event_pb2 as e

ANSWER_S = 5.0
ORPHAN_S = 60.0


class Name(NamedTuple):
    """The name of a worker's actor."""

    attempt_id: str
    placement: str
    bundle: int
    generation: int


class Ack(NamedTuple):
    """What the controller knows to be durable of this rank, and committed of its gang; who is to go."""

    durable: int
    committed: int
    preempted: tuple[int, ...] = ()


class Answer(NamedTuple):
    """News of a worker; `what` is "" or how its function ended, "lost" or "superseded"."""

    reports: Sequence[e.ReportReceived] = ()
    what: str = ""
    is_terminating: bool = False


Reply = Callable[[Answer], None]


class Worker:
    """One process. `released` is told of each report with a checkpoint that returned."""

    def __init__(
        self, world: World, name: Name, actor_id: bytes, has_controller: Callable[[], bool]
    ) -> None:
        self.name = name
        self.actor_id = actor_id
        self.rank: int | None = None
        self.group: int | None = None
        self.node_id = ""
        self.status = "starting"  # then "up", then "gone"
        self.is_missed = False  # the cluster knows that it is gone
        self.is_stray = False  # nobody who may start workers started it
        self.reported: dict[int, e.ReportReceived] = {}
        self.ended = ""
        self.watch_ack: Callable[[Worker, Ack], None] = lambda worker, ack: None
        self.released: Callable[[Worker, int], None] = lambda worker, index: None
        self.failed: Callable[[Worker], None] = lambda worker: None
        self._world = world
        self._has_controller = has_controller
        self._ack = Ack(0, 0)
        self._next = 0
        self._script: list[Step] | None = None
        self._blocked: int | None = None
        self._frozen = self._is_terminating = self._said_so = False
        self._incarnation = 0
        self._call: Reply | None = None
        self._waiting: list[Reply] = []
        self._heard_s = 0.0

    def __str__(self) -> str:
        at = self.name
        return f"{at.attempt_id[:4]}/{at.placement.rpartition('/')[2]}.{at.bundle}/{at.generation}"

    # --- life -----------------------------------------------------------------------------------------

    def come_up(self, node_id: str) -> None:
        self.status, self.node_id = "up", node_id
        self._world.say(str(self), f"is up on {node_id}")
        self._hear()

    def go(self, why: str) -> None:
        """The process ends; who waits for its answer hears so."""
        if self.status != "gone":
            self._world.say(str(self), f"gone: {why}")
        self.status, self.is_missed = "gone", True
        waiting, self._waiting = self._waiting, []
        for reply in waiting:
            reply(Answer(what="lost"))
        self._answer(Answer(what="lost"))

    def cut(self) -> None:
        """Its node is gone, and it with it; nobody knows."""
        self.status = "gone"

    def be_missed(self) -> None:
        self.go("its node is gone")

    def warn(self) -> None:
        """It is told to end, and goes on."""
        self._is_terminating = True
        self._news()

    def _hear(self) -> None:
        self._heard_s = self._world.time_s
        self._world.after(ORPHAN_S, self._orphaned)

    def _orphaned(self) -> None:
        if self.status == "gone" or self._world.time_s - self._heard_s < ORPHAN_S - 1e-6:
            return
        if self._has_controller():
            self._hear()
        else:
            self.go("no controller talks to it")

    # --- the exchange ---------------------------------------------------------------------------------

    def begin(self, script: Sequence[Step], ack: Ack) -> None:
        """Starts the train function, once."""
        if self._script is None and self.status == "up":
            self._acknowledge(ack)
            self._next = ack.durable
            self._script = list(script)
            self._go_on()

    def exchange(self, incarnation: int, ack: Ack, reply: Reply) -> None:
        """Takes an acknowledgement; `reply` is called with news, or after five seconds without."""
        if self.is_missed:
            reply(Answer(what="lost"))
        elif self.status == "gone":
            self._waiting.append(reply)
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

    def _acknowledge(self, ack: Ack) -> None:
        self.watch_ack(self, ack)
        self._ack = Ack(max(self._ack.durable, ack.durable), max(self._ack[1], ack.committed))
        if self._blocked is not None and self._blocked < self._ack.committed:
            index, self._blocked = self._blocked, None
            self.released(self, index)
            self._go_on()

    def _news(self) -> None:
        reports = [self.reported[at] for at in range(self._ack.durable, self._next)]
        if reports:
            self._answer(Answer(reports, is_terminating=self._is_terminating))
        elif self.ended:
            self._answer(Answer(what=self.ended))
        elif self._is_terminating and not self._said_so:
            self._answer(Answer(is_terminating=True))

    def _answer(self, answer: Answer) -> None:
        if self.status == "gone" and not self.is_missed:
            return
        call, self._call = self._call, None
        if call is not None:
            self._said_so |= answer.is_terminating
            call(answer)

    def _answer_to(self, reply: Reply) -> None:
        if self._call is reply and not self._frozen:
            self._answer(Answer(is_terminating=self._is_terminating))

    # --- the train function ---------------------------------------------------------------------------

    def _go_on(self) -> None:
        if not self._script:  # it has failed meanwhile
            return
        step = self._script.pop(0)
        self._world.after(step.pause_s, lambda: self._do(step))

    def _do(self, step: Step) -> None:
        if self.status == "gone" or self.ended:
            return
        if step.what in ("report", "checkpoint", "async"):
            self._report(step)
        elif step.what == "die":
            self.go("it dies")
            self.failed(self)
        elif step.what == "freeze":
            self._frozen, self._call = True, None
        elif step.what != "stuck":
            self._end(step.what)
        self._news()

    def fail(self) -> None:
        """Its train function raises, wherever it is."""
        if self.status == "up" and self._script is not None and not self.ended:
            self._script = []
            self._end("failed")
            self._news()

    def _end(self, how: str) -> None:
        self.ended = how
        self._world.say(str(self), how)
        if how == "failed":
            self.failed(self)

    def _report(self, step: Step) -> None:
        index, self._next = self._next, self._next + 1
        assert self.rank is not None
        report = e.ReportReceived(rank=self.rank, index=index, checkpoint=step.directory)
        metrics = {"loss": 1 / (index + 1), "rank": self.rank, "made by": str(self)}
        report.metrics.CopyFrom(to_map(metrics))
        self.reported[index] = report
        self._world.say(str(self), f"reports {index} {step.what} {step.directory}")
        if step.what == "checkpoint":
            self._blocked = index
        else:
            self._go_on()
