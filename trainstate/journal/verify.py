"""Verifying: every byte of a journal is read and every rule checked; damage is reported, not raised.

Behind damage the search goes on for the next valid frame, so that a report names each stretch of entries
that is lost and nothing that is not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from trainstate.errors import JournalCorrupt
from trainstate.journal.disk import OS, Disk
from trainstate.journal.durable import Durable, read_durable
from trainstate.journal.end import End
from trainstate.journal.fence import read_fence
from trainstate.journal.frame import Frame
from trainstate.journal.index import decode_blocks, encode_header, fits, index_path
from trainstate.journal.layout import Layout, SegmentName, read_identity
from trainstate.journal.lock import writer_lives
from trainstate.journal.recover import Tear, Verdict, examine_rest, judge_end, later_frame
from trainstate.journal.segment import (
    Mark,
    Segment,
    chain_of,
    list_segments,
    read_header,
    with_successors,
)
from trainstate.journal.walk import Walk

Progress = Callable[[int], object]


class Damage(NamedTuple):
    """Bytes that are not what was written."""

    path: Path
    offset: int
    first_seq_lost: int | None  # None when no entry is lost
    last_seq_lost: int | None  # None when nothing tells how many followed
    why: str


@dataclass(slots=True)
class Report:
    """What verifying found. `end` is where the valid frames before the first damage end."""

    path: Path
    segments: int = 0
    frames: int = 0
    entries: int = 0
    bytes: int = 0
    end: End | None = None
    tear: Tear | None = None
    damages: list[Damage] = field(default_factory=list)
    index_problems: list[str] = field(default_factory=list)
    strays: list[SegmentName] = field(default_factory=list)
    durable_lag: int = 0  # entries past what DURABLE says

    @property
    def ok(self) -> bool:
        """Whether nothing acknowledged is damaged; a tear or a lacking index is no damage."""
        return not self.damages


def verify(
    path: str | os.PathLike[str], progress: Progress | None = None, disk: Disk = OS
) -> Report:
    """Read and check everything: segments, frames, indexes, FENCE, DURABLE.

    `progress` is called with the seq reached, once per frame. Raises NotAJournal,
    UnsupportedFormat, StorageError; damage is in the report.
    """
    return _Verifier(Layout(Path(path)), progress or (lambda _: None), disk).run()


def journal_uuid(layout: Layout, disk: Disk) -> tuple[bytes, JournalCorrupt | None]:
    """The uuid, from a segment when IDENTITY is damaged. Raises NotAJournal when none tells."""
    try:
        return read_identity(layout), None
    except JournalCorrupt as error:
        for segment in _readable(layout, disk):
            return segment.uuid, error
        raise


def _readable(layout: Layout, disk: Disk) -> Iterator[Segment]:
    for name in reversed(list_segments(layout, disk)):
        try:
            yield read_header(layout.segment(name), disk)
        except JournalCorrupt:
            continue


def sound_chain(
    layout: Layout, uuid: bytes, disk: Disk
) -> tuple[list[Segment], list[JournalCorrupt]]:
    """The newest chain that holds, and why each newer segment is not the end of one."""
    names = list_segments(layout, disk)
    errors: list[JournalCorrupt] = []
    while True:
        try:
            return chain_of(layout, uuid, names, {}, disk), errors
        except JournalCorrupt as error:
            if not errors or errors[-1].path != error.path:
                errors.append(error)
            names.pop()


class _Verifier:
    def __init__(self, layout: Layout, progress: Progress, disk: Disk) -> None:
        self._layout = layout
        self._progress = progress
        self._disk = disk
        self._report = Report(layout.root)
        self._live = writer_lives(layout.lock, disk)
        self._uuid = b""
        self._durable: Durable | None = None
        self._lost = False  # behind the first damage

    def run(self) -> Report:
        self._uuid, damaged_identity = journal_uuid(self._layout, self._disk)
        self._durable = read_durable(self._layout, self._uuid, self._disk)
        if damaged_identity:
            self._damage(damaged_identity)
        self._check_fence()
        chain, errors = sound_chain(self._layout, self._uuid, self._disk)
        self._report.segments = len(chain)
        for segment, following in with_successors(chain):
            self._check_segment(segment, following, is_cut_off=bool(errors))
        self._check_missing(chain, errors)
        self._find_strays(chain, errors)
        return self._report

    def _damage(
        self, error: JournalCorrupt, first: int | None = None, last: int | None = None
    ) -> None:
        path = self._layout.root if error.path is None else Path(error.path)
        self._report.damages.append(Damage(path, error.offset or 0, first, last, error.message))

    def _check_fence(self) -> None:
        try:
            read_fence(self._layout, self._disk)
        except JournalCorrupt as error:
            self._damage(error)

    def _check_segment(
        self, segment: Segment, following: Segment | None, *, is_cut_off: bool
    ) -> None:
        with Walk(segment, disk=self._disk) as walk:
            index = _IndexCheck(segment)
            limit = self._limit(walk, following)
            self._follow(walk, limit, index)
            while damage := self._judge(walk, following, limit, is_cut_off=is_cut_off):
                later, why, last_lost = damage
                self._report.damages.append(
                    Damage(segment.path, walk.mark.offset, walk.mark.next_seq, last_lost, why)
                )
                self._lost = True
                index.give_up()
                if later is None:
                    break
                walk.mark = later
                self._follow(walk, limit, index)
        self._report.index_problems.extend(index.problems())

    def _limit(self, walk: Walk, following: Segment | None) -> int:
        """How far frames are looked for: to where they must reach, or in the last to its end."""
        if following:
            return following.previous_end
        durable = self._durable
        if self._live and durable and durable.segment == walk.segment.name:
            return durable.offset
        return walk.size()

    def _follow(self, walk: Walk, limit: int, index: _IndexCheck) -> None:
        report = self._report
        for frame in walk.until(limit):
            report.frames += 1
            report.entries += frame.count
            report.bytes += frame.end - frame.offset
            index.add(frame)
            self._progress(frame.next_seq - 1)
        if not self._lost:
            offset, chain, next_seq = walk.mark
            report.end = End(next_seq, walk.segment.name, offset, chain, self._live)
            report.durable_lag = max(0, next_seq - (self._durable.next_seq if self._durable else 1))

    def _judge(
        self, walk: Walk, following: Segment | None, limit: int, *, is_cut_off: bool
    ) -> tuple[Mark | None, str, int | None] | None:
        """Damage at the walk's mark, as (the next valid frame, why, the last seq lost); or None."""
        if following:
            return _judge_sealed(walk, following)
        if is_cut_off:
            return None  # what follows is reported as missing
        return self._judge_last(walk, limit)

    def _judge_last(self, walk: Walk, limit: int) -> tuple[Mark | None, str, int | None] | None:
        durable = self._durable
        here = durable if durable and durable.segment == walk.segment.name else None
        offset = walk.mark.offset
        if self._live and offset >= limit:
            return None
        data_end, later = examine_rest(walk)
        verdict, why = judge_end(
            offset, here.offset if here else 0, data_end, later.offset if later else None
        )
        if verdict is Verdict.TORN and not self._live:
            self._report.tear = Tear(walk.segment.name, offset, data_end - offset, why)
        if verdict is not Verdict.CORRUPT:
            return None
        return later, why, _last_lost(later, here)

    def _check_missing(self, chain: Sequence[Segment], errors: Sequence[JournalCorrupt]) -> None:
        """Segments that are gone or unreadable at the end of the chain."""
        durable = self._durable
        lacking = durable and (not chain or durable.segment.age > chain[-1].name.age)
        last_lost = durable.next_seq - 1 if durable and lacking else None
        end = self._report.end
        first = end.next_seq if end else self._oldest_seq()
        for error in errors:
            self._damage(error, first, last_lost)
        if durable and lacking and not errors:
            error = JournalCorrupt("segment is missing", path=self._layout.segment(durable.segment))
            self._damage(error, first, last_lost)

    def _oldest_seq(self) -> int:
        names = list_segments(self._layout, self._disk)
        return min((name.first_seq for name in names), default=1)

    def _find_strays(self, chain: Sequence[Segment], errors: Sequence[JournalCorrupt]) -> None:
        ours = {segment.name for segment in chain}
        if not errors:
            names = list_segments(self._layout, self._disk)
            self._report.strays = [name for name in names if name not in ours]


def _judge_sealed(walk: Walk, following: Segment) -> tuple[Mark | None, str, int | None] | None:
    """A segment with a successor must reach exactly the end that the successor records."""
    limit = following.previous_end
    if walk.mark == Mark(limit, following.chain, following.name.first_seq):
        return None
    later = later_frame(walk, limit) if walk.mark.offset < limit else None
    last = (later.next_seq if later else following.name.first_seq) - 1
    return later, f"damaged frame, valid ones must reach offset {limit}", last


def _last_lost(later: Mark | None, durable: Durable | None) -> int | None:
    if later:
        return later.next_seq - 1
    return durable.next_seq - 1 if durable else None


class _IndexCheck:
    """Compares the index of a segment with its frames, as they go by."""

    def __init__(self, segment: Segment) -> None:
        self._path = index_path(segment)
        self._header = encode_header(segment)
        self._frames: list[Frame] = []
        self._problems: list[str] = []
        data = self._path.read_bytes() if self._path.exists() else b""
        self._blocks = decode_blocks(data, segment)[::-1]
        size = len(self._header) + sum(block.encoded_size for block in self._blocks)
        if not data:
            self._problems.append(f"{self._path.name}: missing")
        elif size != len(data):
            self._problems.append(f"{self._path.name}: damaged after {size} bytes")

    def add(self, frame: Frame) -> None:
        if not self._blocks:
            return
        self._frames.append(frame)
        if frame.end >= self._blocks[-1].end:
            block = self._blocks.pop()
            if not fits(block, self._frames, self._header):
                self._problems.append(
                    f"{self._path.name}: does not fit the frames at {block.start}"
                )
                self.give_up()
            self._frames = []

    def give_up(self) -> None:
        """Stop comparing: the frames themselves are damaged."""
        self._blocks = []

    def problems(self) -> list[str]:
        if self._blocks:
            self._problems.append(f"{self._path.name}: reaches past the frames")
        return self._problems
