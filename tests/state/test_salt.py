"""The salt of a home: one for all its processes, kept by nobody else, and never in anybody's way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from trainstate.core import initial
from trainstate.state.home import journals_of
from trainstate.state.salt import masking_of, salt_in
from trainstate.v1 import event_pb2 as e

# Prints the salt of a home, once it has been told to.
_LOOK = """
import sys
from pathlib import Path
from trainstate.state.salt import salt_in
print("ready", flush=True)
sys.stdin.readline()
print(salt_in(Path(sys.argv[1])).hex())
"""
# Makes a home's salt, and dies before it is in its place.
_DIE = """
import os, sys
from pathlib import Path
from trainstate.state.salt import salt_in
os.link = lambda *_: os.kill(os.getpid(), 9)
salt_in(Path(sys.argv[1]))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_a_salt_is_made_once(home):
    """Of 32 bytes, for its owner only; there is nothing else in the home."""
    salt = salt_in(home)
    assert 32 == len(salt)
    assert salt == salt_in(home) == (home / "salt").read_bytes()
    assert 0o600 == stat.S_IMODE((home / "salt").stat().st_mode)
    assert ["salt"] == os.listdir(home)


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_the_umask_does_not_show_it(home, umask):
    """Whatever the process has; one that may not even read its own files has a salt all the same."""
    home.mkdir()
    before = os.umask(umask)
    try:
        salt = salt_in(home)
    finally:
        os.umask(before)
    assert 32 == len(salt)
    assert 0 == stat.S_IMODE((home / "salt").stat().st_mode) & 0o177


def test_homes_have_salts_of_their_own(home, tmp_path):
    """Markers of two homes cannot be compared."""
    assert salt_in(home) != salt_in(tmp_path / "other")


def test_processes_at_once_agree(home):
    """Who comes first wins, and everybody has that one."""
    command = [sys.executable, "-c", _LOOK, str(home)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(4)]
    ready = [process.stdout.readline() for process in processes]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    found = [process.communicate()[0].strip() for process in processes]
    assert ["ready\n"] * 4 == ready
    assert [salt_in(home).hex()] * 4 == found
    assert ["salt"] == os.listdir(home)


@pytest.mark.parametrize("what", ["a file", "below a file", "a folder for a salt"])
def test_a_home_that_cannot_be_used(home, what):
    """It is a random one every time, and no error."""
    if what == "a folder for a salt":
        (home / "salt").mkdir(parents=True)
    else:
        home.write_text("a file")
    place = home / "home" if what == "below a file" else home
    first, second = salt_in(place), salt_in(place)
    assert [32, 32] == [len(first), len(second)]
    assert first != second


def test_a_salt_that_is_a_link_to_nowhere(home):
    """It is no reason to fail."""
    home.mkdir()
    (home / "salt").symlink_to(home / "nowhere")
    assert 32 == len(salt_in(home))


def test_a_maker_that_is_killed_harms_nobody(home):
    """Its file stays behind, under another name; the next one makes the salt."""
    killed = subprocess.run([sys.executable, "-c", _DIE, str(home)], check=False)
    assert -9 == killed.returncode
    (left,) = os.listdir(home)
    assert left.startswith("salt.")
    salt = salt_in(home)
    assert salt == salt_in(home)
    assert salt != (home / left).read_bytes()


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_salt_that_is_none(home, content):
    """A file that a full disk or a hand left: no crash, and no marker by what others may know."""
    home.mkdir()
    (home / "salt").write_bytes(content)
    salt = salt_in(home)
    assert 32 == len(salt)
    assert not content or not salt.startswith(content)
    assert ["salt"] == os.listdir(home)


def test_processes_agree_where_the_salt_is_none(home):
    """An empty file is no reason for markers that differ from process to process."""
    home.mkdir()
    (home / "salt").write_bytes(b"")
    assert salt_in(home) == salt_in(home)


def test_the_salt_of_an_environment(home):
    """It is in the home, beside its journals; events are masked with it."""
    environ = {"TRAINSTATE_HOME": str(home)}
    events = [e.Event(reason="password=hunter2") for _ in range(2)]
    for event in events:
        masking_of(environ)(event, initial("run"))
    assert events[0] == events[1]
    assert "hunter2" not in events[0].reason
    assert home == journals_of(environ).parent
    assert (home / "salt").exists()
