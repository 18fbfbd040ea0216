"""Benchmarks of failures, and of nodes that come and go, side by side with Ray Train V2.

Both run the same train functions in turn, on one cluster per section, with Ray's settings at their
defaults. What is timed is written to files by the train functions themselves.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from measuring import Row, chosen, machine, show
from rows_arrival import arrival_rows
from rows_groups import group_rows
from rows_resize import resize_rows

SECTIONS: dict[str, Callable[[Path, int], list[Row]]] = {
    "groups": group_rows,
    "resize": resize_rows,
    "arrival": arrival_rows,
}


def main() -> int:
    """Runs the chosen sections; exits 1 if a row misses what was asked."""
    sections, rounds = chosen(__doc__, [*SECTIONS])
    missed = 0
    for name in sections:
        # Ray puts sockets below it, whose paths must be short.
        with tempfile.TemporaryDirectory(prefix="ts") as folder:
            os.environ["TRAINSTATE_HOME"] = f"{folder}/home"
            rows = SECTIONS[name](Path(folder), rounds)
        missed |= show(f"{name}, on {machine()}", rows)
    return missed


if __name__ == "__main__":
    sys.exit(main())
