"""The tail: every durable frame once, in order, whoever writes and wherever."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.journal.making import chunk, fill, numbers, segments, stop_dead
from trainstate.errors import CursorMismatch, JournalCorrupt, NotFound
from trainstate.journal import Chunk, Tail, Writer, retain
from trainstate.journal import tail as tail_module

WAIT_S = 30


@pytest.fixture(params=["in process", "by path"])
def make(request):
    """A tail that hears from the writer, and one that looks at the files."""

    def make(writer, from_seq=None):
        return Tail(writer if request.param == "in process" else writer.path, from_seq)

    return make


def take(tail: Tail, count: int) -> list[int]:
    """The next `count` entries."""
    found: list[int] = []
    while len(found) < count:
        batch = tail.read(WAIT_S)
        assert batch
        found += numbers(batch)
    return found


def test_it_hands_out_what_is_there_and_what_comes(tmp_path, make):
    """Across rotation."""
    with Writer.open(tmp_path, segment_bytes_max=500) as writer:
        writer.append(chunk(1))
        with make(writer) as tail:
            assert [1] == take(tail, 1)
            assert [] == tail.read(0)
            for number in range(2, 40):
                writer.append(chunk(number))
                assert [number] == take(tail, 1)
            assert [] == tail.read(0)
    assert len(segments(tmp_path)) > 3


def test_it_begins_anywhere(tmp_path, make):
    """In the middle, and at what is not written yet."""
    with Writer.open(tmp_path, segment_bytes_max=500) as writer:
        for number in range(1, 20):
            writer.append(chunk(number))
        with make(writer, 9) as middle, make(writer, 22) as later:
            assert list(range(9, 20)) == take(middle, 11)
            assert [] == later.read(0)
            for number in range(20, 24):
                writer.append(chunk(number))
            assert [22, 23] == take(later, 2)


def test_it_is_woken(tmp_path, make):
    """A reader that waits gets what another thread appends."""
    with Writer.open(tmp_path) as writer, make(writer) as tail:
        got: list[int] = []
        thread = threading.Thread(target=lambda: got.extend(take(tail, 3)))
        thread.start()
        for number in (1, 2, 3):
            writer.append(chunk(number))
        thread.join(WAIT_S)
        assert [1, 2, 3] == got


def test_only_durable_frames_while_a_writer_lives(tmp_path):
    """A frame that is written and not yet synced is not handed out."""
    crashed_at = tmp_path / "DURABLE"
    with Writer.open(tmp_path) as writer, Tail(tmp_path) as tail:
        writer.append(chunk(1))
        durable = crashed_at.read_bytes()
        writer.append(chunk(2))
        crashed_at.write_bytes(durable)
        assert [1] == take(tail, 1)
        assert [] == tail.read(0)
    assert [2] == take(Tail(tmp_path, 2), 1)


def test_it_goes_on_with_the_next_writer(tmp_path, make):
    """After a clean end, a kill and a takeover; no frame is missed or comes twice."""
    writer = Writer.open(tmp_path)
    tail = make(writer)
    writer.append(chunk(1))
    writer.close()
    fill(tmp_path, 2, 2)
    assert [1, 2, 3] == take(tail, 3)
    killed = Writer.open(tmp_path)
    killed.append(chunk(4))
    stop_dead(killed)
    assert [4] == take(tail, 1)
    hanging = Writer.open(tmp_path)
    hanging.append(chunk(5))
    new = Writer.take_over(tmp_path)
    new.append(chunk(6))
    assert [5, 6] == take(tail, 2)
    stop_dead(hanging)
    new.close()
    assert [] == tail.read(0.05)
    tail.close()


def test_a_lagging_durable_is_waited_out(tmp_path):
    """What was handed out while no writer lived is not asked for again by the next writer's DURABLE."""
    fill(tmp_path, 1)
    old = (tmp_path / "DURABLE").read_bytes()
    fill(tmp_path, 2, 2)
    with Tail(tmp_path) as tail:
        assert [1, 2, 3] == take(tail, 3)
        writer = Writer.open(tmp_path)
        (tmp_path / "DURABLE").write_bytes(old)
        assert [] == tail.read(0)
        writer.append(chunk(4))
        (tmp_path / "DURABLE").unlink()
        writer.append(chunk(5))
        writer.close()


def test_batches_are_bounded(tmp_path, monkeypatch):
    """A slow consumer does not make the tail hold the journal in memory."""
    monkeypatch.setattr(tail_module, "_BATCH_BYTES", 100)
    with Writer.open(tmp_path) as writer:
        for _ in range(9):
            writer.append(Chunk(bytes(60), 1, (1,), 1, 1))
    with Tail(tmp_path) as tail:
        assert [2, 2, 2, 2, 1] == [len(tail.read(0)) for _ in range(5)]
        assert [] == tail.read(0)


def test_retention_below_it_is_not_noticed_and_above_it_is_an_error(tmp_path):
    """A removed segment that was read is fine; one that was not is NotFound."""
    with Writer.open(tmp_path, segment_bytes_max=300) as writer:
        for number in range(1, 12):
            writer.append(chunk(number))
        behind, ahead = Tail(tmp_path, 1), Tail(tmp_path, 1)
        assert list(range(1, 12)) == take(ahead, 11)
        assert [1] == [frame.first_seq for frame in [next(behind._new_frames())]]
        retain(tmp_path, 12, {})
        writer.append(chunk(12))
        writer.append(chunk(13))
        assert [12, 13] == take(ahead, 2)
        with pytest.raises(NotFound, match="history begins at"):
            behind.read(0)
        with pytest.raises(NotFound, match="history begins at"):
            Tail(tmp_path, 1)
    ahead.close()
    behind.close()


def test_a_history_that_was_cut_is_an_error(tmp_path):
    """What was handed out is not in the journal any more."""
    fill(tmp_path, 3)
    with Tail(tmp_path) as tail:
        assert [1, 2, 3] == take(tail, 3)
        for path in (tmp_path / "seg").iterdir():
            path.unlink()
        (tmp_path / "DURABLE").unlink()
        fill(tmp_path, 1)
        with pytest.raises((CursorMismatch, NotFound, JournalCorrupt)):
            tail.read(0)


FOLLOW = """
import sys
from trainstate.journal import Tail
with Tail(sys.argv[1]) as tail:
    print("ready", flush=True)
    seen = 0
    while seen < int(sys.argv[2]):
        for frame in tail.read(30):
            assert frame.first_seq == seen + 1
            seen += frame.count
    print(seen)
"""


def test_another_process_follows(tmp_path):
    """Across processes, while four threads append and segments rotate."""
    with Writer.open(tmp_path, segment_bytes_max=1 << 14) as writer:
        command = [sys.executable, "-c", FOLLOW, str(tmp_path), "400"]
        root = Path(__file__).parents[2]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
            assert process.stdout is not None
            assert "ready\n" == process.stdout.readline()
            threads = [
                threading.Thread(target=lambda: [writer.append(chunk(n)) for n in range(100)])
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert "400\n" == process.stdout.readline()
        assert 0 == process.returncode
