"""The entry point: what it loads, and how errors end."""

from __future__ import annotations

import errno
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from tests.cli.conftest import ROOT, Cli
from trainstate.cli import main
from trainstate.cli._main import VERBS, boundary
from trainstate.errors import JournalCorrupt, NotFound


def test_help_loads_neither_protobuf_nor_rich_nor_a_verb():
    """`trainstate --help` is answered from a table."""
    program = """if True:
        import sys
        from trainstate.cli import main
        try:
            main(["--help"])
        except SystemExit:
            pass
        heavy = {"google.protobuf", "rich", "orjson", "trainstate.store", "trainstate.cli.runs"}
        sys.exit(str(found) if (found := heavy & set(sys.modules)) else 0)
    """
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (0, "") == (result.returncode, result.stderr)
    assert all(verb in result.stdout for verb in VERBS)


@pytest.mark.parametrize("name", VERBS)
def test_the_table_says_what_the_verb_says(name):
    """The summary in the table is the first sentence of the verb's docstring."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert name == command.name
    assert VERBS[name].summary == (command.help or "").partition("\n")[0]


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_help(cli: Cli, name):
    """`--help` works for each, and is wrapped by click without a traceback."""
    outcome = cli(name, "--help")
    assert (0, "") == (outcome.code, outcome.err)
    assert VERBS[name].summary in outcome.out


def test_version(cli: Cli):
    """`--version` names the program."""
    assert cli("--version").out.startswith("trainstate ")


def test_without_a_verb_there_is_help(cli: Cli):
    """What is missing is said by showing what there is."""
    outcome = cli()
    assert 2 == outcome.code
    assert "replay" in outcome.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(cli: Cli, shell):
    """The script calls us back under the name it is installed for."""
    outcome = cli("completion", shell)
    assert 0 == outcome.code
    assert "_TRAINSTATE_COMPLETE" in outcome.out


def test_completion_completes_verbs():
    """What the script calls answers with the verbs."""
    env = {
        "_TRAINSTATE_COMPLETE": "bash_complete",
        "COMP_WORDS": "trainstate rep",
        "COMP_CWORD": "1",
    }
    result = CliRunner().invoke(main, [], env=env, prog_name="trainstate")
    assert ["plain,replay", "plain,repair"] == result.stdout.split()


@pytest.mark.parametrize(
    ("code", "error", "lines"),
    [
        (
            1,
            JournalCorrupt("a frame\nis damaged", path="/j", offset=72, hint="trainstate verify"),
            ["error: /j: a frame is damaged at offset 72", "hint: trainstate verify"],
        ),
        (2, NotFound("no such run"), ["error: no such run"]),
        (
            1,
            PermissionError(errno.EACCES, "Permission denied", "/x"),
            [
                "error: /x: permission denied",
                "hint: check who owns it and what its mode allows (ls -ld)",
            ],
        ),
        (
            1,
            OSError(errno.ENOSPC, "No space left on device"),
            [
                "error: no space left on device",
                "hint: free space on that disk (df -h), or choose another place",
            ],
        ),
        (
            2,
            FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"),
            ["error: /x: no such file or directory", "hint: check the path"],
        ),
        (
            2,
            click.UsageError("no such option"),
            ["error: no such option", "hint: trainstate --help"],
        ),
        (130, click.Abort(), []),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_errors_end_as_two_lines_and_a_code(capsys, code, error, lines):
    """One message, one hint, and whose fault it is in the exit code."""
    with pytest.raises(SystemExit) as ended, boundary():
        raise error
    assert code == ended.value.code
    assert lines == capsys.readouterr().err.splitlines()


def test_a_bug_is_not_dressed_up():
    """What we did not raise on purpose keeps its traceback."""
    with pytest.raises(ZeroDivisionError), boundary():
        raise ZeroDivisionError
