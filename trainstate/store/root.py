"""A root: `$TRAINSTATE_HOME`, with many journals under `journals/`, read as one list of runs.

A path given by a user is a journal, or a root, or the `journals` folder of one; all three are read the
same way. A position (seq) means something in one journal only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trainstate.errors import NotAJournal, NotFound
from trainstate.journal import is_journal
from trainstate.store.history import History, Progress
from trainstate.v1 import view_pb2 as v


class Listed(NamedTuple):
    """A run and the journal that holds it."""

    history: History
    summary: v.RunSummary


class Found(NamedTuple):
    """Where a run is."""

    history: History
    run_id: str


class Root:
    """The journals below a path. Raises NotAJournal if there is none."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.journals = [History(found) for found in journals_at(self.path)]

    def runs(self, progress: Progress | None = None) -> Iterator[Listed]:
        """Every run of every journal."""
        for history in self.journals:
            for summary in history.summaries(progress):
                yield Listed(history, summary)

    def find(self, prefix: str) -> Found:
        """The run whose id is or starts with `prefix`, or whose name is `prefix`.

        Raises NotFound if none does, or several.
        """
        for history in self.journals:
            if next(history.events_of(prefix), None) is not None:
                return Found(history, prefix)
        fits = [
            Found(one.history, one.summary.run_id)
            for one in self.runs()
            if one.summary.run_id.startswith(prefix) or one.summary.name == prefix
        ]
        if len(fits) == 1:
            return fits[0]
        ids = ", ".join(one.run_id for one in fits[:5])
        raise NotFound(
            f"{len(fits)} runs fit {prefix!r}: {ids}" if fits else f"no run fits {prefix!r}",
            path=self.path,
            hint=f"trainstate runs --journal {self.path}",
        )

    def only(self) -> History:
        """The one journal, where a position needs one. Raises NotFound if there are several."""
        if len(self.journals) == 1:
            return self.journals[0]
        names = ", ".join(str(history.path) for history in self.journals[:5])
        raise NotFound(
            f"{len(self.journals)} journals here, and a position is of one: {names}",
            path=self.path,
            hint="name one with --journal PATH",
        )


def journals_at(path: Path) -> list[Path]:
    """The journals that `path` is or holds, none of them opened. Raises NotAJournal if there is none."""
    if is_journal(path):
        return [path]
    folder = path / "journals" if (path / "journals").is_dir() else path
    found = sorted(one for one in folder.iterdir() if is_journal(one)) if folder.is_dir() else []
    if not found:
        raise NotAJournal(
            "no journal here",
            path=path,
            hint="trainstate import ray-export FILE, or name a journal with --journal PATH",
        )
    return found
