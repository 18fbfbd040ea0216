"""Drivers in processes of their own: `-m tests.e2e.driving ADDRESS` calls what it is sent, pickled.

For clusters that this process is not connected to. What a driver writes to stderr, a failing test shows.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle

ROOT = Path(__file__).parents[2]


@contextmanager
def driving(address: str, job: Callable[[], Any]) -> Iterator[subprocess.Popen[bytes]]:
    """A driver that calls `job`, connected to that cluster; it ends with 0 when `job` has returned."""
    command = [sys.executable, "-m", "tests.e2e.driving", address]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)
    try:
        assert process.stdin is not None
        process.stdin.write(cloudpickle.dumps(job))
        process.stdin.close()
        yield process
    finally:
        process.kill()
        process.wait()


def drive(address: str, job: Callable[[], Any], timeout_s: float = 120.0) -> int:
    """Runs a driver to its end; what it ends with."""
    with driving(address, job) as process:
        return process.wait(timeout_s)


def main(address: str) -> None:
    job = cloudpickle.load(sys.stdin.buffer)
    ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    job()


if __name__ == "__main__":
    main(sys.argv[1])
