"""The docstring of `trainstate.journal` is the format: its example is real, a second reader agrees."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainstate.journal
from tests import second_reader
from tests.journal.making import chunk, read, segments, stop_dead
from trainstate.errors import JournalCorrupt, NotAJournal, UnsupportedFormat
from trainstate.journal import Chunk, Reader, Writer
from trainstate.journal.disk import replace_file
from trainstate.journal.layout import Layout, SegmentName, parse_text, render_text

DUMP = re.compile(r"^    ([0-9a-f]{4})  ((?:[0-9a-f]{2} )+) *(\S.*)?$", re.MULTILINE)


def worked_example() -> bytes:
    """The bytes of the hex dump in the docstring, whose offsets must be right."""
    data = bytearray()
    for offset, line, _ in DUMP.findall(trainstate.journal.__doc__ or ""):
        assert len(data) == int(offset, 16)
        data += bytes.fromhex(line)
    return bytes(data)


def test_the_worked_example_is_what_the_writer_writes(tmp_path):
    """Byte for byte: the segment of a closed journal with a fixed uuid and one entry."""
    identity = render_text({"format": 1, "uuid": bytes(range(16)).hex()})
    tmp_path.joinpath("journal").mkdir()
    replace_file(tmp_path / "journal" / "IDENTITY", identity)
    with Writer.open(tmp_path / "journal") as writer:
        writer.append(Chunk(b"hello", 1, (42,), 1_000, 1_000))
    assert worked_example() == segments(tmp_path / "journal")[0].read_bytes()


def test_text_files_come_back_and_hide_no_damage():
    """Every flipped bit of IDENTITY or FENCE is noticed."""
    data = render_text({"epoch": 7, "owner": ""})
    assert {"epoch": "7", "owner": ""} == parse_text(data, Path("FENCE"))
    for bit in range(len(data) * 8):
        bad = bytearray(data)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(JournalCorrupt, match="checksum"):
            parse_text(bytes(bad), Path("FENCE"))


def test_names_of_segments():
    """Sorted by name is sorted by first seq; anything else is no segment."""
    name = SegmentName(7, 3)
    assert "00000000000000000007-0000000003.seg" == str(name)
    assert name == SegmentName.parse(str(name))
    assert SegmentName.parse(f"{name}.tmp") is SegmentName.parse("7-3.seg") is None


def test_a_newer_format_is_refused(tmp_path):
    """With a hint."""
    Writer.open(tmp_path).close()
    Layout(tmp_path).identity.write_bytes(render_text({"format": 2, "uuid": "00" * 16}))
    for refused in (lambda: Reader(tmp_path), lambda: Writer.open(tmp_path)):
        with pytest.raises(UnsupportedFormat, match="journal format 2") as caught:
            refused()
        assert caught.value.hint


@pytest.mark.parametrize("name", ["nothing", "file/below"])
def test_no_journal_is_no_journal(tmp_path, name):
    """A path that is not there, and one below a file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(NotAJournal):
        Reader(tmp_path / name)


STEPS = st.lists(
    st.sampled_from(["append", "big", "roll", "close", "kill", "take over"]),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_second_reader_agrees_about_every_history(tmp_path_factory, steps):
    """Frames, entries, indexes; live and closed; whatever the order of openings and endings."""
    path = tmp_path_factory.mktemp("history")
    writer = Writer.open(path, segment_bytes_max=700)
    for step in steps:
        if step in {"append", "big"}:
            writer.append(chunk(writer.next_seq, count=1 if step == "append" else 99))
        if step == "roll":
            writer.roll()
        if step == "take over":
            old, writer = writer, Writer.take_over(path, segment_bytes_max=700)
            stop_dead(old)
        if step in {"close", "kill"}:
            (writer.close if step == "close" else lambda w=writer: stop_dead(w))()
            writer = Writer.open(path, segment_bytes_max=700)
        compare(path)
    writer.close()
    compare(path)
    assert list(range(1, writer.next_seq)) == read(path)


def compare(path: Path) -> None:
    theirs = second_reader.read_journal(path)
    ours = list(Reader(path).frames())
    assert [(f.first_seq, f.body, f.offset, f.epoch) for f in theirs] == [
        (f.first_seq, f.body, f.offset, f.epoch) for f in ours
    ]
    second_reader.check_indexes(path)
