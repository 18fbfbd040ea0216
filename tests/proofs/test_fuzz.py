"""Decoders under garbage: a typed error or nothing, and no more memory than a frame may take.

Twice each: bytes as they come, which checksums refuse, and bytes under a checksum that fits, which only
another program or an adversary can write; the rest of the code must hold without the checksums' help.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from struct import pack
from typing import Any

import google_crc32c
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.proofs.lives import chunk, kill, numbers, plain_writer
from tests.proofs.places import place
from tests.proofs.victims import ROOT
from trainstate.core import initial
from trainstate.core.freeze import FOLD_VERSION
from trainstate.errors import TrainstateError
from trainstate.export import load_cursor
from trainstate.integrations.ray_export import LineRefused, parse
from trainstate.integrations.ray_export.deltas import deltas
from trainstate.journal import (
    FRAME_BODY_MAX,
    Chunk,
    Reader,
    Writer,
    is_journal,
    load_snapshot,
    verify,
)
from trainstate.journal.durable import read_durable
from trainstate.journal.fence import read_fence
from trainstate.journal.frame import FRAME_MAX, content_chain, decode, encode, frame_size
from trainstate.journal.layout import Layout
from trainstate.store import History, Store, archive
from trainstate.v1 import event_pb2 as e

EXAMPLES = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
NEAR = st.one_of(st.integers(0, 400), U32)
BYTES = st.binary(max_size=200)
CRC = google_crc32c.value


def crc32c(data: bytes, seed: int = 0) -> bytes:
    return pack("<I", google_crc32c.extend(seed, data))


@pytest.fixture(scope="module")
def journal() -> Iterator[Path]:
    """Three segments of entries, the last still open when its writer was killed."""
    with place() as folder:
        writer = plain_writer(folder / "journal", 400)
        for number in range(1, 60):
            writer.append(chunk(number))
        kill(writer)
        yield folder / "journal"


def look(path: Path) -> list[int] | None:
    """All that can be done to a journal by reading; None if a typed error ended it."""
    try:
        verify(path)
        load_snapshot(path, FOLD_VERSION)
        reader = Reader(path)
        for stream in range(3):
            list(reader.frames_of(stream))
        list(reader.frames_since(0))
        frames = list(reader.frames())
    except TrainstateError:
        return None
    assert all(one.next_seq == two.first_seq for one, two in pairwise(frames))
    return numbers(frames)


def with_file(path: Path, data: bytes, then: Callable[[], Any]) -> Any:
    """What `then` gives while a file holds `data`."""
    before = path.read_bytes() if path.exists() else None
    path.write_bytes(data)
    try:
        return then()
    finally:
        path.unlink() if before is None else path.write_bytes(before)


# --- frames and segments --------------------------------------------------------------------------


@EXAMPLES
@given(BYTES, st.integers(0, 220), st.binary(min_size=4, max_size=4), U32)
def test_a_frame_of_garbage_is_none(data: bytes, at: int, prev: bytes, seed: int) -> None:
    """No place in no bytes is a frame, and a length is never believed beyond the limit."""
    size = frame_size(data, at)
    assert size <= FRAME_MAX
    assert content_chain(data, at, prev, seed) is None
    if size and at + size <= len(data):
        assert decode(data, at, prev, seed, Path("s"), at) is None


@EXAMPLES
@given(NEAR, NEAR, NEAR, U64, U64, U64, U64, BYTES)
def test_a_frame_that_says_anything_under_a_right_checksum(
    journal: Path,
    body: int,
    count: int,
    streams: int,
    seq: int,
    epoch: int,
    t0: int,
    t1: int,
    rest: bytes,
) -> None:
    """Whatever its header says, reading ends with what was before it, or with a typed error."""
    last = Reader(journal).survey()
    path, end, chain = last.segments[-1].path, last.end.offset, last.end.chain
    seed = last.segments[-1].seed
    head = b"TSF1" + pack("<IIIQQQQ", body, count, streams, seq, epoch, t0, t1)
    header_crc = crc32c(pack("<I", chain) + head, seed)
    payload = (rest * 8)[: 8 * streams + body]
    frame = head + header_crc + payload + crc32c(payload, int.from_bytes(header_crc, "little"))
    data = path.read_bytes()
    found = with_file(path, data[:end] + frame + data[end + len(frame) :], lambda: look(journal))
    assert found is None or list(range(1, 60)) == found[:59]


@EXAMPLES
@given(st.sets(U64, min_size=1, max_size=9), st.binary(min_size=1, max_size=80), st.integers(1, 9))
def test_a_header_that_divides_its_bytes_otherwise_is_no_frame(
    streams: set[int], body: bytes, moved: int
) -> None:
    """Lengths that trade bytes between stream table and body leave every other checksum as it was."""
    moved = min(moved, len(streams))
    data, _ = encode(Chunk(body, 1, tuple(sorted(streams)), 1, 2), 3, 4, 5, 6)
    lengths = pack("<III", len(body) + 8 * moved, 1, len(streams) - moved)
    assert decode(data, 0, pack("<I", 5), 6, Path("s"), 0)
    assert decode(data[:4] + lengths + data[16:], 0, pack("<I", 5), 6, Path("s"), 0) is None


@pytest.mark.parametrize("seq", [0, 1, 59, 61, 2**64 - 1])
def test_a_frame_of_another_seq_is_not_the_next(journal: Path, seq: int) -> None:
    """Right in all its checksums and in its place, but 60 is due."""
    found = Reader(journal).survey()
    last, end = found.segments[-1], found.end
    data, _ = encode(chunk(60), seq, 9, end.chain, last.seed)
    whole = last.path.read_bytes()
    whole = whole[: end.offset] + data + whole[end.offset + len(data) :]
    assert with_file(last.path, whole, lambda: look(journal)) in (None, list(range(1, 60)))


@EXAMPLES
@given(st.binary(min_size=68, max_size=68), st.booleans(), st.integers(0, 2))
def test_a_segment_header_that_says_anything(
    journal: Path, garbage: bytes, like_ours: bool, which: int
) -> None:
    """Under a right checksum too: a typed error, or the journal as it was."""
    path = sorted((journal / "seg").glob("*.seg"))[-1 - which]
    data = path.read_bytes()
    head = data[:44] + garbage[44:] if like_ours else garbage
    found = with_file(path, head + crc32c(head) + data[72:], lambda: look(journal))
    assert found is None or found == list(range(1, len(found) + 1))


# --- the small files ------------------------------------------------------------------------------


@EXAMPLES
@given(st.binary(min_size=56, max_size=56), st.booleans())
def test_a_durable_record_that_says_anything(journal: Path, garbage: bytes, ours: bool) -> None:
    """It says where the journal ends, or nothing, or that the journal is damaged."""
    layout = Layout(journal)
    uuid = Reader(journal).uuid
    head = b"\x89TSD\r\n\x1a\n" + uuid + garbage[:36] if ours else garbage + garbage[:4]
    found = with_file(layout.durable, head + crc32c(head), lambda: look(journal))
    assert found is None or list(range(1, 60)) == found
    with_file(layout.durable, garbage, lambda: read_durable(layout, uuid))


TEXTS = st.one_of(
    BYTES,
    st.text("abc 0123456789\n-", max_size=60).map(str.encode),
    st.text("0123456789abcdef-é", max_size=40).map(lambda s: f"format 1\nuuid {s}\n".encode()),
    st.text("0123456789-e.", max_size=30).map(lambda s: f"epoch {s}\nowner \n".encode()),
)


@EXAMPLES
@given(TEXTS, st.sampled_from(["IDENTITY", "FENCE"]))
def test_text_files_that_say_anything(journal: Path, text: bytes, name: str) -> None:
    """Right checksum or not, what opening reads of them is good or a typed error."""
    signed = text + b"crc32c %08x\n" % CRC(text)
    for data in (text, signed):
        with_file(journal / name, data, lambda: look(journal))
        with_file(journal / name, data, lambda: _typed(lambda: read_fence(Layout(journal))))


@EXAMPLES
@given(st.lists(st.tuples(NEAR, NEAR, U32, U64, U64, U64, U64, NEAR, U32), max_size=3), BYTES)
def test_an_index_that_says_anything(
    journal: Path, blocks: list[tuple[int, ...]], postings: bytes
) -> None:
    """Right checksum or not, it is never trusted over the segment: the same is read, or an error."""
    segment = Reader(journal).survey().segments[0]
    head = b"\x89TSI\r\n\x1a\n" + pack("<III", 1, segment.seed, 0)
    data = head + crc32c(head)
    seed = int.from_bytes(data[-4:], "little")
    start = 72
    for _, end, *rest, many, frames in blocks:
        body = b"TSI1" + pack("<IIIQQQQII", start, end, *rest, many, frames) + postings
        data += body + crc32c(body, seed)
        start = end
    path = segment.path.with_suffix(".idx")
    with_file(path, data, lambda: look(journal))
    found = with_file(path, data, lambda: _typed(lambda: numbers(Reader(journal).frames())))
    assert found in (None, list(range(1, 60)))


def test_an_index_of_other_bytes_is_not_used(journal: Path) -> None:
    """Right in itself and with nothing in it, but of a chain that the segment does not have."""
    for segment in Reader(journal).survey().segments:
        head = b"\x89TSI\r\n\x1a\n" + pack("<III", 1, segment.seed, 0)
        head += crc32c(head)
        end = next(Reader(journal).frames(segment.name.first_seq)).end
        block = b"TSI1" + pack("<IIIQQQQII", 72, end, 7, segment.name.first_seq, 10**6, 0, 0, 0, 9)
        data = head + block + crc32c(block, int.from_bytes(head[-4:], "little"))
        path = segment.path.with_suffix(".idx")
        found = with_file(path, data, lambda: list(Reader(journal).frames_of(1)))
        assert numbers(found) == list(range(1, 60, 3))


# --- what the store and the pump keep ----------------------------------------------------------------


@pytest.fixture(scope="module")
def store() -> Iterator[Path]:
    """A journal of one run, with a segment boundary for a snapshot."""
    with place() as folder:
        with Store.open(folder / "j", segment_bytes_max=4096) as opened:
            opened.open_run("r", "test", 1)
            opened.append("r", 1, 1, [e.Event(run_created=e.RunCreated(name="r"))])
            opened._roll()
            opened.append("r", 1, 2, [e.Event(run_scheduling=e.RunScheduling())])
        yield folder / "j"


@EXAMPLES
@given(BYTES, st.booleans())
def test_a_snapshot_that_says_anything(store: Path, body: bytes, right: bool) -> None:
    """Right checksum or not, it is passed over or gives states; the events after it are replayed."""
    (path,) = (store / "snap").glob("*.snap")
    head = path.read_bytes()[:44] + pack("<Q", len(body)) + body
    data = head + crc32c(head) if right else body
    runs = with_file(path, data, lambda: _typed(lambda: History(store).fold().runs))
    assert runs is None or "r" in runs


def _typed(what: Callable[[], Any]) -> Any:
    try:
        return what()
    except TrainstateError:
        return None


@EXAMPLES
@given(st.lists(BYTES, max_size=4), BYTES)
def test_an_archive_that_says_anything(shm: Path, bodies: list[bytes], garbage: bytes) -> None:
    """Its summaries, or None: then everything is replayed."""
    uuid = b"u" * 16
    data = uuid
    crc = CRC(uuid)
    for body in bodies:
        record = pack("<I", len(body)) + body
        crc = google_crc32c.extend(crc, record)
        data += record + pack("<I", crc)
    path = shm / "ended"
    for content in (data, data + garbage, garbage):
        path.write_bytes(content)
        found = archive.read(path, uuid, archive.Extent(len(content), crc))
        assert found is None or len(found) == len(bodies)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.text(max_size=8)),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=8), one, max_size=3),
    max_leaves=8,
)
LINES = BYTES | JSON.map(lambda one: json.dumps(one).encode())
CURSOR = {
    "format": 1,
    "journal": "00",
    "exporter": "x",
    "target": "y",
    "next_seq": 1,
    "needs_seq": 1,
    "epoch": 0,
    "chain": 0,
    "in_flight": None,
    "mark": None,
    "dead_bytes": 0,
}


@EXAMPLES
@given(LINES, st.sampled_from([*CURSOR, "new"]), JSON)
def test_a_cursor_that_says_anything(shm: Path, text: bytes, key: str, value: Any) -> None:
    """A cursor, or a typed error that names the file."""
    path = shm / "one.cursor"
    ours = json.dumps({**CURSOR, key: value}).encode()
    for line in (text, ours):
        line += b"\n"
        for data in (line, line + b"crc32c %08x\n" % CRC(line)):
            path.write_bytes(data)
            _typed(lambda: load_cursor(path))


@EXAMPLES
@given(BYTES, st.integers(1, 9))
def test_a_body_that_is_no_batch(body: bytes, count: int) -> None:
    """The frame is intact and holds no events of ours: a typed error, from whatever reads events."""
    body += b"x" * count
    with place() as folder:
        with Writer.open(folder / "j", segment_bytes_max=4096) as writer:
            writer.append(Chunk(body, count, (1,), 1, 1))
        _typed(lambda: list(History(folder / "j").events()))
        _typed(lambda: History(folder / "j").fold())
        _typed(lambda: Store.open(folder / "j", segment_bytes_max=4096).close())


# --- lines of Ray's log -------------------------------------------------------------------------------

REAL = [
    json.loads(line)
    for path in sorted((ROOT / "tests/data").glob("**/*.log"))
    for line in path.read_bytes().splitlines()
    if line.endswith(b"}")
]


def changed(document: Any, picks: list[int], value: Any) -> Any:
    """A copy with one value somewhere inside replaced; the picks say where."""
    if not picks or not isinstance(document, dict | list) or not document:
        return value
    keys = sorted(document) if isinstance(document, dict) else range(len(document))
    at = keys[picks[0] % len(keys)]
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[at] = changed(copy[at], picks[1:], value)
    return copy


@settings(EXAMPLES, max_examples=600)
@given(st.sampled_from(REAL), st.lists(st.integers(0, 30), min_size=1, max_size=5), JSON)
def test_a_real_line_with_one_value_changed(document: Any, picks: list[int], value: Any) -> None:
    """It becomes events or is refused with a reason; the refused one leaves the state alone."""
    line = json.dumps(changed(document, picks, value)).encode()
    _line(line)


@EXAMPLES
@given(LINES)
def test_a_line_of_garbage_is_refused(line: bytes) -> None:
    """Bytes and JSON of any kind."""
    with pytest.raises(LineRefused):
        parse(line)


def _line(raw: bytes) -> None:
    try:
        line = parse(raw)
    except LineRefused:
        return
    run = initial(line.run_id)
    try:
        assert deltas(run, line)
    except LineRefused:
        assert not run.run_seq


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", [4, 8, 12])
@pytest.mark.parametrize("value", [FRAME_BODY_MAX, FRAME_BODY_MAX + 1, 2**31, 2**32 - 1])
def test_absurd_lengths_cost_no_memory(shm: Path, field: int, value: int) -> None:
    """A frame that claims gigabytes in a file of 64 MiB: a few blocks of 1 MiB are read at a time."""
    writer = plain_writer(shm / "j", 1 << 16)
    writer.append(chunk(1))
    end = writer.segment_bytes
    path = writer._active.path
    kill(writer)
    with path.open("r+b") as file:
        file.truncate(1 << 26)
        file.seek(end)
        file.write(b"TSF1" + bytes(48))
        file.seek(end + field)
        file.write(value.to_bytes(4, "little"))
    tracemalloc.start()
    try:
        assert [1] == look(shm / "j")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * FRAME_MAX


@pytest.mark.parametrize("kind", ["idx", "snap", "ended"])
def test_absurd_counts_in_sidecars_cost_no_memory(store: Path, kind: str) -> None:
    """Postings, bodies and records that claim gigabytes are measured against the file first."""
    path = {
        "idx": next((store / "seg").glob("*.idx")),
        "snap": next((store / "snap").glob("*.snap")),
        "ended": store / "snap/ended",
    }[kind]
    data = path.read_bytes()
    at = {"idx": 24 + 48, "snap": 44, "ended": 16}[kind]
    absurd = data[:at] + b"\xff\xff\xff\x7f" + data[at + 4 :]
    tracemalloc.start()
    try:
        runs = with_file(path, absurd, lambda: History(store).fold().runs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "r" in runs
    assert peak < 4 * FRAME_MAX


def test_the_fixture_is_a_journal(journal: Path) -> None:
    """What the fuzzing changes is sound before and after."""
    assert is_journal(journal)
    assert list(range(1, 60)) == look(journal)
    assert len(list((journal / "seg").glob("*.seg"))) > 2
