"""Histories for the benchmarks: runs with attempts, workers and reports."""

from __future__ import annotations

from collections.abc import Iterator

from trainstate.store import Store
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

SECOND = 10**9
WORKERS = 8
_CPU = s.ResourceSet(resources=[s.Resource(name="CPU", amount=1.0)])


def report(attempt_id: str, rank: int, index: int, time_ns: int) -> e.Event:
    """One report with two metrics."""
    metrics = s.ValueMap(
        entries=[
            s.ValueEntry(key="loss", value=s.Value(double=0.5)),
            s.ValueEntry(key="step", value=s.Value(int=index)),
        ]
    )
    return e.Event(
        time_unix_nano=time_ns,
        attempt_id=attempt_id,
        report_received=e.ReportReceived(rank=rank, index=index, metrics=metrics),
    )


def beginning(attempt_id: str, time_ns: int, workers: int = WORKERS) -> Iterator[e.Event]:
    """A run from its creation to RUNNING."""
    at = {"time_unix_nano": time_ns}
    of = {"time_unix_nano": time_ns, "attempt_id": attempt_id}
    yield e.Event(**at, run_created=e.RunCreated(name="bench"))
    yield e.Event(**at, run_scheduling=e.RunScheduling(num_workers=workers))
    yield e.Event(
        **of,
        attempt_planned=e.AttemptPlanned(num_workers=workers, resources_per_worker=_CPU),
    )
    for rank in range(workers):
        yield e.Event(**of, worker_scheduled=e.WorkerScheduled(rank=rank, bundle=rank))
    for rank in range(workers):
        yield e.Event(**of, worker_started=worker(rank))
    yield e.Event(**of, attempt_started=e.AttemptStarted())
    yield e.Event(**at, run_running=e.RunRunning())


def worker(rank: int) -> e.WorkerStarted:
    """A worker as a real cluster names it."""
    return e.WorkerStarted(
        rank=rank,
        local_rank=rank % 8,
        node_rank=rank // 8,
        actor_id=rank.to_bytes(16, "big"),
        node_id=bytes(28),
        node_ip=f"10.0.{rank // 256}.{rank % 256}",
        pid=1000 + rank,
        accelerator_ids=[f"GPU-{rank:08x}-1111-2222-3333-444455556666"],
        resources=_CPU,
        log_path=f"/tmp/ray/session_2026-11-21/logs/train/ray-train-app-worker-{rank:056x}.log",
    )


def ending(attempt_id: str, time_ns: int, workers: int = WORKERS) -> Iterator[e.Event]:
    """A run from RUNNING to FINISHED."""
    of = {"time_unix_nano": time_ns, "attempt_id": attempt_id}
    for rank in range(workers):
        yield e.Event(**of, worker_completed=e.WorkerCompleted(rank=rank))
    yield e.Event(**of, attempt_ended=e.AttemptEnded(status=s.ATTEMPT_STATUS_FINISHED))
    yield e.Event(time_unix_nano=time_ns, run_finished=e.RunFinished())


def history(run_number: int, events: int) -> list[e.Event]:
    """One finished run of about `events` events (with the one that opens it)."""
    attempt_id = f"{run_number:032x}"
    time_ns = (1 + run_number) * 1000 * SECOND
    start = list(beginning(attempt_id, time_ns))
    end = list(ending(attempt_id, time_ns + 900 * SECOND))
    count = events - len(start) - len(end) - 1
    middle = [
        report(attempt_id, number % WORKERS, number // WORKERS, time_ns + number)
        for number in range(count)
    ]
    return [*start, *middle, *end]


def run_id(number: int) -> str:
    """The id of a run of the benchmarks."""
    return f"{number:08x}" + "0" * 24


def fill(store: Store, runs: range, events_per_run: int) -> None:
    """Stores finished runs, without waiting for each."""
    for number in runs:
        opened = store.open_run(run_id(number), "bench", (1 + number) * 1000 * SECOND)
        events = history(number, events_per_run)
        pending = store.submit(run_id(number), opened.incarnation, opened.run_seq, events)
    pending.wait()
