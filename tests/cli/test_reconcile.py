"""`trainstate reconcile`, and how a run that is stale looks until then."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import RUNS, Cli
from trainstate.core import RunStatus
from trainstate.state.home import Owner
from trainstate.store import History, Store
from trainstate.v1 import event_pb2 as e

ELSEWHERE = "trainstate.v1 of process 1 since 1, boot 0-0, pid namespace 1"


@pytest.fixture(scope="module")
def gone() -> str:
    """The owner of a journal whose cluster is gone."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        return str(Owner.of("trainstate.v1", process.pid))


def leave_open(cli: Cli, name: str, owner: str) -> Path:
    """A journal at home with one open run, called as the journal."""
    path = cli.home / "journals" / name
    with Store.open(path, owner=owner) as store:
        opened = store.open_run(f"run-{name}", "controller", 1)
        created = e.Event(time_unix_nano=1, run_created=e.RunCreated(name=name))
        store.append(opened.state.run_id, opened.incarnation, opened.run_seq, [created])
    return path


def status_in(journal: Path) -> RunStatus:
    (summary,) = History(journal).summaries()
    return RunStatus(summary.status)


def test_stale_runs_are_ended(cli: Cli, gone):
    """They are marked, then ended with the cause, then not marked."""
    journal = leave_open(cli, "lost", gone)
    assert "INITIALIZING (stale)" in cli("runs").out
    assert "trainstate reconcile records its end" in cli("show", "lost").out
    assert [True] == [one["stale"] for one in cli("runs", "--json").documents]
    outcome = cli("reconcile")
    assert (0, "") == (outcome.code, outcome.err)
    assert "run-lost  lost  lost\n1 run ended\n" == outcome.out
    assert RunStatus.ABORTED is status_in(journal)
    assert "cluster_lost" in cli("runs").out
    assert "stale" not in cli("runs").out
    assert "no run to end\n" == cli("reconcile").out


def test_what_cannot_be_known_needs_a_yes(cli: Cli, gone):
    """A journal of another machine is left alone, and said so; with --yes it is ended."""
    lost, elsewhere = leave_open(cli, "lost", gone), leave_open(cli, "elsewhere", ELSEWHERE)
    outcome = cli("reconcile")
    assert 1 == outcome.code
    assert "1 journal left alone" in outcome.err
    assert "--yes" in outcome.err
    assert [RunStatus.ABORTED, RunStatus.INITIALIZING] == [status_in(lost), status_in(elsewhere)]
    outcome = cli("reconcile", "--yes", "--journal", elsewhere, "--json")
    assert (0, [{"run_id": "run-elsewhere", "journal": str(elsewhere)}]) == (
        outcome.code,
        outcome.documents,
    )
    assert RunStatus.ABORTED is status_in(elsewhere)


def test_a_live_journal_is_left_alone(cli: Cli, gone):
    """Also with --yes."""
    journal = leave_open(cli, "live", gone)
    with Store.open(journal, owner=gone):
        assert (0, "no run to end\n") == cli("reconcile", "--yes")[:2]
        assert "stale" not in cli("runs").out
    assert RunStatus.INITIALIZING is status_in(journal)


def test_imported_runs_are_left_alone(own: Cli):
    """What another system recorded ends when that system says so."""
    assert (0, "no run to end\n") == own("reconcile", "--yes")[:2]
    assert len(RUNS) == len(own("runs", "--json").documents)
