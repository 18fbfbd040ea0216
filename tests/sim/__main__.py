"""Shows a seed: `python -m tests.sim SEED [LAST]` prints its trace, or tries all of SEED..LAST."""

from __future__ import annotations

import sys
from collections import Counter

from tests.sim.run import Failed, simulate


def main(first: int, last: int | None = None) -> int:
    faults: Counter[str] = Counter()
    broken = 0
    for seed in range(first, (last or first) + 1):
        try:
            made = simulate(seed)
        except Failed as failed:
            broken += 1
            lines = [str(failed)] if last else [*failed.trace, str(failed).split("\n", 1)[0]]
        else:
            faults += made.faults
            lines = [] if last else [*made.trace, made.digest]
        for line in lines:
            print(line)
    if last:
        print(f"{broken} broken; faults: {dict(faults.most_common())}")
    return int(broken > 0)


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))
