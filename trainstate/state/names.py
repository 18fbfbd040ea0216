"""What our actors and placement groups are called in Ray: the same names for who makes them, looks for
them, and removes them.
"""

from __future__ import annotations

NAMESPACE = "_trainstate"
STATE_ACTOR = "trainstate.v1"


def controller_name(run_id: str) -> str:
    """The controller of a run."""
    return f"controller/{run_id}"


def attempt_name(run_id: str, attempt_id: str) -> str:
    """The placement group of an attempt; what belongs to the attempt begins with this and `/`."""
    return f"{run_id}/{attempt_id}"
