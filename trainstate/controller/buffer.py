"""The reports of one worker that are not acknowledged yet.

The training thread fills it, the controller drains it. A report is in it until it is durable in the
journal, whatever becomes of controllers. Reports keep the order of their calls: one whose checkpoint is
still on its way holds back those behind it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from trainstate.v1 import event_pb2 as e

ANSWER_BYTES_MAX = 512 * 1024


@dataclass(slots=True)
class _Slot:
    index: int
    encoded: bytes | None = None


class ReportBuffer:
    """Bounded: `take` waits while `size` reports are unacknowledged. `notify` is told of news."""

    def __init__(self, size: int, notify: Callable[[], None]) -> None:
        self._size = size
        self._notify = notify
        self._slots: deque[_Slot] = deque()
        self._next = 0
        self._durable = 0
        self._committed = 0
        self._changed = threading.Condition()

    def take(self) -> int:
        """The index of the next report; waits for room."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._slots) < self._size)
            self._slots.append(_Slot(self._next))
            self._next += 1
            return self._next - 1

    def put(self, report: e.ReportReceived) -> None:
        """Hands over the report of an index that was taken."""
        with self._changed:
            first = self._slots[0].index
            self._slots[report.index - first].encoded = report.SerializeToString()
        self._notify()

    def acknowledge(self, durable: int, committed: int) -> None:
        """Forgets the reports below `durable`; lets go who waits for a checkpoint below `committed`."""
        with self._changed:
            self._durable = max(self._durable, durable)
            self._committed = max(self._committed, committed)
            while self._slots and self._slots[0].index < self._durable:
                self._slots.popleft()
            # A replacement's first report comes after those of whom it replaces.
            self._next = max(self._next, self._durable)
            self._changed.notify_all()

    def wait_committed(self, index: int) -> None:
        """Returns when the checkpoint of that report is committed."""
        with self._changed:
            self._changed.wait_for(lambda: self._committed > index)

    def ready(self) -> list[bytes]:
        """The reports to hand over now, in order; as many as fit one answer."""
        found: list[bytes] = []
        size = 0
        with self._changed:
            for slot in self._slots:
                if slot.encoded is None or (found and size + len(slot.encoded) > ANSWER_BYTES_MAX):
                    break
                found.append(slot.encoded)
                size += len(slot.encoded)
        return found

    @property
    def has_ready(self) -> bool:
        """Whether there is a report to hand over now."""
        with self._changed:
            return bool(self._slots) and self._slots[0].encoded is not None

    @property
    def drained(self) -> bool:
        """Whether every report that was begun is durable."""
        with self._changed:
            return not self._slots
