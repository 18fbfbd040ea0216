"""Reopening after a kill, and reading one run: a large history against a small one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from making import run_id
from measuring import Row, alternate, at_most, timed

from trainstate.store import Store

_SMALL = 100_000
_PER_RUN = 1000
_RUN_BYTES = 124_860
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
_REOPEN = """
import os, signal, sys, time
from trainstate.store import Store
start = time.perf_counter()
store = Store.open(sys.argv[1])
print(time.perf_counter() - start, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def reopen_rows(folder: Path, events: int) -> list[Row]:
    """Both journals end in a killed writer; their last segments are equally full."""
    # A segment is closed after 60 runs of 1,000 events: 100 runs leave 40 in the last segment, and so
    # do 1,000 and 10,000 runs.
    segment = int(58.5 * _RUN_BYTES * 8 / 7)
    large, small = folder / "large", folder / "small"
    for path, count in ((large, events), (small, _SMALL)):
        _write(path, count, segment)
    again, first = alternate(5, lambda: _reopen(large), lambda: _reopen(small))
    runs = events // _PER_RUN
    with Store.open(large) as much, Store.open(small) as little:
        one, other = alternate(
            99,
            lambda: timed(lambda: _read(much, runs // 2)),
            lambda: timed(lambda: _read(little, 50)),
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
    """Opens for writing after a kill, in a process that is then killed in its turn."""
    killed = subprocess.run(
        [sys.executable, "-c", _REOPEN, str(path)], capture_output=True, text=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed
    return float(killed.stdout)


def _read(store: Store, number: int) -> None:
    events = list(store.events_of(run_id(number)))
    assert len(events) == _PER_RUN, len(events)
