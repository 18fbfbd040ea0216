"""DURABLE: the one record that says how far the journal is known durable.

It is written with one pwrite after each fdatasync and never synced, so it can lag and never lead.
Each writer puts a new file in place, so that a fenced writer that wakes up writes into the old one.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import NamedTuple

from google_crc32c import value as crc32c

from trainstate.journal.disk import (
    OS,
    Disk,
    closed_on_failure,
    opened,
    storage_errors,
    write_exactly,
)
from trainstate.journal.layout import Layout, SegmentName

MAGIC = b"\x89TSD\r\n\x1a\n"

_RECORD = Struct("<8s16sQQQIII")  # without its CRC
_CRC = Struct("<I")
SIZE = _RECORD.size + _CRC.size


class Durable(NamedTuple):
    """Everything below `offset` of this segment, and all segments before it, is durable."""

    next_seq: int
    segment: SegmentName
    offset: int
    chain: int


def encode(uuid: bytes, durable: Durable) -> bytes:
    next_seq, segment, offset, chain = durable
    data = _RECORD.pack(MAGIC, uuid, next_seq, *segment, offset, chain, 0)
    return data + _CRC.pack(crc32c(data))


def decode(data: bytes, uuid: bytes) -> Durable | None:
    """What a record says; None when it is damaged or of another journal."""
    if len(data) != SIZE or _CRC.pack(crc32c(data[:-4])) != data[-4:]:
        return None
    magic, owner, next_seq, first_seq, epoch, offset, chain, _ = _RECORD.unpack(data[:-4])
    if magic != MAGIC or owner != uuid:
        return None
    return Durable(next_seq, SegmentName(first_seq, epoch), offset, chain)


def read_durable(layout: Layout, uuid: bytes, disk: Disk = OS) -> Durable | None:
    """What the journal's DURABLE says now; None when it says nothing."""
    with storage_errors(layout.durable, "read DURABLE"):
        try:
            with opened(disk, layout.durable, os.O_RDONLY) as fd:
                return decode(disk.pread(fd, SIZE, 0), uuid)
        except FileNotFoundError:
            return None


class DurableFile:
    """The writer's side."""

    __slots__ = ("_disk", "_fd", "_uuid")

    def __init__(self, layout: Layout, uuid: bytes, first: Durable, disk: Disk) -> None:
        """Put a new record in place of the old. Raises OSError."""
        self._disk = disk
        self._uuid = uuid
        temporary = layout.durable.with_name("DURABLE.tmp")
        self._fd = disk.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        with closed_on_failure(self.close):
            self.publish(first)
            disk.rename(temporary, layout.durable)

    def publish(self, durable: Durable) -> None:
        """Say how far the journal is durable. Raises OSError."""
        write_exactly(self._disk, self._fd, encode(self._uuid, durable), 0)

    def close(self) -> None:
        self._disk.close(self._fd)
