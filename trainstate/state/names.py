"""What our actors and placement groups are called in Ray: the same names for who makes them, looks for
them, and removes them.
"""

from __future__ import annotations

NAMESPACE = "_trainstate"
STATE_ACTOR = "trainstate.v1"


def controller_name(run_id: str) -> str:
    """The controller of a run."""
    return f"controller/{run_id}"


def worker_place(placement: str, bundle: int) -> str:
    """Where a worker runs, as a part of its name: its bundle, and of which placement group."""
    return f"{placement.rpartition('/')[2]}.{bundle}"


def attempt_name(run_id: str, attempt_id: str) -> str:
    """What the names of an attempt's workers and companions begin with, and then `/`."""
    return f"{run_id}/{attempt_id}"
