"""The Ray cluster of the tests, as they see it; the fixture is in conftest.py."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trainstate.core import Run
from trainstate.store import History


class Cluster(NamedTuple):
    """A running cluster: the home of its head node, and its address."""

    home: Path
    address: str

    @property
    def journal(self) -> Path:
        """The one journal at home."""
        (path,) = (self.home / "journals").glob("session_*")
        return path

    def run(self, run_id: str) -> Run:
        """What the journal's files say of a run."""
        return History(self.journal).run(run_id)
