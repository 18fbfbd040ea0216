"""Group commit: many callers' chunks become one frame, one write, one sync.

There is no writer thread. The first caller that waits while nobody leads becomes the *leader*: in its
own thread it takes what is queued, commits it as one frame, and wakes those whose chunks were in it.
So an idle journal costs its single producer no thread switch, and a busy one groups by itself, because
the queue fills while the leader syncs. A leader whose own chunk is committed hands over to a caller
that is asleep waiting; a ticket that nobody waits for never leads, so nothing can wait for it in vain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock

from trainstate.errors import Fenced, JournalPoisoned, TrainstateError
from trainstate.journal.frame import FRAME_BODY_MAX, STREAMS_MAX, Chunk, check_chunk, merge

PENDING_BYTES_MAX = 8 << 20

_BARRIER = Chunk(b"", 0, (), 0, 0)


class Ticket:
    """A chunk on its way: `first_seq` is known at once, `wait` returns when it is durable."""

    __slots__ = ("_chunk", "_done", "_gate", "_group", "_leads", "first_seq")

    def __init__(self, group: GroupCommit, chunk: Chunk, first_seq: int) -> None:
        self.first_seq = first_seq
        self._group = group
        self._chunk = chunk
        self._done = False
        self._gate: Lock | None = None  # held while its caller sleeps
        self._leads = False  # its caller is woken to lead

    def wait(self) -> int:
        """Return `first_seq` when the chunk is durable; to be called by one thread.

        Raises Fenced when a newer writer has taken over, JournalPoisoned when a write or sync
        failed. The chunk is then not acknowledged, and may or may not be found after reopening.
        """
        if not self._done:
            self._group.wait(self)
        return self.first_seq


class GroupCommit:
    """The queue of chunks, and the election of who writes them. `commit` writes one frame."""

    def __init__(self, commit: Callable[[Chunk], None], next_seq: int) -> None:
        self._commit = commit
        self._mutex = Lock()
        self._queue: deque[Ticket] = deque()
        self._asleep: deque[Ticket] = deque()
        self._leading = False
        self._pending_bytes = 0
        self._failure: BaseException | None = None
        self.next_seq = next_seq

    @property
    def failed(self) -> bool:
        return self._failure is not None

    def submit(self, chunk: Chunk) -> Ticket:
        """Queue a chunk; sleeps only while more than PENDING_BYTES_MAX are queued.

        Raises what `check_chunk` raises, and JournalPoisoned or Fenced after a failure.
        """
        check_chunk(chunk)
        if self._pending_bytes > PENDING_BYTES_MAX:
            self.drain()
        return self._enqueue(chunk)

    def drain(self) -> None:
        """Return when everything submitted so far is durable. Raises what `Ticket.wait` raises."""
        self._enqueue(_BARRIER).wait()

    def _enqueue(self, chunk: Chunk) -> Ticket:
        with self._mutex:
            self._raise_failure()
            ticket = Ticket(self, chunk, self.next_seq)
            self.next_seq += chunk.count
            self._pending_bytes += len(chunk.body)
            self._queue.append(ticket)
        return ticket

    def fail(self, error: BaseException) -> None:
        """Poison: nothing that is not durable yet will be acknowledged, and nothing is retried."""
        with self._mutex:
            self._failure = self._failure or error
            sleepers = [ticket for ticket in self._asleep if not ticket._done]
            self._asleep.clear()
            self._queue.clear()
        for ticket in sleepers:
            _wake(ticket)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise _refusal(self._failure) from self._failure

    def wait(self, ticket: Ticket) -> None:
        """Sleep until the ticket is durable, or lead."""
        if self._must_sleep(ticket):
            self._sleep(ticket)
        if ticket._leads:
            self._lead(ticket)
        if not ticket._done:
            self._raise_failure()

    def _must_sleep(self, ticket: Ticket) -> bool:
        """Become the leader, or enlist as a sleeper: one or the other, under one lock."""
        with self._mutex:
            if ticket._done or self._failure is not None:
                return False
            if not self._leading:
                self._leading = ticket._leads = True
                return False
            ticket._gate = Lock()
            ticket._gate.acquire()
            self._asleep.append(ticket)
            return True

    def _sleep(self, ticket: Ticket) -> None:
        assert ticket._gate is not None
        try:
            ticket._gate.acquire()
        except BaseException:
            self._give_up(ticket)
            raise

    def _give_up(self, ticket: Ticket) -> None:
        """Its caller was interrupted: it no longer waits, and must not be left leading."""
        with self._mutex:
            if ticket in self._asleep:
                self._asleep.remove(ticket)
            heir = self._hand_over() if ticket._leads else None
        _wake(heir)

    def _lead(self, ticket: Ticket) -> None:
        try:
            while not (ticket._done or self._failure):
                self._commit_group()
            with self._mutex:
                heir = self._hand_over()
            _wake(heir)
        except BaseException as error:
            # Also a KeyboardInterrupt: what is on disk is now unknown, so nothing may follow it.
            self.fail(error)
            raise

    def _hand_over(self) -> Ticket | None:
        """The sleeper that leads next; with none, whoever waits next elects itself."""
        while self._asleep:
            heir = self._asleep.popleft()
            if not heir._done:
                heir._leads = True
                return heir
        self._leading = False
        return None

    def _commit_group(self) -> None:
        with self._mutex:
            tickets, chunks = self._take_group()
        if chunks:
            self._commit(merge(chunks))
        with self._mutex:
            sleepers = self._finish(tickets)
        for ticket in sleepers:
            _wake(ticket)

    def _take_group(self) -> tuple[list[Ticket], list[Chunk]]:
        """The longest head of the queue that fits in one frame."""
        tickets: list[Ticket] = []
        chunks: list[Chunk] = []
        size = streams = 0
        while self._queue:
            chunk = self._queue[0]._chunk
            size += len(chunk.body)
            streams += len(chunk.streams)
            if chunks and (size > FRAME_BODY_MAX or streams > STREAMS_MAX):
                break
            tickets.append(self._queue.popleft())
            if chunk is not _BARRIER:
                chunks.append(chunk)
        return tickets, chunks

    def _finish(self, tickets: list[Ticket]) -> list[Ticket]:
        for ticket in tickets:
            ticket._done = True
            self._pending_bytes -= len(ticket._chunk.body)
        # A sleeper that is done stays in `_asleep` until a handover meets it: no search here.
        return [ticket for ticket in tickets if ticket._gate]


def _wake(ticket: Ticket | None) -> None:
    if ticket is not None and ticket._gate is not None:
        ticket._gate.release()


def _refusal(cause: BaseException) -> TrainstateError:
    """What a caller gets for a failure that happened to the group."""
    if isinstance(cause, Fenced):
        return Fenced(cause.message, path=cause.path, hint=cause.hint)
    path = cause.path if isinstance(cause, TrainstateError) else None
    return JournalPoisoned(
        f"a write or sync failed, nothing more is acknowledged: {cause}",
        path=path,
        hint="reopen the journal; what was acknowledged is in it",
    )
