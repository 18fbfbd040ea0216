"""The journal: an append-only, checksummed, sequence-numbered log of opaque bytes in a directory.

It knows no event schema. A caller appends *chunks*: bytes it has encoded, the number of entries in
them, the streams they belong to (64-bit hashes) and their time range. The journal writes chunks,
grouped, as *frames*; a frame is the atomic unit. Entries are numbered by `seq`: from 1, without gaps,
never reused, implied by the frame's `first_seq`.

This docstring is the format, complete: tests/second_reader.py is written from it alone.
All integers are little-endian and unsigned. `crc(data, seed)` is CRC-32C (Castagnoli) of `data`
continued from the value `seed` (seed 0 is the plain CRC-32C).

Directory
---------
    IDENTITY                              what this directory is; written once, by rename
    FENCE                                 the newest writer's epoch; replaced by rename
    DURABLE                               how far the journal is known durable; one record, overwritten
    writer.lock                           an OFD lock on it says that a writer lives
    seg/<first_seq:020d>-<epoch:010d>.seg   segments, in the order of their names
    seg/<first_seq:020d>-<epoch:010d>.idx   index sidecar of each; disposable
    snap/<seq:020d>.snap                  snapshots; disposable
    cursor/ quarantine/                   export cursors; bytes set aside by recovery

A file whose name ends in `.tmp` is being written and will get its name by rename; it is not journal. A
segment, too, gets its name only when its header is durable.

Text files: IDENTITY, FENCE
---------------------------
Lines `key value\n`, UTF-8; the last line is `crc32c <8 hex digits>`, the CRC of all bytes before it.

    IDENTITY   format 1, uuid <32 hex digits>
    FENCE      epoch <n>, owner <text on one line, may be empty>

A reader refuses a `format` other than 1. The epoch counts writers: each opening of the journal for
writing durably replaces FENCE with a higher epoch before it reads or writes anything else. An OFD lock
on IDENTITY is held from then until the writer is ready, so that no two writers share an epoch.

Segment
-------
A header of 72 bytes, then frames back to back, then zeros: a segment is preallocated, and its
zero-filled remainder (possibly of length 0) is free space.

    offset size
         0    8  magic 89 54 53 4A 0D 0A 1A 0A ("\\x89TSJ\\r\\n\\x1a\\n")
         8    4  format version, 1
        12   16  journal uuid
        28    8  epoch of the writer that made the segment
        36    8  first_seq: the seq of the first entry it may hold
        44    8  predecessor's first_seq   \\
        52    8  predecessor's epoch        > all 0 in the first segment of a journal
        60    4  predecessor's end offset  /
        64    4  chain: the chain value at the predecessor's end; 0 in the first segment
        68    4  crc(bytes 0-67, 0)

Bytes of the predecessor at or past the recorded end offset are not journal, whatever they look like.
The segments of a journal are found from its end: the last is the one with the highest (epoch,
first_seq); each names its predecessor; the first is the one whose predecessor is gone (retention
unlinks the oldest) or was never there. A predecessor that is missing while a segment of lower
(epoch, first_seq) is still there is corruption. Any other segment is a *stray*, left by a writer that
was fenced while it made it: not journal, and ignored.
The *seed* of a segment is its own header CRC (bytes 68-71).

Frame
-----
A header of 52 bytes, then a stream table, then the body.

    offset size
         0    4  magic 54 53 46 31 ("TSF1")
         4    4  body length in bytes, at most 1,048,576
         8    4  count of entries; 0 in a closing frame only
        12    4  streams: entries in the stream table, at most 65,535
        16    8  first_seq
        24    8  epoch of the writer; never lower than that of the frame before it
        32    8  time_min  \\ of its entries, nanoseconds since the Unix epoch
        40    8  time_max  /  (0 and 0 in a closing frame)
        48    4  header CRC
        52  8*s  stream table: the 64-bit streams of its entries, ascending, each once
             b  body
             4  body CRC: crc(stream table + body, header CRC)

    header CRC = crc(prev, seed) continued over bytes 0-47

where `prev` is 4 bytes: the chain value before this frame. The chain value after a frame is its body
CRC. The chain value before the first frame of a segment is the `chain` of the segment's header. So a
stale or misplaced frame never validates: its place in its segment and its whole past are in the CRC.
Lengths are bounded before anything is allocated. The rules of the table bind writers; a reader accepts a
frame by its bounds, its two CRCs and its first_seq (that must be the next seq), and trusts the rest.

One frame, one write, one fdatasync. A frame is written only when the one before it is durable;
therefore **a valid frame proves everything before it durable**. A clean close appends a closing frame
(count 0, streams 0, body length 0, first_seq the next seq), which proves the last data frame durable.

DURABLE
-------
64 bytes, rewritten with one pwrite after each fdatasync and never synced, so it can only lag. Each
writer begins with a new file, renamed into place, so that a fenced one cannot overwrite its record.

     0    8  magic 89 54 53 44 0D 0A 1A 0A
     8   16  journal uuid
    24    8  next seq: every entry below it is durable
    32    8  segment first_seq  \\ which segment
    40    8  segment epoch      /
    48    4  end offset in that segment: everything below it is durable
    52    4  chain value at that offset
    56    4  reserved, 0
    60    4  crc(bytes 0-59, 0)

A record that fails its CRC, names another journal, or names a segment that is not of the journal but
lower in (epoch, first_seq) than its last, says nothing. One that names a higher segment says that the
end of the journal is missing: corrupt.

Where the journal ends
----------------------
The *durable end* is the greatest of: what DURABLE says; the start of the newest valid frame (it
proves what is before it); the predecessor's end in the next segment's header. While a writer lives
(its lock is held) readers stop at the durable end. When none does, they take every valid frame.

Torn or corrupt
---------------
The valid frames of a segment must reach exactly the predecessor end its successor records; those of
the last segment must reach the durable end. Let P be the end of the valid frames of the last segment.
If only zeros follow P to the end of the file, and P is not below the durable end, the end is clean.
What follows P otherwise is a *tear* if and only if P is at or above the durable end and no valid frame
starts behind P. Everything else is *corrupt*: announced, never truncated.
The chain value before a frame behind P is read from the 4 bytes before it; for the frame right after a
damaged one whose header is valid, it is also computed from the content of the damaged one. A frame whose
first_seq is below the next seq at P is not looked at: it is older bytes, quoted in an entry.
A tear holds nothing that was ever acknowledged. The next writer copies its bytes (from P to the last
non-zero byte) to quarantine/<segment name>@<P>, and goes on in a new segment whose predecessor end
is P. A valid frame above the durable end may not have been acknowledged either; it is adopted: the next
writer writes its bytes again and syncs them before it goes on, because after a failed sync memory may
show what the disk does not hold.

Index sidecar (.idx)
--------------------
A header of 24 bytes: magic 89 54 53 49 0D 0A 1A 0A, format version (4), the segment's header CRC (4),
reserved 0 (4), crc(bytes 0-19, 0) (4). Then blocks, each for about 64 KiB of the segment, contiguous
from its first frame:

     0    4  magic 54 53 49 31 ("TSI1")
     4    4  start offset in the segment
     8    4  end offset
    12    4  chain value at the end offset
    16    8  first_seq of its first frame
    24    8  next seq after its last
    32    8  time_min  \\ over its frames
    40    8  time_max  /
    48    4  postings: how many follow
    52    4  frames: how many it covers
    56  12*p postings, ascending: stream (8), frame offset (4)
             crc(everything before it in the block, CRC of the idx header) (4)

Readers take the longest valid prefix of blocks and scan the rest of the segment themselves. The index
is disposable: rebuilt when it is missing or wrong, and never trusted over the segment (a frame found
through it is verified like any other, and its header CRC holds its place).

A closing frame counts among a block's frames and has no part in its times (0 and 0 with no other frame).

Snapshot (.snap)
----------------
What a caller's fold made of everything up to `seq`, the last entry before a segment. Two are kept.

     0    8  magic 89 54 53 4E 0D 0A 1A 0A
     8    4  format version, 1
    12   16  journal uuid
    28    8  seq
    36    4  chain: that of the header of the segment whose first_seq is seq + 1
    40    4  fold version, the caller's
    44    8  body length
    52    b  body
          4  crc(everything before it, 0)

It is used only if all of it fits, the segment's header included.

Worked example
--------------
One entry, `hello`, of stream 42 at time 1000, in a journal with the uuid 00010203...0f that was then
closed. This is its only segment, seg/00000000000000000001-0000000001.seg:

    0000  89 54 53 4a 0d 0a 1a 0a                          magic
    0008  01 00 00 00                                      format version
    000c  00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  journal uuid
    001c  01 00 00 00 00 00 00 00                          epoch 1
    0024  01 00 00 00 00 00 00 00                          first_seq 1
    002c  00 00 00 00 00 00 00 00                          no predecessor: first_seq,
    0034  00 00 00 00 00 00 00 00                          epoch,
    003c  00 00 00 00                                      end offset
    0040  00 00 00 00                                      chain
    0044  12 bc 5c fd                                      header CRC, the seed
    0048  54 53 46 31                                      a frame: magic
    004c  05 00 00 00                                      body length 5
    0050  01 00 00 00                                      count 1
    0054  01 00 00 00                                      streams 1
    0058  01 00 00 00 00 00 00 00                          first_seq 1
    0060  01 00 00 00 00 00 00 00                          epoch 1
    0068  e8 03 00 00 00 00 00 00                          time_min 1000
    0070  e8 03 00 00 00 00 00 00                          time_max 1000
    0078  0b a4 87 1a                                      header CRC, with prev = the chain above
    007c  2a 00 00 00 00 00 00 00                          stream 42
    0084  68 65 6c 6c 6f                                   body "hello"
    0089  57 ac 6d 3e                                      body CRC, the chain value after it
    008d  54 53 46 31                                      a closing frame: magic
    0091  00 00 00 00                                      body length 0
    0095  00 00 00 00                                      count 0
    0099  00 00 00 00                                      streams 0
    009d  02 00 00 00 00 00 00 00                          first_seq 2
    00a5  01 00 00 00 00 00 00 00                          epoch 1
    00ad  00 00 00 00 00 00 00 00                          time_min 0
    00b5  00 00 00 00 00 00 00 00                          time_max 0
    00bd  2d 24 fa ff                                      header CRC, with prev = the body CRC above
    00c1  2d 24 fa ff                                      body CRC

Downsides, known and accepted
-----------------------------
* The newest acknowledged frame is told from a tear by DURABLE or by a closing frame. When power is lost
  (DURABLE was not synced) *and* the medium damages just that frame, the loss looks like a tear.
* A closed segment costs its full frames' overhead: 56 bytes + 8 per stream. One event alone is dear,
  a group is cheap; producers that wait for each other get groups for nothing.
* 32-bit CRCs find every burst up to 32 bits and miss one random change in four milliards; they guard
  against disks and bugs, not against an adversary.
* No compression: bytes on disk are bytes on the wire. Compress where they leave.
* A frame is rewritten by nobody, so an entry cannot be redacted; secrets are masked before append.
"""

from trainstate.journal.disk import OS, Disk, closed_on_failure, replace_file
from trainstate.journal.end import End
from trainstate.journal.frame import FRAME_BODY_MAX, Chunk, Frame
from trainstate.journal.group import Ticket
from trainstate.journal.layout import SegmentName
from trainstate.journal.lock import writer_lives
from trainstate.journal.reader import Reader, is_journal
from trainstate.journal.recover import Tear
from trainstate.journal.repair import repair
from trainstate.journal.retention import Retained, retain
from trainstate.journal.segment import Position
from trainstate.journal.snapshot import Snapshot, load_snapshot, save_snapshot
from trainstate.journal.tail import Tail
from trainstate.journal.verify import Damage, Report, verify
from trainstate.journal.writer import SEGMENT_BYTES_MAX, Writer

__all__ = [
    "FRAME_BODY_MAX",
    "OS",
    "SEGMENT_BYTES_MAX",
    "Chunk",
    "Damage",
    "Disk",
    "End",
    "Frame",
    "Position",
    "Reader",
    "Report",
    "Retained",
    "SegmentName",
    "Snapshot",
    "Tail",
    "Tear",
    "Ticket",
    "Writer",
    "closed_on_failure",
    "is_journal",
    "load_snapshot",
    "repair",
    "replace_file",
    "retain",
    "save_snapshot",
    "verify",
    "writer_lives",
]
