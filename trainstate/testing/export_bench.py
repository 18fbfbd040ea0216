"""A journal, a sink, and a pump between them that can be made to fail at every step it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from trainstate.core import Run, evolve, initial
from trainstate.errors import SinkUnavailable
from trainstate.export import (
    Backoff,
    Counters,
    Cursor,
    CursorFile,
    Exporter,
    Guarantee,
    Limits,
    Pump,
    Recorded,
)
from trainstate.store import History

R = TypeVar("R")

# Small, so that the story has many batches, and a kill many places.
LIMITS = Limits(records=4, events=11)


class Killed(BaseException):
    """The process of the pump has ended here; no `except Exception` survives it."""


class NoWait:
    """A stop that nobody asks for, and that waits for nothing."""

    def wait(self, timeout: float, /) -> bool:
        """Never asked to stop."""
        return False


@dataclass
class Faults:
    """What goes wrong at the n-th (from 1) coming to a step. `fired` proves that it did."""

    plan: Mapping[tuple[str, int], Callable[[], None]] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    fired: int = 0

    def at(self, step: str) -> None:
        """The pump is at that step now."""
        self.seen[step] += 1
        fault = self.plan.get((step, self.seen[step]))
        if fault is not None:
            self.fired += 1
            fault()


@dataclass
class Bench(Generic[R]):
    """A journal, a sink, and a pump between them that can be made to fail."""

    journal: Path
    home: Path
    open_in: Callable[[Path], Exporter[R]]
    read_back: Callable[[Path], Sequence[Any]]
    tear: Callable[[Path], None] | None
    shown: Callable[[R], Any]

    def sink(self, name: str = "sink") -> Path:
        """The folder of a sink."""
        folder = self.home / name
        folder.mkdir(exist_ok=True)
        return folder

    @contextmanager
    def pump(self, faults: Faults, name: str = "sink") -> Iterator[Pump[R]]:
        """A pump of the journal to that sink, as a new process would make it."""
        exporter = FaultyExporter(self.open_in(self.sink(name)), faults)
        cursor = _FaultyCursor(self.home / f"{name}.cursor", faults)
        dead = self.dead(name)
        backoff = Backoff(attempts_max=9)
        pump: Pump[R] = Pump(
            History(self.journal), exporter, cursor, dead, limits=LIMITS, backoff=backoff
        )
        with pump:
            yield pump

    def steps(self) -> list[tuple[str, int]]:
        """Every step of an undisturbed export: what it is, and the how-manieth of its kind."""
        faults = Faults()
        self.run(faults, "undisturbed")
        return [(step, count) for step, n in faults.seen.items() for count in range(1, n + 1)]

    def kill(
        self, name: str, step: tuple[str, int], dying: Callable[[], None] | None = None
    ) -> None:
        """Exports until that step, where the pump dies. Raises AssertionError if it never came there."""
        try:
            self.run(Faults({step: dying or die}), name)
        except Killed:
            return
        raise AssertionError(f"the pump was never at {step}")

    def run(self, faults: Faults | None = None, name: str = "sink") -> Counters:
        """Exports what there is, with those faults."""
        with self.pump(faults or Faults(), name) as pump:
            return pump.run_once(NoWait())

    def dead(self, name: str = "sink") -> Path:
        """The dead letters of a sink."""
        return self.home / f"{name}.dead"

    def expected(self) -> list[Any]:
        """What the sink must hold of the whole journal."""
        exporter = self.open_in(self.sink("never-written"))
        try:
            return [self.shown(record) for record in encoded(exporter, self.journal)]
        finally:
            exporter.close()

    def require_delivered(self, what: str, name: str = "sink") -> None:
        """Raises AssertionError unless the sink holds what its guarantee promises of the journal."""
        guarantee = self.guarantee()
        found = list(self.read_back(self.sink(name)))
        if guarantee is Guarantee.AT_LEAST_ONCE:
            found = without_repeats(found)
        require_equal(self.expected(), found, what)

    def guarantee(self) -> Guarantee:
        """What the exporter promises."""
        exporter = self.open_in(self.sink("never-written"))
        exporter.close()
        return exporter.guarantee


def encoded(exporter: Exporter[R], journal: Path) -> Iterator[R]:
    """The records of every event of a journal that has one."""
    for recorded, run in states(journal):
        record = exporter.encode(recorded, run)
        if record is not None:
            yield record


def states(journal: Path) -> Iterator[tuple[Recorded, Run]]:
    """Every event of a journal, and the state of its run just after it."""
    runs: dict[str, Run] = {}
    for recorded in History(journal).events():
        run = runs.setdefault(recorded.event.run_id, initial(recorded.event.run_id))
        evolve(run, recorded.event)
        yield recorded, run


class FaultyExporter(Generic[R]):
    """An exporter with steps: resume, write, acknowledged."""

    def __init__(self, inner: Exporter[R], faults: Faults) -> None:
        self.name = inner.name
        self.target = inner.target
        self.guarantee = inner.guarantee
        self._inner = inner
        self._faults = faults

    def encode(self, recorded: Recorded, run: Run) -> R | None:
        return self._inner.encode(recorded, run)

    def resume(self, mark: bytes | None) -> bytes:
        self._faults.at("resume")
        return self._inner.resume(mark)

    def write(self, records: Sequence[R]) -> bytes:
        self._faults.at("write")
        mark = self._inner.write(records)
        self._faults.at("acknowledged")
        return mark

    def close(self) -> None:
        self._inner.close()


class _FaultyCursor:
    """A cursor file with steps: save, saved."""

    def __init__(self, path: Path, faults: Faults) -> None:
        self._inner = CursorFile(path)
        self._faults = faults

    def load(self) -> Cursor | None:
        return self._inner.load()

    def save(self, cursor: Cursor) -> None:
        self._faults.at("save")
        self._inner.save(cursor)
        self._faults.at("saved")

    def close(self) -> None:
        self._inner.close()


def die() -> None:
    """The pump is killed here."""
    raise Killed


def be_away() -> None:
    """The sink cannot be reached here."""
    raise SinkUnavailable("the sink is away")


def without_repeats(records: Sequence[Any]) -> list[Any]:
    """What is left when whatever was seen before is dropped."""
    kept: list[Any] = []
    for record in records:
        if record not in kept:
            kept.append(record)
    return kept


def require(holds: bool, otherwise: str) -> None:
    """Raises AssertionError unless it holds."""
    if not holds:
        raise AssertionError(otherwise)


def require_equal(expected: Any, found: Any, what: str) -> None:
    """Raises AssertionError unless they are equal; it shows both."""
    if expected != found:
        raise AssertionError(f"{what}:\n  expected {_short(expected)}\n  found    {_short(found)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 2000 else f"{text[:1000]} ... {text[-1000:]}"
