"""The store: what it refuses, what it recognises, what it gives back."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from tests.store.making import SECOND, big, created, errored, planned, report, scheduling, skipped
from tests.store.making import started as worker_started
from trainstate.core import RunStatus
from trainstate.errors import (
    ConcurrencyError,
    EventTooLarge,
    Fenced,
    InvalidTransition,
    NotFound,
)
from trainstate.store import EVENT_BYTES_MAX, History, Store, events, until_seq, until_time
from trainstate.v1 import event_pb2 as e


@pytest.fixture
def store(tmp_path: Path):  # type: ignore[no-untyped-def]
    with Store.open(tmp_path / "journal") as opened:
        yield opened


def begin(store: Store, run_id: str = "r1") -> int:
    """Opens and creates a run; returns its incarnation."""
    opened = store.open_run(run_id, "test", SECOND)
    store.append(run_id, opened.incarnation, opened.run_seq, [created(name=run_id)])
    return opened.incarnation


def test_positions_are_gap_free_and_runs_count_on_their_own(store: Store) -> None:
    """seq counts over the journal, run_seq over the run, both from 1 and without gaps."""
    begin(store, "r1")
    begin(store, "r2")
    seqs = store.append("r1", 1, 2, [skipped(), skipped()])

    assert [5, 6] == list(seqs)
    events = list(store.history.events())
    assert [1, 2, 3, 4, 5, 6] == [one.seq for one in events]
    assert [1, 2, 3, 4] == [one.event.run_seq for one in events if one.event.run_id == "r1"]
    assert [1, 2] == [one.event.run_seq for one in events if one.event.run_id == "r2"]


def test_a_refused_event_writes_nothing_not_even_those_before_it(store: Store) -> None:
    """An append is all or none: the state and the journal are as before it."""
    begin(store)
    before = store.state("r1")

    with pytest.raises(InvalidTransition, match="never scheduled"):
        store.append("r1", 1, 2, [skipped(), skipped(), planned("a1"), report("a1", 0)])
    assert before == store.state("r1")
    assert 2 == len(list(store.history.events()))
    assert [3] == list(store.append("r1", 1, 2, [skipped()]))


def test_a_refused_first_append_leaves_no_run(store: Store) -> None:
    """A run that was opened and then refused everything is still just opened."""
    store.open_run("r1", "test", SECOND)
    with pytest.raises(InvalidTransition, match="not created"):
        store.append("r1", 1, 1, [scheduling()])
    assert RunStatus.UNSPECIFIED == store.state("r1").status


def test_append_to_a_run_nobody_opened_is_not_found(store: Store) -> None:
    """The first word on a run is open_run."""
    with pytest.raises(NotFound):
        store.append("r1", 1, 0, [created()])
    assert [] == store.summaries()


def test_a_lower_incarnation_is_fenced(store: Store) -> None:
    """Who opens a run fences every writer before."""
    begin(store)
    assert 2 == store.open_run("r1", "successor", SECOND).incarnation
    with pytest.raises(Fenced):
        store.append("r1", 1, 3, [skipped()])
    store.append("r1", 2, 3, [skipped()])


def test_an_incarnation_nobody_was_given_is_fenced(store: Store) -> None:
    """A higher incarnation than the run's was never handed out."""
    begin(store)
    with pytest.raises(Fenced):
        store.append("r1", 2, 2, [skipped()])


def test_a_repeated_append_is_recognised_by_position(store: Store) -> None:
    """Equal events at the same place return the positions they have; nothing is added."""
    begin(store)
    first = store.append("r1", 1, 2, [skipped(), scheduling(time_s=1)])
    again = store.append("r1", 1, 2, [skipped(), scheduling(time_s=1)])

    assert list(first) == list(again)
    assert 4 == len(list(store.history.events()))


def test_a_repeated_append_is_looked_for_from_the_end(store: Store) -> None:
    """A repetition of the newest append reads a few frames of a long run; of an older one, more."""
    begin(store)
    appends = [[skipped() for _ in range(40)] for _ in range(50)]
    seqs = [store.append("r1", 1, 2 + 40 * n, batch) for n, batch in enumerate(appends)]

    parsed = {}
    for n in (49, 30, 0):
        with mock.patch.object(events, "_parse", autospec=True, side_effect=events._parse) as parse:
            assert list(seqs[n]) == list(store.append("r1", 1, 2 + 40 * n, appends[n]))
        parsed[n] = parse.call_count

    assert parsed[49] <= 4
    assert parsed[30] <= 30
    assert parsed[0] >= 50


def test_another_append_at_a_taken_position_is_a_concurrency_error(store: Store) -> None:
    """Different events at the same place lose, and are told where the run is."""
    begin(store)
    store.append("r1", 1, 2, [skipped()])
    with pytest.raises(ConcurrencyError) as refused:
        store.append("r1", 1, 2, [scheduling()])
    assert (3, 2) == (refused.value.current, refused.value.expected)
    with pytest.raises(ConcurrencyError):
        store.append("r1", 1, 2, [skipped(), skipped()])
    with pytest.raises(ConcurrencyError):
        store.append("r1", 1, 99, [skipped()])


def test_equal_events_of_an_earlier_incarnation_are_not_a_repetition(store: Store) -> None:
    """A successor that writes the same at an old place has missed something."""
    begin(store)
    store.append("r1", 1, 2, [skipped()])
    store.open_run("r1", "successor", SECOND)
    with pytest.raises(ConcurrencyError):
        store.append("r1", 2, 2, [skipped()])


def test_time_of_a_run_never_falls(store: Store) -> None:
    """An event that claims to be earlier is lifted to the one before it."""
    begin(store)
    store.append("r1", 1, 2, [skipped(time_s=50), skipped(time_s=40), skipped(time_s=60)])
    times = [one.event.time_unix_nano // SECOND for one in store.history.events()]
    assert [1, 1, 50, 50, 60] == times


def test_an_oversized_event_is_refused(store: Store) -> None:
    """What is over the limit is refused with its size, before anything is written."""
    begin(store)
    with pytest.raises(EventTooLarge, match=str(EVENT_BYTES_MAX)):
        store.append("r1", 1, 2, [big(EVENT_BYTES_MAX)])
    assert 2 == store.state("r1").run_seq


def nested(levels: int) -> e.Event:
    event = e.Event(time_unix_nano=SECOND)
    value = event.checkpoint_committed.metrics.entries.add(key="deep").value
    for _ in range(levels):
        value = value.list.values.add()
    return event


@pytest.mark.parametrize("levels", [60, 500])
def test_an_event_too_deep_to_be_read_back_is_refused(store: Store, levels: int) -> None:
    """Protobuf writes what it then does not read."""
    begin(store)
    with pytest.raises(EventTooLarge, match="deeper"):
        store.append("r1", 1, 2, [nested(levels)])
    assert 2 == len(list(store.history.events()))


@pytest.mark.parametrize("levels", [20, 40])
def test_an_event_that_is_not_refused_is_read_back(store: Store, levels: int) -> None:
    """However deep, short of that."""
    begin(store)
    store.append("r1", 1, 2, [nested(levels)])
    assert nested(levels).checkpoint_committed == next(
        one.event.checkpoint_committed for one in store.history.events(3)
    )


def test_a_large_append_is_split_at_events(store: Store) -> None:
    """Several MiB in one append come back whole and in order."""
    begin(store)
    events = [big(200_000 + index) for index in range(20)]
    store.append("r1", 1, 2, events)
    read = [len(one.event.sync_skipped.source) for one in store.history.events(3)]
    assert [200_000 + index for index in range(20)] == read


def test_what_a_store_folds_is_what_a_replay_folds(store: Store) -> None:
    """Live state, full replay and a reopened store agree, run by run."""
    begin(store)
    events = [scheduling(), planned("a1"), *worker_started("a1"), report("a1", 0), report("a1", 1)]
    store.append("r1", 1, 2, events)
    live = store.state("r1")

    assert live == store.history.run("r1")
    assert live == store.history.fold().runs["r1"].run
    path = store.writer.path
    store.close()
    with Store.open(path) as reopened:
        assert live == reopened.state("r1")


def test_as_of_a_position_and_as_of_a_time_are_inclusive(store: Store) -> None:
    """as_of gives the run's longest prefix up to and including that position, or time."""
    begin(store)
    store.append("r1", 1, 2, [scheduling(time_s=5), errored(time_s=7)])

    history = store.history
    assert RunStatus.INITIALIZING == history.run("r1", until_seq(2)).status
    assert RunStatus.SCHEDULING == history.run("r1", until_seq(3)).status
    assert RunStatus.SCHEDULING == history.run("r1", until_time(5 * SECOND)).status
    assert RunStatus.SCHEDULING == history.run("r1", until_time(7 * SECOND - 1)).status
    assert RunStatus.ERRORED == history.run("r1", until_time(7 * SECOND)).status
    with pytest.raises(NotFound):
        history.run("r1", until_time(SECOND - 1))
    with pytest.raises(NotFound):
        history.run("nobody")


def test_ended_runs_leave_memory_and_come_back_on_request(tmp_path: Path) -> None:
    """Of many ended runs only the newest stay resident; all are listed, each is folded when asked."""
    with Store.open(tmp_path / "j", segment_bytes_max=1 << 16) as store:
        for number in range(200):
            begin(store, f"r{number}")
            store.append(f"r{number}", 1, 2, [errored(text=f"why {number}")])
        assert 200 == len(store.summaries())
        assert len(store._fold.runs) < 100
        assert "why 7" == store.state("r7").status_reason
        store.append("r8", 1, 3, [skipped()])
        summaries = {summary.run_id: summary for summary in store.summaries()}
        live = store.state("r8")
    history = History(tmp_path / "j")
    assert live == history.run("r8")
    assert summaries == {summary.run_id: summary for summary in history.summaries()}
    assert 200 == len(summaries)
    assert 4 == summaries["r8"].run_seq


@pytest.mark.parametrize("lost", ["snap", "snap/ended", "idx", "nothing"])
def test_reopening_needs_none_of_its_caches(tmp_path: Path, lost: str) -> None:
    """Snapshots, the archive of ended runs and index sidecars may be missing or wrong."""
    path = tmp_path / "j"
    with Store.open(path, segment_bytes_max=1 << 16) as store:
        for number in range(150):
            begin(store, f"r{number}")
            events = [big(1000), *([errored()] if number % 3 else [])]
            store.append(f"r{number}", 1, 2, events)
        expected = store.summaries()
    damaged = {
        "snap": sorted((path / "snap").glob("*.snap")),
        "snap/ended": [path / "snap/ended"],
        "idx": sorted((path / "seg").glob("*.idx")),
        "nothing": [],
    }[lost]
    assert damaged or lost == "nothing"
    for file in damaged:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 0x10
        file.write_bytes(data)

    assert expected == History(path).summaries()
    with Store.open(path, segment_bytes_max=1 << 16) as store:
        assert expected == store.summaries()
        assert "r140" == store.state("r140").run_id
