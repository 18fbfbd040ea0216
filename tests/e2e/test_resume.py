"""What outlives a run: a later fit() goes on from its checkpoints; a lost state actor leaves nothing."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import ray

from tests.cluster import Cluster
from tests.e2e.running import left_behind, newest, run, trainer
from tests.e2e.test_orphans import eventually, over
from trainstate import train
from trainstate.core import Cause, RunStatus
from trainstate.errors import StateUnavailable
from trainstate.state import client
from trainstate.train import Checkpoint, CheckpointConfig, Result


def counting(upto: int) -> Callable[[], int]:
    """Counts on from the checkpoint there is, and keeps the count in each of its own."""

    def function() -> int:
        checkpoint, start = train.get_checkpoint(), 0
        if checkpoint is not None:
            with checkpoint.as_directory() as kept:
                start = int((Path(kept) / "count").read_text()) + 1
        for count in range(start, upto):
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "count").write_text(str(count))
                metrics = {"count": count, "score": -((count - 2) ** 2)}
                train.report(metrics, Checkpoint.from_directory(folder))
        kept_now = train.get_all_reported_checkpoints()
        assert upto - 1 == kept_now[-1].metrics["count"]
        return start

    return function


def test_a_later_fit_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    """The same name and storage path: training goes on from the last committed checkpoint."""
    keep = CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="score")
    first = run(cluster, counting(4), "resumed", tmp_path, workers=1, checkpoint_config=keep)
    assert first.result is not None, first.error
    second = run(cluster, counting(6), "resumed", tmp_path, workers=1, checkpoint_config=keep)
    assert second.result is not None, second.error
    assert (0, 4) == (first.result.return_value, second.result.return_value)
    assert first.run.run_id != second.run.run_id
    # The best by score are those of counts 2 and 1 or 3; the newest is always kept.
    for result in (second.result, Result.from_path(tmp_path / "resumed")):
        assert result.best_checkpoints is not None
        kept = {metrics["count"] for _, metrics in result.best_checkpoints}
        assert {2, 5} <= kept
        assert result.checkpoint is not None
        assert Path(result.checkpoint.path).is_dir()
        assert len(kept) == len(list((tmp_path / "resumed").glob("checkpoint_2*")))


@pytest.mark.slow
def test_the_state_actor_cannot_come_back(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any place to record, fit() ends with StateUnavailable, and no worker is left."""
    client.greet(client.ensure())
    monkeypatch.setenv("TRAINSTATE_STATE_TIMEOUT_S", "3")
    training = tmp_path / "training"

    def function() -> None:
        while True:
            train.report({})
            training.touch()
            time.sleep(0.1)

    with losing_the_journal(cluster, training), pytest.raises(StateUnavailable) as raised:
        trainer(function, "stateless", tmp_path).fit()
    assert raised.value.hint is not None
    stateless = newest(cluster, "stateless")
    assert [] == left_behind(stateless.run_id)
    client.greet(client.ensure())
    ended = eventually(lambda: over(cluster, stateless.run_id))
    assert (RunStatus.ABORTED, Cause.CONTROLLER_LOST) == (ended.status, ended.cause)


@contextmanager
def losing_the_journal(cluster: Cluster, when: Path) -> Iterator[None]:
    """Takes the journal away once `when` exists, and kills the state actor; at the end it is back."""
    journal = cluster.journal
    aside = journal.with_name("aside")

    def lose() -> None:
        eventually(when.exists)
        journal.rename(aside)
        journal.write_text("in the way")
        ray.kill(client.find(), no_restart=True)

    thread = threading.Thread(target=lose)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        journal.unlink()
        aside.rename(journal)
