"""A home of its own for every test, and a session to report to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainstate.controller.session import SessionInfo, set_current
from trainstate.controller.storage import Storage
from trainstate.train import RunConfig


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINSTATE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def run_config(tmp_path: Path):
    """Makes a RunConfig that stores below the test's directory."""

    def make(**fields: Any) -> RunConfig:
        return RunConfig(**{"name": "exp", "storage_path": tmp_path / "results", **fields})

    return make


class FakeSession:
    """Keeps what it is told."""

    def __init__(self, storage: Storage, rank: int = 0, world_size: int = 1) -> None:
        self.storage = storage
        self.info = SessionInfo(
            "exp", "run-1", "attempt-1", rank, world_size, rank, world_size, 0, 3, rank, world_size
        )
        self.reports: list[tuple[Any, ...]] = []
        self.kept: list[tuple[Any, dict[str, Any]]] = []

    def report(self, *args: Any) -> None:
        self.reports.append(args)

    def checkpoint(self) -> Any:
        return self.kept[-1][0] if self.kept else None

    def reported_checkpoints(self) -> list[tuple[Any, dict[str, Any]]]:
        return self.kept

    def dataset_shard(self, name: str) -> str:
        return f"shard of {name}"

    def barrier(self) -> None:
        self.reports.append(("barrier",))

    def broadcast(self, data: Any) -> Any:
        return ("from rank 0", data)


@pytest.fixture
def session(tmp_path: Path):
    """The current session; `session.info` may be replaced."""
    fake = FakeSession(Storage(tmp_path / "results", "exp"))
    set_current(fake)
    yield fake
    set_current(None)
