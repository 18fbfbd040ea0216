"""`trainstate import ray-export`: what is taken in, what is set aside, and what is said about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import LINES, LOG, RUNS, Cli


def test_importing_twice_adds_nothing(cli: Cli):
    """The second time every line is known, and the journal holds what it held."""
    first = cli("import", "ray-export", LOG, "--json").document
    events = cli("tail", "--json").out
    again = cli("import", "ray-export", LOG, "--json").document
    assert {"imported": LINES, "known": 0, "rejected": 0} == {
        name: first[name] for name in ("imported", "known", "rejected")
    }
    assert (0, LINES) == (again["imported"], again["known"])
    assert events == cli("tail", "--json").out


def test_import_says_what_it_did(cli: Cli):
    """One sentence, with the journal it went to."""
    outcome = cli("import", "ray-export", LOG)
    assert (0, "") == (outcome.code, outcome.err)
    assert f"imported {LINES} lines into {cli.journal}\n" == outcome.out


def test_unusable_lines_are_set_aside(cli: Cli, tmp_path: Path):
    """They are counted, named with line and reason, and kept; the rest goes on."""
    log = tmp_path / "export.log"
    lines = LOG.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], b"{not json\n", *lines[1:3], b'{"source_type": "X"}\n']))
    outcome = cli("import", "ray-export", log, "--rejects", tmp_path / "bad.jsonl")
    assert 0 == outcome.code
    assert "imported 3 lines" in outcome.out
    assert "2 rejected" in outcome.out
    assert f"rejected: {log}:2: it is not JSON" in outcome.err
    assert f"the rejected lines and why: {tmp_path / 'bad.jsonl'}" in outcome.err
    kept = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [(2, "{not json"), (5, '{"source_type": "X"}')] == [
        (one["line"], one["text"]) for one in kept
    ]


def test_an_import_of_nothing_but_garbage_is_a_problem(cli: Cli, tmp_path: Path):
    """Exit 1: how many, why (the first few), and where the reject file is."""
    log = tmp_path / "garbage"
    log.write_bytes(bytes(range(256)) * 40)
    outcome = cli("import", "ray-export", log)
    assert 1 == outcome.code
    assert 3 == outcome.err.count("rejected: ")
    assert "error: not one of " in outcome.err
    assert "imported.rejects.jsonl" in outcome.err
    assert "Traceback" not in outcome.err


def test_rotated_files_are_found_and_read_oldest_first(cli: Cli, tmp_path: Path):
    """Whatever the order they are named in."""
    lines = LOG.read_bytes().splitlines(keepends=True)
    parts = {"e.log.2": lines[:10], "e.log.1": lines[10:30], "e.log": lines[30:]}
    for name, part in parts.items():
        (tmp_path / name).write_bytes(b"".join(part))
    named = [tmp_path / "e.log.1", tmp_path / "e.log", tmp_path / "e.log.2"]
    document = cli("import", "ray-export", *named, "--json").document
    assert (LINES, 0) == (document["imported"], document["rejected"])
    assert RUNS == [run["run_id"] for run in cli("runs", "--json").documents]


def test_import_into_a_journal_of_ones_own(cli: Cli, tmp_path: Path):
    """`--journal` names it; it is made."""
    target = tmp_path / "deep" / "mine"
    assert 0 == cli("import", "ray-export", LOG, "--journal", target).code
    assert RUNS == [run["run_id"] for run in cli("runs", "--journal", target, "--json").documents]


@pytest.mark.parametrize("name", ["gone.log", "."])
def test_a_file_that_cannot_be_read_makes_no_journal(cli: Cli, tmp_path: Path, name):
    """What is wrong is said before anything is written."""
    outcome = cli("import", "ray-export", LOG, tmp_path / name)
    assert 2 == outcome.code
    assert not cli.journal.exists()


def test_follow_takes_one_file(cli: Cli):
    """Two growing files have no common order."""
    outcome = cli("import", "ray-export", LOG, LOG, "--follow")
    assert 2 == outcome.code
    assert "hint: import the others first" in outcome.err
