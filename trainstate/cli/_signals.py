"""Ending what runs until it is told to: Ctrl-C and SIGTERM ask, the work in hand is finished."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

_ASKING = (signal.SIGINT, signal.SIGTERM)


class Asked(Event):
    """An event that a signal handler may set.

    `Event.set` takes a lock that the thread it interrupts may hold in `wait`; a pipe needs none.
    """

    def __init__(self) -> None:
        super().__init__()
        self._asked = False
        self._reads, self._writes = os.pipe()

    def is_set(self) -> bool:
        """Whether somebody asked."""
        return self._asked

    def set(self) -> None:
        """Asks, and wakes up who waits."""
        self._asked = True
        os.write(self._writes, b"!")

    def wait(self, timeout: float | None = None) -> bool:
        """Waits so many seconds, or until asked; whether it was."""
        if not self._asked:
            select.select([self._reads], [], [], timeout)
        return self._asked

    def close(self) -> None:
        """Lets go of the pipe."""
        os.close(self._reads)
        os.close(self._writes)


@contextmanager
def asked_to_stop() -> Iterator[Event]:
    """An event that is set by the first Ctrl-C or SIGTERM; the second acts as it always does."""
    stop = Asked()
    before = {number: signal.getsignal(number) for number in _ASKING}

    def ask(number: int, frame: FrameType | None) -> None:
        _restore(before)
        stop.set()

    for number in _ASKING:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        _restore(before)
        stop.close()


def _restore(handlers: dict[signal.Signals, signal._HANDLER]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
