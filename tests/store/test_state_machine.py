"""The store against a model of it, under random commands, reopenings and crashes of its caches."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.store.making import SECOND, created, errored, scheduling, skipped
from trainstate.core import Run, RunStatus, evolve, initial
from trainstate.errors import ConcurrencyError, Fenced, InvalidTransition
from trainstate.store import Store
from trainstate.v1 import event_pb2 as e

RUNS = st.sampled_from(["alpha", "beta", "gamma"])
EVENTS = st.lists(
    st.sampled_from([created, scheduling, errored, skipped]).flatmap(
        lambda make: st.integers(1, 50).map(make)
    ),
    min_size=1,
    max_size=4,
)


class StoreMachine(RuleBasedStateMachine):
    """Every acknowledged event is there, in place, and nothing else is."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = self.open()
        self.recorded: list[e.Event] = []
        self.incarnations: dict[str, int] = {}

    def open(self) -> Store:
        return Store.open(self.folder / "j", segment_bytes_max=1 << 14)

    def run_seq(self, run_id: str) -> int:
        return sum(event.run_id == run_id for event in self.recorded)

    @rule(run_id=RUNS, time_s=st.integers(1, 50))
    def open_run(self, run_id: str, time_s: int) -> None:
        opened = self.store.open_run(run_id, "test", time_s * SECOND)
        self.incarnations[run_id] = self.incarnations.get(run_id, 0) + 1
        assert self.incarnations[run_id] == opened.incarnation
        self.recorded.append(next(self.store.history.events(len(self.recorded) + 1)).event)

    @precondition(lambda self: self.incarnations)
    @rule(run_id=RUNS, events=EVENTS, slip=st.integers(-1, 1), stale=st.booleans())
    def append(self, run_id: str, events: list[e.Event], slip: int, stale: bool) -> None:
        if run_id not in self.incarnations:
            return
        before = self.run_seq(run_id)
        try:
            seqs = self.store.append(
                run_id, self.incarnations[run_id] - stale, before + slip, events
            )
        except (Fenced, ConcurrencyError, InvalidTransition) as error:
            refused: type[Exception] | None = type(error)
        else:
            refused = None
        # A stale writer is fenced whatever it says; a slipped one loses, or repeats what is there.
        fits = {None, InvalidTransition} if slip == 0 else {None, ConcurrencyError}
        assert refused in ({Fenced} if stale else fits)
        if refused is None and slip == 0:
            first = len(self.recorded) + 1
            assert list(range(first, first + len(events))) == list(seqs)
            self.recorded += events

    @rule(lose=st.sampled_from(["snap", "idx", "nothing"]))
    def reopen(self, lose: str) -> None:
        self.store.close()
        if lose == "snap":
            shutil.rmtree(self.folder / "j" / "snap", ignore_errors=True)
        if lose == "idx":
            for sidecar in (self.folder / "j" / "seg").glob("*.idx"):
                sidecar.unlink()
        self.store = self.open()

    @invariant()
    def the_journal_is_what_was_acknowledged(self) -> None:
        stored = [one.event.SerializeToString() for one in self.store.history.events()]
        assert [event.SerializeToString() for event in self.recorded] == stored

    @invariant()
    def the_states_are_the_folds(self) -> None:
        runs: dict[str, Run] = {}
        for event in self.recorded:
            evolve(runs.setdefault(event.run_id, initial(event.run_id)), event)
        for run_id, run in runs.items():
            assert run == self.store.state(run_id)
            assert run == self.store.history.run(run_id)
            assert not run.irregular_count
            assert run.status in RunStatus

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
