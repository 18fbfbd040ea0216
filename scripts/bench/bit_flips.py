"""Every single-bit flip, every truncation and the loss of every file of a small journal, at full size.

Three journals with every kind of file: cleanly closed, left by a killed writer, and after a power cut.
Each harm must be detected (a typed error that names the file) or be harmless (the same events, states
and exports, and the next writer goes on). Prints how many of each; exits 1 at the first that is neither.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from rich.console import Console
from rich.table import Table

from tests.proofs.flips import LEFT_BY, Specimen, table
from tests.proofs.places import place

Found = Counter[tuple[str, str, str]]


def share(left_by: str, stride: int, number: int, of: int) -> Found:
    """What falls to one of `of` processes."""
    with place() as folder:
        specimen = Specimen(folder / "place", left_by)
        return table(specimen, specimen.harms(stride * of, of, number * stride))


def main() -> int:
    """Does every harm to each journal; 1 if one is neither detected nor harmless."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stride", type=int, default=1, help="every so manieth bit; default: all")
    options = parser.parse_args()
    of = os.cpu_count() or 1
    shown = Table("left by", "file", "harm", "done", "detected", "harmless", title="damage")
    with ProcessPoolExecutor(of) as pool:
        for left_by in LEFT_BY:
            parts = [pool.submit(share, left_by, options.stride, n, of) for n in range(of)]
            found: Found = sum((part.result() for part in parts), Counter())
            for kind, sort in sorted({(kind, sort) for kind, sort, _ in found}):
                counts = [found[kind, sort, outcome] for outcome in ("detected", "harmless")]
                shown.add_row(left_by, kind, sort, *(f"{n:,}" for n in (sum(counts), *counts)))
    Console(width=None if os.isatty(1) else 120).print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
