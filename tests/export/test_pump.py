"""The pump: announces, sends, commits; in this order, whatever goes wrong between."""

from __future__ import annotations

import json
import threading
from dataclasses import astuple
from pathlib import Path

import pytest

from tests.export.making import ListSink, Script, append, begin, lines, report, reporting
from trainstate.core.model import Run
from trainstate.errors import SinkRejected, SinkUnavailable
from trainstate.export import Backoff, Counters, Cursor, Limits, MemoryCursor, Pump
from trainstate.store import History, Recorded, Store
from trainstate.testing import event
from trainstate.v1 import event_pb2 as e


class Diary(MemoryCursor):
    """A cursor in memory that writes down its saves among what the sink is asked."""

    def __init__(self, asked: list[str]) -> None:
        super().__init__()
        self._asked = asked

    def save(self, cursor: Cursor) -> None:
        self._asked.append(f"save {cursor.next_seq} {cursor.in_flight}")
        super().save(cursor)


def pump_of(history: History, sink: ListSink, store: MemoryCursor, dead: Path, **options):  # type: ignore[no-untyped-def]
    return Pump(history, sink, store, dead, **options)


def test_a_range_is_announced_before_it_is_sent_and_committed_after(tmp_path: Path) -> None:
    """The save that announces a batch commits the one before it; the last is committed by itself."""
    history = reporting(tmp_path / "journal", 5)
    sink = ListSink()
    pump = pump_of(history, sink, Diary(sink.asked), tmp_path / "dead", limits=Limits(records=2))
    assert Counters(written=5, skipped=9) == pump.run_once()
    assert [
        "resume",
        "save 1 (1, 11)",
        "write 2",
        "save 12 (12, 13)",
        "write 2",
        "save 14 (14, 14)",
        "write 1",
        "save 15 None",
    ] == sink.asked


def test_nothing_new_asks_the_sink_nothing(tmp_path: Path) -> None:
    """A second run without new events neither writes nor saves."""
    history = reporting(tmp_path / "journal", 5)
    sink = ListSink()
    pump = pump_of(history, sink, Diary(sink.asked), tmp_path / "dead")
    pump.run_once()
    before = list(sink.asked)
    pump.run_once()
    assert before == sink.asked


def test_exactly_the_announced_range_is_sent_again(tmp_path: Path) -> None:
    """Other limits, or more events in the journal by now, do not change what is repeated."""
    history = reporting(tmp_path / "journal", 5)
    sink = ListSink(before_write=lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    store = MemoryCursor()
    with pytest.raises(KeyboardInterrupt):
        pump_of(history, sink, store, tmp_path / "dead", limits=Limits(records=3)).run_once()
    assert store.load() is not None
    report(history.path, 5, 4)

    sink = ListSink()
    counters = pump_of(history, sink, store, tmp_path / "dead", limits=Limits(records=1)).run_once()
    assert ["resume", "write 3", *["write 1"] * 6] == sink.asked
    assert lines(9) == sink.held
    assert 9 == counters.written


@pytest.mark.parametrize(
    ("limits", "writes"),
    [
        (Limits(records=3), [3, 3, 1]),
        (Limits(size_bytes=1), [1] * 7),
        (Limits(events=11), [2, 5]),
        (Limits(), [7]),
    ],
)
def test_batches_are_bounded(tmp_path: Path, limits: Limits, writes: list[int]) -> None:
    """By records, by bytes and by events, whichever comes first."""
    history = reporting(tmp_path / "journal", 7)
    sink = ListSink()
    pump_of(history, sink, MemoryCursor(), tmp_path / "dead", limits=limits).run_once()
    assert [f"write {count}" for count in writes] == sink.asked[1:]


def test_records_that_are_bytes_count_by_their_length(tmp_path: Path) -> None:
    """A small event may have a large record (an attempt of many workers is a line of megabytes)."""

    class Large(ListSink):
        def encode(self, recorded: Recorded, run: Run) -> bytes | None:  # type: ignore[override]
            return b"x" * 1000 if super().encode(recorded, run) else None

    sink = Large()
    history = reporting(tmp_path / "journal", 4)
    limits = Limits(size_bytes=2000)
    pump_of(history, sink, MemoryCursor(), tmp_path / "dead", limits=limits).run_once()
    assert ["resume", "write 2", "write 2"] == sink.asked


def test_events_without_a_record_are_committed_now_and_then(tmp_path: Path) -> None:
    """A long stretch of them is not read again after a crash, and costs a save per `events`."""
    begin(tmp_path / "journal")
    append(tmp_path / "journal", [event(e.SyncSkipped()) for _ in range(30)])
    sink = ListSink()
    store = Diary(sink.asked)
    limits = Limits(events=10)
    pump_of(History(tmp_path / "journal"), sink, store, tmp_path / "dead", limits=limits).run_once()
    assert ["resume", *(f"save {seq} None" for seq in (40,))] == sink.asked


def test_encode_sees_the_run_as_it_was_just_after_the_event(tmp_path: Path) -> None:
    """Also after a restart, when the state is folded again up to the cursor and no further."""
    journal = tmp_path / "journal"
    begin(journal)
    report(journal, 0, 2)
    sink, store = ListSink(), MemoryCursor()
    pump_of(History(journal), sink, store, tmp_path / "dead").run_once()
    report(journal, 2, 2)
    append(journal, [event(e.RunResizing())])
    pump_of(History(journal), sink, store, tmp_path / "dead").run_once()
    assert lines(4) == sink.held


class States(ListSink):
    """Every event, as the state of its run just after it: reports and restarts."""

    def encode(self, recorded: Recorded, run: Run) -> str | None:
        return f"{recorded.seq} {run.reports} {run.status.name}"


@pytest.mark.parametrize("stopped_after", [1, 5, 40])
def test_a_snapshot_of_later_than_the_cursor_is_not_used(
    tmp_path: Path, stopped_after: int
) -> None:
    """The journal went on, with snapshots, while the sink was away: states are still those of then."""
    journal = tmp_path / "journal"
    reporting(journal, 100)
    expected = States()
    pump_of(History(journal), expected, MemoryCursor(), tmp_path / "dead").run_once()

    sink, store = States(), MemoryCursor()
    told: list[Counters] = []

    def interrupt(counters: Counters) -> None:
        told.append(counters)
        if len(told) == stopped_after:
            raise KeyboardInterrupt

    limits = Limits(records=2)
    with pytest.raises(KeyboardInterrupt):
        pump_of(
            History(journal), sink, store, tmp_path / "dead", limits=limits, progress=interrupt
        ).run_once()
    grow_with_snapshots(journal)
    assert History(journal).restored()[0].seq > 110
    pump_of(History(journal), sink, store, tmp_path / "dead").run_once()
    assert expected.held == sink.held[: len(expected.held)]
    assert History(journal).end.next_seq - 1 == len(sink.held)


def grow_with_snapshots(journal: Path) -> None:
    """Appends until a segment is full, and a snapshot is taken at its end."""
    with Store.open(journal, segment_bytes_max=1 << 20) as store:
        opened = store.open_run("r", "test", 1)
        for number in range(40):
            padded = event(e.SyncSkipped(source="x" * 60_000))
            store.append("r", opened.incarnation, opened.run_seq + number, [padded])


def test_a_snapshot_before_the_cursor_saves_the_fold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart reads from the snapshot on, not from the beginning."""
    journal = tmp_path / "journal"
    reporting(journal, 3)
    grow_with_snapshots(journal)
    store = MemoryCursor()
    pump_of(History(journal), States(), store, tmp_path / "dead").run_once()
    snapshot_seq = History(journal).restored()[0].seq
    read_from: list[int] = []
    real = History.events
    monkeypatch.setattr(
        History, "events", lambda self, seq=1: [read_from.append(seq), real(self, seq)][1]
    )
    report(journal, 3, 2)
    pump_of(History(journal), States(), store, tmp_path / "dead").run_once()
    assert snapshot_seq > 14
    assert snapshot_seq + 1 == read_from[-1]


def test_an_event_that_cannot_be_encoded_is_a_dead_letter(tmp_path: Path) -> None:
    """Whatever it raises; the rest goes on, and the file tells seq, run and why."""

    class Poisoned(ListSink):
        def encode(self, recorded: Recorded, run: Run) -> str | None:
            if recorded.seq == 11:
                raise OverflowError("int too large to convert to float")
            return super().encode(recorded, run)

    sink, dead = Poisoned(), tmp_path / "deep" / "dead"
    history = reporting(tmp_path / "journal", 4)
    counters = pump_of(history, sink, MemoryCursor(), dead).run_once()
    assert [*lines(1), *lines(2, 2)] == sink.held
    assert 1 == counters.dead
    (letter,) = map(json.loads, dead.read_text().splitlines())
    why = "OverflowError: int too large to convert to float"
    assert {"seq": 11, "run_id": "r", "run_seq": 11, "why": why} == letter


def test_dead_letters_are_written_once(tmp_path: Path) -> None:
    """A crash after they were written and before the commit does not write them twice."""
    history = reporting(tmp_path / "journal", 6)
    sink = ListSink(refused=frozenset(lines(1, 1) + lines(1, 4)))

    class Dying(MemoryCursor):
        dies = True

        def save(self, cursor: Cursor) -> None:
            if cursor.in_flight is None and self.dies:
                raise KeyboardInterrupt
            super().save(cursor)

    store, dead = Dying(), tmp_path / "dead"
    with pytest.raises(KeyboardInterrupt):
        pump_of(history, sink, store, dead).run_once()
    assert 2 == len(dead.read_text().splitlines())
    store.dies = False
    pump_of(history, sink, store, dead).run_once()
    letters = [json.loads(line) for line in dead.read_text().splitlines()]
    assert [11, 14] == [letter["seq"] for letter in letters]
    assert [*lines(1), *lines(2, 2), *lines(1, 5)] == sink.held


def test_dead_letters_are_kept_over_restarts(tmp_path: Path) -> None:
    """A later pump adds to those of an earlier one; a file that somebody emptied stays so."""
    history = reporting(tmp_path / "journal", 2)
    sink = ListSink(refused=frozenset(lines(1) + lines(1, 3) + lines(1, 4)))
    store, dead = MemoryCursor(), tmp_path / "dead"
    seqs: list[list[int]] = []
    for more in (0, 2, 1):
        if more:
            report(history.path, 4 - more if more == 2 else 4, more)
        pump_of(history, sink, store, dead).run_once()
        seqs.append([json.loads(line)["seq"] for line in dead.read_text().splitlines()])
        if more == 2:
            dead.write_bytes(b"")
    assert [[10], [10, 14], [16]] == seqs
    assert [*lines(1, 1), *lines(1, 2)] == sink.held


def test_a_pump_that_is_run_again_buries_once(tmp_path: Path) -> None:
    """What was set aside in a run that failed later is set aside again, not twice."""
    history = reporting(tmp_path / "journal", 2)
    sink, dead = ListSink(refused=frozenset(lines(1))), tmp_path / "dead"
    writes: list[int] = []

    def away_from_the_third() -> None:
        writes.append(1)
        if len(writes) == 3:
            raise SinkUnavailable("away")

    sink.before_write = away_from_the_third
    pump = pump_of(history, sink, MemoryCursor(), dead, backoff=Backoff(attempts_max=1))
    with pytest.raises(SinkUnavailable):
        pump.run_once()
    assert not dead.exists()
    pump.run_once()
    assert 1 == dead.read_bytes().count(b"\n")
    assert lines(1, 1) == sink.held


def test_a_refused_batch_is_halved(tmp_path: Path) -> None:
    """One bad record among 64 costs some writes and not 64."""
    history = reporting(tmp_path / "journal", 64)
    sink = ListSink(refused=frozenset(lines(1, 20)))
    pump_of(history, sink, MemoryCursor(), tmp_path / "dead").run_once()
    assert [*lines(20), *lines(43, 21)] == sink.held
    assert 13 == sum(asked.startswith("write") for asked in sink.asked)


def test_the_pump_waits_longer_and_longer_and_gives_up(tmp_path: Path) -> None:
    """Delays double up to the most, with jitter; the range stays announced."""
    history = reporting(tmp_path / "journal", 2)

    def away() -> None:
        raise SinkUnavailable("away")

    sink, store, stop = ListSink(before_write=away), MemoryCursor(), Script()
    backoff = Backoff(first_s=1, max_s=5, attempts_max=6, random=lambda: 1.0)
    pump = pump_of(history, sink, store, tmp_path / "dead", backoff=backoff)
    with pytest.raises(SinkUnavailable):
        pump.run_once(stop)
    assert [1, 2, 4, 5, 5] == stop.waited_s
    assert 5 == pump.counters.retried
    assert store.load() is not None
    sink.before_write = lambda: None
    pump.run_once(stop)
    assert lines(2) == sink.held


def test_jitter_keeps_pumps_apart() -> None:
    """A delay lies between half and all of what it would be."""
    assert (0.5, 1.0) == tuple(Backoff(1, random=lambda x=x: x).delay_s(1) for x in (0.0, 1.0))
    assert 30.0 == Backoff(random=lambda: 1.0).delay_s(10_000)


def test_following_takes_what_comes_and_stops_committed(tmp_path: Path) -> None:
    """Events appended while it follows arrive; asked to stop, it has committed all it took."""
    history = reporting(tmp_path / "journal", 2)
    sink, store = ListSink(), MemoryCursor()
    seen: list[int] = []

    def more() -> None:
        seen.append(len(sink.held))
        report(history.path, 2, 3)

    stop = Script({3: more}, stop_at=5)
    counters = pump_of(history, sink, store, tmp_path / "dead").follow(stop)
    assert [2] == seen
    assert lines(5) == sink.held
    assert (0, 5) == (counters.lag, counters.written)
    saved = store.load()
    assert saved is not None
    assert (None, history.end.next_seq) == (saved.in_flight, saved.next_seq)


def test_asked_to_stop_while_the_sink_is_away(tmp_path: Path) -> None:
    """It ends at once and without an error; the next pump sends what was announced."""
    history = reporting(tmp_path / "journal", 2)

    def away() -> None:
        raise SinkUnavailable("away")

    sink, store = ListSink(before_write=away), MemoryCursor()
    patient = Backoff(attempts_max=None)
    pump = pump_of(history, sink, store, tmp_path / "dead", backoff=patient)
    counters = pump.follow(Script(stop_at=9))
    assert 0 == counters.written
    sink.before_write = lambda: None
    pump.run_once()
    assert lines(2) == sink.held


def test_a_thread_is_stopped_by_an_event(tmp_path: Path) -> None:
    """As the command line does it on Ctrl-C."""
    history = reporting(tmp_path / "journal", 2)
    sink, stop = ListSink(), threading.Event()
    pump = pump_of(history, sink, MemoryCursor(), tmp_path / "dead", progress=lambda _: stop.set())
    follower = threading.Thread(target=pump.follow, args=[stop])
    follower.start()
    follower.join(timeout=30)
    assert not follower.is_alive()
    assert lines(2) == sink.held


def test_progress_is_told_after_every_batch(tmp_path: Path) -> None:
    """With the lag that is left."""
    history = reporting(tmp_path / "journal", 5)
    told: list[tuple[int, ...]] = []
    pump = pump_of(
        history,
        ListSink(),
        MemoryCursor(),
        tmp_path / "dead",
        limits=Limits(records=2),
        progress=lambda counters: told.append(astuple(counters)),
    )
    pump.run_once()
    assert [(2, 9, 0, 0, 3), (4, 9, 0, 0, 1), (5, 9, 0, 0, 0)] == told


def test_a_pump_writes_nothing_into_the_journal_but_its_own(tmp_path: Path) -> None:
    """It is a reader: no lock, no segment, no index is touched."""
    history = reporting(tmp_path / "journal", 3)

    def files() -> dict[str, bytes]:
        found = (path for path in history.path.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in found if path.parent.name != "cursor"}

    before = files()
    sink = ListSink(refused=frozenset(lines(1)))
    with Pump.open(history, sink) as pump:
        pump.run_once()
    letters = str(pump.dead_letters)
    after = files()
    assert b"refused" in after.pop(letters)
    assert before == after


def test_close_may_be_called_twice(tmp_path: Path) -> None:
    """Also by `with` after a `close` inside it."""
    sink = ListSink()
    with Pump.open(reporting(tmp_path / "journal", 1), sink) as pump:
        pump.run_once()
        pump.close()
    assert "close" == sink.asked[-1]


def test_sink_rejected_from_encode_names_itself(tmp_path: Path) -> None:
    """What an exporter itself refuses reads the same in the dead letters."""

    class Picky(ListSink):
        def encode(self, recorded: Recorded, run: Run) -> str | None:
            raise SinkRejected("not this one", run_id=run.run_id)

    dead = tmp_path / "dead"
    pump_of(reporting(tmp_path / "journal", 1), Picky(), MemoryCursor(), dead).run_once()
    whys = {json.loads(line)["why"] for line in dead.read_text().splitlines()}
    assert {"SinkRejected: not this one (run r)"} == whys
