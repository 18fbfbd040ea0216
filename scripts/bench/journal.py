"""Benchmarks of the journal, the store, the fold and the import, each against a raw limit or a peer.

Every ratio is taken in one run, in turn, on one file system. `--events N` sizes the large journal of the
reopening rows (default 10,000,000), `--quick` runs everything small.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from measuring import Row, machine, show
from rows_append import append_rows
from rows_fold import fold_rows
from rows_peers import peer_rows
from rows_reopen import reopen_rows

SECTIONS: dict[str, Callable[[Path, int], list[Row]]] = {
    "append": append_rows,
    "fold": fold_rows,
    "reopen": reopen_rows,
    "peers": peer_rows,
}


def main() -> int:
    """Runs the chosen sections; exits 1 if a row misses what was asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="default: all")
    parser.add_argument("--events", type=int, default=10_000_000, help="of the large journal")
    parser.add_argument("--quick", action="store_true", help="everything small, for a first look")
    parser.add_argument("--folder", help="where to write; default: the temporary folder")
    options = parser.parse_args()
    events = 200_000 if options.quick else options.events
    missed = 0
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name in options.sections or SECTIONS:
            place = Path(folder) / name
            place.mkdir()
            missed |= show(f"{name}, on {machine()}", SECTIONS[name](place, events))
    return missed


if __name__ == "__main__":
    sys.exit(main())
