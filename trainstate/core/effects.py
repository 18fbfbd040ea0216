"""What a run wants done in the world: the result of `plan`.

An effect carries ids only; what it needs to know is in the folded state. It is idempotent: begun again
by a successor it finds what is there and goes on. Two equal effects are the same effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Place:
    """Have the run's placement groups reserved, as far as an attempt needs them.

    An elastic run has no attempt yet: its size follows from what there is. `asked` is how many groups
    are requested: of more it is another effect. Ends in Placed or NotPlaced; Short on the way.
    """

    attempt_id: str = ""
    asked: int = 1


@dataclass(frozen=True)
class Watch:
    """Tell of nodes that come, go, or are about to: Placed and Preempted. Has no end of its own."""

    attempt_id: str


@dataclass(frozen=True)
class Release:
    """Give these placement groups back. Ends in Released."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class StartGang:
    """Have the workers that are SCHEDULING up: all, or those of a replica group in its generation.

    Ends in GangUp or StartFailed.
    """

    attempt_id: str
    group: int | None = None
    generation: int = 0


@dataclass(frozen=True)
class SetUp:
    """Make these workers ready for training: context, backend. Ends in Ready or StartFailed."""

    attempt_id: str
    group: int | None = None
    generation: int = 0


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
    group: int | None = None


@dataclass(frozen=True)
class DeleteCheckpoint:
    """Remove a checkpoint that is not to be kept from storage. Ends in Deleted."""

    index: int


@dataclass(frozen=True)
class Stop:
    """Remove the workers of the attempt. Ends in Cleared."""

    attempt_id: str


@dataclass(frozen=True)
class Wake:
    """Wait until then, in ns since the Unix epoch. Ends in Woke."""

    time_ns: int


@dataclass(frozen=True)
class Close:
    """Run what is to run at the end of a run. Ends in Closed."""


Effect: TypeAlias = (
    Place
    | Watch
    | Release
    | StartGang
    | SetUp
    | Train
    | Publish
    | DeleteCheckpoint
    | Stop
    | Wake
    | Close
)
