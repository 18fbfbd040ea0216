"""What a sink must be able to do. All else (tail, fold, batches, retries, the cursor) is the pump's.

A *mark* is how the sink says how far it got: opaque bytes that the cursor keeps. It is what lets a sink
without transactions be exactly once: `resume(mark)` makes the sink hold what it held at that mark, and
no write ever starts from anywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, TypeVar

from trainstate.core import Run
from trainstate.store import Recorded

# What one event becomes in the sink: bytes, or a mapping of plain values. The pump never looks inside.
R = TypeVar("R")


class Guarantee(StrEnum):
    """What the sink holds after any number of crashes of the pump, and retries."""

    # Each record once, in order: what a failed write left is dropped by `resume`.
    EXACTLY_ONCE = "exactly_once"
    # Each record once for whoever reads by key: repeats have the key of what they repeat.
    EFFECTIVELY_ONCE = "effectively_once"
    # Each record at least once; a range that was not acknowledged is repeated whole.
    AT_LEAST_ONCE = "at_least_once"


class Exporter(Protocol[R]):
    """A sink. `name` is that of its entry point; `target` says where it writes, in one normal form.

    A class of exporters has a classmethod `open(target, **options)`, which trainstate.export.registry
    calls. Methods raise SinkUnavailable for what may pass (the pump waits, resumes and writes again) and
    SinkRejected for what never will (the record goes to the dead letters, the rest goes on).
    """

    name: str
    target: str
    guarantee: Guarantee

    def encode(self, recorded: Recorded, run: Run) -> R | None:
        """The record of an event, or None for none; `run` is its run's state just after the event.

        Pure: the same event and state give an equal record, and nothing of `run` stays in it. An event
        for which it raises, whatever it raises, becomes a dead letter.
        """
        ...

    def resume(self, mark: bytes | None) -> bytes:
        """Makes the sink hold what it held at `mark`, and returns the mark to go on from.

        Called before the first write and before a write is repeated. None: nothing was ever written
        under this cursor; raises RefusedError if the sink holds something already. Raises CursorMismatch
        if the sink holds less than the mark says.
        """
        ...

    def write(self, records: Sequence[R]) -> bytes:
        """Returns the new mark when the sink has acknowledged all of them, durably."""
        ...

    def close(self) -> None:
        """Lets go of the sink, and writes nothing. May be called twice."""
        ...
