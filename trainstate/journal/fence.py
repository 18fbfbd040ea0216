"""FENCE: who is the newest writer. Each opening for writing claims the next epoch, durably.

Openings are serialised by a lock on IDENTITY (which is never replaced), held from the claim until the
writer is ready; so no two writers share an epoch, and none recovers what a newer one already writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from trainstate.errors import Fenced, JournalCorrupt, JournalLocked
from trainstate.journal import lock
from trainstate.journal.disk import OS, Disk, replace_file
from trainstate.journal.layout import Layout, not_ours, parse_text, render_text

_CLAIM_TIMEOUT_S = 5.0


class Claim(NamedTuple):
    """What FENCE says; epoch 0 when no writer has ever been."""

    epoch: int
    owner: str


def read_fence(layout: Layout, disk: Disk = OS) -> Claim:
    """What FENCE says now.

    Raises JournalCorrupt when it is damaged, or missing beside segments. Raises OSError.
    """
    try:
        data = layout.fence.read_bytes()
    except FileNotFoundError as error:
        if not (layout.segments.exists() and disk.listdir(layout.segments)):
            return Claim(0, "")
        if layout.fence.exists():
            return read_fence(layout, disk)  # made just now, by the journal's first writer
        hint = f"trainstate repair {layout.root}"
        raise JournalCorrupt("FENCE is missing", path=layout.fence, hint=hint) from error
    fields = parse_text(data, layout.fence)
    try:
        return Claim(int(fields["epoch"]), fields["owner"])
    except (KeyError, ValueError) as error:
        raise not_ours(layout.fence) from error


@contextmanager
def claiming(layout: Layout, disk: Disk) -> Iterator[None]:
    """Hold the lock that serialises openings. Raises JournalLocked, OSError."""
    fd = lock.acquire(layout.identity, _CLAIM_TIMEOUT_S, disk)
    if fd is None:
        raise JournalLocked(
            f"another process has been opening it for {_CLAIM_TIMEOUT_S:.0f} s",
            path=layout.root,
            hint="retry; if it lasts, end the process that hangs while opening this journal",
        )
    try:
        yield
    finally:
        disk.close(fd)


class Fence:
    """A claimed epoch. It holds its FENCE open, so that the inode cannot be used again."""

    __slots__ = ("_disk", "_fd", "_inode", "_layout", "epoch", "owner")

    def __init__(self, layout: Layout, owner: str, disk: Disk, *, above: int = 0) -> None:
        """Claim the epoch after FENCE's and after `above`; call it within `claiming`.

        Raises JournalCorrupt, OSError.
        """
        self._layout = layout
        self._disk = disk
        self.owner = " ".join(owner.split())
        self.epoch = max(read_fence(layout, disk).epoch, above) + 1
        text = render_text({"epoch": self.epoch, "owner": self.owner})
        self._inode = replace_file(layout.fence, text, disk)
        self._fd = disk.open(layout.fence, os.O_RDONLY)

    def check(self) -> None:
        """Raise Fenced when a newer writer has replaced FENCE."""
        try:
            if self._disk.inode(self._layout.fence) == self._inode:
                return
        except FileNotFoundError:
            pass  # somebody removed it: this writer can no longer prove that it is the newest
        raise Fenced(
            f"the writer of epoch {self.epoch} has been replaced by a newer one",
            path=self._layout.root,
            hint="stop this process; the newer writer goes on",
        )

    def close(self) -> None:
        self._disk.close(self._fd)
