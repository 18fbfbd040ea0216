"""`show` on a run that has everything: what an imported log never has is told too."""

from __future__ import annotations

from trainstate.cli._story import tell
from trainstate.core import (
    Attempt,
    AttemptStatus,
    Budget,
    Cause,
    Checkpoint,
    Placement,
    PlacementStatus,
    ReplicaGroup,
    ReplicaGroupStatus,
    Run,
    RunStatus,
    Sync,
    SyncStatus,
    Worker,
    WorkerStatus,
)
from trainstate.core.model import BudgetUse, Irregularity
from trainstate.core.observations import WorkerFailed
from trainstate.core.values import to_map
from trainstate.testing.given import Given, event, given
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

S = 10**9


def attempt() -> Attempt:
    """An attempt with a replaced worker and a replica group."""
    gone = Worker(0, 0, WorkerStatus.FAILING, cause=Cause.WORKER_LOST, start_time_ns=S)
    worker = Worker(
        0,
        1,
        WorkerStatus.RUNNING,
        node_ip="192.0.2.7",
        pid=42,
        accelerator_ids=("0", "MIG-1"),
        reports=3,
        log_path="/logs/w0.log",
        start_time_ns=2 * S,
    )
    group = ReplicaGroup(0, 1, ReplicaGroupStatus.RUNNING, cause=Cause.WORKER_LOST, replacements=1)
    return Attempt(
        "a-1",
        1,
        AttemptStatus.RUNNING,
        num_workers=1,
        workers={0: worker},
        replaced=[gone],
        groups={0: group},
        start_time_ns=S,
    )


def run() -> Run:
    """A run that waits for more workers, with one of everything."""
    return Run(
        "r-1",
        status=RunStatus.WAITING,
        status_reason="1 of 4 workers fits",
        name="[red]elastic",
        have_workers=1,
        need_workers=4,
        start_time_ns=S,
        time_ns=65 * S,
        error=s.Error(type="ValueError", message="boom", ranks=[0, 3], traceback="a\nb", hint="h"),
        attempts=[attempt()],
        placements={"gang": Placement("gang", "a-1", PlacementStatus.READY, strategy="PACK")},
        checkpoints={7: Checkpoint(7, "checkpoint_7", to_map({"loss": 0.5}), 5 * S, 3 << 20)},
        checkpoints_committed=8,
        syncs={"x": Sync("x", SyncStatus.FAILED, "/a", "s3://b", error=s.Error(message="denied"))},
        budgets={1: BudgetUse(Budget.FAILURES, 1, 2)},
        irregular=[Irregularity(9, "went back")] * 12,
        irregular_count=12,
        reports=3,
        last_metrics=to_map({"loss": 0.25, "big": 2**70}).SerializeToString(),
    )


def test_every_part_is_told(capsys):
    """One line each, found by what a person looks for."""
    tell(run(), run().attempt)
    told = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    for line in (
        "name [red]elastic",
        "waits for 4 workers, has 1",
        "so far 1m 04s",
        "type ValueError",
        "ranks 0, 3",
        "0 0 FAILING worker_lost",
        "0 1 RUNNING 192.0.2.7 42 0,MIG-1 3",
        "0 1 RUNNING worker_lost 1 0",
        "gang READY PACK 0",
        "checkpoints (8 committed so far)",
        "checkpoint_7",
        "loss 0.25",
        f"big {2**70}",
        "x FAILED /a s3://b : denied",
        "failures 1 0 2",
        "out of the ordinary (12 moves)",
        "and 2 more; --json has the first of them",
    ):
        assert any(line in one for one in told), (line, told)


def test_a_preempted_run_says_who_goes(capsys):
    """And until when."""
    going = Run("r", status=RunStatus.PREEMPTING, preempted_ranks=[1, 2], preemption_deadline_ns=S)
    tell(going, None)
    assert "until 1970-01-01 00:00:01; ranks 1, 2 are to go" in capsys.readouterr().out


# --- of a run that goes on ------------------------------------------------------------------------


def training(max_failures: int = 3) -> Given:
    """Two workers that train, and have half a checkpoint."""
    failure = s.FailureConfig(max_failures=max_failures)
    limits = s.Limits(backoff_first_s=40, backoff_max_s=60)
    settings = s.RunSettings(run_config=s.RunConfig(failure_config=failure), limits=limits)
    ranks = range(2)
    return given(
        event(e.RunCreated(name="live", settings=settings)),
        event(e.ControllerStarted()),
        event(e.ControllerStarted(recovered=True)),
        event(e.RunScheduling(num_workers=2)),
        event(e.AttemptPlanned(num_workers=2), "a1"),
        *(event(e.WorkerScheduled(rank=rank), "a1") for rank in ranks),
        *(event(e.WorkerStarted(rank=rank, pid=40 + rank), "a1") for rank in ranks),
        event(e.AttemptStarted(), "a1"),
        event(e.RunRunning()),
        event(e.ReportReceived(checkpoint="ck-0", metrics=to_map({"loss": 1})), "a1"),
    )


def told(capsys, run: Run, tracebacks: bool = False) -> str:
    """What is printed of it, with single blanks."""
    tell(run, run.attempt, stale=False, tracebacks=tracebacks)
    return "\n".join(" ".join(line.split()) for line in capsys.readouterr().out.splitlines())


def test_a_run_that_trains_says_how_far_it_is(capsys):
    """Its controllers, and the checkpoint that some ranks have not reported yet."""
    text = told(capsys, training().run)
    assert "controller starts 2, of which 1 took the run up again" in text
    assert "0 ck-0 1 of 2 ranks" in text


def test_a_run_that_restarts_says_when_and_what_is_left(capsys):
    """The time of the next attempt, the budget with its limit, and the error in short."""
    error = s.Error(
        type="ValueError",
        message="boom",
        traceback="Traceback\n  File 1\nValueError: boom\n",
        hint="look at the log",
        ranks=[1],
        node_id="n1",
    )
    run = _failed_twice(error)
    text = told(capsys, run)
    for line in (
        "waits for the next attempt, at 20",
        "ranks 1\nnode n1\nhint look at the log\ntraceback 3 lines: --traceback",
        "failures 2 3 2",
    ):
        assert line in text
    assert "File 1" not in text
    assert "Traceback\nFile 1\nValueError: boom" in told(capsys, run, tracebacks=True)


def _failed_twice(error: s.Error) -> Run:
    story = training()
    story.run.budgets[Budget.FAILURES] = BudgetUse(Budget.FAILURES, 1, 1)
    failed = WorkerFailed("a1", 1, 0, Cause.WORKER_ERROR, error)
    return story.observed(failed).then(status=RunStatus.RESTARTING)


def test_ranks_that_failed_alike_are_told_together(capsys):
    """A table of who failed of what; with `--traceback` each text once, and whole."""
    failed = attempt()
    failed.replaced.clear()
    for rank in range(3):
        message = "no data at all" if rank else "no data"
        text = f"Traceback\n  {'deep ' * 200}\nValueError: {message}"
        error = s.Error(type="ValueError", message=message, traceback=text, ranks=[rank])
        failed.workers[rank] = Worker(rank, status=WorkerStatus.DEAD, error=error)
    told = Run("r", status=RunStatus.ERRORED, attempts=[failed])
    tell(told, failed)
    brief = capsys.readouterr().out
    assert "failures of attempt 1" in brief
    assert "1, 2   ValueError: no data at all" in brief
    assert "deep" not in brief
    tell(told, failed, tracebacks=True)
    assert 2 == capsys.readouterr().out.count("deep " * 200)
