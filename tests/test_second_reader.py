"""What `trainstate.journal` writes is what its docstring says: a reader made from that text agrees.

Each journal is read twice, by `Reader` and by `tests.second_reader`, and judged twice, by `verify`
and by `examine`. A disagreement is a bug in one of the programs or a hole in the text.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests import second_reader
from tests.second_reader import SecondReaderError
from trainstate.errors import Fenced, TrainstateError
from trainstate.journal import FRAME_BODY_MAX, Chunk, Reader, Writer, repair, retain, verify
from trainstate.v1.event_pb2 import Batch, Event

SMALL = 400  # bytes of a segment: 4 frames of `chunk`
REFUSED = "refused"


def chunk(number: int, streams: tuple[int, ...] = (5, 9)) -> Chunk:
    return Chunk(b"body %d" % number, 2, streams, number, number + 7)


def append(path: Path, count: int, segment_bytes_max: int = SMALL) -> None:
    """Open, append and close cleanly."""
    with Writer.open(path, segment_bytes_max=segment_bytes_max) as writer:
        for number in range(count):
            writer.append(chunk(number))


def kill_image(path: Path, count: int, segment_bytes_max: int = SMALL) -> None:
    """What a writer that is killed after `count` appends leaves."""
    with Writer.open(path, segment_bytes_max=segment_bytes_max) as writer:
        for number in range(count):
            writer.append(chunk(number))
        shutil.copytree(path, f"{path}.image")
    shutil.rmtree(path)
    Path(f"{path}.image").rename(path)


def segments(path: Path) -> list[Path]:
    return sorted((path / "seg").glob("*.seg"))


def xor(file: Path, offset: int, mask: int = 1) -> None:
    """Change one byte in place; once more and it is as before."""
    with file.open("r+b") as stream:
        byte = os.pread(stream.fileno(), 1, offset)[0]
        os.pwrite(stream.fileno(), bytes([byte ^ mask]), offset)


# --- the same question, asked twice ---------------------------------------------------------------


def read_first(path: Path) -> Any:
    try:
        frames = list(Reader(path).frames())
    except TrainstateError:
        return REFUSED
    return [(*frame[:7], frame.segment.name, *frame[8:]) for frame in frames]


def read_second(path: Path) -> Any:
    try:
        return [tuple(vars(frame).values()) for frame in second_reader.read_journal(path)]
    except SecondReaderError:
        return REFUSED


def tear_first(path: Path) -> Any:
    try:
        report = verify(path)
    except TrainstateError:
        return REFUSED
    if not report.ok:
        return REFUSED
    if not (tear := report.tear):
        return None
    return f"{tear.segment.first_seq:020d}-{tear.segment.epoch:010d}.seg", tear.offset, tear.size


def tear_second(path: Path) -> Any:
    try:
        tear = second_reader.examine(path)[1]
        second_reader.check_fence(path)
    except SecondReaderError:
        return REFUSED
    return tear and (tear.segment, tear.offset, len(tear.data))


def agree(path: Path) -> Any:
    """Read twice; return the frames or REFUSED."""
    second = read_second(path)
    assert second == read_first(path)
    return second


# --- journals of many shapes ----------------------------------------------------------------------


def empty(path: Path) -> None:
    append(path, 0)


def one_frame(path: Path) -> None:
    append(path, 1)


def many_small(path: Path) -> None:
    append(path, 300, segment_bytes_max=1 << 20)


def many_segments(path: Path) -> None:
    append(path, 50)


def streams(path: Path) -> None:
    with Writer.open(path) as writer:
        for many in (0, 1, 2, 300):
            writer.append(chunk(many, tuple(range(7, 7 + many))))
        writer.append(chunk(1, (0, (1 << 64) - 1)))


def groups(path: Path) -> None:
    """Chunks that share a frame, which then has the streams of all."""
    with Writer.open(path, segment_bytes_max=1 << 20) as writer:
        for number in range(2000):
            writer.submit(chunk(number, (number % 5, 100 + number % 3)))


def large(path: Path) -> None:
    """Several index blocks in a segment; the last body is as long as one may be."""
    with Writer.open(path) as writer:
        for size in (1, *[20_000] * 12, FRAME_BODY_MAX):
            writer.append(Chunk(bytes(size), 1, (size, size + 1), size, size))


def rolled(path: Path) -> None:
    with Writer.open(path) as writer:
        for number in range(5):
            writer.append(chunk(number))
            writer.roll()


def killed(path: Path) -> None:
    kill_image(path, 10)


def exited(path: Path) -> None:
    code = (
        "import os, sys; from trainstate.journal import Chunk, Writer;"
        "writer = Writer.open(sys.argv[1]);"
        "[writer.append(Chunk(b'body', 1, (3,), 1, 2)) for _ in range(20)]; os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)


def reopened(path: Path) -> None:
    for count in (3, 0, 0, 5, 1):
        append(path, count)


def reopened_after_kills(path: Path) -> None:
    for count in (3, 0, 6, 1):
        kill_image(path, count)


def taken_over(path: Path) -> None:
    old = Writer.open(path, segment_bytes_max=SMALL)
    old.append(chunk(1))
    with Writer.take_over(path, segment_bytes_max=SMALL) as writer:
        writer.append(chunk(2))
        with pytest.raises(Fenced):
            old.append(chunk(3))
        writer.append(chunk(4))
    with suppress(TrainstateError):
        old.close()


def torn(path: Path) -> None:
    kill_image(path, 9)
    with segments(path)[-1].open("r+b") as stream:
        end = second_reader.read_journal(path)[-1].end
        os.pwrite(stream.fileno(), b"TSF1, and then the power went", end)


def torn_and_reopened(path: Path) -> None:
    torn(path)
    append(path, 3)


def retained(path: Path) -> None:
    append(path, 50)
    assert retain(path, keep_from_seq=40, pins={}).removed


def retained_live(path: Path) -> None:
    """Retention, and then a kill: the first segment's predecessor is gone."""
    append(path, 20)
    assert retain(path, keep_from_seq=30, pins={}).removed
    kill_image(path, 20)


def stray(path: Path) -> None:
    """A fenced writer's segment that nobody names as its predecessor."""
    append(path, 4)
    append(path, 9)
    shutil.copy(segments(path)[0], path / "seg" / f"{999:020d}-{1:010d}.seg")


def repaired(path: Path) -> None:
    append(path, 20)
    xor(segments(path)[2], 100)
    repair(path, accept_loss=True)


def repaired_and_reopened(path: Path) -> None:
    repaired(path)
    append(path, 3)


SHAPES = {
    shape.__name__: shape
    for shape in (
        *(empty, one_frame, many_small, many_segments, streams, groups, large, rolled),
        *(killed, exited, reopened, reopened_after_kills, taken_over, torn, torn_and_reopened),
        *(retained, retained_live, stray, repaired, repaired_and_reopened),
    )
}


@pytest.mark.parametrize("shape", SHAPES)
def test_both_read_the_same(tmp_path, shape):
    """Frame by frame, field by field; the verdicts on the tail and on the indexes agree, too."""
    path = tmp_path / "journal"
    SHAPES[shape](path)
    frames = agree(path)
    assert (shape == "empty") == (frames == [])
    assert (shape == "torn") == (tear_second(path) is not None)
    assert tear_first(path) == tear_second(path)
    second_reader.check_indexes(path)


def test_a_clean_close_is_indexed_to_its_end(tmp_path):
    """The second reader finds valid index blocks for every byte of every segment."""
    for shape in (large, many_segments):
        path = tmp_path / shape.__name__
        shape(path)
        ends = [file.stat().st_size for file in segments(path)]
        assert ends == [end for _, end in sorted(second_reader.check_indexes(path).items())]


@contextmanager
def appending(path: Path) -> Iterator[list[int]]:
    """A process that appends until it is killed -> the seqs it was told are durable."""
    code = (
        "import sys; from trainstate.journal import Chunk, Writer\n"
        "writer = Writer.open(sys.argv[1], segment_bytes_max=4096)\n"
        "while True: print(writer.append(Chunk(b'body', 1, (3,), 1, 2)), flush=True)"
    )
    acknowledged: list[int] = []
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as process:
        assert process.stdout
        acknowledged += [int(process.stdout.readline()) for _ in range(100)]
        yield acknowledged
        process.send_signal(signal.SIGKILL)
        acknowledged += map(int, process.stdout.read().splitlines())


def test_an_acknowledged_entry_outlives_a_kill(tmp_path):
    """While the writer lives and after SIGKILL, the second reader finds all that was acknowledged."""
    with appending(tmp_path) as acknowledged:
        live = [frame.first_seq for frame in second_reader.read_journal(tmp_path)]
        assert acknowledged[:100] == live[:100]
    dead = [frame[0] for frame in agree(tmp_path)]
    assert acknowledged == dead[: len(acknowledged)]
    assert len(dead) <= len(acknowledged) + 1


def test_both_stop_at_the_durable_end_while_a_writer_lives(tmp_path):
    """What a live writer has written and not said to be durable is not read; once it is dead, it is."""
    with Writer.open(tmp_path) as writer:
        writer.append(chunk(1))
        before = (tmp_path / "DURABLE").read_bytes()
        writer.append(chunk(2))
        assert 2 == len(agree(tmp_path))
        shutil.copytree(tmp_path, tmp_path / "image")
        (tmp_path / "image/DURABLE").write_bytes(before)
        assert 2 == len(agree(tmp_path / "image"))
        (tmp_path / "DURABLE").write_bytes(before)
        assert 1 == len(agree(tmp_path))


def test_recovery_quarantines_the_tear(tmp_path):
    """The bytes the second reader calls a tear are those that the next writer sets aside."""
    torn(tmp_path / "journal")
    _, tear = second_reader.examine(tmp_path / "journal")
    assert tear
    append(tmp_path / "journal", 1)
    assert (
        tear.data
        == (tmp_path / "journal/quarantine" / f"{tear.segment}@{tear.offset}").read_bytes()
    )


# --- damage ---------------------------------------------------------------------------------------


def truncate(file: Path, size: int) -> None:
    os.truncate(file, size)


def swap(one: Path, other: Path) -> None:
    one_data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(one_data)


def overwrite(file: Path, offset: int, data: bytes) -> None:
    with file.open("r+b") as stream:
        os.pwrite(stream.fileno(), data, offset)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "no IDENTITY": lambda path: (path / "IDENTITY").unlink(),
    "no segment": lambda path: shutil.rmtree(path / "seg"),
    "a first segment's header": lambda path: xor(segments(path)[0], 70),
    "a middle segment's header": lambda path: xor(segments(path)[2], 30),
    "the last segment's header": lambda path: xor(segments(path)[-1], 0),
    "a frame": lambda path: xor(segments(path)[1], 130),
    "the last frame": lambda path: xor(segments(path)[-1], 80),
    "a middle segment gone": lambda path: segments(path)[2].unlink(),
    "the last segment gone": lambda path: segments(path)[-1].unlink(),
    "the last segment empty": lambda path: truncate(segments(path)[-1], 0),
    "a middle segment short": lambda path: truncate(segments(path)[1], 150),
    "the last segment short": lambda path: truncate(segments(path)[-1], 90),
    "segments swapped": lambda path: swap(segments(path)[1], segments(path)[2]),
    "a frame of another place": lambda path: overwrite(
        segments(path)[1], 72, segments(path)[2].read_bytes()[72:150]
    ),
    "zeros in the last": lambda path: overwrite(segments(path)[-1], 72, bytes(20)),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("shape", [killed, many_segments])
def test_both_refuse(tmp_path, shape, damage):
    """What was durable and is not there any more is announced by every reader and by verify."""
    shape(tmp_path)
    assert agree(tmp_path) != REFUSED
    DAMAGES[damage](tmp_path)
    assert REFUSED == agree(tmp_path)
    assert REFUSED == tear_first(tmp_path)


def test_no_segment_and_nothing_durable_is_an_empty_journal(tmp_path):
    """What a kill before the first segment leaves reads as empty and is verified as such."""
    empty(tmp_path)
    (tmp_path / "DURABLE").unlink()
    for file in (tmp_path / "seg").iterdir():
        file.unlink()
    assert [] == agree(tmp_path)
    assert verify(tmp_path).ok


def test_the_index_is_not_trusted_over_the_segment(tmp_path):
    """Where an index reaches past the valid frames, readers and verify give one verdict."""
    many_segments(tmp_path)
    (tmp_path / "DURABLE").unlink()
    last = segments(tmp_path)[-1]
    closing = last.stat().st_size - 56
    xor(last, closing + 8)
    assert (last.name, closing, 56) == tear_second(tmp_path) == tear_first(tmp_path)
    assert REFUSED != agree(tmp_path)


def flips(path: Path) -> Iterator[tuple[Path, int, int]]:
    """Flip each bit of each file, one at a time."""
    for file in sorted(path.rglob("*")):
        for offset in range(file.stat().st_size) if file.is_file() else ():
            for bit in range(8):
                xor(file, offset, 1 << bit)
                yield file, offset, bit
                xor(file, offset, 1 << bit)


def closed_small(path: Path) -> None:
    append(path, 4, segment_bytes_max=240)


def lack_durable(path: Path) -> None:
    """A killed writer, and power lost before DURABLE reached the disk; no index that knows better."""
    kill_image(path, 4, segment_bytes_max=240)
    (path / "DURABLE").unlink()


@pytest.mark.parametrize("shape", [closed_small, lack_durable])
def test_every_bit_flip_is_judged_alike(tmp_path, shape):
    """Both refuse, or both read; a flip never changes a frame, it can only end the journal earlier."""
    shape(tmp_path)
    good = agree(tmp_path)
    has_durable = (tmp_path / "DURABLE").exists()
    seen = set()
    for file, offset, bit in flips(tmp_path):
        first, second = read_first(tmp_path), read_second(tmp_path)
        assert first == second, f"{file} offset {offset} bit {bit}"
        assert second in (REFUSED, good) or (not has_durable and second == good[:-1])
        seen.add(second == REFUSED)
    assert {True, False} == seen


def test_verify_judges_every_bit_flip_like_examine(tmp_path):
    """Corrupt, torn (the same bytes) or sound: verify and the second reader say the same."""
    kill_image(tmp_path, 3, segment_bytes_max=240)
    for file, offset, bit in flips(tmp_path):
        assert tear_second(tmp_path) == tear_first(tmp_path), f"{file} offset {offset} bit {bit}"


def test_random_damage_is_judged_alike(tmp_path):
    """Ranges that are zeroed, repeated elsewhere or cut off: the readers agree."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    choose = random.Random(seed)
    killed(tmp_path)
    files = [file for file in sorted(tmp_path.rglob("*")) if file.is_file() and file.stat().st_size]
    for _ in range(400):
        file = choose.choice(files)
        good = file.read_bytes()
        source, target, size = (choose.randrange(len(good)) for _ in range(3))
        moved = choose.choice([good[source : source + size], bytes(size)])
        bad = good[:target] + moved + good[target + len(moved) :]
        file.write_bytes(choose.choice([bad, bad[: len(good)], good[:target]]))
        agree(tmp_path)
        file.write_bytes(good)


# --- bodies ---------------------------------------------------------------------------------------


def test_entries_are_the_events_of_a_batch():
    """Split by hand, a Batch gives the bytes of its events; empty and long ones, too."""
    events = [Event(), *(Event(run_id="x" * n) for n in (1, 127, 128, 20_000)), Event()]
    batch = Batch(events=events).SerializeToString()
    assert [event.SerializeToString() for event in events] == second_reader.entries(batch)


@pytest.mark.parametrize("body", [b"\x0a", b"\x0a\x05abc", b"\x12\x00", b"\x0a\x80", b"\x80" * 11])
def test_entries_refuse_what_is_no_batch(body):
    """Cut off, another field, or a varint without an end."""
    with pytest.raises(ValueError, match=r"past|tag|varint"):
        second_reader.entries(body)
