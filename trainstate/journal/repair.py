"""Repairing: make a damaged journal open again, and destroy no byte.

What can be rebuilt (FENCE, IDENTITY, indexes) is rebuilt, and a tear is set aside as opening for
writing does. Acknowledged entries are given up only when told so: the journal then ends before the
first damage, in a new segment of a new epoch, and what was behind it is in quarantine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainstate.errors import JournalCorrupt, JournalLocked
from trainstate.journal import lock
from trainstate.journal.disk import OS, Disk, replace_file, storage_errors
from trainstate.journal.fence import Fence, claiming, read_fence
from trainstate.journal.index import IndexWriter, index_path
from trainstate.journal.layout import FORMAT_VERSION, Layout, SegmentName, render_text
from trainstate.journal.recover import begin_after
from trainstate.journal.segment import HEADER_SIZE, Mark, Segment, create, find_chain, list_segments
from trainstate.journal.verify import Report, journal_uuid, sound_chain, verify
from trainstate.journal.walk import Walk
from trainstate.journal.writer import Writer

_OWNER = "trainstate repair"


def repair(
    path: str | os.PathLike[str], *, accept_loss: bool = False, disk: Disk = OS
) -> list[str]:
    """Repair the journal at `path`; return what was done, a sentence each.

    Raises JournalCorrupt, naming the entries and having changed no segment, when entries would be
    lost and `accept_loss` is not given. Raises JournalLocked, NotAJournal, StorageError.
    """
    layout = Layout(Path(path))
    with _locked(layout, disk):
        done = _restore_text_files(layout, disk)
        report = verify(layout.root, disk=disk)
        if not report.ok:
            done += _give_up(layout, report, accept_loss, disk)
    with Writer.open(layout.root, owner=_OWNER, disk=disk) as writer:
        if tear := writer.recovered:
            done.append(f"{tear.segment}: {tear.size} torn bytes at {tear.offset} in quarantine")
    with _locked(layout, disk):
        return done + _rebuild_indexes(layout, disk)


@contextmanager
def _locked(layout: Layout, disk: Disk) -> Iterator[None]:
    with storage_errors(layout.root, "repair"):
        journal_uuid(layout, disk)
        fd = lock.acquire(layout.lock, 0.0, disk)
        if fd is None:
            raise JournalLocked(
                "a writer lives", path=layout.root, hint="stop the writer, then repair again"
            )
        try:
            yield
        finally:
            disk.close(fd)


def _restore_text_files(layout: Layout, disk: Disk) -> list[str]:
    done = []
    uuid, damaged = journal_uuid(layout, disk)
    if damaged:
        text = render_text({"format": FORMAT_VERSION, "uuid": uuid.hex()})
        replace_file(layout.identity, text, disk)
        done.append("IDENTITY: restored from the newest segment")
    try:
        read_fence(layout, disk)
    except JournalCorrupt:
        epoch = _newest_epoch(layout, uuid, disk)
        replace_file(layout.fence, render_text({"epoch": epoch, "owner": _OWNER}), disk)
        done.append(f"FENCE: restored with epoch {epoch}, the newest in the segments")
    return done


def _newest_epoch(layout: Layout, uuid: bytes, disk: Disk) -> int:
    """The greatest epoch of a segment or of a frame in the last."""
    epochs = [name.epoch for name in list_segments(layout, disk)]
    chain, _ = sound_chain(layout, uuid, disk)
    for segment in chain[-1:]:
        with Walk(segment, disk=disk) as walk:
            epochs += [frame.epoch for frame in walk.until(walk.size())]
    return max(epochs, default=0)


def _give_up(layout: Layout, report: Report, accept_loss: bool, disk: Disk) -> list[str]:
    """End the journal before the first damage."""
    lost = report.damages[0]
    kept = report.end.next_seq - 1 if report.end else _before_history(layout, disk)
    if not accept_loss:
        raise JournalCorrupt(
            f"{lost.why}; repairing gives up every entry after seq {kept}",
            path=lost.path,
            offset=lost.offset,
            hint=f"trainstate repair --accept-loss --journal {layout.root}",
        )
    uuid, _ = journal_uuid(layout, disk)
    chain, _ = sound_chain(layout, uuid, disk)
    end = report.end
    ended = next((one for one in chain if end and one.name == end.segment), None)
    with claiming(layout, disk):
        # Above every segment there is, also one whose name is all that is left of it.
        fence = Fence(layout, _OWNER, disk, above=_newest_epoch(layout, uuid, disk))
        fence.close()
        if end and ended:
            _end_at(layout, ended, Mark(end.offset, end.chain, end.next_seq), fence.epoch, disk)
        else:
            _begin_again(layout, uuid, fence.epoch, disk)
        done = _set_aside(layout, ended, fence.epoch, disk)
    return [*done, f"the journal ends after seq {kept}; what was behind it is in quarantine"]


def _before_history(layout: Layout, disk: Disk) -> int:
    return min(list_segments(layout, disk), default=SegmentName(1, 0)).first_seq - 1


def _end_at(layout: Layout, segment: Segment, mark: Mark, epoch: int, disk: Disk) -> None:
    with Walk(segment, disk=disk) as walk:
        size = walk.size()
    _, fd = begin_after(layout, segment, mark, size, epoch, HEADER_SIZE, disk)
    disk.close(fd)


def _begin_again(layout: Layout, uuid: bytes, epoch: int, disk: Disk) -> None:
    """Nothing is left: the next entry gets the seq where the oldest segment began."""
    oldest = min(list_segments(layout, disk), default=SegmentName(1, 0))
    name = SegmentName(oldest.first_seq, epoch)
    before = Mark(HEADER_SIZE, 0, oldest.first_seq)
    previous = None if oldest.first_seq == 1 else (oldest, before)
    _, fd = create(layout, uuid, name, previous, HEADER_SIZE, disk)
    disk.close(fd)


def _set_aside(layout: Layout, ended: Segment | None, epoch: int, disk: Disk) -> list[str]:
    """Move the segments behind the new end to quarantine: they are strays now."""
    behind = [
        name
        for name in list_segments(layout, disk)
        if name.epoch < epoch and (ended is None or name.age > ended.name.age)
    ]
    for name in behind:
        path = layout.segment(name)
        disk.rename(path, layout.quarantine / path.name)
        if path.with_suffix(".idx").exists():
            disk.unlink(path.with_suffix(".idx"))
    disk.sync_dir(layout.quarantine)
    disk.sync_dir(layout.segments)
    return [f"{name}: moved to quarantine" for name in behind]


def _rebuild_indexes(layout: Layout, disk: Disk) -> list[str]:
    report = verify(layout.root, disk=disk)
    wrong = {problem.partition(":")[0] for problem in report.index_problems}
    chain = find_chain(layout, journal_uuid(layout, disk)[0], disk)
    for segment in chain:
        if index_path(segment).name in wrong:
            _rebuild_index(segment, disk)
    return [f"{name}: rebuilt" for name in sorted(wrong)]


def _rebuild_index(segment: Segment, disk: Disk) -> None:
    index = IndexWriter(segment, (), disk)
    with Walk(segment, disk=disk) as walk:
        for frame in walk.until(walk.size()):
            index.add(frame)
    index.close()
