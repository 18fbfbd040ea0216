"""Retention: forgetting the oldest segments, whole and oldest first, never what somebody still needs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trainstate.journal.disk import OS, Disk, storage_errors
from trainstate.journal.layout import Layout, SegmentName, read_identity
from trainstate.journal.segment import Segment, find_chain, list_segments


class Retained(NamedTuple):
    """What retention removed, or would remove, and what kept it from removing more."""

    removed: tuple[SegmentName, ...]
    bytes_freed: int
    first_seq: int  # where history begins now
    pinned_by: tuple[str, ...]  # who needs an entry below `keep_from_seq`, the neediest first


def retain(
    path: str | os.PathLike[str],
    keep_from_seq: int,
    pins: Mapping[str, int],
    *,
    dry_run: bool = False,
    disk: Disk = OS,
) -> Retained:
    """Unlink the segments that hold nothing at or above `keep_from_seq` and every pin.

    `pins` says who needs entries from which seq on. The last segment always stays. May run beside
    a live writer: it touches only segments that have a successor. Two retentions at once are safe,
    each removes what the other has left. Raises JournalCorrupt, StorageError.
    """
    layout = Layout(Path(path))
    chain = find_chain(layout, read_identity(layout), disk)
    keep_from = min([keep_from_seq, *pins.values()])
    needy = sorted((seq, who) for who, seq in pins.items() if seq < keep_from_seq)
    kept = _first_kept(chain, keep_from)
    if kept is None:
        return Retained((), 0, 1, ())
    removed = [name for name in list_segments(layout, disk) if name.age < kept.name.age]
    sizes = [_unlink(layout, name, disk, dry_run) for name in removed]
    who = tuple(who for _, who in needy)
    return Retained(tuple(removed), sum(sizes), kept.name.first_seq, who)


def _first_kept(chain: Sequence[Segment], keep_from: int) -> Segment | None:
    """The first segment to stay: the last that begins at or before the first entry to keep."""
    begins = [segment for segment in chain if segment.name.first_seq <= keep_from]
    return begins[-1] if begins else next(iter(chain), None)


def _unlink(layout: Layout, name: SegmentName, disk: Disk, dry_run: bool) -> int:
    """Remove one segment, durably before the next, so that what is left is always a chain."""
    path = layout.segment(name)
    with storage_errors(path, "remove the segment"):
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return 0
        if not dry_run:
            for one in (path.with_suffix(".idx"), path):
                if one.exists():
                    disk.unlink(one)
            disk.sync_dir(layout.segments)
    return size
