"""The archive: an append-only sidecar with one summary per run that has ended, `snap/ended`.

A cache, never the truth: it is rebuilt from the events whenever it is missing or does not fit. A record
is appended without a sync of its own; a snapshot says how many bytes of the archive belong to it and
what their CRC is, after the archive was synced. Bytes behind that are written again by the fold.

    16 bytes  journal uuid, then records:
     4 bytes  length n, little-endian
     n bytes  view.proto RunSummary
     4 bytes  CRC-32C of length and body, continued from the record before (the first: from the uuid's)

A run that had an event after its end has a second record; the last one counts.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import google_crc32c
from google.protobuf.message import DecodeError

from trainstate.v1 import view_pb2 as v

_LENGTH = struct.Struct("<I")


class Extent(NamedTuple):
    """How much of an archive there is, and the CRC that proves it."""

    size: int
    crc: int


class Archive:
    """The archive file of a journal, open for appending at a known extent.

    What lies behind `extent` is dropped: it was appended after the snapshot that named the extent.
    """

    def __init__(self, path: Path, uuid: bytes, extent: Extent | None) -> None:
        self._file = path.open("w+b" if extent is None else "r+b", buffering=0)
        if extent is None:
            self._file.write(uuid)
            extent = Extent(len(uuid), google_crc32c.value(uuid))
        self._file.truncate(extent.size)
        self._file.seek(extent.size)
        self._extent = extent

    def append(self, summary: v.RunSummary) -> None:
        """Adds a record; durable only after `sync`."""
        body = summary.SerializeToString()
        record = _LENGTH.pack(len(body)) + body
        crc = google_crc32c.extend(self._extent.crc, record)
        self._file.write(record + _LENGTH.pack(crc))
        self._extent = Extent(self._extent.size + len(record) + _LENGTH.size, crc)

    def sync(self) -> Extent:
        """Makes everything appended durable; returns what a snapshot must name."""
        os.fdatasync(self._file.fileno())
        return self._extent

    def close(self) -> None:
        """Closes the file. Idempotent."""
        self._file.close()


def read(path: Path, uuid: bytes, extent: Extent) -> list[v.RunSummary] | None:
    """The summaries of that extent, or None if the file does not hold exactly them."""
    try:
        data = path.read_bytes()[: extent.size]
    except OSError:
        return None
    if len(data) != extent.size or data[:16] != uuid:
        return None
    records = list(_records(data))
    if (records[-1][1] if records else google_crc32c.value(uuid)) != extent.crc:
        return None
    try:
        return [v.RunSummary.FromString(body) for body, _ in records]
    except DecodeError:
        return None


def _records(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Bodies and running CRCs, as far as they are whole and right."""
    crc = google_crc32c.value(data[:16])
    at = 16
    while at + 8 <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        end = at + 4 + length
        if end + 4 > len(data):
            return
        crc = google_crc32c.extend(crc, data[at:end])
        if _LENGTH.pack(crc) != data[end : end + 4]:
            return
        yield data[at + 4 : end], crc
        at = end + 4
