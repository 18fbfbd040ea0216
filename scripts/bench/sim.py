"""The simulation at full size: one seed is one run in one world (tests/sim), led to its end.

Every promise of tests/sim/invariants*.py is looked at all the time. Prints what went wrong in those
worlds, what the runs did about it, and how they ended; exits 1 if a promise is broken, with the command
that shows that world again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.sim.run import Failed, simulate

_CHUNK = 25


class Share(NamedTuple):
    """What came of some seeds: counts, and why those seeds are broken that are."""

    faults: Counter[str]
    covered: Counter[str]
    ends: Counter[str]
    broken: dict[int, str]


def lead(seeds: Sequence[int]) -> Share:
    """Simulates these seeds."""
    share = Share(Counter(), Counter(), Counter(), {})
    for seed in seeds:
        try:
            made = simulate(seed)
        except Failed as failed:
            share.broken[seed] = str(failed).split("\n", 1)[0]
        else:
            share.faults.update(made.faults)
            share.covered.update(made.covered)
            share.ends[made.run.status.name if made.run.status else "never begun"] += 1
    return share


def shares(seeds: range, processes: int, console: Console) -> Iterator[Share]:
    """The seeds in chunks, in so many processes; as they come."""
    chunks = [seeds[at : at + _CHUNK] for at in range(0, len(seeds), _CHUNK)]
    with ProcessPoolExecutor(processes) as pool:
        parts = [pool.submit(lead, chunk) for chunk in chunks]
        done = track(
            as_completed(parts),
            f"{len(seeds):,} worlds",
            total=len(parts),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        for part in done:
            yield part.result()


def counts(title: str, *columns: tuple[str, Counter[str]]) -> Table:
    """Counts side by side, the most frequent first."""
    table = Table(title=title)
    for name, _ in columns:
        table.add_column(name)
        table.add_column("", justify="right")
    lists = [counter.most_common() for _, counter in columns]
    for row in range(max(map(len, lists))):
        cells = [(one[row][0], f"{one[row][1]:,}") if row < len(one) else ("", "") for one in lists]
        table.add_row(*(cell for pair in cells for cell in pair))
    return table


def main() -> int:
    """Simulates; 1 if a world breaks a promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="?", type=int, default=2000, help="how many; default: 2000")
    parser.add_argument("--first", type=int, default=0, help="the first of them; default: 0")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    console = Console(width=None if os.isatty(1) else 140)
    began_s = time.perf_counter()
    total = Share(Counter(), Counter(), Counter(), {})
    seeds = range(options.first, options.first + options.seeds)
    for share in shares(seeds, options.processes, console):
        for sum_, part in zip(total, share, strict=True):
            sum_.update(part)  # type: ignore[arg-type]  # counters add, and a dict is joined
    rate = len(seeds) / (time.perf_counter() - began_s)
    columns = (("faults", total.faults), ("what runs did", total.covered), ("ended as", total.ends))
    console.print(counts(f"{len(seeds):,} worlds", *columns))
    for seed, why in sorted(total.broken.items()):
        console.print(f"seed {seed}: {why}\n    python -m tests.sim {seed}", markup=False)
    print(f"{len(seeds):,} seeds, {len(total.broken):,} broken; {rate:,.0f} seeds/s")
    return int(bool(total.broken))


if __name__ == "__main__":
    sys.exit(main())
