"""Many producers, one store."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.store.making import SECOND, created, skipped
from trainstate.core import evolve, initial
from trainstate.errors import ConcurrencyError
from trainstate.store import Store

PRODUCERS = 16
EACH = 25


def test_producers_of_many_runs_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Every acknowledged position holds the event it was given for, and states equal replays."""
    with Store.open(tmp_path / "j", segment_bytes_max=1 << 15) as store:
        given: dict[int, tuple[str, int]] = {}

        def produce(run_id: str) -> None:
            opened = store.open_run(run_id, "test", SECOND)
            store.append(run_id, 1, opened.run_seq, [created(name=run_id)])
            for number in range(EACH):
                (seq,) = store.append(run_id, 1, number + 2, [skipped(time_s=number + 2)])
                given[seq] = run_id, number + 3

        threads = [threading.Thread(target=produce, args=(f"r{n}",)) for n in range(PRODUCERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        stored = {one.seq: (one.event.run_id, one.event.run_seq) for one in store.history.events()}
        assert PRODUCERS * EACH == len(given)
        assert given.items() <= stored.items()
        assert list(range(1, PRODUCERS * (EACH + 2) + 1)) == sorted(stored)
        for number in range(PRODUCERS):
            replayed = initial(f"r{number}")
            for one in store.history.events_of(f"r{number}"):
                evolve(replayed, one.event)
            assert replayed == store.state(f"r{number}")


def test_of_producers_at_one_position_exactly_one_wins(tmp_path: Path) -> None:
    """The others get a ConcurrencyError and have written nothing."""
    with Store.open(tmp_path / "j") as store:
        opened = store.open_run("r", "test", SECOND)
        store.append("r", 1, opened.run_seq, [created()])
        together = threading.Barrier(PRODUCERS)
        won: list[int] = []
        lost: list[int] = []

        def produce(number: int) -> None:
            together.wait()
            try:
                store.append("r", 1, 2, [skipped(time_s=10 + number)])
                won.append(number)
            except ConcurrencyError:
                lost.append(number)

        threads = [threading.Thread(target=produce, args=(number,)) for number in range(PRODUCERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (1, PRODUCERS - 1) == (len(won), len(lost))
        assert 3 == store.state("r").run_seq


def test_who_asks_for_states_holds_up_nobody(tmp_path: Path) -> None:
    """What an appender waits for may be waited for by others too, and all of them come back."""
    store = Store.open(tmp_path / "j")

    def produce(run_id: str) -> None:
        opened = store.open_run(run_id, "test", SECOND)
        store.append(run_id, 1, opened.run_seq, [created(name=run_id)])
        for number in range(EACH):
            store.append(run_id, 1, number + 2, [skipped(time_s=number + 2)])
            assert number + 3 == store.state(run_id).run_seq
            assert number + 3 <= len(list(store.events_of(run_id)))

    names = [f"r{number}" for number in range(PRODUCERS)]
    threads = [threading.Thread(target=produce, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert [] == [thread.name for thread in threads if thread.is_alive()]
    store.close()  # not before: it would wait for who hangs
