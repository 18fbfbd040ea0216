"""Where a journal ends, and how the next writer goes on there.

`judge_end` is the one place that tells a torn tail from corruption.

What a crash leaves at each point, and what the next open sees, is the crash table of ARCHITECTURE.md.
"""

from __future__ import annotations

import enum
import os
from typing import NamedTuple

from trainstate.errors import JournalCorrupt
from trainstate.journal.disk import Disk, closed_on_failure, opened, replace_file, write_exactly
from trainstate.journal.durable import Durable, read_durable
from trainstate.journal.frame import FRAME_MAX, MAGIC, content_chain, frame_size
from trainstate.journal.layout import Layout, SegmentName, verify_hint
from trainstate.journal.segment import Mark, Segment, create, find_chain
from trainstate.journal.walk import Walk

_BLOCK_BYTES = 1 << 20
_ZEROS = bytes(_BLOCK_BYTES)


class Verdict(enum.Enum):
    """How the frames of a segment end."""

    CLEAN = "clean"
    TORN = "torn"
    CORRUPT = "corrupt"


class Tear(NamedTuple):
    """Bytes after the last valid frame that were never acknowledged."""

    segment: SegmentName
    offset: int
    size: int
    reason: str


class Ending(NamedTuple):
    """How the frames of the last segment end."""

    segment: Segment
    mark: Mark  # after the last valid frame
    newest: Mark  # before the last valid frame: proven durable by it
    data_end: int  # after the last non-zero byte of the file
    verdict: Verdict
    reason: str

    @property
    def tear(self) -> Tear | None:
        if self.verdict is not Verdict.TORN:
            return None
        size = self.data_end - self.mark.offset
        return Tear(self.segment.name, self.mark.offset, size, self.reason)


def judge_end(
    valid_end: int, durable_end: int, data_end: int, later_frame: int | None
) -> tuple[Verdict, str]:
    """Torn or corrupt: decide what the bytes after the last valid frame of a journal are.

    All arguments are offsets in the last segment: where its valid frames end, how far it is known
    durable, where its non-zero bytes end, and where a valid frame starts behind damage, if any.
    """
    if valid_end < durable_end:
        return Verdict.CORRUPT, f"acknowledged frames are damaged, durable up to {durable_end}"
    if later_frame is not None:
        return Verdict.CORRUPT, f"damage is followed by a valid frame at {later_frame}"
    if data_end > valid_end:
        return Verdict.TORN, f"a write was torn, {data_end - valid_end} bytes were not acknowledged"
    return Verdict.CLEAN, "only free space follows the last frame"


def find_ending(
    segment: Segment, durable: Durable | None, disk: Disk, start: Mark | None = None
) -> Ending:
    """Walk the last segment from `start` to the end of its frames and judge what follows."""
    durable_end = durable.offset if durable and durable.segment == segment.name else 0
    with Walk(segment, start, disk) as walk:
        newest = before = walk.mark
        for _ in walk.until(walk.size()):
            newest, before = before, walk.mark
        mark = walk.mark
        data_end, later = examine_rest(walk)
    verdict, reason = judge_end(mark.offset, durable_end, data_end, later.offset if later else None)
    return Ending(segment, mark, newest, data_end, verdict, reason)


def examine_rest(walk: Walk) -> tuple[int, Mark | None]:
    """Where the non-zero bytes after the frames end, and the first valid frame among them."""
    start = offset = data_end = walk.mark.offset
    while block := walk.block(offset, _BLOCK_BYTES):
        if block != _ZEROS[: len(block)]:
            data_end = offset + len(block.rstrip(b"\0"))
        offset += len(block)
    return data_end, later_frame(walk, data_end) if data_end > start else None


def later_frame(walk: Walk, data_end: int) -> Mark | None:
    """The first valid frame behind the damage at the walk's mark; None when there is none.

    A frame is verified by the 4 bytes before it, the stored chain value of the frame before. If
    just those are what is damaged, the content of that frame still gives them.
    """
    return _after_damaged_checksum(walk) or _by_magic(walk, data_end)


def _after_damaged_checksum(walk: Walk) -> Mark | None:
    offset, chain, _ = walk.mark
    data = walk.read(offset, FRAME_MAX + offset)
    content = content_chain(data, 0, chain.to_bytes(4, "little"), walk.segment.seed)
    if content is None:
        return None
    return _frame_mark(walk, offset + frame_size(data, 0), content.to_bytes(4, "little"))


def _by_magic(walk: Walk, data_end: int) -> Mark | None:
    offset = walk.mark.offset
    while offset < data_end:
        block = walk.block(offset, _BLOCK_BYTES)
        at = block.find(MAGIC)
        while at >= 0:
            if mark := _frame_mark(walk, offset + at):
                return mark
            at = block.find(MAGIC, at + 1)
        # Blocks overlap by less than a magic, so that none is missed.
        offset += _BLOCK_BYTES - len(MAGIC) + 1
    return None


def _frame_mark(walk: Walk, offset: int, prev: bytes | None = None) -> Mark | None:
    """The place before a valid frame at `offset`.

    A frame with a lower seq than the one that is missing is older bytes, quoted in an entry.
    """
    frame = walk.frame_at(offset, prev)
    if frame is None or frame.first_seq < walk.mark.next_seq:
        return None
    chain = walk.chain_before(offset) if prev is None else int.from_bytes(prev, "little")
    return Mark(offset, chain, frame.first_seq)


def corrupt_end(layout: Layout, ending: Ending) -> JournalCorrupt:
    """The error for an ending that is judged corrupt."""
    good = ending.mark.next_seq - 1
    return JournalCorrupt(
        f"{ending.reason}; entries up to seq {good} are good",
        path=ending.segment.path,
        offset=ending.mark.offset,
        hint=verify_hint(layout.root),
    )


def check_last(layout: Layout, last: Segment | None, durable: Durable | None) -> None:
    """Raise JournalCorrupt when DURABLE names a newer segment than the last there is."""
    if durable and (last is None or durable.segment.age > last.name.age):
        raise JournalCorrupt(
            f"segment is missing, it was durable up to seq {durable.next_seq - 1}",
            path=layout.segment(durable.segment),
            hint=verify_hint(layout.root),
        )


class Resume(NamedTuple):
    """Where the next writer goes on."""

    segment: Segment
    fd: int
    mark: Mark
    tear: Tear | None


def resume(
    layout: Layout, uuid: bytes, epoch: int, size: int, *, same_segment: bool, disk: Disk
) -> Resume:
    """Find the end, make it durable, set a tear aside, and open the segment to write in.

    `same_segment` says that no other writer can still be writing there, so that a clean end may
    be continued in place. Raises JournalCorrupt, OSError.
    """
    _remove_temporaries(layout, disk)
    chain = find_chain(layout, uuid, disk)
    durable = read_durable(layout, uuid, disk)
    check_last(layout, chain[-1] if chain else None, durable)
    if not chain:
        segment, fd = create(layout, uuid, SegmentName(1, epoch), None, size, disk)
        return Resume(segment, fd, segment.start, None)
    ending = find_ending(chain[-1], durable, disk)
    if ending.verdict is Verdict.CORRUPT:
        raise corrupt_end(layout, ending)
    _make_durable(layout, ending, disk)
    if ending.verdict is Verdict.CLEAN and same_segment:
        return _reopen(ending, size, disk)
    segment, fd = begin_after(
        layout, ending.segment, ending.mark, ending.data_end, epoch, size, disk
    )
    return Resume(segment, fd, segment.start, ending.tear)


def _remove_temporaries(layout: Layout, disk: Disk) -> None:
    """A segment that never got its name holds nothing."""
    for name in disk.listdir(layout.segments):
        if name.endswith(".tmp"):
            disk.unlink(layout.segments / name)


def _make_durable(layout: Layout, ending: Ending, disk: Disk) -> None:
    """Write the newest frame again as it is, and sync, before anything builds on it.

    After a failed sync the kernel may hold pages marked clean that the disk does not have: a sync
    alone would succeed and prove nothing. The frames before the newest are proven durable by it.
    """
    start, end = ending.newest.offset, ending.mark.offset
    with opened(disk, ending.segment.path, os.O_RDWR) as fd:
        if end > start:
            write_exactly(disk, fd, disk.pread(fd, end - start, start), start)
        disk.fdatasync(fd)
    disk.sync_dir(layout.segments)


def _reopen(ending: Ending, size: int, disk: Disk) -> Resume:
    fd = disk.open(ending.segment.path, os.O_RDWR)
    with closed_on_failure(disk.close, fd):
        disk.allocate(fd, max(size, ending.mark.offset))
        disk.fdatasync(fd)
    return Resume(ending.segment, fd, ending.mark, None)


def begin_after(
    layout: Layout, segment: Segment, mark: Mark, data_end: int, epoch: int, size: int, disk: Disk
) -> tuple[Segment, int]:
    """End a segment at `mark` and begin the next, keeping the bytes between `mark` and `data_end`.

    Raises OSError.
    """
    with opened(disk, segment.path, os.O_RDWR) as fd:
        if rest := disk.pread(fd, data_end - mark.offset, mark.offset):
            replace_file(layout.quarantine / f"{segment.path.name}@{mark.offset}", rest, disk)
        name = SegmentName(mark.next_seq, epoch)
        made = create(layout, segment.uuid, name, (segment.name, mark), size, disk)
        disk.truncate(fd, mark.offset)
    return made
