"""Where the journal ends for a reader now, and what is wrong there, if anything."""

from __future__ import annotations

from typing import NamedTuple

from trainstate.errors import JournalCorrupt
from trainstate.journal.disk import OS, Disk
from trainstate.journal.durable import Durable, read_durable
from trainstate.journal.index import load_index
from trainstate.journal.layout import Layout, SegmentName
from trainstate.journal.lock import writer_lives
from trainstate.journal.recover import Verdict, check_last, corrupt_end, find_ending
from trainstate.journal.segment import Mark, Segment, chain_of, list_segments
from trainstate.journal.walk import Walk


class End(NamedTuple):
    """The end of a journal, as of one moment."""

    next_seq: int
    segment: SegmentName | None  # None in a journal without any segment
    offset: int
    chain: int
    live: bool  # a writer lives, and this is the durable end; else the end of the valid frames


class Survey(NamedTuple):
    """What a reader needs to know before it reads."""

    segments: list[Segment]
    end: End
    damage: JournalCorrupt | None  # what is behind the end, if it is not a tear


def survey(
    layout: Layout, uuid: bytes, known: dict[SegmentName, Segment], disk: Disk = OS
) -> Survey:
    """Find the segments and the end.

    The order matters beside a live writer: what DURABLE names is there when the listing is made.
    Raises JournalCorrupt when the chain of segments is broken, StorageError.
    """
    live = writer_lives(layout.lock, disk)
    durable = read_durable(layout, uuid, disk)
    segments = known_chain(layout, uuid, known, disk)
    check_last(layout, segments[-1] if segments else None, durable)
    if not segments:
        return Survey([], End(1, None, 0, 0, live), None)
    if live and durable and any(segment.name == durable.segment for segment in segments):
        return Survey(segments, durable_end(durable), None)
    found = _walk_to_end(layout, segments, durable, live, disk)
    if found.damage and writer_lives(layout.lock, disk) and not live:
        # A writer came while we looked, and what looked like damage was its work.
        return survey(layout, uuid, known, disk)
    return found


def known_chain(
    layout: Layout, uuid: bytes, known: dict[SegmentName, Segment], disk: Disk = OS
) -> list[Segment]:
    """The segments of the journal, oldest first; reads only the headers that are not in `known`."""
    segments = chain_of(layout, uuid, list_segments(layout, disk), known, disk)
    known.update((segment.name, segment) for segment in segments)
    return segments


def durable_end(durable: Durable) -> End:
    """The end that DURABLE names, while a writer lives."""
    return End(durable.next_seq, durable.segment, durable.offset, durable.chain, live=True)


def _start(last: Segment, durable: Durable | None, disk: Disk) -> Mark | None:
    """The last place that the index knows and DURABLE vouches for: frames before it are not needed."""
    if durable is None or durable.segment != last.name:
        return None
    with Walk(last, disk=disk) as walk:
        marks = [block.after for block in load_index(walk) if block.end <= durable.offset]
    return marks[-1] if marks else None


def _end(name: SegmentName, mark: Mark, live: bool) -> End:
    return End(mark.next_seq, name, mark.offset, mark.chain, live)


def _walk_to_end(
    layout: Layout, segments: list[Segment], durable: Durable | None, live: bool, disk: Disk
) -> Survey:
    """Find the end by the frames themselves."""
    last = segments[-1]
    ending = find_ending(last, durable, disk, _start(last, durable, disk))
    if live:
        # DURABLE tells nothing: the newest frame proves what is before it, and no more.
        return Survey(segments, _end(last.name, ending.newest, live), None)
    damage = corrupt_end(layout, ending) if ending.verdict is Verdict.CORRUPT else None
    return Survey(segments, _end(last.name, ending.mark, live), damage)
