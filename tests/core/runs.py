"""How a run gets to where a test of decisions wants it: lists of observations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainstate.core import Cause, Placement, Run, WorkerStatus
from trainstate.core import effects as f
from trainstate.core import observations as o
from trainstate.core.policy import attempt_id_of
from trainstate.core.values import to_map
from trainstate.testing import Given, event, given
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

A1, A2, A3 = (attempt_id_of("run", number) for number in (1, 2, 3))
# The placement group of the smallest number of workers, and those of what an elastic run may add.
P0, P1, P2 = "run/0.1", "run/1.1", "run/2.1"
ERROR = s.Error(type="ValueError", message="bad batch\nin line 2")
NODES = ("n1", "n1")


def settings(workers: int = 2, max_failures: int = 1, **fields: object) -> s.RunSettings:
    """What a user asks for: by default one restart after a failure, any number after the others."""
    made = s.RunSettings(limits=s.Limits(backoff_first_s=2, backoff_max_s=10))
    made.scaling_config.num_workers_fixed = workers
    made.scaling_config.resources_per_worker.resources.add(name="CPU", amount=1)
    failure = made.run_config.failure_config
    failure.max_failures, failure.controller_failure_limit = max_failures, -1
    holders = (failure, made.limits, made.run_config.checkpoint_config, made.scaling_config)
    for name, value in fields.items():
        setattr(next(one for one in holders if name in one.DESCRIPTOR.fields_by_name), name, value)
    return made


def elastic(smallest: int = 2, largest: int = 4, **fields: object) -> s.RunSettings:
    """Of a run whose number of workers is a range."""
    made = settings(**{"max_failures": 9, **fields})  # type: ignore[arg-type]
    asked = s.WorkerRange(min=smallest, max=largest)
    made.scaling_config.num_workers_range.CopyFrom(asked)
    return made


def grouped(workers: int = 4, size: int = 2, **fields: object) -> s.RunSettings:
    """Of a run that has replica groups."""
    more = {"max_failures": 9, "replica_group_size": size, **fields}
    return settings(workers, **more)  # type: ignore[arg-type]


def began(wanted: s.RunSettings | None = None, **more: object) -> o.Began:
    return o.Began(e.RunCreated(name="mnist", settings=wanted or settings()), **more)  # type: ignore[arg-type]


# --- nodes: a name here, its hex where placement groups and notices have node ids -------------------


def ids(*nodes: str) -> tuple[str, ...]:
    return tuple(node.encode().hex() for node in nodes)


def reserved(name: str = P0, nodes: Sequence[str] = NODES) -> o.Reserved:
    """A placement group, with the node of each bundle; "" for one without."""
    return o.Reserved(name, b"pg", ids(*nodes))


def placed(nodes: Sequence[str] = NODES, **more: Sequence[str]) -> o.Placed:
    """The gang's placement group, and by number those of what is added: `slot_1=("n3",)`."""
    extras = (reserved(f"run/{slot[5:]}.1", where) for slot, where in more.items())
    return o.Placed((reserved(nodes=nodes), *extras))


def notice(*nodes: str, attempt: str = A1, **more: object) -> o.Preempted:
    return o.Preempted(attempt, ids(*nodes), **more)  # type: ignore[arg-type]


# --- workers --------------------------------------------------------------------------------------


def facts(
    bundle: int, node: str = "n1", *accelerators: str, placement: str = P0, generation: int = 0
) -> o.WorkerFacts:
    pid = 100 + bundle
    return o.WorkerFacts(
        bundle, generation, b"a", node.encode(), node, pid, accelerators, placement=placement
    )


def gang(attempt: str = A1, workers: int = 2) -> o.GangUp:
    return o.GangUp(attempt, tuple(map(facts, range(workers))))


def gang_of(run: Run, group: int | None = None) -> o.GangUp:
    """The gang that is waited for, each worker on the node of its bundle."""
    attempt = run.attempt
    assert attempt is not None
    waiting = [one for one in attempt.gang(group) if one.status is WorkerStatus.SCHEDULING]
    up = []
    for one in waiting:
        asked = run.placements.get(one.placement)
        node_id = asked.node_of(one.bundle) if asked is not None else ""
        node = bytes.fromhex(node_id).decode() or "n1"
        up.append(facts(one.bundle, node, placement=one.placement, generation=one.generation))
    generation = 0 if group is None else attempt.groups[group].generation
    return o.GangUp(attempt.attempt_id, tuple(up), group, generation)


def starting(attempt: str = A1) -> list[o.Observation]:
    """From requested placement groups to training."""
    return [placed(), gang(attempt), o.Ready(attempt)]


def reported(
    rank: int,
    *checkpoints: str,
    first: int = 0,
    attempt: str = A1,
    generation: int = 0,
    **metrics: object,
) -> o.Reported:
    """One report per name; an empty name is a report without a checkpoint."""
    reports = tuple(
        e.ReportReceived(rank=rank, index=index, checkpoint=name, metrics=to_map(metrics))
        for index, name in enumerate(checkpoints, start=first)
    )
    return o.Reported(attempt, rank, generation, reports)


def completed(rank: int, attempt: str = A1) -> o.Completed:
    return o.Completed(attempt, rank, 0, s.Value(int=rank))


def failed(
    rank: int, cause: Cause = Cause.WORKER_ERROR, attempt: str = A1, generation: int = 0
) -> o.WorkerFailed:
    return o.WorkerFailed(attempt, rank, generation, cause, ERROR)


# --- stories --------------------------------------------------------------------------------------


def led(*observations: o.Observation | e.Event, wanted: s.RunSettings | None = None) -> Given:
    """The story of a run that began with these settings and observed all that; events are recorded."""
    story = given()
    for one in (began(wanted), *observations):
        (story.when(one) if isinstance(one, e.Event) else story.observed(one)).then()
        if isinstance(one, o.Placed) and not story.run.attempts:
            story.observed(one).then()  # what may be added is asked for when the gang has its place
    return story


def training(wanted: s.RunSettings, *placed_there: o.Placed) -> Given:
    """The story of a run that trains on those placement groups."""
    story = led(*placed_there, wanted=wanted)
    return train(story)


def train(story: Given) -> Given:
    """Has the workers that are scheduled come up, and train."""
    attempt = story.run.attempt
    assert attempt is not None
    story.observed(gang_of(story.run), o.Ready(attempt.attempt_id)).then()
    return story


def in_groups(workers: int = 4, size: int = 2, **fields: object) -> Given:
    """The story of a run of replica groups that trains, each group on a node of its own."""
    nodes = [f"n{1 + rank // size}" for rank in range(workers)]
    return training(grouped(workers, size, **fields), placed(nodes))


# --- a world where nothing goes wrong ---------------------------------------------------------------


def answers(run: Run, effect: f.Effect) -> Iterator[o.Observation]:
    """What an effect says, its last word included."""
    match effect:
        case f.Place():
            yield everywhere(run)
        case f.Release(names):
            yield o.Released(names)
        case f.StartGang(_, group):
            yield gang_of(run, group)
        case f.SetUp(attempt_id, group, generation):
            yield o.Ready(attempt_id, (), group, generation)
        case f.Train():
            yield from _trained(run, effect)
        case f.Publish(attempt_id, index, group):
            yield o.Published(attempt_id, index, 0, group)
        case f.DeleteCheckpoint(index):
            yield o.Deleted(index)
        case f.Stop(attempt_id):
            yield o.Cleared(attempt_id)
        case f.Wake():
            yield o.Woke()
        case f.Close():
            yield o.Closed()


def everywhere(run: Run) -> o.Placed:
    """Every bundle has a node; where there was none, or one that is taken away, a new one."""
    return o.Placed(tuple(map(_healed, run.placements.values(), [run] * len(run.placements))))


def _healed(placement: Placement, run: Run) -> o.Reserved:
    gone = {"", *run.preempted_nodes}
    known = [*placement.node_ids, *[""] * len(placement.bundles)][: len(placement.bundles)]
    new = ids(f"new {placement.name}")[0]
    return o.Reserved(placement.name, b"pg", tuple(new if one in gone else one for one in known))


def _trained(run: Run, train: f.Train) -> Iterator[o.Observation]:
    """The rest of a worker's reports, each with the checkpoint that others brought, and its end."""
    attempt = run.attempt
    assert attempt is not None
    first = attempt.workers[train.rank].reports
    pending = attempt.keeper(attempt.group_of(train.rank)).pending
    names = [pending[index].directory for index in sorted(pending) if index >= first]
    of_worker = (train.attempt_id, train.rank, train.generation)
    yield reported(
        train.rank, *names, first=first, attempt=train.attempt_id, generation=train.generation
    )
    yield o.Completed(*of_worker)


# --- places ---------------------------------------------------------------------------------------

TRAINING = starting()
FINISHING = [*TRAINING, completed(0), completed(1)]
# Where a run may be, by a name; what it observed after it began.
PLACES: dict[str, list[o.Observation | e.Event]] = {
    "SCHEDULING": [],
    "WAITING": [o.Short(1, 2, "room for 1 of 2")],
    "placed": [placed()],
    "up": [placed(), gang()],
    "RUNNING": TRAINING,
    "PREEMPTING": [*TRAINING, notice("n1")],
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
    "finishing, released": [*FINISHING, o.Cleared(A1), o.Released((P0,))],
    "giving up": [*TRAINING, o.Broke(Cause.CONTROLLER_ERROR, ERROR)],
    "aborting": [*TRAINING, o.Abort(Cause.USER_ABORT, "Ctrl-C")],
    "FINISHED": [*FINISHING, o.Cleared(A1), o.Released((P0,)), o.Closed()],
}
