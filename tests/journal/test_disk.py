"""The seam, the one file replaced atomically, and the disks that fail on purpose."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from trainstate.errors import StorageError
from trainstate.journal import OS, Disk, replace_file
from trainstate.journal.disk import storage_errors, write_exactly
from trainstate.testing.disk import FaultyDisk, RecordingDisk, after_crash, put_back


def test_a_file_is_replaced(tmp_path):
    """The inode returned is that of the new file; nothing else is left."""
    path = tmp_path / "file"
    for data in (b"one", b"another", b"few"):
        assert replace_file(path, data) == path.stat().st_ino
        assert data == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


def test_a_replaced_file_is_old_or_new_after_any_crash(tmp_path):
    """Never part of one; the new one once the call has returned."""
    home = tmp_path / "home"
    home.mkdir()
    disk = RecordingDisk()
    replace_file(home / "file", b"old", disk)
    first = len(disk.changes)
    replace_file(home / "file", b"new and longer", disk)
    for n in range(first, len(disk.changes) + 1):
        for power_lost in (False, True):
            files = after_crash(disk.changes[:n], power_lost=power_lost)
            assert files[home / "file"] in {b"old", b"new and longer"}
    assert b"new and longer" == files[home / "file"]


@pytest.mark.parametrize("op", ["open", "pwrite", "fdatasync", "rename", "sync_dir", "inode"])
@pytest.mark.parametrize("how", [errno.EIO, "short"])
def test_a_failure_keeps_the_old_file_or_has_the_new(tmp_path, op, how):
    """And closes what it opened."""
    path = tmp_path / "file"
    replace_file(path, b"old")
    disk = FaultyDisk(op, 1, how if op == "pwrite" else errno.EIO)
    open_files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=r"short write|Input/output"):
        replace_file(path, b"new", disk)
    assert disk.fired
    assert path.read_bytes() == (b"new" if op == "sync_dir" else b"old")
    assert open_files == len(os.listdir("/proc/self/fd"))


def test_a_short_write_is_an_error(tmp_path):
    """The kernel shortens a write to a file only when there is no more room."""
    fd = OS.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    with pytest.raises(OSError, match="short write, 2 of 4 bytes") as caught:
        write_exactly(FaultyDisk("pwrite", 1, "short"), fd, b"four", 0)
    assert errno.ENOSPC == caught.value.errno
    OS.close(fd)


def test_what_the_system_raises_becomes_a_storage_error():
    """With the path, what was being done, and a hint; other errors pass."""
    refused = pytest.raises(StorageError, match="cannot sing: No space left")
    with refused as caught, storage_errors(Path("song"), "sing"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert ("song", True) == (caught.value.path, bool(caught.value.hint))
    with pytest.raises(KeyError), storage_errors(Path("song"), "sing"):
        raise KeyError


def test_syncs_are_real(tmp_path, monkeypatch):
    """The seam does what it says (the other tests of this folder leave it out)."""
    monkeypatch.undo()
    disk = Disk()
    fd = disk.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    calls = []
    monkeypatch.setattr(os, "fdatasync", calls.append)
    monkeypatch.setattr(os, "fsync", calls.append)
    disk.fdatasync(fd)
    disk.sync_dir(tmp_path)
    assert 2 == len(calls)
    disk.close(fd)


def test_a_recording_tells_what_power_loss_leaves(tmp_path):
    """Contents up to their sync, names up to the sync of their directory, and parts of a torn write."""
    was = tmp_path / "was"
    was.mkdir()
    disk = RecordingDisk()
    disk.mkdir(was / "dir")
    fd = disk.open(was / "dir" / "file", os.O_RDWR | os.O_CREAT)
    disk.allocate(fd, 8)
    disk.pwrite(fd, b"ab", 0)
    disk.fdatasync(fd)
    disk.pwrite(fd, b"cdef", 2)
    assert {} == after_crash(disk.changes, power_lost=True)
    disk.sync_dir(was)
    disk.sync_dir(was / "dir")
    synced = {was / "dir": None, was / "dir" / "file": b"ab\0\0\0\0\0\0"}
    assert synced == after_crash(disk.changes, power_lost=True)
    written = after_crash(disk.changes, power_lost=False)
    assert b"abcdef\0\0" == written[was / "dir" / "file"]
    write = disk.changes[-3]
    torn = after_crash(disk.changes, power_lost=True, torn=[write._replace(data=b"c")])
    assert b"abc\0\0\0\0\0" == torn[was / "dir" / "file"]
    put_back(torn, was, tmp_path / "now")
    assert b"abc\0\0\0\0\0" == (tmp_path / "now" / "dir" / "file").read_bytes()
    disk.close(fd)
