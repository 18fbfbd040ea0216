"""How long a `fit()` takes that trains nothing."""

from __future__ import annotations

from pathlib import Path

from fitting import fit_time, ours, rays
from measuring import Row, alternate, at_most


def fit_rows(folder: Path, rounds: int) -> list[Row]:
    """Whole no-op fits with 2 workers, against Ray Train V2."""

    # Inside this function, so that it is sent as it is, and workers need not import this module.
    def nothing() -> None:
        """Has nothing to do."""

    ours(nothing, folder)  # the state actor starts once per cluster
    plain = alternate(rounds, fit_time(ours, nothing, folder), fit_time(rays, nothing, folder))
    torch = alternate(
        rounds,
        fit_time(ours, nothing, folder, torch=True),
        fit_time(rays, nothing, folder, torch=True),
    )
    return [
        at_most("no-op fit, 2 workers", *plain, "Ray Train V2", 0.25, "s"),
        at_most("no-op TorchTrainer fit, 2 workers, gloo", *torch, "Ray Train V2", 0.4, "s"),
    ]
