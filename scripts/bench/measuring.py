"""What the benchmarks share: alternating measurements, ratios of medians, and a table."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

Seconds = float


class Row(NamedTuple):
    """One comparison: ours against a named limit or peer, and what was asked of the ratio."""

    what: str
    ours: str
    other: str
    against: str
    ratio: float | None
    asked: str
    holds: bool | None


def timed(work: Callable[[], object]) -> Seconds:
    """How long `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def alternate(rounds: int, *works: Callable[[], Seconds]) -> list[float]:
    """The medians of several measurements, taken in turn so that all see the same machine."""
    taken: list[list[Seconds]] = [[] for _ in works]
    for _ in range(rounds):
        for index, work in enumerate(works):
            taken[index].append(work())
    return [statistics.median(times) for times in taken]


def at_most(what: str, ours: float, other: float, against: str, limit: float, unit: str) -> Row:
    """A row that holds if ours / other is at most `limit`."""
    holds = ours / other <= limit
    return _compared(what, ours, other, against, unit, f"≤ {limit:g} x", holds)


def at_least(what: str, ours: float, other: float, against: str, limit: float, unit: str) -> Row:
    """A row that holds if ours / other is at least `limit`."""
    holds = ours / other >= limit
    return _compared(what, ours, other, against, unit, f"≥ {limit:g} x", holds)


def _compared(
    what: str, ours: float, other: float, against: str, unit: str, asked: str, holds: bool
) -> Row:
    return Row(what, _with(ours, unit), _with(other, unit), against, ours / other, asked, holds)


def absolute(what: str, ours: float, unit: str, limit: float, *, most: bool) -> Row:
    """A row about a figure on its own."""
    holds = ours <= limit if most else ours >= limit
    return Row(
        what, _with(ours, unit), "", "", None, f"{'≤' if most else '≥'} {limit:,g} {unit}", holds
    )


def noted(what: str, ours: float, unit: str, against: str) -> Row:
    """A row of which nothing was asked: a peer, for comparison."""
    return Row(what, _with(ours, unit), "", against, None, "", None)


def _with(figure: float, unit: str) -> str:
    digits = 0 if figure >= 100 else 1 if figure >= 10 else 2
    return f"{figure:,.{digits}f} {unit}"


def show(title: str, rows: Sequence[Row]) -> int:
    """Prints the table; 1 if something asked for does not hold."""
    table = Table("what", "ours", "other", "against", "ratio", "asked", "", title=title)
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
        mark = {True: "ok", False: "MISSED", None: ""}[row.holds]
        table.add_row(row.what, row.ours, row.other, row.against, ratio, row.asked, mark)
    Console(width=None if os.isatty(1) else 150).print(table)
    return int(any(row.holds is False for row in rows))


def machine() -> str:
    """The machine, in a line."""
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown processor",
    )
    return f"{os.cpu_count()}x {model}, Linux {os.uname().release.split('-')[0]}"


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def chosen(about: str | None, sections: Sequence[str]) -> tuple[Sequence[str], int]:
    """What the command line asks for: sections, by default all, and rounds."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("sections", nargs="*", choices=[*sections, []], help="default: all")
    parser.add_argument(
        "--rounds", type=int, default=5, help="of each measurement; its median counts"
    )
    options = parser.parse_args()
    return options.sections or sections, options.rounds
