"""Places in memory for thousands of small journals, and the seed in the report of every failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proofs.places import SEED, place
from tests.proofs.victims import Nursery


@pytest.fixture(autouse=True)
def seed_in_the_report() -> None:
    """What a test prints is shown when it fails."""
    print(f"TRAINSTATE_PROOF_SEED={SEED}")


@pytest.fixture
def shm() -> Iterator[Path]:
    with place() as folder:
        yield folder


@pytest.fixture(scope="module")
def shm_module() -> Iterator[Path]:
    with place() as folder:
        yield folder


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Where processes to be killed come from."""
    with place() as folder, Nursery(folder) as made:
        yield made
