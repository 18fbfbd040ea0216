"""Ending the runs of a cluster that is gone, by the rules that its controller would have followed."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from trainstate.core import AttemptStatus, Cause, RunStatus, WorkerStatus
from trainstate.core.decide import decide
from trainstate.core.observations import Abort, Began, Observation, Placed, Reserved
from trainstate.errors import JournalLocked
from trainstate.state.ending import end_run
from trainstate.state.home import Owner, Standing, standing
from trainstate.state.reconcile import lost, reconcile, reconcile_lost
from trainstate.store import History, Store
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

RUN = "run-1"


@pytest.fixture(scope="module")
def gone() -> str:
    """The owner of a journal whose cluster is gone."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        return str(Owner.of("trainstate.v1", process.pid))


@pytest.fixture
def journal(tmp_path: Path, gone: str) -> Path:
    """A lost journal, with one run whose two workers were about to start."""
    path = tmp_path / "journals" / "session_1"
    with Store.open(path, owner=gone) as store:
        begin(store, RUN)
    return path


def begin(store: Store, run_id: str) -> None:
    run, _, incarnation = store.open_run(run_id, "controller", 1)
    scaling = s.ScalingConfig(num_workers_fixed=2)
    settings = s.RunSettings(scaling_config=scaling)
    observations: list[Observation] = [Began(e.RunCreated(name="mnist", settings=settings))]
    while observations:
        store.append(run_id, incarnation, run.run_seq, decide(run, observations.pop(), 2).events)
        run = store.state(run_id)
        if not run.attempts[-1].workers:
            (name,) = run.placements
            observations.append(Placed((Reserved(name, b"\1", ("n1", "n1")),)))


def test_a_lost_run_ends(journal: Path):
    """Attempt before run, each with the cause; workers and placement with them."""
    assert [RUN] == reconcile(journal)
    run = History(journal).run(RUN)
    assert (RunStatus.ABORTED, Cause.CLUSTER_LOST) == (run.status, run.cause)
    (attempt,) = run.attempts
    assert (AttemptStatus.ABORTED, Cause.CLUSTER_LOST) == (attempt.status, attempt.cause)
    assert {WorkerStatus.DEAD} == {worker.status for worker in attempt.workers.values()}
    assert {} == run.placements
    assert "reconcile" == run.writer
    assert [] == run.irregular


def test_again_it_does_nothing(journal: Path):
    """What has ended is left alone, byte for byte."""
    reconcile(journal)
    before = History(journal).end
    assert [] == reconcile(journal)
    assert before == History(journal).end


def test_cut_short_it_is_taken_up(journal: Path, gone: str):
    """The journal keeps its owner, so the next one sees it as lost and finishes."""

    def killed(run: object, effect: object) -> None:
        raise KeyboardInterrupt

    with Store.open(journal, owner=gone) as store, pytest.raises(KeyboardInterrupt):
        end_run(store, RUN, "reconcile", Abort(Cause.CLUSTER_LOST, "gone"), killed)
    assert RunStatus.SHUTTING_DOWN is History(journal).run(RUN).status
    assert Standing.LOST is standing(journal)
    assert [RUN] == reconcile(journal)
    assert Standing.LOST is standing(journal)
    assert Cause.CLUSTER_LOST is History(journal).run(RUN).cause


def test_a_run_on_its_way_to_an_end_comes_to_it(journal: Path, gone: str):
    """A user's abort that was under way stays a user's abort."""
    with Store.open(journal, owner=gone) as store:
        run, _, incarnation = store.open_run(RUN, "controller", 3)
        events = decide(run, Abort(Cause.USER_ABORT, "enough"), time.time_ns()).events
        store.append(RUN, incarnation, run.run_seq, events)
    reconcile(journal)
    run = History(journal).run(RUN)
    assert (RunStatus.ABORTED, Cause.USER_ABORT) == (run.status, run.cause)


def test_what_was_imported_or_never_created_is_left_alone(journal: Path, gone: str):
    """Another system's run ends when that system says so; without RunCreated there is none."""
    with Store.open(journal, owner=gone) as store:
        opened = store.open_run("foreign", "ray-export", 1, foreign=True)
        created = e.Event(time_unix_nano=1, run_created=e.RunCreated(name="theirs"))
        store.append("foreign", opened.incarnation, opened.run_seq, [created])
        store.open_run("opened", "controller", 1)
    assert [RUN] == reconcile(journal)


def test_a_live_journal_is_refused(journal: Path):
    """Its writer is the one to end its runs."""
    with Store.open(journal), pytest.raises(JournalLocked):
        reconcile(journal)


def test_all_lost_journals_of_a_home(journal: Path, gone: str):
    """Live, damaged and foreign folders are passed over."""
    folder = journal.parent
    (folder / "notes").mkdir()
    damaged = folder / "damaged"
    Store.open(damaged, owner=gone).close()
    (damaged / "FENCE").write_bytes(b"epoch nonsense")
    with Store.open(folder / "live", owner=gone) as store:
        begin(store, "run-2")
        assert [journal] == list(lost(folder))
        reconcile_lost(folder)
        assert not store.state("run-2").status.is_terminal
    assert History(journal).run(RUN).status.is_terminal
