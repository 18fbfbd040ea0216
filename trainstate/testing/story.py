"""A journal for tests of whatever reads one: two runs that fail, and values that are hard to write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainstate.core.values import to_map
from trainstate.store import Store
from trainstate.testing.given import START_NS, event
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

# What sinks get wrong: other scripts, a line end in a name, a NUL, an unpaired quote, a tab.
ODD_TEXT = 'naïve 訓練 🚂 "\\\n\r\t\u2028\x00%s;--'
ODD_METRICS = {
    "loss": float("nan"),
    "best": float("-inf"),
    "count": 2**63 - 1,
    "exact": 10**30,
    "raw": b"\x00\xff",
    "nested": {"list": [1, 1.0, True, None, ODD_TEXT], "": {}},
}

_RUNS = ("plain", ODD_TEXT)
_ATTEMPT = "attempt-1"
_APPENDED = 3
# Segments are preallocated; a story needs little.
_SEGMENT_BYTES = 1 << 20


def write_story(path: Path) -> None:
    """Makes a journal at `path` with the whole story in it."""
    write_beginning(path)
    write_ending(path)


def write_beginning(path: Path) -> None:
    """Makes a journal at `path` with the first half of the story: both runs are training."""
    _write(path, _beginning())


def write_ending(path: Path) -> None:
    """Adds the second half: both runs fail."""
    _write(path, _ending())


def write_empty(path: Path) -> None:
    """Makes a journal at `path` with no event in it."""
    Store.open(path).close()


def _write(path: Path, events: Sequence[e.Event]) -> None:
    # In turns, so that the events of the runs lie between each other, and several in one frame.
    with Store.open(path, segment_bytes_max=_SEGMENT_BYTES) as store:
        opened = {run_id: store.open_run(run_id, "test", START_NS) for run_id in _RUNS}
        for start in range(0, len(events), _APPENDED):
            for run_id, run in opened.items():
                some = [_copy(one) for one in events[start : start + _APPENDED]]
                store.append(run_id, run.incarnation, run.run_seq + start, some)


def _copy(one: e.Event) -> e.Event:
    copied = e.Event()
    copied.CopyFrom(one)
    return copied


def _beginning() -> list[e.Event]:
    settings = s.RunSettings(train_loop_config=to_map(ODD_METRICS))
    versions = [s.Version(name="ray", version=ODD_TEXT)]
    cpu = s.ResourceSet(resources=[s.Resource(name="CPU", amount=1.5)])
    return [
        event(e.RunCreated(name=ODD_TEXT, job_id=b"\x00\xff", settings=settings)),
        event(e.RunScheduling(num_workers=2, resources_per_worker=cpu)),
        event(e.AttemptPlanned(num_workers=2, resources_per_worker=cpu), _ATTEMPT),
        *(event(e.WorkerScheduled(rank=rank), _ATTEMPT) for rank in range(2)),
        *(event(e.WorkerStarted(rank=rank, node_ip="::1"), _ATTEMPT) for rank in range(2)),
        event(e.AttemptStarted(), _ATTEMPT),
        event(e.RunRunning()),
        event(e.FrameworkVersionsRecorded(versions=versions)),
        event(e.ReportReceived(rank=0, index=0, metrics=to_map(ODD_METRICS)), _ATTEMPT),
    ]


def _ending() -> list[e.Event]:
    error = s.Error(type="ValueError", message=ODD_TEXT, ranks=[1])
    failed = {"cause": s.CAUSE_WORKER_ERROR, "error": error}
    return [
        event(e.ReportReceived(rank=1, index=0, metrics=to_map({})), _ATTEMPT),
        event(e.WorkerFailing(rank=1, cause=s.CAUSE_WORKER_ERROR, error=error), _ATTEMPT),
        *(event(e.WorkerDied(rank=rank), _ATTEMPT, ODD_TEXT) for rank in range(2)),
        event(
            e.AttemptEnded(status=s.ATTEMPT_STATUS_ERRORED, **failed),  # type: ignore[arg-type]
            _ATTEMPT,
            ODD_TEXT,
        ),
        event(e.RunErrored(**failed), reason=ODD_TEXT),  # type: ignore[arg-type]
    ]
