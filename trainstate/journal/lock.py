"""The writer's lock: an OFD lock on `writer.lock`, which the kernel drops when its holder dies.

An OFD lock belongs to an open file and not to a process, so two writers in one process exclude each
other, and a reader asks who holds it without taking it and without losing it on close.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from struct import pack, unpack

from trainstate.journal.disk import OS, Disk, closed_on_failure, opened, storage_errors

_FLOCK = "hhqqi4x"  # struct flock: type, whence, start, length, pid
_POLL_S = 0.02
_HELD = {errno.EAGAIN, errno.EACCES}


def try_lock(fd: int) -> bool:
    """Take the exclusive lock of an open file; False when another holds it."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise
    return True


def is_locked(fd: int) -> bool:
    """Whether another open file holds the lock."""
    asked = pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    lock_type: int = unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))[0]
    return lock_type != fcntl.F_UNLCK


def acquire(path: Path, timeout_s: float, disk: Disk) -> int | None:
    """Lock the file that is at `path`, waiting; its descriptor, or None at the timeout.

    Creates the file. A lock on a file that has meanwhile been replaced (by a takeover) is worth
    nothing and is given back. Raises OSError.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        fd = _locked(path, disk)
        if fd is not None:
            return fd
        if time.monotonic() >= deadline:
            return None
        time.sleep(_POLL_S)


def _locked(path: Path, disk: Disk) -> int | None:
    fd = disk.open(path, os.O_RDWR | os.O_CREAT)
    with closed_on_failure(disk.close, fd):
        if try_lock(fd) and os.fstat(fd).st_ino == disk.inode(path):
            return fd
    disk.close(fd)
    return None


def writer_lives(path: Path, disk: Disk = OS) -> bool:
    """Whether a writer holds the lock file at `path`; asks without taking it."""
    with storage_errors(path, "ask for the writer's lock"):
        try:
            with opened(disk, path, os.O_RDONLY) as fd:
                return is_locked(fd)
        except FileNotFoundError:
            return False
