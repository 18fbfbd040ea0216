"""Every rank together: the collectives of ray.train, for control and small data."""

from __future__ import annotations

from typing import TypeVar

from trainstate.controller.session import current

__all__ = ["barrier", "broadcast_from_rank_zero"]

_T = TypeVar("_T")


def barrier() -> None:
    """Returns when every rank has called it. Raises RuntimeError outside a training function."""
    current().barrier()


def broadcast_from_rank_zero(data: _T) -> _T:
    """What rank 0 passes, on every rank; every rank calls it. For less than a kilobyte.

    Raises RuntimeError outside a training function.
    """
    sent: _T = current().broadcast(data)
    return sent
