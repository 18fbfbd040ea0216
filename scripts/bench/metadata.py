"""Benchmarks of what is recorded about a run: sanitising, collecting, masking.

Sanitising is compared with Ray's own sanitiser and Struct in the same run; what Ray's cannot take is
measured alone. Collecting is what `fit()` and the controller do before training can begin; git and the
cluster are asked beside it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ray
import torch
from making import SECOND, beginning, report
from measuring import Row, absolute, alternate, at_least, chosen, machine, noted, show, timed
from ray.train.v2._internal.state.export import _dict_to_struct
from ray.train.v2._internal.state.schema import _to_json_serializable_value

from trainstate import train
from trainstate.controller import surroundings
from trainstate.controller.backend import BackendConfig
from trainstate.core.mask import EventMask, Unmasked
from trainstate.core.redact import sanitised_map
from trainstate.store import Store
from trainstate.train.provenance import code, command
from trainstate.train.settings import settings_of

TYPICAL = {
    "lr": 3e-4,
    "batch_size": 64,
    "layers": [512] * 16,
    "model": {"name": "gpt2", "dropout": 0.1, "init": {"std": 0.02, "scheme": "normal"}},
    "paths": [f"s3://bucket/part-{number:05}.parquet" for number in range(100)],
    "optimizer": torch.optim.AdamW,
}


class Large:
    """An object whose text is ten million characters."""

    def __repr__(self) -> str:
        return "x" * 10**7


class Broken:
    """An object that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no")


def nasty() -> dict[str, Any]:
    """Values that make Ray's sanitiser fail the job, or export megabytes."""
    loop: dict[str, Any] = {"lr": 0.1}
    loop["self"] = loop
    return {
        "a dict in itself": loop,
        "an int of 100,000 digits": 10**100_000,
        "a million lone surrogates": "\ud800" * 10**6,
        "a text of 10 MB": "x" * 10**7,
        "an object whose text is 10 MB": Large(),
        "objects without a text": [Broken()] * 10**5,
        "a generator": (one for one in range(10)),
        "a tensor of a million": torch.zeros(10**6),
        "a list of a million": list(range(10**6)),
        "a dict of 100,000": {str(number): number for number in range(10**5)},
        "10 MB of passwords": "password=hunter2 " * 600_000,
    }


def sanitise_rows(folder: Path, rounds: int) -> list[Row]:
    """A usual config against Ray's, and the slowest of the unusual ones."""
    ours, rays = alternate(
        20 * rounds,
        lambda: timed(lambda: sanitised_map(TYPICAL)),
        lambda: timed(lambda: _dict_to_struct(_to_json_serializable_value(TYPICAL))),
    )
    slowest = {
        name: 1000 * _fastest(partial(sanitised_map, {"value": value}), rounds)
        for name, value in nasty().items()
    }
    name = max(slowest, key=lambda one: slowest[one])
    what = f"the slowest of {len(slowest)} odd values: {name}"
    return [
        noted(
            "a usual config, sanitised", 1e6 * ours, "µs", f"Ray's sanitiser: {1e6 * rays:.0f} µs"
        ),
        absolute(what, slowest[name], "ms", 10, most=True),
    ]


def _fastest(work: Callable[[], object], rounds: int) -> float:
    return min(timed(work) for _ in range(rounds))


def collect_rows(folder: Path, rounds: int) -> list[Row]:
    """What stands before a run, and what is done beside it."""
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        before, git, around = alternate(
            4 * rounds,
            lambda: timed(_settings),
            lambda: timed(lambda: code(10.0)),
            lambda: timed(lambda: surroundings.look({})),
        )
    finally:
        ray.shutdown()
    return [
        absolute("collecting, all together", 1000 * (before + git + around), "ms", 30, most=True),
        noted("of which the start waits for: settings, command", 1000 * before, "ms", ""),
        noted("beside it, on the driver: git", 1000 * git, "ms", ""),
        noted("beside it, on the controller: nodes, environment", 1000 * around, "ms", ""),
    ]


def _settings() -> None:
    settings_of(
        train_loop_config=TYPICAL,
        backend_config=BackendConfig(),
        scaling_config=train.ScalingConfig(2),
        run_config=train.RunConfig(name="bench", storage_path="/tmp/bench"),
        datasets=(),
        data_config=None,
    )
    command(TYPICAL)


def mask_rows(folder: Path, rounds: int) -> list[Row]:
    """Reports stored, with and without looking for secrets in them."""
    with (
        Store.open(folder / "masked", masking=EventMask(os.urandom(16))) as masked,
        Store.open(folder / "unmasked", masking=Unmasked()) as unmasked,
    ):
        with_mask, without = alternate(2 * rounds, _storing(masked), _storing(unmasked))
    rates = (20_000 / with_mask, 20_000 / without)
    return [at_least("reports checked, masked and stored", *rates, "unmasked", 0.8, "/s")]


def _storing(store: Store) -> Callable[[], float]:
    """Stores 20,000 reports of a new run each time; the seconds it takes."""

    def work() -> float:
        run_id = f"run{time.time_ns()}"
        opened = store.open_run(run_id, "bench", SECOND)
        store.append(run_id, 1, opened.run_seq, list(beginning("a", SECOND)))
        at = store.state(run_id).run_seq
        batches = [
            [report("a", 0, first + n, SECOND) for n in range(1000)]
            for first in range(0, 20_000, 1000)
        ]
        return timed(lambda: _submit(store, run_id, at, batches))

    return work


def _submit(store: Store, run_id: str, at: int, batches: list[list[Any]]) -> None:
    for number, batch in enumerate(batches):
        pending = store.submit(run_id, 1, at + 1000 * number, batch)
    pending.wait()


SECTIONS: dict[str, Callable[[Path, int], list[Row]]] = {
    "sanitise": sanitise_rows,
    "collect": collect_rows,
    "mask": mask_rows,
}


def main() -> int:
    """Runs the chosen sections; exits 1 if a row misses what was asked."""
    sections, rounds = chosen(__doc__, [*SECTIONS])
    missed = 0
    for name in sections:
        with tempfile.TemporaryDirectory(prefix="ts") as folder:
            missed |= show(f"{name}, on {machine()}", SECTIONS[name](Path(folder), rounds))
    return missed


if __name__ == "__main__":
    sys.exit(main())
