"""Whose a journal is, and whether that owner is gone: on the files and processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainstate.errors import UsageError
from trainstate.state.home import (
    Owner,
    Standing,
    journals_of,
    raylet_of,
    stale,
    standing,
)
from trainstate.store import Store


@pytest.fixture
def dead() -> Owner:
    """The owner that lived by a process that has ended."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        owner = Owner.of("somebody", process.pid)
        assert owner.lives
    return owner


def write(path: Path, owner: object) -> Path:
    """A journal that nobody writes any more."""
    Store.open(path, owner=str(owner)).close()
    return path


def test_an_owner_is_read_as_it_was_written():
    """The text in FENCE says everything; a text of another kind says nothing."""
    owner = Owner.of("trainstate.v1", os.getpid())
    assert owner == Owner.parse(str(owner))
    assert owner.is_here
    assert owner.lives
    assert Owner.parse("trainstate import") is None


def test_a_pid_that_is_used_again_is_another_process():
    """The start time tells two processes of one pid apart."""
    owner = Owner.of("somebody", os.getpid())
    assert not owner._replace(start=owner.start - 1).lives


def test_a_journal_with_a_writer_is_live(tmp_path, dead):
    """The lock decides, whoever is said to own it."""
    with Store.open(tmp_path / "j", owner=str(dead)):
        assert Standing.LIVE is standing(tmp_path / "j")
        assert not stale(tmp_path / "j")


def test_a_journal_whose_owner_lives_is_not_lost(tmp_path):
    """The writer is between two processes; its raylet starts the next."""
    journal = write(tmp_path / "j", Owner.of("trainstate.v1", os.getpid()))
    assert Standing.AWAY is standing(journal)
    assert not stale(journal)


def test_a_journal_whose_owner_is_gone_is_lost(tmp_path, dead):
    """Its lock is free and its process is gone on this boot: nobody will end its runs."""
    journal = write(tmp_path / "j", dead)
    assert Standing.LOST is standing(journal)
    assert stale(journal)


@pytest.mark.parametrize("elsewhere", [{"boot": "0-0"}, {"namespace": 1}], ids=str)
def test_of_another_boot_or_container_nothing_is_known(tmp_path, dead, elsewhere):
    """A process that cannot be looked for is not said to be gone."""
    journal = write(tmp_path / "j", dead._replace(**elsewhere))
    assert Standing.UNKNOWN is standing(journal)
    assert not stale(journal)


def test_a_writer_that_named_no_process_is_not_known_to_be_gone(tmp_path):
    """An import, or a repair."""
    assert Standing.UNKNOWN is standing(write(tmp_path / "j", "trainstate import"))


def test_what_is_no_journal_is_not_stale(tmp_path):
    """Whoever lists runs is not stopped by a folder that cannot be read."""
    assert not stale(tmp_path)


def test_the_home_is_that_of_the_environment_given():
    """Not that of this process."""
    assert Path("/a/journals") == journals_of({"TRAINSTATE_HOME": "/a", "HOME": "/b"})
    assert Path("/b/.trainstate/journals") == journals_of({"HOME": "/b"})
    assert Path("/b/.trainstate/journals") == journals_of({"TRAINSTATE_HOME": "", "HOME": "/b"})


def test_without_a_raylet_there_is_no_head_node():
    """A process that Ray did not start has none among its ancestors."""
    with pytest.raises(UsageError, match="no raylet"):
        raylet_of(os.getpid())


def test_asking_loads_no_ray():
    """The command line asks where Ray is not installed."""
    modules = "trainstate.state.home, trainstate.state.reconcile"
    program = f"import sys, {modules}; sys.exit('ray' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode
