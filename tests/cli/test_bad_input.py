"""Garbage handed to any verb: one message, one hint, the right exit code, never a traceback."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import google_crc32c
import pytest

from tests.cli.conftest import LOG, RUNS, Cli


class Bad(NamedTuple):
    """A request, what is said about it, the exit code, and what makes the home bad beforehand."""

    args: str
    message: str
    code: int = 2
    spoil: Callable[[Cli], object] = lambda cli: None


def second_journal(cli: Cli) -> None:
    shutil.copytree(cli.journal, cli.home / "journals" / "second")


def newer_format(cli: Cli) -> None:
    fields = (cli.journal / "IDENTITY").read_bytes().rpartition(b"crc32c ")[0]
    text = fields.replace(b"format 1", b"format 2")
    (cli.journal / "IDENTITY").write_bytes(text + b"crc32c %08x\n" % google_crc32c.value(text))


def damaged_identity(cli: Cli) -> None:
    (cli.journal / "IDENTITY").write_bytes(b"\x00garbage\xff" * 9)


def empty_home(cli: Cli) -> None:
    shutil.rmtree(cli.home)
    cli.home.mkdir()


def home_is_a_file(cli: Cli) -> None:
    shutil.rmtree(cli.home)
    cli.home.write_bytes(b"\x89PNG")


READS = ["runs", f"show {RUNS[0]}", f"goodput {RUNS[0]}", "tail", "replay", "diff 1 2", "stats"]
READS += ["export jsonl --to out", "retain --keep-from 2", "verify", "repair"]

BAD = [
    *(Bad(verb, "no journal here", spoil=empty_home) for verb in READS),
    *(Bad(verb, "no journal here", spoil=home_is_a_file) for verb in READS),
    *(Bad(verb, "journal format 2", spoil=newer_format) for verb in READS if verb != "repair"),
    *(Bad(verb, "checksum", code=1, spoil=damaged_identity) for verb in READS[:-2]),
    Bad("nonsense", "no such command"),
    Bad("runs --nonsense", "no such option"),
    Bad("runs extra", "unexpected extra argument"),
    Bad("show", "missing argument"),
    Bad("show zzz", "no run fits 'zzz'"),
    Bad("show ray_train", "no run fits 'ray_train'"),
    Bad(f"show {RUNS[0][:6]}", "2 runs fit", spoil=second_journal),
    Bad(f"show {RUNS[0]} --attempt 7", "no attempt fits '7'"),
    Bad(f"show {RUNS[0]} --as-of soon", "'soon' is neither a position nor a time"),
    Bad(f"show {RUNS[1]} --as-of 1", "no such run"),
    Bad("goodput zzz", "no run fits 'zzz'"),
    Bad("tail --kind Nonsense", "there is no event 'nonsense'"),
    Bad("tail --from soon", "neither a position nor a time"),
    Bad("tail --from 3", "2 journals here", spoil=second_journal),
    Bad("tail -f", "no journal here", spoil=home_is_a_file),
    Bad("tail -f --from soon", "neither a position nor a time", spoil=empty_home),
    Bad("replay --until soon", "neither a position nor a time"),
    Bad("replay --until 3", "2 journals here", spoil=second_journal),
    Bad("replay --step", "2 journals here", spoil=second_journal),
    Bad("diff 1 2", "2 journals here", spoil=second_journal),
    Bad("diff 9 3", "9 is after 3"),
    Bad("diff x 3", "'x' is not a valid integer"),
    Bad("export jsonl", "missing option"),
    Bad("export nonsense --to x", "there is no exporter 'nonsense'"),
    Bad("export jsonl --to . --option x", "is not name=value"),
    Bad("completion tcsh", "'tcsh' is not one of"),
    Bad("import", "missing command"),
    Bad("import nonsense", "no such command"),
    Bad("import ray-export", "missing argument"),
    Bad("import ray-export nowhere.log", "no such file or directory"),
    Bad("import ray-export /dev/null/x", "not a directory"),
    Bad("retain", "--keep-from"),
    Bad("retain --keep-from 3 --keep-days 3", "--keep-from"),
    Bad("retain --keep-from 3", "2 journals here", spoil=second_journal),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad.args} ({bad.spoil.__name__})")
def test_bad_input(own: Cli, tmp_path: Path, monkeypatch, bad: Bad):
    """The message is one line and names what is wrong; the hint is the next."""
    monkeypatch.chdir(tmp_path)
    bad.spoil(own)
    outcome = own(*bad.args.split())
    assert (bad.code, "") == (outcome.code, outcome.out)
    error, hint = outcome.err.splitlines()
    assert error.startswith("error: ")
    assert bad.message in error.lower()
    assert hint.startswith("hint: ")


@pytest.mark.parametrize("args", ["runs", "stats", "verify"])
def test_several_journals_are_read_as_one(own: Cli, args):
    """Where no position is asked for, many journals are fine."""
    second_journal(own)
    assert 0 == own(*args.split()).code
    assert 0 == own("runs", "--journal", own.journal).code


def test_a_bad_journal_does_not_stop_an_import_elsewhere(own: Cli, tmp_path: Path):
    """Only what is asked for is opened."""
    damaged_identity(own)
    assert 0 == own("import", "ray-export", LOG, "--journal", tmp_path / "other").code
