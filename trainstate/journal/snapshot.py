"""Snapshots: the caller's folded state at a segment boundary, to be taken up instead of a replay.

A snapshot is a cache. It is used only if all of it fits: its CRC, the journal, the caller's fold
version, and the chain value at its seq, which the header of the segment that begins there proves.
Anything else is passed over, for an older snapshot or none.
"""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from google_crc32c import value as crc32c

from trainstate.journal.disk import OS, Disk, replace_file, storage_errors
from trainstate.journal.layout import Layout, read_identity
from trainstate.journal.segment import Position, find_chain

MAGIC = b"\x89TSN\r\n\x1a\n"
_KEPT = 2

_HEADER = Struct("<8sI16sQIIQ")  # without its CRC
_CRC = Struct("<I")


class Snapshot(NamedTuple):
    """A state as of the entry `seq`, which is included."""

    seq: int
    body: bytes


def save_snapshot(
    path: str | os.PathLike[str],
    position: Position,
    fold_version: int,
    body: bytes,
    disk: Disk = OS,
) -> None:
    """Keep a state at a position that `Writer.roll` returned; durable when this returns.

    The newest two are kept. Raises StorageError.
    """
    layout = Layout(Path(path))
    header = _HEADER.pack(
        MAGIC, 1, read_identity(layout), position.seq, position.chain, fold_version, len(body)
    )
    data = header + body
    with storage_errors(layout.snapshots, "save the snapshot"):
        replace_file(_path(layout, position.seq), data + _CRC.pack(crc32c(data)), disk)
        for old in _saved(layout, disk)[_KEPT:]:
            disk.unlink(_path(layout, old))
        disk.sync_dir(layout.snapshots)


def load_snapshot(
    path: str | os.PathLike[str], fold_version: int, upto_seq: int | None = None, disk: Disk = OS
) -> Snapshot | None:
    """The newest snapshot at or before `upto_seq` that fits; None when there is none.

    Raises what opening a Reader raises.
    """
    layout = Layout(Path(path))
    uuid = read_identity(layout)
    chains = {(one.name.first_seq - 1, one.chain) for one in find_chain(layout, uuid, disk)}
    for seq in _saved(layout, disk):
        if upto_seq is not None and seq > upto_seq:
            continue
        found = _decode(_path(layout, seq), uuid, fold_version)
        if found and found[0] in chains:
            return Snapshot(seq, found[1])
    return None


def _decode(path: Path, uuid: bytes, fold_version: int) -> tuple[tuple[int, int], bytes] | None:
    """(seq, chain) and body of a snapshot file that is whole and of this journal and version."""
    try:
        data = path.read_bytes()
    except OSError:
        return None  # a snapshot is never needed: the journal is replayed instead
    if len(data) < _HEADER.size + _CRC.size or _CRC.pack(crc32c(data[:-4])) != data[-4:]:
        return None
    magic, version, owner, seq, chain, fold, size = _HEADER.unpack_from(data)
    body = data[_HEADER.size : -_CRC.size]
    if (magic, version, owner, fold, size) != (MAGIC, 1, uuid, fold_version, len(body)):
        return None
    return (seq, chain), body


def _path(layout: Layout, seq: int) -> Path:
    return layout.snapshots / f"{seq:020d}.snap"


def _saved(layout: Layout, disk: Disk) -> list[int]:
    """The seqs of the snapshots there are, newest first."""
    with storage_errors(layout.snapshots, "list the snapshots"):
        try:
            names = disk.listdir(layout.snapshots)
        except FileNotFoundError:
            return []
    stems = (name.removesuffix(".snap") for name in names if name.endswith(".snap"))
    return sorted((int(stem) for stem in stems if stem.isdigit()), reverse=True)
