"""Bugs of the journal that scripts/bench/planted-bugs plants: a promise broken, and who must notice.

A bug is an edit of one file: an old text, which must be there exactly once, and the new one. A bug that
no longer applies is an error: whoever changes the line says here what breaks the promise now.
"""

from __future__ import annotations

from typing import NamedTuple


class Bug(NamedTuple):
    """One broken promise."""

    name: str
    file: str
    old: str
    new: str
    test: str
    more: tuple[tuple[str, str], ...] = ()  # edits of the same file besides


_CRASHES = "tests/proofs/test_crash_states.py::test_every_crash_state_recovers"
_FLIPS = "tests/proofs/test_flips.py::test_damage_is_detected_or_harmless"
_TWO = "tests/proofs/test_two_writers.py"
_FUZZ = "tests/proofs/test_fuzz.py"

WRITING = [
    Bug(
        "acknowledge before the sync",
        "trainstate/journal/active.py",
        "self._disk.fdatasync(self._fd)\n        self._fence.check()",
        "self._fence.check()",
        f"{_CRASHES}[short life]",
    ),
    Bug(
        "DURABLE is written before the sync",
        "trainstate/journal/active.py",
        "self._disk.fdatasync(self._fd)\n        self._fence.check()",
        "self._durable.publish(\n"
        "            Durable(seq + chunk.count, self._segment.name, offset + len(data), chain)\n"
        "        )\n"
        "        self._disk.fdatasync(self._fd)\n        self._fence.check()",
        f"{_CRASHES}[whole life]",
    ),
    Bug(
        "no directory sync after a new segment got its name",
        "trainstate/journal/segment.py",
        "disk.rename(temporary, path)\n        disk.sync_dir(layout.segments)",
        "disk.rename(temporary, path)",
        f"{_CRASHES}[short life]",
    ),
    Bug(
        "the header of a new segment is not synced",
        "trainstate/journal/segment.py",
        "write_exactly(disk, fd, header, 0)\n        disk.fdatasync(fd)",
        "write_exactly(disk, fd, header, 0)",
        f"{_CRASHES}[short life]",
    ),
    Bug(
        "a new segment has its name before its header",
        "trainstate/journal/segment.py",
        'temporary = path.with_name(path.name + ".tmp")\n    fd',
        "temporary = path\n    fd",
        f"{_CRASHES}[short life]",
    ),
    Bug(
        "files are replaced without a sync of their content",
        "trainstate/journal/disk.py",
        "write_exactly(disk, fd, data, 0)\n        disk.fdatasync(fd)",
        "write_exactly(disk, fd, data, 0)",
        f"{_CRASHES}[short life]",
    ),
    Bug(
        "the folders above a new journal are not made durable",
        "trainstate/journal/writer.py",
        "disk.mkdir(path)\n    disk.sync_dir(path.parent)",
        "disk.mkdir(path)",
        f"{_CRASHES}[short life]",
    ),
    Bug(
        "a failed write does not poison the writer",
        "trainstate/journal/group.py",
        "self.fail(error)\n            raise",
        "self._leading = False\n            raise",
        "tests/journal/test_writer.py::test_a_poisoned_writer_never_acknowledges_again",
    ),
    Bug(
        "a short write is taken for a whole one",
        "trainstate/journal/disk.py",
        "if written != len(data):",
        "if written < 0:",
        "tests/journal/test_writer.py::test_no_failure_acknowledges_what_is_not_there",
    ),
]

RECOVERING = [
    Bug(
        "an adopted frame is synced and not written again",
        "trainstate/journal/recover.py",
        "write_exactly(disk, fd, disk.pread(fd, end - start, start), start)",
        "pass",
        f"{_CRASHES}[failed sync]",
    ),
    Bug(
        "the bytes of a tear are not kept",
        "trainstate/journal/recover.py",
        "if rest := disk.pread(fd, data_end - mark.offset, mark.offset):",
        "if False and (rest := disk.pread(fd, data_end - mark.offset, mark.offset)):",
        f"{_CRASHES}[whole life]",
    ),
    Bug(
        "damage below the durable end is called a tear",
        "trainstate/journal/recover.py",
        "if valid_end < durable_end:",
        "if False:",
        f"{_FLIPS}[a killed writer]",
    ),
    Bug(
        "a later valid frame is ignored",
        "trainstate/journal/recover.py",
        "if later_frame is not None:",
        "if False:",
        f"{_FLIPS}[a power cut]",
    ),
    Bug(
        "a later frame behind a damaged checksum is not found",
        "trainstate/journal/recover.py",
        "return _after_damaged_checksum(walk) or _by_magic(walk, data_end)",
        "return _by_magic(walk, data_end)",
        "tests/journal/test_recover.py::test_a_closing_frame_proves_the_newest_frame",
    ),
    Bug(
        "a missing last segment is not missed",
        "trainstate/journal/recover.py",
        "if durable and (last is None or durable.segment.age > last.name.age):",
        "if False and durable and (last is None or durable.segment.age > last.name.age):",
        f"{_FLIPS}[a killed writer]",
    ),
    Bug(
        "a segment missing from the middle is not missed",
        "trainstate/journal/segment.py",
        "if older is not None:",
        "if False:",
        f"{_FLIPS}[a clean end]",
    ),
    Bug(
        "what follows a damaged frame of a sealed segment is lost in silence",
        "trainstate/journal/walk.py",
        "if self.mark.offset != limit:",
        "if False:",
        f"{_FLIPS}[a clean end]",
    ),
    Bug(
        "a repair puts nothing in quarantine",
        "trainstate/journal/repair.py",
        "disk.rename(path, layout.quarantine / path.name)",
        "disk.unlink(path)",
        "tests/proofs/test_crash_repair.py::test_a_repair_that_crashes_is_repeated[a frame]",
    ),
    Bug(
        "sidecars are not rebuilt",
        "trainstate/journal/repair.py",
        "if index_path(segment).name in wrong:",
        "if False:",
        "tests/journal/test_verify.py::test_repair_rebuilds_indexes",
    ),
]

READING = [
    Bug(
        "lengths are outside the checksum",
        "trainstate/journal/frame.py",
        "extend(seed, _CRC.pack(chain) + header)",
        "extend(seed, _CRC.pack(chain) + header[8:12] + header[16:])",
        f"{_FUZZ}::test_a_header_that_divides_its_bytes_otherwise_is_no_frame",
        (("extend(seed, chain + header)", "extend(seed, chain + header[8:12] + header[16:])"),),
    ),
    Bug(
        "the checksum of the body is not looked at",
        "trainstate/journal/frame.py",
        "if data[stop : stop + 4] != _CRC.pack(after):",
        "if len(data) < stop + 4:",
        f"{_FLIPS}[a killed writer]",
    ),
    Bug(
        "the chain value is not in the checksum",
        "trainstate/journal/frame.py",
        "extend(seed, _CRC.pack(chain) + header)",
        "extend(seed, header)",
        "tests/journal/test_frame.py::test_a_frame_is_valid_only_in_its_place",
        (("extend(seed, chain + header)", "extend(seed, header)"),),
    ),
    Bug(
        "segments need not continue each other",
        "trainstate/journal/course.py",
        "if self._walk.mark[1:] != following.start[1:]:",
        "if False:",
        "tests/proofs/test_flips.py::test_a_segment_of_a_fork_is_noticed",
    ),
    Bug(
        "the first seq of a frame is not looked at",
        "trainstate/journal/walk.py",
        "if frame is None or frame.first_seq != next_seq:",
        "if frame is None:",
        f"{_FUZZ}::test_a_frame_of_another_seq_is_not_the_next",
    ),
    Bug(
        "lengths are not bounded",
        "trainstate/journal/frame.py",
        "if magic != MAGIC or body > FRAME_BODY_MAX or streams > STREAMS_MAX:",
        "if magic != MAGIC:",
        "tests/journal/test_frame.py::test_lengths_are_bounded_before_they_are_used",
    ),
    Bug(
        "a reader beside a writer ignores the durable end",
        "trainstate/journal/end.py",
        "return Survey(segments, _end(last.name, ending.newest, live), None)",
        "return Survey(segments, _end(last.name, ending.mark, live), None)",
        f"{_TWO}::test_a_reader_beside_a_writer_sees_what_is_durable",
    ),
    Bug(
        "an index is trusted over its segment",
        "trainstate/journal/index.py",
        "return blocks if blocks and walk.holds(blocks[-1].after) else []",
        "return blocks",
        f"{_FUZZ}::test_an_index_of_other_bytes_is_not_used",
    ),
    Bug(
        "a snapshot of another history is used",
        "trainstate/journal/snapshot.py",
        "if found and found[0] in chains:",
        "if found:",
        "tests/journal/test_snapshot.py::test_another_history_has_no_use_for_it",
    ),
    Bug(
        "a snapshot is used without its archive",
        "trainstate/store/archive.py",
        "if (records[-1][1] if records else google_crc32c.value(uuid)) != extent.crc:",
        "if False:",
        f"{_FLIPS}[a clean end]",
    ),
]

JOURNAL_BUGS = [*WRITING, *RECOVERING, *READING]
