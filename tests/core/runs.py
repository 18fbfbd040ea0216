"""How a run gets to where a test of decisions wants it: lists of observations."""

from __future__ import annotations

from trainstate.core import Cause
from trainstate.core import observations as o
from trainstate.core.policy import attempt_id_of
from trainstate.core.values import to_map
from trainstate.testing import Given, event, given
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

A1, A2, A3 = (attempt_id_of("run", number) for number in (1, 2, 3))
P1, P2 = f"run/{A1}", f"run/{A2}"
ERROR = s.Error(type="ValueError", message="bad batch\nin line 2")
NODES = ("n1", "n1")


def settings(workers: int = 2, max_failures: int = 1, **fields: object) -> s.RunSettings:
    """What a user asks for: by default one restart after a failure, any number after the others."""
    made = s.RunSettings(limits=s.Limits(backoff_first_s=2, backoff_max_s=10))
    made.scaling_config.num_workers_fixed = workers
    made.scaling_config.resources_per_worker.resources.add(name="CPU", amount=1)
    failure = made.run_config.failure_config
    failure.max_failures, failure.controller_failure_limit = max_failures, -1
    for name, value in fields.items():
        holders = (failure, made.limits, made.run_config.checkpoint_config)
        setattr(next(one for one in holders if name in one.DESCRIPTOR.fields_by_name), name, value)
    return made


def began(wanted: s.RunSettings | None = None, **more: object) -> o.Began:
    return o.Began(e.RunCreated(name="mnist", settings=wanted or settings()), **more)  # type: ignore[arg-type]


def placed(attempt: str = A1, nodes: tuple[str, ...] = NODES) -> o.Placed:
    return o.Placed(f"run/{attempt}", b"pg", nodes)


def facts(bundle: int, node: str = "n1", *accelerators: str) -> o.WorkerFacts:
    return o.WorkerFacts(bundle, 0, b"a", node.encode(), node, 100 + bundle, accelerators)


def gang(attempt: str = A1, workers: int = 2) -> o.GangUp:
    return o.GangUp(attempt, tuple(map(facts, range(workers))))


def starting(attempt: str = A1) -> list[o.Observation]:
    """From a requested placement to training."""
    return [placed(attempt), gang(attempt), o.Ready(attempt)]


def reported(
    rank: int, *checkpoints: str, first: int = 0, attempt: str = A1, **metrics: object
) -> o.Reported:
    """One report per name; an empty name is a report without a checkpoint."""
    reports = tuple(
        e.ReportReceived(rank=rank, index=index, checkpoint=name, metrics=to_map(metrics))
        for index, name in enumerate(checkpoints, start=first)
    )
    return o.Reported(attempt, rank, 0, reports)


def completed(rank: int, attempt: str = A1) -> o.Completed:
    return o.Completed(attempt, rank, 0, s.Value(int=rank))


def failed(rank: int, cause: Cause = Cause.WORKER_ERROR, attempt: str = A1) -> o.WorkerFailed:
    return o.WorkerFailed(attempt, rank, 0, cause, ERROR)


def led(*observations: o.Observation | e.Event, wanted: s.RunSettings | None = None) -> Given:
    """The story of a run that began with these settings and observed all that; events are recorded."""
    story = given()
    for one in (began(wanted), *observations):
        (story.when(one) if isinstance(one, e.Event) else story.observed(one)).then()
    return story


TRAINING = starting()
FINISHING = [*TRAINING, completed(0), completed(1)]
# Where a run may be, by a name; what it observed after it began.
PLACES: dict[str, list[o.Observation | e.Event]] = {
    "SCHEDULING": [],
    "WAITING": [o.Short(P1, 1, 2, "room for 1 of 2")],
    "placed": [placed()],
    "up": [placed(), gang()],
    "RUNNING": TRAINING,
    "PREEMPTING": [*TRAINING, event(e.RunPreempting(node_ids=["n1"]))],
    "RESIZING": [*TRAINING, event(e.RunResizing(from_workers=2, to_workers=3))],
    "one completed": [*TRAINING, completed(0)],
    "checkpoint pending": [*TRAINING, reported(0, "c0")],
    "checkpoint complete": [*TRAINING, reported(0, "c0"), reported(1, "c0")],
    "publishing the last": [
        *TRAINING,
        *(reported(rank, "c0") for rank in range(2)),
        *map(completed, range(2)),
    ],
    "RESTARTING": [*TRAINING, failed(0)],
    "cleared": [*TRAINING, failed(0), o.Cleared(A1)],
    "second attempt": [*TRAINING, failed(0), o.Cleared(A1), o.Woke()],
    "finishing": FINISHING,
    "finishing, cleared": [*FINISHING, o.Cleared(A1)],
    "giving up": [*TRAINING, o.Broke(Cause.CONTROLLER_ERROR, ERROR)],
    "aborting": [*TRAINING, o.Abort(Cause.USER_ABORT, "Ctrl-C")],
    "FINISHED": [*FINISHING, o.Cleared(A1), o.Closed()],
}
