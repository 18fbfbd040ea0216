"""The state actor: where its journal is, what its death costs, whom it talks to."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
import ray

from tests.cluster import Cluster
from tests.state.making import (
    eventually,
    new_run_id,
    skipped,
    start_controller,
    state_actor_pid,
)
from trainstate.core.freeze import thaw
from trainstate.errors import ConcurrencyError, Fenced, NotFound, StateUnavailable, UsageError
from trainstate.journal import Writer
from trainstate.state import client
from trainstate.state.home import Owner, Standing, standing
from trainstate.state.manager import TrainStateManager
from trainstate.state.version import version
from trainstate.store import History
from trainstate.v1 import event_pb2 as e


@pytest.fixture
def actor(cluster: Cluster):
    """The state actor, answering."""
    actor = client.ensure()
    client.greet(actor)
    return actor


def batch(*events: e.Event) -> bytes:
    return e.Batch(events=events).SerializeToString()


def begun(actor, run_id: str) -> tuple[int, int]:
    """Opens a run and creates it; its run_seq and incarnation."""
    _, run_seq, incarnation, _ = ray.get(actor.open_run.remote(run_id, "test", 1))
    created = e.Event(time_unix_nano=1, run_created=e.RunCreated(name=f"name-{run_id}"))
    ray.get(actor.append.remote(run_id, incarnation, run_seq, batch(created)))
    return run_seq + 1, incarnation


def test_there_is_one(actor):
    """Who asks again gets the same actor."""
    assert actor._actor_id == client.ensure()._actor_id


def test_its_home_is_the_head_nodes(cluster: Cluster, actor):
    """The journal is below the home that Ray was started with, whatever a runtime_env says."""
    assert str(cluster.journal) == ray.get(actor.journal.remote())


def test_its_journal_says_whose_it_is(cluster: Cluster, actor):
    """FENCE names the raylet; the journal is live."""
    owner = Owner.parse(History(cluster.journal).owner)
    assert owner is not None
    assert ("trainstate.v1", True, True) == (owner.who, owner.is_here, owner.lives)
    assert Standing.LIVE is standing(cluster.journal)


def test_what_is_appended_is_durable(cluster: Cluster, actor):
    """An acknowledged event is in the journal's files, at the position that was named."""
    run_id = new_run_id()
    run_seq, incarnation = begun(actor, run_id)
    two = batch(skipped("x"), skipped("y"))
    first, last = ray.get(actor.append.remote(run_id, incarnation, run_seq, two))
    events = {one.seq: one.event for one in History(cluster.journal).events_of(run_id)}
    assert (last, "y") == (first + 1, events[last].sync_skipped.source)
    assert 2 + run_seq == thaw(ray.get(actor.state.remote(run_id))).run_seq


def test_errors_are_ours(actor):
    """What our rules refuse arrives as the classes of the one tree, with its attributes."""
    run_id = new_run_id()
    run_seq, incarnation = begun(actor, run_id)
    with pytest.raises(ConcurrencyError) as conflict:
        ray.get(actor.append.remote(run_id, incarnation, run_seq + 5, batch(skipped())))
    assert (run_seq, run_seq + 5) == (conflict.value.current, conflict.value.expected)
    ray.get(actor.open_run.remote(run_id, "test", 1))
    with pytest.raises(Fenced) as fenced:
        ray.get(actor.append.remote(run_id, incarnation, run_seq + 1, batch(skipped())))
    assert run_id == fenced.value.run_id
    with pytest.raises(NotFound):
        ray.get(actor.state.remote("nobody"))


def test_open_runs_are_found_by_name_and_prefix(actor):
    """An open run is found as people name it; what fits none is said so."""
    run_id = new_run_id()
    begun(actor, run_id)
    for text in (run_id, run_id[:10], f"name-{run_id}"):
        assert run_id == ray.get(actor.find_open.remote(text))
    with pytest.raises(NotFound, match="no open run fits"):
        ray.get(actor.find_open.remote("nobody"))


def test_another_release_is_refused(actor):
    """Major and minor must be the same; the hint says what to install."""
    major, minor, *_ = version().split(".")
    assert version() == ray.get(actor.hello.remote(f"{major}.{minor}.999"))
    with pytest.raises(UsageError) as refused:
        ray.get(actor.hello.remote("9.9.0"))
    assert f"trainstate=={version()}" in (refused.value.hint or "")


@pytest.mark.slow
def test_killed_while_appending_it_loses_nothing_and_doubles_nothing(cluster: Cluster, actor):
    """Each event is in the journal once, in order, however often the actor is killed meanwhile."""
    controllers = {run_id: start_controller(run_id) for run_id in (new_run_id(), new_run_id())}
    ray.get([controller.begin.remote() for controller in controllers.values()])
    writing = {run_id: one.write.remote(400, 0.005) for run_id, one in controllers.items()}
    killed = set()
    while ray.wait(list(writing.values()), num_returns=2, timeout=1.0)[1] and len(killed) < 3:
        pid = state_actor_pid(cluster)
        os.kill(pid, signal.SIGKILL)
        killed.add(pid)
        eventually(lambda killed=killed: _writer(cluster) not in {*killed, 0})
    assert 2 <= len(killed)
    acknowledged = {run_id: ray.get(seqs) for run_id, seqs in writing.items()}
    for run_id, seqs in acknowledged.items():
        events = History(cluster.journal).events_of(run_id)
        written = [one for one in events if one.event.HasField("sync_skipped")]
        assert seqs == [one.seq for one in written]
        assert [str(n) for n in range(400)] == [one.event.sync_skipped.source for one in written]
    for controller in controllers.values():
        ray.kill(controller)


@pytest.mark.slow
def test_a_journal_that_was_taken_over_is_opened_again(cluster: Cluster, actor):
    """Whoever took it has fenced the process; the next one writes when the other has gone."""
    run_id = new_run_id()
    controller = start_controller(run_id)
    ray.get(controller.begin.remote())
    before = state_actor_pid(cluster)
    Writer.take_over(cluster.journal, owner="another").close()
    assert 1 == len(ray.get(controller.write.remote(1)))
    assert before != state_actor_pid(cluster)
    ray.kill(controller)


@pytest.mark.slow
def test_a_journal_that_cannot_be_opened_is_said_so(cluster: Cluster, actor):
    """The constructor's error reaches who waits; when the reason is gone there is an actor again."""
    manager = TrainStateManager(new_run_id(), timeout_s=9)
    ray.kill(actor)
    with Writer.open(cluster.journal, owner="another"), pytest.raises(StateUnavailable) as gone:
        asyncio.run(manager.open(1))
    assert "JournalLocked" in str(gone.value)
    assert "another writes this journal" in str(gone.value)
    asyncio.run(manager.open(1))


def _writer(cluster: Cluster) -> int:
    """The process that writes the journal; 0 while there is none."""
    try:
        return state_actor_pid(cluster)
    except AssertionError:
        return 0
