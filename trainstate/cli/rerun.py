"""`trainstate rerun`: a run started again as it was started, as far as that is recorded.

What cannot be had again is said, never guessed: secrets are not recorded, nor what was typed into an
interactive session, nor changes that nobody committed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from trainstate.cli import _render
from trainstate.cli._options import journal_option, json_option, run_argument
from trainstate.cli._settings import (
    command_line,
    exact,
    flat,
    markers_in,
    provenance_of,
    quoted,
    secrets_in,
    settings_of,
    shown,
    versions_of,
)
from trainstate.cli._text import clean
from trainstate.cli._where import open_root
from trainstate.core import Run
from trainstate.errors import RefusedError, UsageError
from trainstate.train.provenance import git
from trainstate.train.settings import LIMITS, SECRET_KEYS_VARIABLE
from trainstate.v1 import state_pb2 as s

# How core/redact.py ends what it has cut.
_CUT = re.compile(r"\.\.\. \(\d+ (?:characters|more)\)$")
# What git takes for nothing but a commit.
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
# Entrypoints that were typed or piped into Python: nothing is there to be run again.
_TYPED = frozenset({"", "-"})
_ENVIRONMENT = (
    "python_version",
    "operating_system",
    "image",
    "runtime_env_hash",
    "seed",
    "node_types",
)
_GIT_TIMEOUT_S = 10.0


class Missing(NamedTuple):
    """What is not recorded, though something stands in its place: a secret, or what was cut."""

    what: str
    where: str


class Start(NamedTuple):
    """How a run was started; empty where it is not recorded."""

    entrypoint: str
    argv: list[str]
    working_directory: str
    git_commit: str
    git_dirty: bool

    @property
    def command(self) -> list[str]:
        """The command line; empty if there is none that starts it again."""
        return [] if self.entrypoint in _TYPED or not self.argv else ["python", *self.argv]

    @property
    def script(self) -> Path | None:
        """The script; None for a module and for what is in the command itself."""
        named = self.entrypoint.startswith("-")
        return None if named else Path(self.working_directory, self.entrypoint)

    @property
    def missing(self) -> list[Missing]:
        """What stands in the command for something else."""
        return list(_missing_in(self.argv))


def start_of(run: Run) -> Start:
    """How a run was started."""
    found = provenance_of(run)
    return Start(
        entrypoint=found.get("entrypoint", ""),
        argv=found.get("argv", []),
        working_directory=found.get("working_directory", ""),
        git_commit=found.get("git_commit", ""),
        git_dirty=found.get("git_dirty", False),
    )


def _missing_in(argv: list[str]) -> Iterator[Missing]:
    for at, argument in enumerate(argv):
        name, is_option, _ = argument.partition("=")
        before = argv[at - 1] if at else ""
        where = f"argument {at + 1}"
        if argument.startswith("-") and is_option:
            where = name
        elif before.startswith("-") and "=" not in before:
            where = before
        cut = _CUT.search(argument)
        yield from (Missing(one, where) for one in markers_in(argument))
        yield from [Missing(cut[0], where)] if cut else []


@click.command()
@run_argument
@click.option("--print", "only_print", is_flag=True, help="Print what to run, and run nothing.")
@journal_option
@json_option
def rerun(prefix: str, only_print: bool, journal: Path | None, as_json: bool) -> None:
    """Start a run again as it was started.

    In its working directory, with its command line and the interpreter that runs trainstate, in the
    place of this process. Refused where that cannot be the same: a secret is not recorded, nor what
    was typed into a session; the directory or the script is gone. Another git commit, or changes that
    are not committed, are warned of. With --print: the shell commands, and what it was asked for.
    """
    if as_json and not only_print:
        raise UsageError(
            "--json goes with --print", hint=f"trainstate rerun {prefix} --print --json"
        )
    found = open_root(journal).find(prefix)
    run = found.history.run(found.run_id)
    if not only_print:
        _run_again(run)
    elif as_json:
        _render.emit(_plain(run))
    else:
        _render.say_all("\n".join(_snippet(run)))


# --- printing it ----------------------------------------------------------------------------------


def _plain(run: Run) -> dict[str, Any]:
    start, found, settings = start_of(run), provenance_of(run), settings_of(run)
    environment = {name: found[name] for name in _ENVIRONMENT if name in found}
    masked = [Missing(marker, name)._asdict() for name, marker in secrets_in(settings)]
    return {
        "run_id": run.run_id,
        "name": run.name,
        "command": start.command,
        "working_directory": start.working_directory,
        "git_commit": start.git_commit,
        "git_dirty": found.get("git_dirty"),
        "environment": {**environment, "framework_versions": versions_of(run)},
        "variables": variables_of(run),
        "settings": exact(settings),
        "masked": masked,
        "missing": [one._asdict() for one in start.missing],
    }


def _snippet(run: Run) -> Iterator[str]:
    start, settings = start_of(run), settings_of(run)
    yield _comment(f"run {run.run_id} {run.name}: {run.status.name}")
    if start.working_directory:
        yield f"cd {quoted(start.working_directory)}"
    if _COMMIT.fullmatch(start.git_commit):
        yield from _checkout(start)
    yield from (_comment(f"replace {one.what} in {one.where}") for one in start.missing)
    yield from map(_comment, _goes_on(run))
    yield _command(run, start) if start.command else _comment(_why_unknown(run, start))
    if settings:
        yield _comment("what it was asked for:")
    yield from (_comment(f"  {name} = {shown(value)}") for name, value in flat(settings))


def _command(run: Run, start: Start) -> str:
    variables = (f"{name}={quoted(value)} " for name, value in variables_of(run).items())
    return "".join((*variables, command_line(start.command)))


def variables_of(run: Run) -> dict[str, str]:
    """What the environment had to say of the run, as far as it is not the default."""
    settings = run.settings or s.RunSettings()
    found = {SECRET_KEYS_VARIABLE: ",".join(settings.secret_keys)}
    for name, (field, default_s) in LIMITS.items():
        seconds = getattr(settings.limits, field)
        found[name] = "" if seconds in (0, default_s) else f"{seconds:g}"
    return {name: value for name, value in found.items() if value}


def _goes_on(run: Run) -> Iterator[str]:
    if run.checkpoints_committed:
        yield (
            "it has committed checkpoints: a run of the same name and storage path goes on from the"
            " newest of them"
        )


def _checkout(start: Start) -> Iterator[str]:
    if start.git_dirty:
        yield _comment("tracked files differed from this commit: it is not quite the code that ran")
    # The commit is that of the script, which may lie in another repository than we stand in.
    folder = os.path.dirname(start.entrypoint) if start.script else ""
    at = f" -C {quoted(folder)}" if folder else ""
    yield f"git{at} checkout {quoted(start.git_commit)}"


def _comment(text: str) -> str:
    return f"# {clean(text)}"


def _why_unknown(run: Run, start: Start) -> str:
    if run.imported:
        return "its log does not say how it was started"
    if run.provenance is None or not (start.argv or start.working_directory):
        return "how it was started is not recorded"
    return "it was started in an interactive session, and what was typed is not recorded"


# --- running it -----------------------------------------------------------------------------------


def _run_again(run: Run) -> None:
    start = start_of(run)
    _check(run, start)
    for text in (*_differences(start), *_goes_on(run)):
        _render.line(("warning: ", "yellow"), clean(text), err=True)
    os.environ.update(variables_of(run))
    os.chdir(start.working_directory)
    # The command takes our place, so nothing may be left in a buffer.
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvp(sys.executable, [sys.executable, *start.argv])


def _check(run: Run, start: Start) -> None:
    """Raises RefusedError for what cannot be started as it was."""
    printed = f"trainstate rerun {run.run_id} --print"
    if not start.command:
        raise RefusedError(
            _why_unknown(run, start),
            run_id=run.run_id,
            hint=f"{printed} tells what it was asked for",
        )
    if start.missing:
        named = ", ".join(f"{one.what} in {one.where}" for one in start.missing)
        raise RefusedError(
            f"its command is not recorded whole: {named}",
            run_id=run.run_id,
            hint=f"{printed}, and run it with what belongs there",
        )
    code = f"git checkout {start.git_commit} there, or " if start.git_commit else ""
    if not start.working_directory:
        raise RefusedError("its working directory is not recorded", run_id=run.run_id, hint=printed)
    if not os.path.isdir(start.working_directory):
        raise RefusedError(
            "its working directory is not here", path=start.working_directory, hint=printed
        )
    if start.script and not start.script.exists():
        raise RefusedError("its script is not here", path=start.script, hint=f"{code}{printed}")


def _differences(start: Start) -> Iterator[str]:
    """How the code that is here is not the code that ran."""
    if not start.git_commit:
        return
    if start.git_dirty:
        yield f"tracked files differed from commit {start.git_commit} when it ran"
    folder = start.script.parent if start.script else Path(start.working_directory)
    commit = git(folder, _GIT_TIMEOUT_S, "rev-parse", "--verify", "HEAD")
    if commit is None:
        yield f"{folder}: git tells no commit here; it ran at {start.git_commit}"
    elif commit != start.git_commit:
        yield f"{folder}: the commit here is {commit}; it ran at {start.git_commit}"
    if git(folder, _GIT_TIMEOUT_S, "status", "--porcelain", "--untracked-files=no"):
        yield f"{folder}: tracked files differ from the commit here"
