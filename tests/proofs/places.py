"""Where proofs put thousands of small journals (in memory, if there is such a place), and their seed."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# TRAINSTATE_PROOF_SEED repeats a run; every failure prints it.
SEED = int(os.environ.get("TRAINSTATE_PROOF_SEED") or random.randrange(10**6))

_IN_MEMORY = Path("/dev/shm")


@contextmanager
def place() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    where = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="trainstate-proof-", dir=where) as folder:
        yield Path(folder)
