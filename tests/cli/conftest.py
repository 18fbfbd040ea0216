"""A home with the real log imported, and the command line run in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from trainstate.cli import main

ROOT = Path(__file__).parents[2]
LOG = ROOT / "tests/data/event_EXPORT_TRAIN_STATE.ray-2.60.0.log"
LINES = 45
# The runs of that log, in the order they began.
RUNS = [
    "c61d307a5dec4c438bc4e35f7d5e95a4",
    "39c1ad9e8ad543feab0b8091dfafac92",
    "f2c1acc599e14e06887e14bdbfb80ce7",
]


class Outcome(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def documents(self) -> list[Any]:
        """Standard output as JSON, one document per line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def document(self) -> Any:
        """Standard output as the one JSON document it is."""
        (document,) = self.documents
        return document


class Cli:
    """The command line at home in a directory."""

    def __init__(self, home: Path) -> None:
        self.home = home

    @property
    def journal(self) -> Path:
        return self.home / "journals" / "imported"

    def __call__(self, *args: object, **env: str) -> Outcome:
        """Runs a command in this process. What is not an exit is a bug, and raised."""
        known = {"TRAINSTATE_HOME": str(self.home), **env}
        result = CliRunner().invoke(main, [*map(str, args)], env=known, prog_name="trainstate")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    def start(self, *args: object, **options: Any) -> subprocess.Popen[str]:
        """Starts a command as a process of its own."""
        path = os.pathsep.join([str(ROOT), str(ROOT / "exporters")])
        env = {**os.environ, "TRAINSTATE_HOME": str(self.home), "PYTHONPATH": path}
        command = [sys.executable, "-m", "trainstate.cli", *map(str, args)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=env, **{**pipes, **options})

    def process(self, *args: object, **options: Any) -> Outcome:
        """Runs a command as a process of its own."""
        with self.start(*args, **options) as process:
            out, err = process.communicate(timeout=30)
        return Outcome(process.returncode, out, err)


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A home with the real log imported; only to be read."""
    cli = Cli(tmp_path_factory.mktemp("home"))
    outcome = cli("import", "ray-export", LOG)
    assert (0, "") == (outcome.code, outcome.err)
    return cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """An empty home."""
    return Cli(tmp_path / "home")


@pytest.fixture
def own(imported: Cli, tmp_path: Path) -> Cli:
    """A copy of the imported home, to do things to."""
    shutil.copytree(imported.home, tmp_path / "home")
    return Cli(tmp_path / "home")
