"""Kill cycles at full size: writers, imports and exports under SIGKILL, and stopped writers taken over.

Every kill falls where the victim happens to be, a few acknowledgements after its start. Prints what was
done; exits 1 at the first thing lost, invented, doubled or out of place, naming the seed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.proofs import victims
from tests.proofs.kills import WriterKills, killed_export, killed_import, run_to_end, zombie
from tests.proofs.places import place
from tests.proofs.victims import ROOT, Nursery

LOGS = sorted((ROOT / "tests/data").glob("**/*.log"))
_CYCLES_A_JOURNAL = 50


def writers(folder: Path, nursery: Nursery, cycles: int, draw: random.Random) -> str:
    acknowledged = torn = 0
    for number in range(-(-cycles // _CYCLES_A_JOURNAL)):
        kills = WriterKills(folder / f"writers-{number}", nursery)
        for _ in range(_CYCLES_A_JOURNAL):
            kills.cycle(draw)
        acknowledged += kills.counts["acknowledgements"]
        torn += kills.counts["torn"]
        shutil.rmtree(kills.path)
    return f"{acknowledged:,} acknowledgements, none lost; {torn} torn ends"


def imports(folder: Path, nursery: Nursery, cycles: int, draw: random.Random) -> str:
    each = -(-cycles // len(LOGS))
    left = sum(killed_import(folder, nursery, log, each, draw) for log in LOGS)
    return f"{len(LOGS)} logs, exports equal; {left} left events behind"


def exports(folder: Path, nursery: Nursery, cycles: int, draw: random.Random) -> str:
    journal = folder / "journal"
    assert run_to_end(nursery.start(victims.import_log, journal, LOGS[0])) == 0
    each = 5
    times = -(-cycles // each)
    in_flight = sum(killed_export(folder, nursery, journal, each, draw) for _ in range(times))
    return f"{times} exports, each event once; {in_flight} left a range in flight"


def zombies(folder: Path, nursery: Nursery, cycles: int, draw: random.Random) -> str:
    adopted = 0
    for number in range(cycles):
        path = folder / f"zombie-{number}"
        adopted += zombie(path, nursery, draw).adopted
        shutil.rmtree(path)
    return f"each Fenced, none lost; {adopted} entries written and not acknowledged were adopted"


ROWS = {
    "writer, SIGKILL": (writers, 500),
    "import, SIGKILL": (imports, 300),
    "export pump, SIGKILL": (exports, 300),
    "writer, SIGSTOP, taken over, SIGCONT": (zombies, 500),
}


def main() -> int:
    """Kills; 1 if a promise does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=float, default=1.0, help="of the default number of cycles")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    table = Table("what", "kills", "found", title="killed processes")
    with place() as folder, Nursery(folder) as nursery:
        for what, (run, cycles) in ROWS.items():
            count = max(1, round(cycles * options.times))
            found = run(folder, nursery, count, random.Random(options.seed))
            table.add_row(what, f"{count:,}", found)
    Console(width=None if os.isatty(1) else 140).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
