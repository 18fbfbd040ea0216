"""Benchmarks of the controller, side by side with Ray Train V2: one cluster, one driver, in turn.

Both run the same train functions. What is timed inside a job is written to files by the train functions
themselves, or read from the journal.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import ray
from measuring import Row, chosen, machine, show
from rows_fit import fit_rows
from rows_recovery import recovery_rows
from rows_reports import report_rows
from rows_waiting import waiting_rows

SECTIONS: dict[str, Callable[[Path, int], list[Row]]] = {
    "fit": fit_rows,
    "recovery": recovery_rows,
    "reports": report_rows,
    "waiting": waiting_rows,
}


def main() -> int:
    """Runs the chosen sections; exits 1 if a row misses what was asked."""
    sections, rounds = chosen(__doc__, [*SECTIONS])
    missed = 0
    with tempfile.TemporaryDirectory(prefix="ts") as folder:
        os.environ["TRAINSTATE_HOME"] = f"{folder}/home"
        ray.init(
            num_cpus=4,
            include_dashboard=False,
            _temp_dir=f"{folder}/r",
            log_to_driver=False,
            logging_level="ERROR",
        )
        try:
            for name in sections:
                place = Path(folder) / name
                place.mkdir()
                missed |= show(f"{name}, on {machine()}", SECTIONS[name](place, rounds))
        finally:
            ray.shutdown()
    return missed


if __name__ == "__main__":
    sys.exit(main())
