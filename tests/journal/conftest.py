"""No test here loses power: that is simulated, so the real syncs are left out to be fast."""

from __future__ import annotations

import pytest

from trainstate.journal import Disk


@pytest.fixture(autouse=True)
def _no_real_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disk, "fdatasync", lambda self, fd: None)
    monkeypatch.setattr(Disk, "sync_dir", lambda self, path: None)
