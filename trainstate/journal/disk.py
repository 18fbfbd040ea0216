"""The seam to the operating system: every system call that changes a journal goes through here.

`OS` is the real disk. Tests put `testing.disk.FaultyDisk` or `RecordingDisk` in its place, so that each
call can fail once, and each order in which a crash may keep the writes can be tried.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainstate.errors import StorageError


class Disk:
    """The system calls of the journal, as they are; each raises OSError as the kernel gave it."""

    __slots__ = ()

    def open(self, path: Path, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, 0o644)

    def close(self, fd: int) -> None:
        os.close(fd)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        os.fdatasync(fd)

    def allocate(self, fd: int, size: int) -> None:
        """Make the file at least `size` bytes long, zero-filled, with its blocks reserved."""
        os.posix_fallocate(fd, 0, size)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def mkdir(self, path: Path) -> None:
        os.mkdir(path, 0o755)

    def sync_dir(self, path: Path) -> None:
        """Make creations, renames and removals in a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def listdir(self, path: Path) -> list[str]:
        return os.listdir(path)

    def inode(self, path: Path) -> int:
        return os.stat(path).st_ino

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size


OS = Disk()


class storage_errors:
    """Map what the operating system raises to StorageError: the only place that does.

    A class and no generator, because one is entered for every append.
    """

    __slots__ = ("_doing", "_path")

    def __init__(self, path: Path, doing: str) -> None:
        self._path = path
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError):
            raise StorageError(
                f"cannot {self._doing}: {error.strerror or error}",
                path=self._path,
                hint=f"check the disk that holds {self._path} (space, permissions), then reopen",
            ) from error


@contextmanager
def opened(disk: Disk, path: Path, flags: int) -> Iterator[int]:
    """An open file, closed at the end. Raises OSError."""
    fd = disk.open(path, flags)
    try:
        yield fd
    finally:
        disk.close(fd)


@contextmanager
def closed_on_failure(close: Callable[..., object], *args: object) -> Iterator[None]:
    """Call `close(*args)` when what is within fails; what was opened before it is kept otherwise."""
    try:
        yield
    except BaseException:
        close(*args)
        raise


def write_exactly(disk: Disk, fd: int, data: bytes, offset: int) -> None:
    """One pwrite. A short one is an error: the kernel shortens a write to a file only when full."""
    written = disk.pwrite(fd, data, offset)
    if written != len(data):
        raise OSError(errno.ENOSPC, f"short write, {written} of {len(data)} bytes")


def replace_file(path: Path, data: bytes, disk: Disk = OS) -> int:
    """Put `data` in the place of the file at `path`, atomically and durably; return its inode.

    After a crash the file holds either what it held before or all of `data`. Two processes must
    not replace the same file at the same time. Raises OSError.
    """
    temporary = path.with_name(path.name + ".tmp")
    with opened(disk, temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC) as fd:
        write_exactly(disk, fd, data, 0)
        disk.fdatasync(fd)
    inode = disk.inode(temporary)
    disk.rename(temporary, path)
    disk.sync_dir(path.parent)
    return inode
