"""Disks that fail on purpose, for tests of what is written through `trainstate.journal`.

FaultyDisk(op, nth, how)   the nth call of one operation fails; `fired` proves that it did
RecordingDisk()            remembers every change, so that `after_crash` can say what a crash at any
                           point would leave of it
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

from trainstate.journal import OS, Disk

Fault = int | Literal["short"]


class _WrappedDisk(Disk):
    """Sends every call through `_call`."""

    def __init__(self, inner: Disk = OS) -> None:
        self._inner = inner

    def _call(self, op: str, *args: Any) -> Any:
        return getattr(self._inner, op)(*args)

    def open(self, path: Path, flags: int) -> int:
        return int(self._call("open", path, flags))

    def close(self, fd: int) -> None:
        self._call("close", fd)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return bytes(self._call("pread", fd, size, offset))

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return int(self._call("pwrite", fd, data, offset))

    def fdatasync(self, fd: int) -> None:
        self._call("fdatasync", fd)

    def allocate(self, fd: int, size: int) -> None:
        self._call("allocate", fd, size)

    def truncate(self, fd: int, size: int) -> None:
        self._call("truncate", fd, size)

    def rename(self, source: Path, target: Path) -> None:
        self._call("rename", source, target)

    def unlink(self, path: Path) -> None:
        self._call("unlink", path)

    def mkdir(self, path: Path) -> None:
        self._call("mkdir", path)

    def sync_dir(self, path: Path) -> None:
        self._call("sync_dir", path)

    def listdir(self, path: Path) -> list[str]:
        return list(self._call("listdir", path))

    def inode(self, path: Path) -> int:
        return int(self._call("inode", path))

    def size(self, fd: int) -> int:
        return int(self._call("size", fd))


class FaultyDisk(_WrappedDisk):
    """The `nth` call of `op` from `arm()` on fails: with an errno, or "short" (half a write is done)."""

    def __init__(self, op: str, nth: int, how: Fault, inner: Disk = OS) -> None:
        super().__init__(inner)
        self.op = op
        self.how = how
        self.fired = False
        self._left = nth
        self._armed = True

    def disarm(self) -> None:
        """Let every call through until `arm`."""
        self._armed = False

    def arm(self) -> None:
        """Count from here."""
        self._armed = True

    def _call(self, op: str, *args: Any) -> Any:
        if op == self.op and self._armed:
            self._left -= 1
            if self._left == 0:
                self.fired = True
                return self._fail(*args)
        return super()._call(op, *args)

    def _fail(self, *args: Any) -> Any:
        if self.how != "short":
            raise OSError(self.how, os.strerror(self.how))
        fd, data, offset = args
        return self._inner.pwrite(fd, data[: len(data) // 2], offset)


class Change(NamedTuple):
    """One change of the file system. `file` numbers the file, whatever it is called later."""

    op: str
    file: int
    path: Path  # of the file when it was opened, or what a directory operation is about
    data: bytes = b""
    offset: int = 0  # of a write; the size of allocate and truncate
    target: Path | None = None


class RecordingDisk(_WrappedDisk):
    """Remembers every change, in order, in `changes`."""

    def __init__(self, inner: Disk = OS) -> None:
        super().__init__(inner)
        self.changes: list[Change] = []
        self._open_files: dict[int, tuple[int, Path]] = {}
        self._files: dict[tuple[int, int], int] = {}
        self._numbers = count(1)

    def open(self, path: Path, flags: int) -> int:
        is_new = bool(flags & os.O_CREAT) and not path.exists()
        fd = super().open(path, flags)
        stat = os.fstat(fd)
        if is_new:
            # An inode number is used again: a file made now is another than the one before it.
            self._files[stat.st_dev, stat.st_ino] = next(self._numbers)
        file = self._files.setdefault((stat.st_dev, stat.st_ino), -stat.st_ino)
        self._open_files[fd] = file, path
        if is_new:
            self.changes.append(Change("create", file, path))
        if flags & os.O_TRUNC and not is_new:
            self.changes.append(Change("truncate", file, path))
        return fd

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        self._note("pwrite", fd, data, offset)
        return super().pwrite(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        super().fdatasync(fd)
        self._note("fdatasync", fd)

    def allocate(self, fd: int, size: int) -> None:
        super().allocate(fd, size)
        self._note("allocate", fd, offset=size)

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        self._note("truncate", fd, offset=size)

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.changes.append(Change("rename", 0, source, target=target))

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self.changes.append(Change("unlink", 0, path))

    def mkdir(self, path: Path) -> None:
        super().mkdir(path)
        self.changes.append(Change("mkdir", 0, path))

    def sync_dir(self, path: Path) -> None:
        super().sync_dir(path)
        self.changes.append(Change("sync_dir", 0, path))

    def _note(self, op: str, fd: int, data: bytes = b"", offset: int = 0) -> None:
        file, path = self._open_files[fd]
        self.changes.append(Change(op, file, path, bytes(data), offset))


class _Model:
    """A file system that knows what is durable: files by number, names that point to them."""

    def __init__(self) -> None:
        self.names: dict[Path, int | None] = {}  # None: a directory
        self.data: dict[int, bytearray] = {}
        self.durable_names: dict[Path, int | None] = {}
        self.durable_data: dict[int, bytes] = {}

    def apply(self, change: Change) -> None:
        getattr(self, "_" + change.op)(change)

    def _create(self, change: Change) -> None:
        self.names[change.path] = change.file
        self.data[change.file] = bytearray()

    def _pwrite(self, change: Change) -> None:
        data = self.data[change.file]
        data.extend(bytes(max(0, change.offset - len(data))))
        data[change.offset : change.offset + len(change.data)] = change.data

    def _allocate(self, change: Change) -> None:
        data = self.data[change.file]
        data.extend(bytes(max(0, change.offset - len(data))))

    def _truncate(self, change: Change) -> None:
        del self.data[change.file][change.offset :]

    def _fdatasync(self, change: Change) -> None:
        self.durable_data[change.file] = bytes(self.data[change.file])

    def _rename(self, change: Change) -> None:
        assert change.target is not None
        self.names[change.target] = self.names.pop(change.path)

    def _unlink(self, change: Change) -> None:
        del self.names[change.path]

    def _mkdir(self, change: Change) -> None:
        self.names[change.path] = None

    def _sync_dir(self, change: Change) -> None:
        inside = {path: file for path, file in self.names.items() if path.parent == change.path}
        gone = [path for path in self.durable_names if path.parent == change.path]
        for path in gone:
            del self.durable_names[path]
        self.durable_names |= inside


def after_crash(
    changes: Iterable[Change], *, power_lost: bool, torn: Sequence[Change] = ()
) -> dict[Path, bytes | None]:
    """The files (None: a directory) that a crash after `changes` leaves.

    Killed, a process leaves all that it wrote. When power is lost, only what was synced is left: names
    of synced directories, contents of synced files; and `torn`, the parts of a write that got there.
    """
    model = _Model()
    for change in changes:
        model.apply(change)
    if not power_lost:
        names, data = model.names, {file: bytes(data) for file, data in model.data.items()}
    else:
        names, data = model.durable_names, model.durable_data
        model.data = {file: bytearray(data.get(file, b"")) for file in {one.file for one in torn}}
        for one in torn:
            model.apply(one)
        data = data | {file: bytes(content) for file, content in model.data.items()}
    return {path: None if file is None else data.get(file, b"") for path, file in names.items()}


def put_back(files: dict[Path, bytes | None], was: Path, now: Path) -> None:
    """Write what a crash left of the directory `was` to the directory `now`."""
    now.mkdir(parents=True, exist_ok=True)
    for path in sorted(files):
        target = now / path.relative_to(was)
        content = files[path]
        if content is None:
            target.mkdir(exist_ok=True)
        elif target.parent.exists():
            target.write_bytes(content)
