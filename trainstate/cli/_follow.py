"""Following all the journals of a root at once, with those that are made meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trainstate.errors import NotAJournal
from trainstate.journal import Tail
from trainstate.store import History, Recorded
from trainstate.store.events import recorded
from trainstate.store.root import journals_at

# After a look so many times as long is waited as it took: a root of a thousand journals costs no more
# of the processor than one of a few, and news of it come later.
_IDLE_SHARE = 20


class News(NamedTuple):
    """What a journal has had since the last look."""

    journal: Path
    events: Sequence[Recorded]


class Follower:
    """The events of a root's journals as they come; of one journal in its order."""

    def __init__(self, root: Path, begin: Mapping[Path, int | None] | Mapping[Path, int]) -> None:
        """`begin` says where in the journals that are known; None leaves one out.

        A journal that is not known yet is read from its beginning, as soon as it is there.
        """
        self._root = root
        self._begin: dict[Path, int | None] = dict(begin)
        self._tails: dict[Path, Tail] = {}
        self._took_s = 0.0

    def look(self) -> Iterator[News]:
        """What is new, without waiting. Raises what a tail does."""
        began_s = time.monotonic()
        self._open_new()
        for path, tail in self._tails.items():
            if frames := tail.read(0):
                yield News(path, list(recorded(frames, self._begin[path])))
        self._took_s = time.monotonic() - began_s

    def _open_new(self) -> None:
        for path in _journals_at(self._root):
            begin = self._begin.setdefault(path, 0)
            if begin is not None and path not in self._tails:
                self._tails[path] = History(path).tail(begin or None)

    def pause_s(self, least_s: float) -> float:
        """How long to wait before the next look."""
        return max(least_s, _IDLE_SHARE * self._took_s)

    def close(self) -> None:
        """Lets go of the files."""
        for tail in self._tails.values():
            tail.close()


def _journals_at(root: Path) -> list[Path]:
    try:
        return journals_at(root)
    except NotAJournal:
        return []  # not yet
