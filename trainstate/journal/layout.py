"""Where things are in a journal directory, and the two text files that say what it is.

The byte layout of everything else lives with its codec: frame, segment, durable, index, snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from google_crc32c import value as crc32c

from trainstate.errors import JournalCorrupt, NotAJournal, UnsupportedFormat
from trainstate.journal.disk import storage_errors

FORMAT_VERSION = 1

_SEGMENT_NAME = re.compile(r"(\d{20})-(\d{10})\.seg")


class SegmentName(NamedTuple):
    """What a segment is called; two writers that begin at the same seq differ in the epoch."""

    first_seq: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.first_seq:020d}-{self.epoch:010d}.seg"

    @classmethod
    def parse(cls, name: str) -> SegmentName | None:
        match = _SEGMENT_NAME.fullmatch(name)
        return None if match is None else cls(int(match[1]), int(match[2]))

    @property
    def age(self) -> tuple[int, int]:
        """Sort key: the last segment of a journal is the one of the greatest age key."""
        return self.epoch, self.first_seq


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of the journal at `root`."""

    root: Path

    @property
    def identity(self) -> Path:
        return self.root / "IDENTITY"

    @property
    def fence(self) -> Path:
        return self.root / "FENCE"

    @property
    def durable(self) -> Path:
        return self.root / "DURABLE"

    @property
    def lock(self) -> Path:
        return self.root / "writer.lock"

    @property
    def segments(self) -> Path:
        return self.root / "seg"

    @property
    def snapshots(self) -> Path:
        return self.root / "snap"

    @property
    def cursors(self) -> Path:
        return self.root / "cursor"

    @property
    def quarantine(self) -> Path:
        return self.root / "quarantine"

    @property
    def directories(self) -> tuple[Path, ...]:
        return self.segments, self.snapshots, self.cursors, self.quarantine

    def segment(self, name: SegmentName) -> Path:
        return self.segments / str(name)


def verify_hint(root: Path) -> str:
    """The command that tells more about damage."""
    return f"trainstate verify {root}"


def render_text(fields: Mapping[str, object]) -> bytes:
    """Lines `key value`, closed by the CRC of the bytes before it."""
    data = "".join(f"{key} {value}\n" for key, value in fields.items()).encode()
    return data + f"crc32c {crc32c(data):08x}\n".encode()


def parse_text(data: bytes, path: Path) -> dict[str, str]:
    """The fields of a text file; JournalCorrupt when its CRC does not fit."""
    cut = data.rfind(b"crc32c ")
    if cut < 0 or data[cut:] != f"crc32c {crc32c(data[:cut]):08x}\n".encode():
        raise JournalCorrupt("checksum does not fit", path=path, hint=verify_hint(path.parent))
    try:
        lines = data[:cut].decode().splitlines()
        return dict(line.split(" ", 1) for line in lines)
    except ValueError as error:
        raise not_ours(path) from error


def not_ours(path: Path) -> JournalCorrupt:
    """The error for a file with a right checksum that no version of ours would write."""
    return JournalCorrupt("it does not say what it must", path=path, hint=verify_hint(path.parent))


def read_identity(layout: Layout) -> bytes:
    """The journal's uuid, 16 bytes.

    Raises NotAJournal without an IDENTITY, JournalCorrupt when it is damaged, or missing beside
    segments, UnsupportedFormat when a newer version wrote it.
    """
    with storage_errors(layout.identity, "read IDENTITY"):
        try:
            data = layout.identity.read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            if layout.segments.is_dir() and any(layout.segments.glob("*.seg")):
                hint = f"trainstate repair {layout.root}"
                raise JournalCorrupt(
                    "IDENTITY is missing", path=layout.identity, hint=hint
                ) from error
            raise NotAJournal("no journal here", path=layout.root) from error
    fields = parse_text(data, layout.identity)
    version = fields.get("format")
    if version != str(FORMAT_VERSION):
        raise UnsupportedFormat(
            f"journal format {version}, this version reads {FORMAT_VERSION}",
            path=layout.root,
            hint="upgrade trainstate",
        )
    try:
        return bytes.fromhex(fields["uuid"])
    except (KeyError, ValueError) as error:
        raise not_ours(layout.identity) from error
