"""How a run was started, and of what code: real processes, real git."""

from __future__ import annotations

import enum
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainstate.train import provenance
from trainstate.v1 import state_pb2 as s

TELL = """
import json, sys
from google.protobuf.json_format import MessageToDict
from trainstate.train.provenance import code, command
found = command({"seed": 7})
found.MergeFrom(code(10.0))
print(json.dumps(MessageToDict(found, preserving_proto_field_name=True)))
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a script in it, committed."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "tell.py").write_text(TELL)
    git(folder, "init", "-q")
    git(folder, "add", "tell.py")
    git(folder, "commit", "-qm", "first")
    return folder


def git(folder: Path, *arguments: str) -> str:
    """What git says."""
    me = ["-c", "user.name=me", "-c", "user.email=me@host"]
    ran = subprocess.run(
        ["git", "-C", folder, *me, *arguments], check=True, capture_output=True, text=True
    )
    return ran.stdout.strip()


def told(folder: Path, *arguments: str, **env: str) -> dict:
    """What a process that was started in that way says of itself."""
    command = [sys.executable, *arguments]
    ran = subprocess.run(
        command, cwd=folder, check=True, capture_output=True, env={**os.environ, **env}
    )
    return json.loads(ran.stdout)


def test_a_script_is_told_with_its_commit(repository: Path):
    """The command line as it was given, where, by which Python, and of which commit."""
    found = told(repository, "tell.py", "--lr", "0.1")
    assert ["tell.py", "--lr", "0.1"] == found["argv"]
    assert ("tell.py", str(repository)) == (found["entrypoint"], found["working_directory"])
    assert git(repository, "rev-parse", "HEAD") == found["git_commit"]
    assert (False, "7") == (found["git_dirty"], found["seed"])
    assert f"{sys.version_info.major}.{sys.version_info.minor}." in found["python_version"]
    assert os.uname().sysname in found["operating_system"]


def test_a_changed_file_makes_it_dirty(repository: Path):
    """Tracked files count; what git does not know does not."""
    (repository / "notes").write_text("new")
    assert not told(repository, "tell.py")["git_dirty"]
    (repository / "tell.py").write_text(TELL + "# changed\n")
    assert told(repository, "tell.py")["git_dirty"]


def test_the_repository_is_the_scripts(repository: Path, tmp_path: Path):
    """Not that of the directory it is started in."""
    found = told(tmp_path, "code/tell.py")
    assert git(repository, "rev-parse", "HEAD") == found["git_commit"]
    assert ("code/tell.py", str(tmp_path)) == (found["entrypoint"], found["working_directory"])


def test_a_module_is_told_as_one(repository: Path):
    """`-m` finds it again."""
    found = told(repository, "-u", "-m", "tell")
    assert ("-m tell", ["-u", "-m", "tell"]) == (found["entrypoint"], found["argv"])
    assert "git_commit" in found


@pytest.mark.parametrize("env", [{"PATH": "/nowhere"}, {"GIT_DIR": "/nowhere"}], ids=str)
def test_without_git_or_repository_the_rest_is_told(repository: Path, env: dict):
    """Every part is optional."""
    found = told(repository, "tell.py", **env)
    assert "git_commit" not in found
    assert "git_dirty" not in found
    assert ["tell.py"] == found["argv"]


def test_a_git_that_hangs_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """After its time, and what it had said before is kept."""
    slow = tmp_path / "git"
    slow.write_text('#!/bin/sh\ncase "$*" in *rev-parse*) echo abc;; *) exec sleep 600;; esac\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = provenance.code(3.0)
    assert ("abc", False) == (found.git_commit, found.HasField("git_dirty"))


def test_a_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A process may outlive it."""
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert "" == provenance.command(None).working_directory
    assert s.Provenance() == provenance.code(1.0)


@pytest.mark.parametrize(
    ("config", "seed"),
    [
        ({"seed": 0}, 0),
        ({"random_seed": 3, "lr": 1}, 3),
        ({"seed": 2**70}, None),
        ({"seed": True}, None),
        ({"seed": "7"}, None),
        ({}, None),
        (None, None),
    ],
    ids=str,
)
def test_a_seed_is_one_if_it_is_set(config: dict | None, seed: int | None):
    """A whole number under a usual name."""
    found = provenance.command(config)
    assert seed == (found.seed if found.HasField("seed") else None)


def test_a_command_line_has_a_bound(monkeypatch: pytest.MonkeyPatch):
    """A script given by `-c` may be as long as it likes."""
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", "x" * 10**7, *map(str, range(10**5))])
    found = provenance.command(None)
    assert found.ByteSize() < 64 * 1024
    assert "(10000000 characters)" in found.argv[1]
    assert "more)" in found.argv[-1]


def test_a_script_that_goes_elsewhere(repository: Path):
    """Where it was started is told, and its commit, whatever directory it is in by then."""
    (repository / "sub").mkdir()
    (repository / "sub/moves.py").write_text(f"import os; os.chdir('/')\n{TELL}")
    found = told(repository, "sub/moves.py")
    assert ("sub/moves.py", str(repository)) == (found["entrypoint"], found["working_directory"])
    assert "git_commit" in found


class Level(enum.IntEnum):
    HIGH = 3


def test_a_seed_may_be_any_int():
    """Also one of a class of its own, which no range is searched for."""
    assert 3 == provenance.command({"seed": Level.HIGH}).seed


@pytest.mark.parametrize(
    "argv", [["\udcff.py"], [Path("x.py")], ["x" * 10_000], [], ["\0"]], ids=ascii
)
def test_an_odd_command_line(monkeypatch: pytest.MonkeyPatch, argv: list):
    """A script may have made of it what it likes."""
    monkeypatch.setattr(sys, "argv", argv)
    provenance.command({"seed": 1}).SerializeToString()
    provenance.code(1.0)


def test_a_directory_that_is_no_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It is told with its bytes escaped."""
    odd = os.fsencode(tmp_path) + b"/a\xff"
    os.mkdir(odd)
    monkeypatch.chdir(os.fsdecode(odd))
    assert provenance.command(None).working_directory.endswith("a\\udcff")
