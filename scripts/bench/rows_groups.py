"""Replica groups of one worker each: one of four fails, or two at once, and the others go on.

They fail by raising, as a run on Ray Train V2 does not survive two groups whose processes die at once:
while it replaces the first it has the second clear its reports, and a dead one's error ends the run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from marking import OURS, RAYS, Side, Training
from measuring import Row, Seconds, alternate, at_most, noted
from nodes import nodes

WORKERS = 4
# Ray Train asks its workers how they are every 2 s; a worker should fail anywhere in between.
POLL_S = 2.0


def group_rows(folder: Path, rounds: int) -> list[Row]:
    """From the (first) failure until every replacement trains."""
    with nodes(folder, head_cpus=WORKERS):
        works = [
            partial(_replaced, side, folder, failing, _waits(rounds))
            for failing in ([2], [1, 3])
            for side in (OURS, RAYS)
        ]
        one, rays_one, two, rays_two = alternate(rounds, *works)
    return [
        at_most("replica group failed, until replaced", one, rays_one, "Ray Train V2", 0.5, "s"),
        at_most("two of them at once, until both are", two, one, "one", 1.3, "s"),
        noted("the same on Ray Train V2", rays_two, "s", f"{rays_two / rays_one:.2f}x one"),
    ]


def _waits(rounds: int) -> Iterator[Seconds]:
    """How long to train before the failure: spread over what a poll may be away."""
    return (2 + POLL_S * ((number % rounds) + 0.5) / rounds for number in count())


def _replaced(side: Side, folder: Path, failing: list[int], waits: Iterator[Seconds]) -> Seconds:
    with Training(side, folder, backend=side.replica_groups(), num_workers=WORKERS) as training:
        up_ns = training.started(WORKERS, range(WORKERS))
        time.sleep(next(waits))
        training.fail(failing)
        again_ns = training.started(WORKERS, failing, up_ns)
        others = [one for one in training.all("started") if one.rank not in failing]
        if len(others) != WORKERS - len(failing):
            raise RuntimeError(f"not a partial restart: {others}")
        failed_ns = training.all("failed")[0].time_ns
    return (again_ns - failed_ns) / 1e9
