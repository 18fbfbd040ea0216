"""A root: many journals, one list of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.making import SECOND, created
from trainstate.errors import NotAJournal, NotFound
from trainstate.store import Root, Store


def make(path: Path, *run_ids: str) -> None:
    with Store.open(path) as store:
        for run_id in run_ids:
            opened = store.open_run(run_id, "test", SECOND)
            store.append(run_id, 1, opened.run_seq, [created(name=f"name-{run_id}")])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    make(tmp_path / "journals" / "one", "aaa1", "aab2")
    make(tmp_path / "journals" / "two", "bbb3")
    return tmp_path


@pytest.mark.parametrize("below", ["", "journals"])
def test_home_and_its_journals_folder_are_read_alike(home: Path, below: str) -> None:
    """Every run of every journal is in one list, with the journal it is in."""
    runs = [(one.summary.run_id, one.history.path.name) for one in Root(home / below).runs()]
    assert [("aaa1", "one"), ("aab2", "one"), ("bbb3", "two")] == runs


def test_a_journal_is_a_root_of_one(home: Path) -> None:
    """A path to a journal needs no other treatment."""
    root = Root(home / "journals" / "two")
    assert "two" == root.only().path.name
    assert ["bbb3"] == [one.summary.run_id for one in root.runs()]


@pytest.mark.parametrize("word", ["bbb3", "b", "bb", "name-bbb3"])
def test_a_run_is_found_by_id_prefix_or_name(home: Path, word: str) -> None:
    """The whole id, a prefix that fits one run, or its name."""
    found = Root(home).find(word)
    assert ("two", "bbb3") == (found.history.path.name, found.run_id)


@pytest.mark.parametrize(("word", "count"), [("aa", "2 runs"), ("zzz", "no run")])
def test_a_word_that_fits_none_or_several_is_not_found(home: Path, word: str, count: str) -> None:
    """The error says how many fit."""
    with pytest.raises(NotFound, match=count):
        Root(home).find(word)


def test_a_position_needs_one_journal(home: Path) -> None:
    """A seq means something in one journal only; of several, one must be named."""
    with pytest.raises(NotFound, match="2 journals"):
        Root(home).only()


@pytest.mark.parametrize("what", ["missing", "empty", "file"])
def test_where_no_journal_is_the_error_says_so(tmp_path: Path, what: str) -> None:
    """A missing path, an empty folder, a file."""
    path = tmp_path / what
    if what == "empty":
        path.mkdir()
    if what == "file":
        path.write_bytes(b"\x00\xff" * 100)
    with pytest.raises(NotAJournal):
        Root(path)
