"""What is different on a terminal: colours, and steps that wait for Enter."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.conftest import ROOT, RUNS, Cli

GREEN = "\x1b[32m"


@contextmanager
def on_a_terminal(cli: Cli, *args: object) -> Iterator[int]:
    """A command with a terminal for everything; the other end of it."""
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with cli.start(*args, **streams) as process:
        os.close(theirs)
        yield ours
        process.kill()
    os.close(ours)


def read_until(terminal: int, wanted: str) -> str:
    """What is printed, up to and including what is waited for."""
    text = ""
    while wanted not in text:
        text += os.read(terminal, 4096).decode()
    return text


def read_all(terminal: int) -> str:
    """What is printed until the other end is closed."""
    text = b""
    try:
        while data := os.read(terminal, 4096):
            text += data
    except OSError:  # how Linux says that nobody writes any more
        pass
    return text.decode()


@pytest.mark.parametrize("args", [("runs",), ("show", RUNS[0]), ("goodput", RUNS[0]), ("tail",)])
def test_colours(imported: Cli, args, monkeypatch):
    """On a terminal there are some; with NO_COLOR set there are none."""
    monkeypatch.setenv("TERM", "xterm-256color")
    with on_a_terminal(imported, *args) as terminal:
        assert GREEN in read_all(terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    with on_a_terminal(imported, *args) as terminal:
        assert not re.search(r"\x1b\[[\d;]*3\d", read_all(terminal))


def test_an_error_is_red_and_still_two_lines(imported: Cli, monkeypatch):
    """Colour is all that differs."""
    monkeypatch.setenv("TERM", "xterm-256color")
    with on_a_terminal(imported, "show", "zzz") as terminal:
        error, hint = read_all(terminal).splitlines()
    assert "\x1b[31merror: " in error
    assert "hint: " in hint


def test_steps_wait_for_enter(imported: Cli):
    """One event at a time; q ends it."""
    with on_a_terminal(imported, "replay", "--step") as terminal:
        assert "RunCreated" not in read_until(terminal, "UNSPECIFIED")
        os.write(terminal, b"\n")
        assert "LineImported" not in read_until(terminal, "INITIALIZING")
        os.write(terminal, b"q\n")
        assert "LineImported" not in read_all(terminal)


def test_long_work_shows_a_bar_and_takes_it_away(imported: Cli, monkeypatch):
    """On standard error, when that is a terminal; short work shows none."""
    monkeypatch.setenv("TERM", "xterm-256color")
    with on_a_terminal(imported, "runs") as terminal:
        assert "reading" not in read_all(terminal)
    program = (
        "from trainstate.cli._render import progress\n"
        "with progress('counting', 9, every=3) as advance:\n"
        "    for done in range(9): advance(done)\n"
    )
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=theirs):
        os.close(theirs)
        shown = read_all(ours)
    os.close(ours)
    assert "counting" in shown
    assert "\x1b[?25h" in shown
