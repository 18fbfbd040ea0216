"""The writer of a journal: opening, taking over, appending, closing.

Who may write is decided in three steps, each durable before the next: the lock (who lives), FENCE
(who is newest), the segment (where the newest writes). `open` goes lock, FENCE, segment; `take_over`
goes FENCE, segment, lock, so that at every moment an older writer is kept out of the newest segment,
either by the lock or because the segment is not its own. All three steps are taken under the lock of
`claiming`: a writer that is opening never changes what a newer one already writes.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Condition, Lock
from typing import Self
from uuid import uuid4

from trainstate.errors import Fenced, JournalLocked, NotAJournal, UsageError
from trainstate.journal import lock
from trainstate.journal.active import Active
from trainstate.journal.disk import OS, Disk, closed_on_failure, replace_file, storage_errors
from trainstate.journal.durable import Durable
from trainstate.journal.fence import Fence, claiming, read_fence
from trainstate.journal.frame import Chunk
from trainstate.journal.group import GroupCommit, Ticket
from trainstate.journal.layout import FORMAT_VERSION, Layout, read_identity, render_text
from trainstate.journal.recover import Resume, resume
from trainstate.journal.segment import Position

SEGMENT_BYTES_MAX = 64 << 20
_OFFSET_MAX = (1 << 32) - 1


class Writer:
    """The one writer of a journal. Thread-safe. Made by `open` or `take_over`."""

    def __init__(
        self,
        layout: Layout,
        uuid: bytes,
        fence: Fence,
        lock_fd: int,
        found: Resume,
        segment_bytes_max: int,
        disk: Disk,
    ) -> None:
        self._layout = layout
        self._fence = fence
        self._lock_fd = lock_fd
        self._disk = disk
        self._active = Active(layout, uuid, fence, found, segment_bytes_max, disk)
        self._group = GroupCommit(self._commit, found.mark.next_seq)
        self._io = Lock()  # held by who writes: the leader of the group commit, or `roll`
        self._news = Condition()
        self._closed = False
        self._over = False
        self.durable = self._active.durable
        self.uuid = uuid
        self.recovered = found.tear

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        owner: str = "",
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        lock_timeout_s: float = 5.0,
        disk: Disk = OS,
    ) -> Self:
        """Open a journal to write; makes it when the directory is missing or empty.

        Waits for the lock at most `lock_timeout_s`. Raises NotAJournal, UnsupportedFormat,
        JournalLocked (names the owner), JournalCorrupt, StorageError.
        """
        layout = _layout(path, segment_bytes_max)
        with storage_errors(layout.root, "open the journal"), ExitStack() as undo:
            _prepare(layout, disk)
            lock_fd = _lock(layout, lock_timeout_s, disk)
            undo.callback(disk.close, lock_fd)
            uuid = _identity(layout, disk)
            with claiming(layout, disk):
                _check_lock(layout, lock_fd, disk)
                fence = Fence(layout, owner, disk)
                undo.callback(fence.close)
                found = resume(
                    layout, uuid, fence.epoch, segment_bytes_max, same_segment=True, disk=disk
                )
                undo.callback(disk.close, found.fd)
                writer = cls(layout, uuid, fence, lock_fd, found, segment_bytes_max, disk)
            undo.pop_all()
        return writer

    @classmethod
    def take_over(
        cls,
        path: str | os.PathLike[str],
        *,
        owner: str = "",
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        disk: Disk = OS,
    ) -> Self:
        """Become the writer of a journal whose writer hangs: that one is Fenced from here on.

        Nothing that it acknowledged is lost. Raises what `open` raises, JournalLocked only while
        another process is opening the journal.
        """
        layout = _layout(path, segment_bytes_max)
        uuid = read_identity(layout)
        with storage_errors(layout.root, "take the journal over"), ExitStack() as undo:
            with claiming(layout, disk):
                fence = Fence(layout, owner, disk)
                undo.callback(fence.close)
                _prepare_directories(layout, disk)
                found = resume(
                    layout, uuid, fence.epoch, segment_bytes_max, same_segment=False, disk=disk
                )
                undo.callback(disk.close, found.fd)
                lock_fd = _replace_lock(layout, disk)
                undo.callback(disk.close, lock_fd)
                writer = cls(layout, uuid, fence, lock_fd, found, segment_bytes_max, disk)
            undo.pop_all()
        return writer

    @property
    def path(self) -> Path:
        return self._layout.root

    @property
    def epoch(self) -> int:
        return self._fence.epoch

    @property
    def next_seq(self) -> int:
        """What the next chunk submitted begins with."""
        return self._group.next_seq

    @property
    def durable_seq(self) -> int:
        """The last durable entry; 0 when there is none."""
        return self.durable.next_seq - 1

    @property
    def chain(self) -> int:
        """The chain value at the durable end."""
        return self.durable.chain

    @property
    def position(self) -> Position:
        """The durable end."""
        return Position(self.durable_seq, self.epoch, self.durable.chain)

    @property
    def segment_bytes(self) -> int:
        """How much of the current segment is used."""
        return self._active.mark.offset

    def submit(self, chunk: Chunk) -> Ticket:
        """Queue a chunk, in the order of calls; cheap, so that it may be called under a lock.

        It is written when somebody waits, for it or for a later one; `close` waits for all.
        Raises EventTooLarge, UsageError, and after a failure JournalPoisoned or Fenced.
        """
        if self._closed:
            raise UsageError("the writer is closed", path=self.path)
        return self._group.submit(chunk)

    def append(self, chunk: Chunk) -> int:
        """Submit and wait: return the seq of the first entry when the chunk is durable."""
        return self.submit(chunk).wait()

    def drain(self) -> None:
        """Return when everything submitted so far, by whichever thread, is durable.

        Raises JournalPoisoned or Fenced after a failure, also one that came later.
        """
        self._group.drain()

    def roll(self) -> Position:
        """Begin a new segment after all that was submitted so far; return where it begins.

        A snapshot of the state just there can be proven for as long as that segment exists.
        Raises StorageError, JournalPoisoned, Fenced.
        """
        self.drain()
        with self._io:
            try:
                self._active.roll()
            except BaseException as error:
                self._group.fail(error)
                raise
            return self._active.boundary

    def _commit(self, chunk: Chunk) -> None:
        try:
            with self._io:
                self._active.commit(chunk)
        except BaseException:
            self._publish(over=True)
            raise
        self._publish()

    def _publish(self, *, over: bool = False) -> None:
        """Tell the tails in this process."""
        with self._news:
            self._over = over
            if not over:
                self.durable = self._active.durable
            self._news.notify_all()

    @property
    def is_over(self) -> bool:
        """Closed, or failed for good: nothing more will become durable through it."""
        return self._over

    def wait_durable(self, past: Durable | None, timeout_s: float | None) -> Durable:
        """Sleep until the durable end is not `past`, the writer is over, or the timeout; return it."""
        with self._news:
            self._news.wait_for(lambda: self._over or self.durable != past, timeout_s)
            return self.durable

    def close(self) -> None:
        """Wait for all chunks, end the journal cleanly, let go of the lock. Idempotent.

        After a failure only lets go. Raises JournalPoisoned, Fenced or StorageError when not all
        could be made durable; it is closed all the same.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if not self._group.failed:
                self._group.drain()
                self._active.finish()
                self._publish()
        finally:
            self._release()

    def _release(self) -> None:
        self._group.fail(UsageError("the writer is closed", path=self.path))
        self._publish(over=True)
        with ExitStack() as closing:  # the lock last, whatever happens before
            closing.callback(self._disk.close, self._lock_fd)
            closing.callback(self._fence.close)
            closing.callback(self._active.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _layout(path: str | os.PathLike[str], segment_bytes_max: int) -> Layout:
    if not 0 < segment_bytes_max <= _OFFSET_MAX:
        raise UsageError(f"segment_bytes_max {segment_bytes_max} is not within 1..{_OFFSET_MAX}")
    return Layout(Path(path))


_FRESH = {"IDENTITY.tmp", "writer.lock"}  # what a creation that was killed may leave


def _prepare(layout: Layout, disk: Disk) -> None:
    """Make the directory; refuse a path that is something else."""
    if layout.identity.exists():
        return
    if layout.root.exists():
        found = disk.listdir(layout.root) if layout.root.is_dir() else ["."]
        # Another process may have given it its IDENTITY just now.
        if layout.identity.name in found or _FRESH.issuperset(found):
            disk.sync_dir(layout.root.parent)  # a creation that was killed may not have come to it
            return
        raise NotAJournal(
            "holds something else than a journal",
            path=layout.root,
            hint="name an empty or a new directory",
        )
    _make_directory(layout.root, disk)


def _make_directory(path: Path, disk: Disk) -> None:
    """Make a directory and those above it, each durable in the one above."""
    if path.exists():
        return
    _make_directory(path.parent, disk)
    with suppress(FileExistsError):
        disk.mkdir(path)
    disk.sync_dir(path.parent)


def _lock(layout: Layout, timeout_s: float, disk: Disk) -> int:
    fd = lock.acquire(layout.lock, timeout_s, disk)
    if fd is not None:
        return fd
    owner = read_fence(layout, disk).owner or "a process that gave no name"
    raise JournalLocked(
        f"{owner} writes this journal, waited {timeout_s:g} s",
        path=layout.root,
        hint="retry later, or end that process; reading needs no lock",
    )


def _identity(layout: Layout, disk: Disk) -> bytes:
    """The journal's uuid; gives it one when it is new. Called with the lock held."""
    if not layout.identity.exists():
        text = render_text({"format": FORMAT_VERSION, "uuid": uuid4().hex})
        replace_file(layout.identity, text, disk)
    _prepare_directories(layout, disk)
    return read_identity(layout)


def _prepare_directories(layout: Layout, disk: Disk) -> None:
    missing = [path for path in layout.directories if not path.exists()]
    if missing:
        # A creation that was killed may have left IDENTITY's name in memory only.
        disk.sync_dir(layout.root)
    for path in missing:
        disk.mkdir(path)
    if missing:
        disk.sync_dir(layout.root)


def _check_lock(layout: Layout, lock_fd: int, disk: Disk) -> None:
    """A takeover between our lock and our claim has made the lock worthless."""
    if os.fstat(lock_fd).st_ino != disk.inode(layout.lock):
        raise Fenced(
            "another writer took over while this one was opening",
            path=layout.root,
            hint="retry later; the newer writer goes on",
        )


def _replace_lock(layout: Layout, disk: Disk) -> int:
    """Put a new lock file, locked, in the place of the one that the old writer holds."""
    temporary = layout.lock.with_name("writer.lock.tmp")
    fd = disk.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    with closed_on_failure(disk.close, fd):
        lock.try_lock(fd)
        disk.rename(temporary, layout.lock)
        disk.sync_dir(layout.root)
    return fd
