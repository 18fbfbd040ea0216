"""The import-linter contract behind the table in pyproject.toml: an allow-list, read row by row.

import-linter's own contracts say what is forbidden: a new package starts out free, and a contract may
not name a package that is still to come. Here a row says what one package may import; a package
without a row may import nothing, and a row without a package waits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


def short(module: str) -> str:
    """The name a module has in the table: `trainstate.core.views` is `core.views`, `ray` is `ray`."""
    return module.removeprefix("trainstate.")


def parse(rows: list[str]) -> dict[str, set[str]]:
    """Package -> what it may import."""
    parts = (row.split("<-") for row in rows)
    return {left.strip(): set(right.split()) for left, right in parts}


def owner(module: str, names: Iterable[str]) -> str | None:
    """The longest of `names` that is the module or a package around it."""
    around = [name for name in names if f"{short(module)}.".startswith(f"{name}.")]
    return max(around, key=len, default=None)


def allows(table: dict[str, set[str]], importer: str, imported: str) -> bool:
    row = owner(importer, table)
    if row is None:
        return False
    allowed = table[row] | {row, "errors"}
    return "*" in allowed or owner(imported, allowed) is not None


def violations(graph: ImportGraph, table: dict[str, set[str]]) -> Iterator[str]:
    for importer in sorted(m for m in graph.modules if m.startswith("trainstate")):
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            if imported in sys.stdlib_module_names or allows(table, importer, imported):
                continue
            details = graph.get_import_details(importer=importer, imported=imported)
            lines = ", ".join(str(detail["line_number"]) for detail in details)
            yield f"{importer}:{lines} imports {imported}"


class ImportTable(Contract):
    """Every import between our packages, and of every third-party package, stands in the table."""

    type_name = "table"
    rows = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        found = list(violations(graph, parse(self.rows)))
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for line in check.metadata["found"]:
            output.print_error(line, bold=False)
