"""The cursor: durable, bound to its journal, held by one pump, and never guessed."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.export.making import ListSink, append, begin, lines, report, reporting
from trainstate.errors import (
    CursorMismatch,
    DecodeError,
    RefusedError,
    StorageError,
    UnsupportedFormat,
)
from trainstate.export import Cursor, CursorFile, Limits, Pump, cursor_path, load_cursor, pins
from trainstate.export import cursor as cursor_module
from trainstate.store import History
from trainstate.testing import event
from trainstate.v1 import event_pb2 as e

CURSOR = Cursor("ab" * 16, "list", "memory", 7, 3, 2, 99, (7, 9), b"\x00mark\xff", 12)


@pytest.mark.parametrize(
    "cursor",
    [
        CURSOR,
        replace(CURSOR, in_flight=None),
        replace(CURSOR, mark=None),
        replace(CURSOR, mark=b""),
    ],
)
def test_a_cursor_comes_back_as_it_was_saved(tmp_path: Path, cursor: Cursor) -> None:
    """No mark, an empty mark and no range in flight are kept apart."""
    path = tmp_path / "cursor" / "one.cursor"
    store = CursorFile(path)
    assert store.load() is None
    store.save(cursor)
    assert cursor == store.load() == load_cursor(path)
    store.close()


def test_every_damage_is_noticed() -> None:
    """A cursor with any bit flipped or cut off anywhere is damaged, and nothing is read out of it."""
    data = CURSOR.encode()
    flipped = [
        data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        for at in range(len(data))
        for bit in range(8)
    ]
    cut = [data[:at] for at in range(len(data))]
    for damaged in [*flipped, *cut, data + b"\n", b"\0" * len(data)]:
        with pytest.raises(DecodeError, match="damaged") as caught:
            Cursor.decode(damaged, Path("c"))
        assert "remove it" in (caught.value.hint or "")


def test_a_cursor_of_a_newer_format_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a newer version means by its fields is not guessed."""
    monkeypatch.setattr(cursor_module, "_FORMAT", 2)
    newer = CURSOR.encode()
    monkeypatch.undo()
    with pytest.raises(UnsupportedFormat):
        Cursor.decode(newer, Path("c"))


def test_one_pump_at_a_time(tmp_path: Path) -> None:
    """The second is refused while the first lives, and gets it afterwards."""
    history = reporting(tmp_path / "journal", 3)
    first = Pump.open(history, ListSink())
    with pytest.raises(RefusedError, match="another export"):
        Pump.open(history, ListSink())
    first.close()
    Pump.open(history, ListSink()).close()


def test_targets_have_cursors_of_their_own(tmp_path: Path) -> None:
    """By exporter and by target."""
    told = [("a", "x"), ("a", "y"), ("b", "x")]
    assert 3 == len({cursor_path(tmp_path, *one) for one in told})
    assert cursor_path(tmp_path, "a", "x").parent == tmp_path / "cursor"


def test_a_damaged_cursor_stops_the_pump(tmp_path: Path) -> None:
    """It never starts from the beginning by itself; the sink is not even asked."""
    history = reporting(tmp_path / "journal", 3)
    with Pump.open(history, ListSink()) as pump:
        pump.run_once()
    cursor_path(history.path, "list", "memory").write_bytes(b"garbage")
    sink = ListSink()
    with Pump.open(history, sink) as pump, pytest.raises(DecodeError):
        pump.run_once()
    assert ["close"] == sink.asked


def mismatch(history: History, changed: Cursor) -> str:
    """Saves a cursor, runs a pump on it; what it says. Proves that nothing was sent."""
    store = CursorFile(cursor_path(history.path, "list", "memory"))
    store.save(changed)
    store.close()
    sink = ListSink()
    with Pump.open(history, sink) as pump, pytest.raises(CursorMismatch) as caught:
        pump.run_once()
    assert ["close"] == sink.asked
    assert caught.value.hint
    return caught.value.message


def test_a_cursor_must_fit_the_journal(tmp_path: Path) -> None:
    """Uuid, exporter, target, chain value, epoch, position and range are each looked at."""
    history = reporting(tmp_path / "journal", 3)
    with Pump.open(history, ListSink()) as pump:
        pump.run_once()
    good = load_cursor(cursor_path(history.path, "list", "memory"))
    assert good is not None
    assert "is of journal" in mismatch(history, replace(good, journal="00" * 16))
    assert "is of journal" in mismatch(history, replace(good, target="elsewhere"))
    assert "is of journal" in mismatch(history, replace(good, exporter="other"))
    assert "not the one that was exported" in mismatch(history, replace(good, chain=good.chain ^ 1))
    assert "not the one that was exported" in mismatch(history, replace(good, epoch=good.epoch + 1))
    end = good.next_seq
    assert "ends before" in mismatch(history, replace(good, next_seq=end + 1))
    assert "ends before" in mismatch(history, replace(good, in_flight=(end, end)))


def test_a_cursor_in_the_middle_of_a_frame_fits(tmp_path: Path) -> None:
    """Its chain value is that of the frame the event before it lies in."""
    history = reporting(tmp_path / "journal", 10)
    sink = ListSink()
    small = Limits(records=4)
    calls = 0

    def fail_third() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt

    sink.before_write = fail_third
    with Pump.open(history, sink, limits=small) as pump, pytest.raises(KeyboardInterrupt):
        pump.run_once()
    with Pump.open(history, sink, limits=small) as pump:
        pump.run_once()
    assert lines(10) == sink.held


def test_events_that_retention_took_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cursor from before where history begins is not moved forward in silence."""
    history = reporting(tmp_path / "journal", 3)
    with Pump.open(history, ListSink()) as pump:
        pump.run_once()
    good = load_cursor(cursor_path(history.path, "list", "memory"))
    assert good is not None
    monkeypatch.setattr(History, "first_seq", property(lambda self: 6))
    assert "events 4 to 5 were never exported" in mismatch(history, replace(good, next_seq=4))


def test_pins_keep_what_an_open_run_needs(tmp_path: Path) -> None:
    """The pin of a cursor is the first event of the oldest run that is open there."""
    journal = tmp_path / "journal"
    reporting(journal, 3)
    begin(journal, "later")
    history = History(journal)
    with Pump.open(history, ListSink()) as pump:
        pump.run_once()
    assert {"export list to memory": 1} == pins(journal)
    ended = [event(e.RunAborted())]
    died = [event(e.WorkerDied(rank=0), "a"), event(e.AttemptEnded(status=5), "a")]
    append(journal, [*died, *ended])
    with Pump.open(history, ListSink(held=lines(3))) as pump:
        pump.run_once()
    # The first run has 12 events; what is needed begins with the run that is still open.
    assert {"export list to memory": 13} == pins(journal)


def test_pins_of_a_delivered_journal_are_its_end(tmp_path: Path) -> None:
    """When every run is over, nothing before the cursor is needed."""
    journal = tmp_path / "journal"
    append(journal, [event(e.RunCreated()), event(e.RunAborted())])
    with Pump.open(History(journal), ListSink()) as pump:
        pump.run_once()
    assert {"export list to memory": 4} == pins(journal)


def test_a_damaged_cursor_pins_everything(tmp_path: Path) -> None:
    """Retention is refused rather than told that nothing is needed."""
    report_to = tmp_path / "journal"
    begin(report_to)
    report(report_to, 0, 1)
    (report_to / "cursor").mkdir(exist_ok=True)
    (report_to / "cursor" / "list-1.cursor").write_bytes(b"")
    with pytest.raises(DecodeError):
        pins(report_to)


def test_a_cursor_that_cannot_be_kept_says_where_it_could(tmp_path: Path) -> None:
    """A journal read only needs --cursor PATH, and the error says so."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot open the cursor") as caught:
        CursorFile(tmp_path / "file" / "cursor" / "one.cursor")
    assert "--cursor" in (caught.value.hint or "")


def test_a_full_disk_leaves_the_cursor_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save that failed has changed nothing."""
    store = CursorFile(tmp_path / "one.cursor")
    store.save(CURSOR)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match="No space left"):
        store.save(replace(CURSOR, next_seq=100))
    assert CURSOR == store.load()
    store.close()
