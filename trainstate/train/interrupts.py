"""Ctrl-C and SIGTERM in local mode: they end the training function, never a step of the recording."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(SystemExit):
    """A signal ends the process: exit code 128 and its number."""


class Interrupts:
    """Raises KeyboardInterrupt and Terminated in the main thread, at once or when it is safe.

    The program's own handlers (and Ray's) are back when the run is over; other threads keep theirs.
    """

    def __init__(self) -> None:
        self._held = 0
        self._caught = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Takes the signals, and gives them back."""
        taken = _SIGNALS if _in_main_thread() else ()
        before = {one: signal.signal(one, self._catch) for one in taken}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A signal that comes inside is raised at the end."""
        mine = _in_main_thread()
        self._held += mine
        try:
            yield
        finally:
            self._held -= mine
            self._deliver()

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """A part of what is held that may be interrupted."""
        before, self._held = self._held, 0
        try:
            self._deliver()
            yield
        finally:
            self._held = before

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self._caught = number
        self._deliver()

    def _deliver(self) -> None:
        if self._held or not self._caught or not _in_main_thread():
            return
        number, self._caught = self._caught, 0
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated(128 + number)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
