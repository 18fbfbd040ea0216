"""What is killed in these tests is a process, never a machine: nothing need reach the disk."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

# A file system in memory; on a disk, each rename over a file is flushed, whatever we ask for.
_MEMORY = Path("/dev/shm")


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncs cost most of the time of hundreds of exports; that they are called is tested by name."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    if os.access(_MEMORY, os.W_OK):
        monkeypatch.setattr(tempfile, "tempdir", str(_MEMORY))
