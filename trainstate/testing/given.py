"""Given-when-then for the rules of a run, on the pure core: no store, no clock.

    given(event(RunCreated(name="a")), event(RunScheduling()))
        .when(event(RunRunning()))
        .then(status=RunStatus.RUNNING)

    given(event(RunCreated())).when(event(RunResizing())).refused("does not go from INITIALIZING")

    given(*running)
        .observed(WorkerFailed("a1", 0, 0, Cause.WORKER_ERROR, error))
        .then(events=["worker_failing", "failure_decided", RunRestarting(cause=2)], effects=[Stop("a1")])

The given events must be legal, and so must be what is decided. A failure prints what was given and what
happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import repeat
from typing import Any, NoReturn

from google.protobuf import text_format
from google.protobuf.message import Message

from trainstate.core import Run, check, evolve, initial
from trainstate.core.decide import decide
from trainstate.core.deciding import KIND_OF
from trainstate.core.effects import Effect
from trainstate.core.observations import Observation
from trainstate.core.plan import plan
from trainstate.errors import InvalidTransition
from trainstate.v1 import event_pb2 as e

# The first event of a story that says nothing of time: 2020-01-01, in ns since the Unix epoch.
START_NS = 1_577_836_800 * 10**9
_STEP_NS = 10**9


def event(payload: Message, attempt_id: str = "", reason: str = "", at_s: float = 0) -> e.Event:
    """An event with that payload. `at_s` is in seconds after START_NS; 0: one after the event before."""
    made = e.Event(attempt_id=attempt_id, reason=reason)
    made.time_unix_nano = START_NS + round(at_s * 10**9) if at_s else 0
    getattr(made, KIND_OF[payload.DESCRIPTOR.full_name]).CopyFrom(payload)
    return made


def stamp(run: Run, bare: e.Event) -> e.Event:
    """A copy of `bare` as the next event of `run`: what its envelope lacks is filled in."""
    recorded = e.Event()
    recorded.CopyFrom(bare)
    recorded.run_id = run.run_id
    recorded.run_seq = run.run_seq + 1
    recorded.incarnation = recorded.incarnation or run.incarnation or 1
    if not recorded.time_unix_nano:
        recorded.time_unix_nano = run.time_ns + _STEP_NS if run.run_seq else START_NS
    return recorded


def given(*events: e.Event, run_id: str = "run") -> Given:
    """A run of which those events are recorded. Raises AssertionError if one of them is refused."""
    story = Given(initial(run_id))
    for number, bare in enumerate(events, start=1):
        try:
            story.record(bare)
        except InvalidTransition as refused:
            raise AssertionError(f"given event {number} is refused: {refused.message}") from refused
    return story


class Given:
    """A run and the events that made it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.events: list[e.Event] = []

    def record(self, bare: e.Event) -> None:
        """Stamps an event, checks and applies it. Raises InvalidTransition."""
        recorded = stamp(self.run, bare)
        check(self.run, recorded)
        evolve(self.run, recorded)
        self.events.append(recorded)

    def when(self, *events: e.Event) -> When:
        """Records `events` as well, up to the first that is refused."""
        return When(self, events)

    def observed(self, *observations: Observation, at_s: float = 0) -> When:
        """Records what is decided on each of `observations`, in order.

        `at_s` is when, in seconds after START_NS; 0: one second after the event before.
        """
        return When(self, self._decided(observations, round(at_s * 10**9)))

    def _decided(self, observations: Sequence[Observation], at_ns: int) -> Iterator[e.Event]:
        for one in observations:
            now_ns = START_NS + at_ns if at_ns else self.run.time_ns + _STEP_NS
            yield from decide(self.run, one, now_ns).events


class When:
    """What happened then."""

    def __init__(self, before: Given, events: Iterable[e.Event]) -> None:
        self.run = before.run
        self.events: list[e.Event] = []
        self._given = list(before.events)
        self._refusal = ""
        try:
            for one in events:
                self.events.append(one)
                before.record(one)
        except InvalidTransition as refused:
            self._refusal = refused.message

    def then(
        self,
        expected: Mapping[str, Any] | None = None,
        *,
        events: Sequence[str | Message] | None = None,
        effects: Sequence[Effect] | None = None,
        **fields: Any,
    ) -> Run:
        """The events were taken, and these fields of the run have these values; returns the run.

        `expected` names what lies deeper by path: `{"attempt.workers.0.status": WorkerStatus.DEAD}`.
        `events` are exactly those that happened, each by its payload or only by the payload's name;
        `effects`, in any order, what is to be under way now.
        """
        if self._refusal:
            self._fail(f"expected no refusal\nrefused: {self._refusal}")
        if events is not None:
            self._compare("events", list(events), [*map(_payload, self.events, _pad(events))])
        if effects is not None:
            self._compare("effects", sorted(effects, key=repr), sorted(plan(self.run), key=repr))
        for path, value in {**(expected or {}), **fields}.items():
            self._compare(path, value, reduce(_step, path.split("."), self.run))
        return self.run

    def refused(self, match: str = "") -> str:
        """An event was refused, for a reason that contains `match`; returns the reason."""
        if not self._refusal:
            self._fail(f"expected a refusal with {match!r}\nnone was refused")
        if match not in self._refusal:
            self._fail(f"expected a refusal with {match!r}\nrefused: {self._refusal}")
        return self._refusal

    def _compare(self, what: str, expected: Any, actual: Any) -> None:
        if expected != actual:
            self._fail(f"expected {what} = {expected!r}\nfound    {what} = {actual!r}")

    def _fail(self, text: str) -> NoReturn:
        lists = (("given", self._given), ("when", self.events))
        story = (f"{name}\n{_listed(events)}" for name, events in lists)
        raise AssertionError("\n".join((text, *story)))


def _step(value: Any, name: str) -> Any:
    """One step of a path: an attribute, or a key or index of a container."""
    if isinstance(value, dict):
        return value[int(name)] if name.lstrip("-").isdecimal() else value[name]
    return value[int(name)] if isinstance(value, list | tuple) else getattr(value, name)


def _payload(event: e.Event, like: str | Message) -> str | Message:
    """What happened, in the form of what was expected."""
    kind = event.WhichOneof("payload") or ""
    payload: Message = getattr(event, kind) if kind else event
    return kind if isinstance(like, str) else payload


def _pad(expected: Sequence[str | Message]) -> Iterator[str | Message]:
    yield from expected
    yield from repeat("")


def _listed(events: Sequence[e.Event]) -> str:
    lines = (text_format.MessageToString(one, as_one_line=True) for one in events)
    return "\n".join(f"  {line}" for line in lines) or "  nothing"
