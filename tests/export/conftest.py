"""What is killed in these tests is a process, never a machine: nothing need reach the disk."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncs cost most of the time of hundreds of exports; that they are called is tested by name."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
