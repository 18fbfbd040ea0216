"""One history folded in three ways, at random cuts: live, from a snapshot and the tail, from its start.

`python -m tests.proofs.folding SEED` prints a digest of every state on the way, so that processes with
different hash seeds can be held against each other.
"""

from __future__ import annotations

import hashlib
import random
import sys
from pathlib import Path

from tests.core.histories import legal
from tests.proofs import exports
from tests.proofs.lives import kill
from tests.proofs.places import place
from tests.proofs.volume import Unsynced
from trainstate.core import Run
from trainstate.core.freeze import freeze
from trainstate.errors import InvalidTransition
from trainstate.journal import Writer
from trainstate.store import Fold, History, Store
from trainstate.v1 import event_pb2 as e

SEGMENT_BYTES = 3000
RUNS = 7


class Folding:
    """A store with several runs, cut now and then; what its states were goes into a digest."""

    def __init__(self, path: Path, draw: random.Random) -> None:
        self.path = path
        self.digest = hashlib.sha256()
        self.restored = 0
        self.cuts = 0
        self._draw = draw
        self._histories = {f"r{n}": self._history() for n in range(RUNS)}
        self._store = self._open()
        self._incarnations: dict[str, int] = {}

    def _history(self) -> list[e.Event]:
        return legal([self._draw.randrange(2**16) for _ in range(60)])

    def _open(self) -> Store:
        writer = Writer.open(self.path, segment_bytes_max=SEGMENT_BYTES, disk=Unsynced())
        return Store(writer, SEGMENT_BYTES)

    def lead(self) -> None:
        """Append all histories, mixed, in small pieces."""
        with exports.few_kept():
            while self._histories:
                self._append(self._draw.choice(sorted(self._histories)))
                if self._draw.random() < 0.15:
                    self._cut()
            self._cut()
            self._store.close()

    def _append(self, run_id: str) -> None:
        events = self._histories[run_id]
        taken, left = events[:3], events[3:]
        if run_id not in self._incarnations:
            self._incarnations[run_id] = self._store.open_run(run_id, "test", 1).incarnation
        run = self._store.state(run_id)
        try:
            self._store.append(run_id, self._incarnations[run_id], run.run_seq, taken)
        except InvalidTransition:
            left = []  # what was legal from another incarnation on
        self._histories[run_id] = left
        if not left:
            del self._histories[run_id]

    def _cut(self) -> None:
        self.cuts += 1
        live = self._states(self._store)
        history = History(self.path)
        assert live == self._folded(history.fold())
        assert live == self._folded(history.fold_until(lambda _: True))
        assert live == {run_id: freeze(history.run(run_id)) for run_id in live}
        self.restored += history.restored()[0].seq > 0
        for run_id, state in sorted(live.items()):
            self.digest.update(run_id.encode() + state)
        for summary in self._store.summaries():
            self.digest.update(summary.SerializeToString())
        if self._draw.random() < 0.5:
            self._store._archive.close()
            kill(self._store.writer)
        else:
            self._store.close()
        self._store = self._open()
        assert live == self._states(self._store)

    def _states(self, store: Store) -> dict[str, bytes]:
        return {one.run_id: freeze(store.state(one.run_id)) for one in store.summaries()}

    def _folded(self, fold: Fold) -> dict[str, bytes]:
        runs: dict[str, Run] = {run_id: fold.take(run_id).run for run_id in fold.archived.copy()}
        runs |= {run_id: resident.run for run_id, resident in fold.runs.items()}
        return {run_id: freeze(run) for run_id, run in runs.items()}


def main(seed: int) -> str:
    """Lead a folding; what to compare: the digest, and how often there was something to compare."""
    with place() as folder:
        one = Folding(folder / "journal", random.Random(seed))
        one.lead()
        return f"{one.digest.hexdigest()} {one.cuts} {one.restored}"


if __name__ == "__main__":
    print(main(int(sys.argv[1])))
