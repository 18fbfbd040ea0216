"""Segments: the header codec, making one, and finding the chain of them from its end.

A segment gets its name only when its header is durable (`create` writes under a temporary name), so
a named segment without a valid header is damage and never the trace of a crash.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from google_crc32c import value as crc32c

from trainstate.errors import JournalCorrupt, NotFound, UnsupportedFormat
from trainstate.journal.disk import OS, Disk, closed_on_failure, storage_errors, write_exactly
from trainstate.journal.layout import FORMAT_VERSION, Layout, SegmentName, verify_hint

MAGIC = b"\x89TSJ\r\n\x1a\n"

_HEADER = Struct("<8sI16sQQQQII")  # without its CRC
_CRC = Struct("<I")

HEADER_SIZE = _HEADER.size + _CRC.size


class Mark(NamedTuple):
    """A place between two frames of a segment."""

    offset: int
    chain: int  # chain value before the frame that starts here
    next_seq: int


class Position(NamedTuple):
    """A place in a journal's history: everything up to `seq`, proven by the chain value there."""

    seq: int  # the last entry; 0 at the beginning
    epoch: int  # of its writer; tells people, proves nothing
    chain: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment's header: immutable once the file has its name."""

    path: Path
    uuid: bytes
    name: SegmentName
    previous: SegmentName | None  # None in the first segment of a journal
    previous_end: int
    chain: int
    seed: int  # the header's CRC

    @property
    def start(self) -> Mark:
        """Where its first frame is."""
        return Mark(HEADER_SIZE, self.chain, self.name.first_seq)


def _encode_header(
    uuid: bytes, name: SegmentName, previous: SegmentName | None, end: int, chain: int
) -> bytes:
    before = previous or SegmentName(0, 0)
    fields = (name.epoch, name.first_seq, before.first_seq, before.epoch, end, chain)
    data = _HEADER.pack(MAGIC, FORMAT_VERSION, uuid, *fields)
    return data + _CRC.pack(crc32c(data))


def _decode_header(data: bytes, path: Path) -> Segment | None:
    if len(data) != HEADER_SIZE or _CRC.pack(crc32c(data[:-4])) != data[-4:]:
        return None
    magic, version, uuid, epoch, first_seq, *rest = _HEADER.unpack(data[:-4])
    previous_first_seq, previous_epoch, end, chain = rest
    if magic != MAGIC:
        return None
    if version != FORMAT_VERSION:
        raise UnsupportedFormat(
            f"segment format {version}, this version reads {FORMAT_VERSION}", path=path
        )
    previous = SegmentName(previous_first_seq, previous_epoch) if end else None
    name = SegmentName(first_seq, epoch)
    return Segment(path, uuid, name, previous, end, chain, crc32c(data[:-4]))


def open_segment(path: Path, disk: Disk = OS) -> int:
    """A file descriptor to read the segment; NotFound when retention has removed it."""
    with storage_errors(path, "open the segment"):
        try:
            return disk.open(path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise gone(path, disk) from error


def gone(path: Path, disk: Disk = OS) -> NotFound:
    """The error for a segment that retention removed before it was read."""
    layout = Layout(path.parent.parent)
    begin = min((name.first_seq for name in list_segments(layout, disk)), default=1)
    return NotFound(
        f"what was to be read is gone, history begins at {begin}",
        path=layout.root,
        hint=f"read from seq {begin}",
    )


def read_header(path: Path, disk: Disk = OS) -> Segment:
    """The header of a segment; JournalCorrupt when it is not one, or not that of its name."""
    fd = open_segment(path, disk)
    try:
        with storage_errors(path, "read the segment header"):
            data = disk.pread(fd, HEADER_SIZE, 0)
    finally:
        disk.close(fd)
    segment = _decode_header(data, path)
    if segment is None or str(segment.name) != path.name:
        root = path.parent.parent
        raise JournalCorrupt(
            "segment header is damaged", path=path, offset=0, hint=verify_hint(root)
        )
    return segment


def create(
    layout: Layout,
    uuid: bytes,
    name: SegmentName,
    previous: tuple[SegmentName, Mark] | None,
    size: int,
    disk: Disk,
) -> tuple[Segment, int]:
    """Make a segment of `size` preallocated bytes; return it with its file descriptor.

    It is durable, and so is its name, before this returns. Raises OSError.
    """
    before, mark = previous if previous else (None, Mark(0, 0, name.first_seq))
    header = _encode_header(uuid, name, before, mark.offset, mark.chain)
    path = layout.segment(name)
    temporary = path.with_name(path.name + ".tmp")
    fd = disk.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    with closed_on_failure(disk.close, fd):
        disk.allocate(fd, size)
        write_exactly(disk, fd, header, 0)
        disk.fdatasync(fd)
        disk.rename(temporary, path)
        disk.sync_dir(layout.segments)
    segment = _decode_header(header, path)
    assert segment is not None
    return segment, fd


def list_segments(layout: Layout, disk: Disk = OS) -> list[SegmentName]:
    """Every segment in the directory, strays too, oldest first."""
    with storage_errors(layout.segments, "list the segments"):
        try:
            files = disk.listdir(layout.segments)
        except FileNotFoundError:
            return []  # a journal that is being created
        names = (SegmentName.parse(file) for file in files)
        return sorted((name for name in names if name), key=lambda name: name.age)


def find_chain(layout: Layout, uuid: bytes, disk: Disk = OS) -> list[Segment]:
    """The segments of the journal, oldest first. Raises what `chain_of` raises."""
    return chain_of(layout, uuid, list_segments(layout, disk), {}, disk)


def chain_of(
    layout: Layout,
    uuid: bytes,
    names: list[SegmentName],
    known: Mapping[SegmentName, Segment],
    disk: Disk = OS,
) -> list[Segment]:
    """The chain that ends at the last of `names`, oldest first; headers in `known` are not read again.

    Raises JournalCorrupt for a damaged header or a segment missing from the middle.
    """
    present = set(names)
    chain: list[Segment] = []
    name = names[-1] if names else None
    while name in present:
        assert name is not None
        segment = known.get(name) or read_header(layout.segment(name), disk)
        _check_same_journal(segment, uuid)
        chain.append(segment)
        name = segment.previous
    if name is not None:
        _check_oldest_gone(layout, name, present)
    return chain[::-1]


def with_successors(chain: Sequence[Segment]) -> Iterator[tuple[Segment, Segment | None]]:
    """Each segment and the one after it; None for the last."""
    yield from pairwise(chain)
    if chain:
        yield chain[-1], None


def _check_same_journal(segment: Segment, uuid: bytes) -> None:
    if segment.uuid != uuid:
        raise JournalCorrupt(
            f"segment belongs to journal {segment.uuid.hex()}, not {uuid.hex()}",
            path=segment.path,
            hint=verify_hint(segment.path.parent.parent),
        )


def _check_oldest_gone(layout: Layout, missing: SegmentName, present: set[SegmentName]) -> None:
    """Retention removes the oldest first, so nothing older than a missing segment may be left."""
    older = min((name for name in present if name.age < missing.age), default=None)
    if older is not None:
        raise JournalCorrupt(
            f"segment is missing while the older {older} is there",
            path=layout.segment(missing),
            hint=verify_hint(layout.root),
        )
