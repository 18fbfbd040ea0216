"""Group commit: who leads, who sleeps, and that nobody waits in vain."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.journal.making import chunk
from trainstate.errors import JournalPoisoned
from trainstate.journal import FRAME_BODY_MAX, Chunk
from trainstate.journal import group as group_module
from trainstate.journal.frame import STREAMS_MAX
from trainstate.journal.group import GroupCommit


class Commits:
    """Where frames go; a gate holds the first leader until the test lets it."""

    def __init__(self, held: bool = False) -> None:
        self.frames: list[Chunk] = []
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.error: BaseException | None = None
        if not held:
            self.gate.set()

    def __call__(self, one: Chunk) -> None:
        self.entered.set()
        assert self.gate.wait(30)
        if self.error:
            raise self.error
        self.frames.append(one)


def test_what_queues_while_the_leader_commits_is_one_frame():
    """Sixty callers, two frames."""
    commits = Commits(held=True)
    group = GroupCommit(commits, 1)
    with ThreadPoolExecutor(61) as pool:
        first = pool.submit(lambda: group.submit(chunk(0)).wait())
        assert commits.entered.wait(30)
        tickets = [group.submit(chunk(n)) for n in range(1, 61)]
        waits = [pool.submit(ticket.wait) for ticket in tickets]
        commits.gate.set()
        assert list(range(2, 62)) == [wait.result(30) for wait in waits]
        assert 1 == first.result(30)
    assert [1, 60] == [frame.count for frame in commits.frames]


def test_a_ticket_that_nobody_waits_for_blocks_nobody():
    """The caller of a later one leads, and commits both."""
    commits = Commits()
    group = GroupCommit(commits, 1)
    group.submit(chunk(1))
    assert 2 == group.submit(chunk(2)).wait()
    assert [2] == [frame.count for frame in commits.frames]


def test_tickets_may_be_waited_for_in_any_order():
    """By one thread, the newest first."""
    group = GroupCommit(Commits(), 1)
    tickets = [group.submit(chunk(n)) for n in range(5)]
    assert [5, 4, 3, 2, 1] == [ticket.wait() for ticket in reversed(tickets)]


@pytest.mark.parametrize(
    ("one", "fit"),
    [
        (Chunk(bytes(FRAME_BODY_MAX // 4), 1, (1,), 0, 0), 4),
        (Chunk(bytes(FRAME_BODY_MAX), 1, (1,), 0, 0), 1),
        (Chunk(b"x", 1, tuple(range(STREAMS_MAX // 2)), 0, 0), 2),
    ],
)
def test_a_group_fits_in_a_frame(one, fit):
    """By its bytes and by its streams."""
    commits = Commits()
    group = GroupCommit(commits, 1)
    for _ in range(fit * 2):
        group.submit(one)
    group.drain()
    assert [fit, fit] == [frame.count for frame in commits.frames]


def test_the_queue_is_bounded(monkeypatch):
    """Over the limit, a submitter commits what is queued first."""
    monkeypatch.setattr(group_module, "PENDING_BYTES_MAX", 20)
    commits = Commits()
    group = GroupCommit(commits, 1)
    for n in range(7):
        group.submit(chunk(n))
    assert [3, 3] == [frame.count for frame in commits.frames]


def test_a_failure_reaches_everybody():
    """The leader gets it as it is; who sleeps, who is queued and who comes later get it named."""
    commits = Commits(held=True)
    commits.error = OSError("no more")
    group = GroupCommit(commits, 1)
    with ThreadPoolExecutor(9) as pool:
        leader = pool.submit(lambda: group.submit(chunk(0)).wait())
        assert commits.entered.wait(30)
        tickets = [group.submit(chunk(n)) for n in range(1, 9)]
        waits = [pool.submit(ticket.wait) for ticket in tickets[1:]]
        commits.gate.set()
        assert commits.error is leader.exception(30)
        assert {JournalPoisoned} == {type(wait.exception(30)) for wait in waits}
    for call in (tickets[0].wait, lambda: group.submit(chunk(9)), group.drain):
        with pytest.raises(JournalPoisoned, match="no more"):
            call()
    assert group.failed


def test_an_interrupted_leader_poisons():
    """Ctrl-C in the middle of a write: what is on disk is unknown."""
    commits = Commits()
    commits.error = KeyboardInterrupt()
    group = GroupCommit(commits, 1)
    with pytest.raises(KeyboardInterrupt):
        group.submit(chunk(1)).wait()
    with pytest.raises(JournalPoisoned):
        group.submit(chunk(2))


class Interrupting:
    """A gate whose sleeper is interrupted, at once or after it was woken."""

    def __init__(self, wait_first: bool) -> None:
        self.lock = threading.Lock()
        self.lock.acquire()
        self.wait_first = wait_first

    def acquire(self) -> None:
        if self.wait_first:
            self.lock.acquire()
        raise KeyboardInterrupt

    def release(self) -> None:
        self.lock.release()


@pytest.mark.parametrize("woken", [False, True])
def test_an_interrupted_sleeper_leaves_no_gap(woken):
    """Asleep, or just woken to lead: the others go on, and its chunk is committed with theirs."""
    commits = Commits(held=True)
    group = GroupCommit(commits, 1)
    with ThreadPoolExecutor(9) as pool:
        leader = pool.submit(lambda: group.submit(chunk(0)).wait())
        assert commits.entered.wait(30)
        victim = group.submit(Chunk(bytes(FRAME_BODY_MAX), 1, (1,), 0, 0))
        assert group._must_sleep(victim)
        victim._gate = Interrupting(woken)  # type: ignore[assignment]

        def sleep() -> None:
            with pytest.raises(KeyboardInterrupt):
                group._sleep(victim)

        sleeping = pool.submit(sleep)
        if not woken:
            sleeping.result(30)
        tickets = [group.submit(chunk(n)) for n in range(1, 4)]
        waits = [pool.submit(ticket.wait) for ticket in tickets]
        commits.gate.set()
        assert [3, 4, 5] == [wait.result(30) for wait in waits]
        assert 1 == leader.result(30)
        sleeping.result(30)
    assert 5 == sum(frame.count for frame in commits.frames)
