"""Crash states at full size: every state that a crash may leave of a journal, put back and recovered.

For each change that a recorded life makes to the disk: the state a killed process leaves, and the states
a power cut may leave, up to `--cuts` of them (below that, all). Each is read, opened, written on, closed
and read again. The recovery of `--again` of them is itself crashed at each of its changes. Prints what
was looked at; exits 1 at the first promise that does not hold, naming crash point and seed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from tests.proofs import exports
from tests.proofs.crashes import Bench, Sizes, crashes
from tests.proofs.lives import LIVES, record
from tests.proofs.places import place
from tests.proofs.repairs import DAMAGES, Repair


class Share(NamedTuple):
    """What one process does: every `of`th state, from `number` on."""

    number: int
    of: int
    seed: int
    sizes: Sizes

    def takes(self, index: int) -> bool:
        return index % self.of == self.number


def life(name: str, share: Share) -> Counter[str]:
    """The crashes of a life of a journal, and those of a sample of their recoveries."""
    with place() as folder:
        recording = record(name, folder / "life")
        bench = Bench(folder / "bench")
        draw = random.Random(share.seed)
        taken = []
        for index, crash in enumerate(crashes(recording, share.sizes, draw)):
            if share.takes(index):
                bench.check(crash)
                taken.append(crash)
        wanted = min(len(taken), share.sizes.again // share.of)
        for crash in draw.sample(taken, wanted):
            bench.crash_again(recording, crash, share.sizes)
        bench.counts["changes"] = len(recording.changes)
        return bench.counts


def repair(damage: str, share: Share) -> Counter[str]:
    """The crashes of a repair."""
    with place() as folder:
        one = Repair(damage, folder)
        draw = random.Random(share.seed)
        for index, state in enumerate(one.crashes(share.sizes.cuts, draw)):
            if share.takes(index):
                one.check(state)
        return Counter(power=one.counts["crashes"], changes=len(one.changes))


def store(_: str, share: Share) -> Counter[str]:
    """The crashes of a store with snapshots, archive and an export to a file."""
    counts: Counter[str] = Counter()
    with place() as folder:
        one = exports.record(folder / "life")
        draw = random.Random(share.seed)
        for index, (done, state) in enumerate(exports.crashes(one, share.sizes.cuts, draw)):
            if share.takes(index):
                exports.check(one, done, state, counts)
        return Counter(power=counts["crashes"], changes=len(one.recorder.changes))


ROWS: dict[str, tuple[Callable[[str, Share], Counter[str]], str]] = {
    **{name: (life, name) for name in LIVES},
    **{f"repair: {name}": (repair, name) for name in DAMAGES},
    "store and export": (store, ""),
}
COLUMNS = ["changes", "killed", "power", "killed again", "power again", "torn"]


def main() -> int:
    """Enumerates everything; 1 if a promise does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help=f"of {', '.join(ROWS)}; default: all")
    parser.add_argument("--cuts", type=int, default=100, help="states of one power cut")
    parser.add_argument("--again", type=int, default=160, help="recoveries to crash")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    sizes = Sizes(options.cuts, torn_step=5, again=options.again, cuts_again=6)
    processes = os.cpu_count() or 1
    table = Table("what", *COLUMNS, title="crash states, each recovered")
    total: Counter[str] = Counter()
    with ProcessPoolExecutor(processes) as pool:
        for row in options.rows or ROWS:
            run, name = ROWS[row]
            shares = [Share(n, processes, options.seed, sizes) for n in range(processes)]
            parts = list(pool.map(run, [name] * processes, shares))
            counts = sum(parts, Counter[str]())
            counts["changes"] = parts[0]["changes"]
            total += counts
            table.add_row(row, *(f"{counts[column]:,}" for column in COLUMNS))
    table.add_row("all", *(f"{total[column]:,}" for column in COLUMNS))
    Console(width=None if os.isatty(1) else 120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
