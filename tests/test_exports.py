"""What a package says it offers is what it offers, and importing it costs and does nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = [ROOT / "trainstate", ROOT / "exporters/trainstate_exporters"]
MODULES = [
    path
    for package in PACKAGES
    for path in sorted(package.rglob("*.py"))
    if not path.is_relative_to(ROOT / "trainstate/v1")
]


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those under `if TYPE_CHECKING` with them."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from statements(statement.body + statement.orelse)
        else:
            yield statement


def bound(statement: ast.stmt, *, is_package: bool) -> Iterator[str]:
    """The names a statement makes; a package offers what it imports from its own modules too."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.ImportFrom(module=module, names=names) if (
            is_package and module and module.startswith("trainstate")
        ):
            yield from (alias.asname or alias.name for alias in names)


def exported(tree: ast.Module) -> list[str] | None:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return ast.literal_eval(statement.value)
    return None


def public(path: Path, tree: ast.Module) -> set[str]:
    is_package = path.name == "__init__.py"
    names = (n for s in statements(tree.body) for n in bound(s, is_package=is_package))
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_all_is_exactly_the_public_names(path):
    """`__all__`, which every package with public names has; ruff keeps it sorted."""
    tree = ast.parse(path.read_text())
    names = exported(tree)
    if names is None:
        assert path.name != "__init__.py" or public(path, tree) == set()
    else:
        assert sorted(public(path, tree)) == sorted(names)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_type_checkers_may_read_the_package(package):
    """An installed package is typed only if it says so (PEP 561)."""
    assert (package / "py.typed").exists()


def test_import_loads_nothing_heavy_and_configures_nothing():
    """`import trainstate` stays cheap: no Ray, no gRPC, no Arrow, no torch, no logging handler."""
    program = """if True:
        import sys, trainstate, trainstate_exporters
        heavy = {"ray", "grpc", "pyarrow", "torch", "rich", "asyncio"} & set(sys.modules)
        handlers = sys.modules["logging"].root.handlers if "logging" in sys.modules else []
        sys.exit(f"{heavy} {handlers}" if heavy or handlers else 0)
    """
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (0, "") == (result.returncode, result.stderr)
