"""The writer of a run: what it waits for, and what it passes on."""

from __future__ import annotations

import asyncio
import pickle
import time
from types import SimpleNamespace

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError

from tests.cluster import Cluster
from tests.state.making import new_run_id, skipped
from trainstate.core import RunStatus
from trainstate.core.freeze import freeze
from trainstate.core.model import Run
from trainstate.errors import (
    Fenced,
    InvalidTransition,
    JournalLocked,
    JournalPoisoned,
    StateUnavailable,
)
from trainstate.state import client
from trainstate.state.manager import TrainStateManager
from trainstate.v1 import event_pb2 as e


class FakeStateActor:
    """A state actor whose methods answer what `answers` says, one after the other."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, tuple[object, ...]]] = []

    def __getattr__(self, method: str) -> SimpleNamespace:
        return SimpleNamespace(remote=lambda *args: self._answer(method, args))

    async def _answer(self, method: str, args: tuple[object, ...]) -> object:
        if method == "hello":
            return "0.1.0"
        self.asked.append((method, args))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def remote(error: Exception) -> Exception:
    """That error as Ray raises it in the caller."""
    return RayTaskError("append", "Traceback ...", error).as_instanceof_cause()


def manager_of(monkeypatch, fake: FakeStateActor, timeout_s: float = 5.0) -> TrainStateManager:
    monkeypatch.setattr(client, "ensure", lambda: fake)
    return TrainStateManager("r1", timeout_s=timeout_s)


AWAY = [
    ActorUnavailableError("it restarts", b"\1" * 16),
    ActorDiedError(),
    remote(JournalPoisoned("the disk is full")),
    remote(Fenced("the writer of epoch 1 has been replaced", path="/journal")),
    TimeoutError(),
]


@pytest.mark.parametrize("error", AWAY, ids=lambda error: type(error).__name__)
def test_while_it_is_away_the_same_is_asked_again(monkeypatch, error):
    """An append whose answer was lost is repeated as it was, at the same position."""
    fake = FakeStateActor(error, error, (7, 8))
    manager = manager_of(monkeypatch, fake)
    manager.run_seq, manager.incarnation = 3, 1
    assert (7, 8) == asyncio.run(manager.append([skipped(), skipped()]))
    first, *others = fake.asked
    assert [first, first] == others
    assert 5 == manager.run_seq


REFUSALS = [
    Fenced("incarnation 1 may not write", run_id="r1"),
    InvalidTransition("it does not fit", run_id="r1", hint="read again"),
]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_a_refusal_is_passed_on_as_it_was_raised(monkeypatch, error):
    """The error is ours, not one of Ray's around it, and asked once."""
    fake = FakeStateActor(remote(error))
    with pytest.raises(type(error)) as refused:
        asyncio.run(manager_of(monkeypatch, fake).append([skipped()]))
    assert (type(error), vars(error)) == (type(refused.value), vars(refused.value))
    assert 1 == len(fake.asked)


def test_at_last_it_says_why_there_was_no_answer(monkeypatch):
    """After the timeout the error names the last reason and what to do about it."""
    fake = FakeStateActor(remote(JournalPoisoned("no space left", hint="free space")))
    began = time.monotonic()
    with pytest.raises(StateUnavailable, match=r"for 0\.3 s: no space left") as gone:
        asyncio.run(manager_of(monkeypatch, fake, timeout_s=0.3).append([skipped()]))
    assert time.monotonic() - began < 1
    assert ("r1", "free space") == (gone.value.run_id, gone.value.hint)


def test_an_actor_that_cannot_start_says_why(monkeypatch):
    """Of a constructor that failed the reason is the last line of its traceback."""
    text = "JournalLocked: /j: another process writes this journal"
    died = ActorDiedError(RayTaskError("__init__", f"Traceback ...\n{text}", JournalLocked("x")))
    with pytest.raises(StateUnavailable, match="another process writes this journal"):
        asyncio.run(manager_of(monkeypatch, FakeStateActor(died), 0.1).append([skipped()]))


def test_it_opens_where_the_run_is(monkeypatch):
    """The state, the position and the incarnation are those the store answered, and the salt."""
    run = Run("r1", run_seq=9, status=RunStatus.RUNNING)
    manager = manager_of(monkeypatch, FakeStateActor((freeze(run), 9, 4, b"salt")))
    assert run == asyncio.run(manager.open(1))
    assert (9, 4, b"salt") == (manager.run_seq, manager.incarnation, manager.masking.salt)


def test_it_is_made_of_static_data():
    """Pickled on a driver it carries no handle, no loop, no lock."""
    manager = pickle.loads(pickle.dumps(TrainStateManager("r1", "controller", 5.0)))
    assert ("r1", "controller", 5.0, None) == (
        manager.run_id,
        manager.writer,
        manager.timeout_s,
        manager._actor,
    )


def test_a_second_writer_fences_the_first(cluster: Cluster):
    """Whoever opened the run last may write, and nobody else; what each wrote is there."""

    async def both() -> TrainStateManager:
        first, second = TrainStateManager(run_id), TrainStateManager(run_id)
        await first.open(1)
        await first.append([e.Event(time_unix_nano=1, run_created=e.RunCreated(name="n"))])
        await second.open(2)
        await second.append([skipped()])
        with pytest.raises(Fenced):
            await first.append([skipped()])
        return second

    run_id = new_run_id()
    second = asyncio.run(both())
    run = cluster.run(run_id)
    assert (run.run_seq, run.incarnation) == (second.run_seq, second.incarnation)
    assert 2 == run.incarnation
