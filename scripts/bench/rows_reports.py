"""Reports per second, and what a controller costs a training step that does not report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import ray
import ray.train
from fitting import WORKERS, newest_events, ours, rays
from measuring import Row, absolute, alternate, at_most, noted

from trainstate import train
from trainstate.controller import session
from trainstate.core.values import from_map

MANY, FEW, SINGLE = 20_000, 5, 1_000
STEPS = 1_500


def report_rows(folder: Path, rounds: int) -> list[Row]:
    """Plain reports of 2 workers, one at a time and in a stream; steps without any."""
    rates, lags_s = zip(*(_stream(folder) for _ in range(rounds)), strict=True)
    (ray_rate,) = alternate(1, lambda: _ray_stream(folder))
    (single,) = alternate(rounds, lambda: _one_by_one(folder))
    inside, bare = alternate(rounds, lambda: _steps_inside(folder), _steps_bare)
    return [
        absolute(
            "reports, per second and worker", sorted(rates)[rounds // 2], "/s", 2000, most=False
        ),
        noted("the same on Ray Train V2", ray_rate, "/s", ""),
        absolute("from report() to the journal, slowest", max(lags_s), "s", 1.0, most=True),
        absolute("reports one at a time, each durable", single, "/s", 200, most=False),
        at_most(
            "a step that does not report", inside * 1e3, bare * 1e3, "the bare loop", 1.03, "ms"
        ),
    ]


def _stream(folder: Path) -> tuple[float, float]:
    """Reports per second and worker, and the longest way of one to the journal."""

    def function() -> None:
        train.collective.barrier()
        for step in range(MANY):
            train.report({"step": step, "loss": 1.0 / (step + 1), "time": time.time()})

    ours(function, folder)
    times = []
    for one in newest_events():
        if one.HasField("report_received"):
            said = from_map(one.report_received.metrics)["time"]
            times.append((said, one.time_unix_nano / 1e9))
    took_s = max(seen for _, seen in times) - min(said for said, _ in times)
    return len(times) / WORKERS / took_s, max(seen - said for said, seen in times)


def _ray_stream(folder: Path) -> float:
    def function() -> dict[str, float]:
        started = time.time()
        for step in range(FEW):
            ray.train.report({"step": step})
        return {"rate": FEW / (time.time() - started)}

    result = rays(function, folder)
    return float(result.return_value["rate"])


def _one_by_one(folder: Path) -> float:
    def function() -> float:
        mine: Any = session.current()
        started = time.time()
        for step in range(SINGLE):
            train.report({"step": step})
            while not mine.buffer.drained:
                time.sleep(0.0002)
        return SINGLE / (time.time() - started)

    return float(ours(function, folder, num_workers=1).return_value)


def _work() -> float:
    """The median time of a step of some milliseconds."""
    a = np.random.default_rng(0).random((160, 160))
    taken = []
    for _ in range(STEPS):
        start = time.perf_counter()
        a = np.tanh(a @ a / 160)
        taken.append(time.perf_counter() - start)
    return float(np.mean(taken))


def _steps_inside(folder: Path) -> float:
    return float(ours(lambda: _work(), folder, num_workers=1).return_value)


def _steps_bare() -> float:
    taken: float = ray.get(ray.remote(_work).remote())
    return taken
