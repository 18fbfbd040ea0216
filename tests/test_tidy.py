"""The rules of the house that a machine can check. What ruff and mypy check is not repeated here."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.import_table import allows, parse

ROOT = Path(__file__).parents[1]

# Ratchets: what was too long when it was measured. An entry may only get smaller or go away.
FUNCTION_LINES_MAX, FUNCTION_LINES_NEVER = 40, 70
LONG_FUNCTIONS: dict[str, int] = {}
MODULE_LINES_MAX = 400
LONG_MODULES: dict[str, int] = {}


class Module(NamedTuple):
    name: str
    text: str
    tree: ast.Module

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        return (node for node in ast.walk(self.tree) if isinstance(node, kinds))

    def at(self, node: ast.AST) -> str:
        return f"{self.name}:{node.lineno}"


def project_files() -> list[Path]:
    """What is committed or is about to be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [path for name in names.split("\0") if name and (path := ROOT / name).is_file()]


FILES = project_files()
MODULES = [
    Module(str(path.relative_to(ROOT)), path.read_text(), ast.parse(path.read_text()))
    for path in FILES
    if path.suffix == ".py" and not path.is_relative_to(ROOT / "trainstate/v1")
]
SOURCE = [module for module in MODULES if not module.name.startswith("tests/")]
LIBRARY = [module for module in SOURCE if not module.name.startswith("scripts/")]


def functions(modules: list[Module]) -> dict[str, int]:
    """`module:function` -> its number of lines, without decorators."""
    return {
        f"{module.name}:{node.name}": node.end_lineno - node.lineno + 1
        for module in modules
        for node in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef)
    }


def test_functions_are_short():
    """A function past 40 lines hides a second function; past 70 there is none at all."""
    found = {name: n for name, n in functions(SOURCE).items() if n > FUNCTION_LINES_MAX}
    assert found == LONG_FUNCTIONS
    assert max(found.values(), default=0) <= FUNCTION_LINES_NEVER


def test_functions_of_the_library_are_mostly_tiny():
    """The median function has fewer than 12 lines."""
    assert statistics.median(functions(LIBRARY).values()) < 12


def test_modules_hold_one_idea():
    """A module past 400 lines holds two."""
    lines = {module.name: module.text.count("\n") for module in SOURCE}
    assert {name: n for name, n in lines.items() if n > MODULE_LINES_MAX} == LONG_MODULES


def test_broad_excepts_say_why():
    """`except Exception` has a comment on its line or the one before; a bare `except` has none."""
    found = []
    for module in LIBRARY:
        lines = ["", *module.text.splitlines()]
        for node in module.nodes(ast.ExceptHandler):
            broad = node.type is None or "Exception" in re.findall(r"\w+", ast.unparse(node.type))
            reason = "#" in lines[node.lineno] + lines[node.lineno - 1]
            if node.type is None or (broad and not reason):
                found.append(module.at(node))
    assert found == []


def test_the_library_returns_or_raises():
    """No logging anywhere, and nothing but the command line prints."""
    found = [
        module.at(node)
        for module in LIBRARY
        for node in module.nodes(ast.Import, ast.ImportFrom, ast.Name)
        if ast.unparse(node).startswith(("import logging", "from logging"))
        or (ast.unparse(node) == "print" and not module.name.startswith("trainstate/cli/"))
    ]
    assert found == []


# Written so that this file does not contain what it looks for.
UNFINISHED = re.compile(rb"\b(TO[D]O|FIX[M]E|XX[X])\b")
# Homes of people and machines, and where packages were downloaded from.
PRIVATE = re.compile(
    rb"(?<![\w.}])/(root|home|work|Users)(?![\w.-])|py[p]i\.org|python[h]osted|^--?(index|find-l|extra-)",
    re.MULTILINE,
)


@pytest.mark.parametrize("pattern", [UNFINISHED, PRIVATE], ids=["unfinished", "private"])
def test_no_file_carries(pattern):
    """Nothing left to do, and nothing that only means something on one machine."""
    found = [
        f"{path.relative_to(ROOT)}: {match[0].decode()}"
        for path in FILES
        if (match := pattern.search(path.read_bytes()))
    ]
    assert found == []


# --- who may import whom ------------------------------------------------------------------------


def test_the_import_table_holds():
    """Every contract of import-linter is kept."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("trainstate", "ray"),
        ("trainstate.core.evolve", "trainstate.journal"),
        ("trainstate.errors", "trainstate.core"),
        ("trainstate.integrations.ray_export.importer", "ray"),
        ("trainstate.journal.writer", "google.protobuf"),
        ("trainstate.journal.writer", "trainstate.v1.event_pb2"),
        ("trainstate.newcomer", "orjson"),
        ("trainstate.v1.event_pb2", "trainstate.core.model"),
        ("trainstate_exporters.jsonl", "trainstate.core.model"),
        ("trainstate_exporters.jsonl", "trainstate.store"),
    ],
)
def test_the_import_table_refuses(importer, imported):
    """Imports that look harmless in a review and are not."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    table = parse(contracts["contracts"][0]["rows"])
    assert not allows(table, importer, imported)
