"""Reopening after a kill, and reading one run: a large history against a small one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from making import run_id
from measuring import Row, alternate, at_most, timed

from trainstate.store import History, Store

_SMALL = 100_000
_PER_RUN = 1000
# Writes runs until it is told how many, and dies without closing.
_WRITE = """
import os, signal, sys
sys.path.insert(0, "scripts/bench")
from making import fill
from trainstate.store import Store
store = Store.open(sys.argv[1], segment_bytes_max=int(sys.argv[3]))
fill(store, range(int(sys.argv[2]) // 1000), 1000)
os.kill(os.getpid(), signal.SIGKILL)
"""


def reopen_rows(folder: Path, events: int) -> list[Row]:
    """Both journals end in a killed writer; their last segments are equally full."""
    # A segment holds exactly the small journal, and the large one is a multiple of it.
    segment = 16 * 1024 * 1024
    large, small = folder / "large", folder / "small"
    for path, count in ((large, events), (small, _SMALL)):
        _write(path, count, segment)
    again, first = alternate(5, lambda: _reopen(large), lambda: _reopen(small))
    runs = events // _PER_RUN
    one, other = alternate(
        9, lambda: timed(lambda: _read(large, runs // 2)), lambda: timed(lambda: _read(small, 50))
    )
    against = f"the same with {_SMALL:,} events"
    return [
        at_most(f"reopen after a kill, {events:,} events", again, first, against, 1.3, "s"),
        at_most("  and read one run of 1,000 events", one * 1e3, other * 1e3, against, 1.5, "ms"),
    ]


def _write(path: Path, events: int, segment: int) -> None:
    command = [sys.executable, "-c", _WRITE, str(path), str(events), str(segment)]
    killed = subprocess.run(command, check=False)
    assert killed.returncode == -signal.SIGKILL, killed


def _reopen(path: Path) -> float:
    """Opens for writing, as after a kill: what a clean close leaves is taken away first."""
    opened: list[Store] = []
    seconds = timed(lambda: opened.append(Store.open(path)))
    opened[0].close()
    return seconds


def _read(path: Path, number: int) -> None:
    events = list(History(path).events_of(run_id(number)))
    assert len(events) == _PER_RUN, len(events)
