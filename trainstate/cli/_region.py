"""The lowest rows of a terminal, kept for us while another program writes to it.

The terminal scrolls what is above them only (DECSTBM), so a script that prints, draws its own bars or
asks for a line needs to know nothing of it, and keeps the terminal as it is. The cursor is the script's:
it is saved and put back with every change, in one write.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

_SAVE, _BACK = "\x1b7", "\x1b8"
_DOWN = "\x1bD"  # a row down, scrolling at the bottom; unlike a line feed it stays in its column
_CLEAR_ROW = "\x1b[2K"
_WHOLE = "\x1b[r"


class Region:
    """The lowest rows of the terminal at a file descriptor; taken when there is something to show."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._size = os.get_terminal_size(fd)
        self._rows: Sequence[str] = ()

    @property
    def columns(self) -> int:
        """How wide the terminal is now."""
        return os.get_terminal_size(self._fd).columns

    def show(self, rows: Sequence[str]) -> None:
        """Shows these rows, at most half of the terminal; writes only what is new."""
        size = os.get_terminal_size(self._fd)
        # It never shrinks: the script's text would jump.
        rows = [*rows, *[""] * (len(self._rows) - len(rows))][: size.lines // 2]
        if (size, rows) == (self._size, self._rows):
            return
        text = ""
        if size != self._size or len(rows) != len(self._rows):
            text = self._given_back(size) + _taken(size, len(rows))
        self._size, self._rows = size, rows
        self._write(f"{text}{_SAVE}{self._drawn()}{_BACK}")

    def _drawn(self) -> str:
        first = self._size.lines - len(self._rows) + 1
        placed = (f"\x1b[{at};1H{_CLEAR_ROW}{row}" for at, row in enumerate(self._rows, first))
        return "".join(placed)

    def _given_back(self, size: os.terminal_size) -> str:
        """The whole terminal scrolls again; where our rows were is nothing, if it still is there."""
        if not self._rows:
            return ""
        self._rows = [""] * len(self._rows)
        gone = self._drawn() if size.lines >= self._size.lines else ""
        return f"{_SAVE}{_WHOLE}{gone}{_BACK}"

    def close(self) -> None:
        """Gives the rows back."""
        self._write(self._given_back(self._size))
        self._rows = ()

    def _write(self, text: str) -> None:
        if text:
            os.write(self._fd, text.encode(errors="replace"))


def _taken(size: os.terminal_size, rows: int) -> str:
    """Only what is above so many rows scrolls, and the cursor is there, in the column it was in."""
    return f"{_DOWN * rows}{_SAVE}\x1b[1;{size.lines - rows}r{_BACK}\x1b[{rows}A" if rows else ""
