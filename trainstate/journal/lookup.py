"""Finding frames through the index sidecars: a block that cannot hold what is wanted is not read.

What an index does not cover is scanned, and every frame is verified in its place, so an index can make
a lookup fast and cannot make it wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trainstate.journal.disk import Disk
from trainstate.journal.end import Survey
from trainstate.journal.frame import Frame
from trainstate.journal.index import Block, load_index
from trainstate.journal.segment import Mark, Segment, with_successors
from trainstate.journal.walk import Walk

Pick = Callable[[Walk, Block], Iterator[Frame]]


def of_stream(stream: int) -> Pick:
    """Of each block, the frames that its postings name for a stream."""

    def pick(walk: Walk, block: Block) -> Iterator[Frame]:
        for offset in block.offsets_of(stream):
            frame = walk.frame_at(offset)
            if frame is None:
                walk.mark = Mark(offset, 0, block.first_seq)
                raise walk.damage("damaged frame of the stream")
            yield frame

    return pick


def since(time_ns: int) -> Pick:
    """All frames of a block that holds that time or later."""

    def pick(walk: Walk, block: Block) -> Iterator[Frame]:
        if block.time_max >= time_ns:
            walk.mark = Mark(block.start, walk.chain_before(block.start), block.first_seq)
            yield from walk.all_until(block.end)

    return pick


def through_indexes(
    found: Survey, first_seq: int, until_seq: int, pick: Pick, disk: Disk
) -> Iterator[Frame]:
    """What `pick` takes from the indexed blocks of first_seq <= seq < until_seq, and all frames that
    are not indexed, of the segments that may hold such entries.

    Raises JournalCorrupt for a damaged frame that it meets, NotFound, StorageError.
    """
    for segment, limit, next_seq in _stretches(found):
        if next_seq <= first_seq or segment.name.first_seq >= until_seq:
            continue
        with Walk(segment, disk=disk) as walk:
            blocks = [block for block in load_index(walk) if block.end <= limit]
            for block in blocks:
                if block.next_seq > first_seq and block.first_seq < until_seq:
                    yield from pick(walk, block)
            walk.mark = blocks[-1].after if blocks else segment.start
            yield from walk.all_until(limit)


def _stretches(found: Survey) -> Iterator[tuple[Segment, int, int]]:
    """Each segment up to the end of the journal, the offset where it ends, and the seq after it."""
    for segment, following in with_successors(found.segments):
        if segment.name == found.end.segment or following is None:
            yield segment, found.end.offset, found.end.next_seq
            return
        yield segment, following.previous_end, following.name.first_seq
