"""Shows a seed: `python -m tests.sim SEED` prints its trace. Many seeds: scripts/bench/sim."""

from __future__ import annotations

import sys

from tests.sim.run import Failed, simulate


def main(seed: int) -> int:
    try:
        made = simulate(seed)
    except Failed as failed:
        print(*failed.trace, str(failed).split("\n", 1)[0], sep="\n")
        return 1
    print(*made.trace, made.digest, sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1])))
