"""What a run wants done in the world: the result of `plan`.

An effect carries ids only; what it needs to know is in the folded state. It is idempotent: begun again
by a successor it finds what is there and goes on. Two equal effects are the same effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Place:
    """Have the placement group reserved. Ends in Placed or NotPlaced; Short on the way."""

    attempt_id: str
    name: str


@dataclass(frozen=True)
class StartGang:
    """Have every worker of the attempt that is SCHEDULING up. Ends in GangUp or StartFailed."""

    attempt_id: str


@dataclass(frozen=True)
class SetUp:
    """Make the workers ready for training: context, backend. Ends in Ready or StartFailed."""

    attempt_id: str


@dataclass(frozen=True)
class Train:
    """Have the worker train, and talk with it: Reported, and in the end Completed or WorkerFailed."""

    attempt_id: str
    rank: int
    generation: int


@dataclass(frozen=True)
class Publish:
    """Make a complete checkpoint one that a later `fit()` finds. Ends in Published."""

    attempt_id: str
    report_index: int


@dataclass(frozen=True)
class DeleteCheckpoint:
    """Remove a checkpoint that is not to be kept from storage. Ends in Deleted."""

    index: int


@dataclass(frozen=True)
class Stop:
    """Remove the workers and the placement groups of the attempt. Ends in Cleared."""

    attempt_id: str


@dataclass(frozen=True)
class Wake:
    """Wait until then, in ns since the Unix epoch. Ends in Woke."""

    time_ns: int


@dataclass(frozen=True)
class Close:
    """Run what is to run at the end of a run. Ends in Closed."""


Effect: TypeAlias = (
    Place | StartGang | SetUp | Train | Publish | DeleteCheckpoint | Stop | Wake | Close
)
