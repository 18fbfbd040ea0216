"""The entry point: a table of verbs whose modules are loaded when they are called, and the boundary
where every error becomes two lines and an exit code.

`trainstate --help` is answered from the table, so it loads neither protobuf nor rich nor a verb.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module, metadata
from io import TextIOWrapper
from typing import Any, NamedTuple

import click

from trainstate.errors import TrainstateError

EXIT_PROBLEM, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


class Verb(NamedTuple):
    """Where a command is, and what it does in a few words (the first sentence of its docstring)."""

    module: str
    command: str
    summary: str


# In the order of docs/CLI.md: run, take in, look, send on, end, look after.
VERBS: Mapping[str, Verb] = {
    "run": Verb("run", "run", "Run a training script, and show how it goes."),
    "import": Verb("import_", "import_group", "Take in what another system recorded."),
    "runs": Verb("runs", "runs", "List the runs."),
    "show": Verb("show", "show", "Tell the story of a run."),
    "goodput": Verb("goodput", "goodput", "Show where the time of a run went."),
    "tail": Verb("tail", "tail", "Print events, and go on as they come."),
    "replay": Verb("replay", "replay", "Replay a journal into the table of its runs."),
    "diff": Verb("diff", "diff", "Show what changed between two positions."),
    "compare": Verb("compare", "compare", "Put two runs side by side."),
    "stats": Verb("stats", "stats", "Count what a journal holds."),
    "rerun": Verb("rerun", "rerun", "Start a run again as it was started."),
    "export": Verb("export", "export", "Send events to a sink."),
    "abort": Verb("abort", "abort", "Ask a running training to end."),
    "reconcile": Verb("reconcile", "reconcile", "End the open runs of clusters that are gone."),
    "verify": Verb("verify", "verify", "Check every byte of a journal."),
    "repair": Verb("repair", "repair", "Make a damaged journal readable again."),
    "retain": Verb("retain", "retain", "Drop the oldest part of a journal."),
    "completion": Verb("completion", "completion", "Print a shell completion script."),
}

# What the operating system refused: whose fault it is, and what to do. Everything else is a problem.
_HINTS: Mapping[int, str] = {
    errno.EACCES: "check who owns it and what its mode allows (ls -ld)",
    errno.EPERM: "check who owns it and what its mode allows (ls -ld)",
    errno.EROFS: "its file system is mounted read-only: choose another place",
    errno.ENOSPC: "free space on that disk (df -h), or choose another place",
    errno.EDQUOT: "free some of your quota, or choose another place",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path: a part of it is a file",
    errno.EISDIR: "name a file, not a directory",
}
_USAGE_ERRNOS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR})


class Main(click.Group):
    """The group of verbs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Loads the module of one verb."""
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        command = getattr(import_module(f"trainstate.cli.{verb.module}"), verb.command)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of verbs from the table, loading none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the command line and ends the process with its exit code."""
        _make_streams_safe()
        with boundary():
            # Not standalone, so that click's own errors end at the same boundary as ours.
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        sys.exit(code if isinstance(code, int) else 0)


def _make_streams_safe() -> None:
    """Closed standard streams lead nowhere, and what an encoding lacks is escaped."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # for the whole process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def boundary() -> Iterator[None]:
    """The one place where an error becomes `error: ...`, `hint: ...` and an exit code."""
    try:
        yield
    except click.Abort:  # Ctrl-C, which click has turned into this
        sys.exit(EXIT_INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except click.ClickException as error:
        _end(error.format_message(), _hint_of_click(error), error.exit_code)
    except TrainstateError as error:
        _end(str(error), error.hint, error.exit_code)
    except OSError as error:
        _give_up_stdout()
        number = error.errno or 0
        code = EXIT_USAGE if number in _USAGE_ERRNOS else EXIT_PROBLEM
        _end(_os_message(error), _HINTS.get(number), code)


def _give_up_stdout() -> None:
    """What could not be printed is dropped, so that Python does not try again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(message: str, hint: str | None, code: int) -> None:
    _tell("error: ", "red", " ".join(message.split()))
    if hint:
        _tell("hint: ", "cyan", hint)
    sys.exit(code)


def _tell(label: str, colour: str, text: str) -> None:
    # click leaves colours out where standard error is no terminal; NO_COLOR is ours to honour.
    color = False if os.environ.get("NO_COLOR") else None
    click.secho(label, fg=colour, nl=False, err=True, color=color)
    # What a log or a path says may hold what a terminal takes for a command.
    click.echo("".join(c if c.isprintable() else "�" for c in text), err=True)


def _hint_of_click(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context else 'trainstate'} --help"


def _os_message(error: OSError) -> str:
    why = error.strerror or str(error)
    return f"{error.filename}: {why.lower()}" if error.filename else why.lower()


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    try:
        version = metadata.version("trainstate")
    except metadata.PackageNotFoundError:
        version = "(a checkout that is not installed)"
    click.echo(f"trainstate {version}")
    ctx.exit()


@click.group(
    cls=Main,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 all is well, 1 a problem was found, 2 the request makes no sense.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
def main() -> None:
    """A durable, replayable journal of distributed training runs.

    Every verb but abort reads the journal's files directly: no Ray, no server. The journal is
    --journal PATH, or all the journals under $TRAINSTATE_HOME (default ~/.trainstate).
    """
