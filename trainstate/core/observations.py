"""What the world tells a controller: the second argument of `decide`.

An observation may be late, repeated, or of something long over: `decide` then says nothing. What belongs
to a worker names its attempt, rank and generation, so that a dead worker's last word is never taken for
its successor's. Errors are `Error` messages, ready for the journal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from trainstate.core.model import Cause
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s


@dataclass(frozen=True)
class Began:
    """A controller has started: for a new run, or for one that another controller began.

    `created` says what a new run is; `restored` are the checkpoints, oldest first, that an earlier
    `fit()` with the same name and storage path left.
    """

    created: e.RunCreated
    actor_id: bytes = b""
    node_id: bytes = b""
    pid: int = 0
    restored: tuple[e.CheckpointCommitted, ...] = ()


@dataclass(frozen=True)
class Woke:
    """A time that `plan` asked to be woken at has come."""


@dataclass(frozen=True)
class Reserved:
    """A placement group that is reserved, as it is now.

    `node_ids` has the node of each of its bundles, in hex; "" for a bundle whose node is gone.
    """

    name: str
    placement_group_id: bytes
    node_ids: tuple[str, ...]


@dataclass(frozen=True)
class Placed:
    """What of the run's placement groups is reserved now."""

    groups: tuple[Reserved, ...]


@dataclass(frozen=True)
class Short:
    """Not enough is reserved yet: there is room for `have` of the `need` workers now."""

    have: int
    need: int
    text: str


@dataclass(frozen=True)
class NotPlaced:
    """The placement groups were not reserved in time."""

    timeout_s: float
    text: str


@dataclass(frozen=True)
class Released:
    """These placement groups are given back."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Preempted:
    """Nodes, or workers of the attempt by rank, are about to be taken away.

    `deadline_ns` is when, in ns since the Unix epoch; None if nobody said.
    """

    attempt_id: str
    node_ids: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    deadline_ns: int | None = None


@dataclass(frozen=True)
class WorkerFacts:
    """A worker process that is up. `placement` and `bundle` are where it was asked for."""

    bundle: int
    generation: int
    actor_id: bytes
    node_id: bytes
    node_ip: str
    pid: int
    accelerator_ids: tuple[str, ...] = ()
    log_path: str = ""
    placement: str = ""


@dataclass(frozen=True)
class GangUp:
    """Every worker that was to be started is up: of the attempt, or of one of its replica groups."""

    attempt_id: str
    workers: tuple[WorkerFacts, ...]
    group: int | None = None
    generation: int = 0


@dataclass(frozen=True)
class StartFailed:
    """Workers could not be started, or not be made ready for training: all, or those of a group."""

    attempt_id: str
    cause: Cause
    error: s.Error
    group: int | None = None
    generation: int = 0


@dataclass(frozen=True)
class Ready:
    """Workers are set up, all or those of a replica group: training may begin."""

    attempt_id: str
    versions: tuple[s.Version, ...] = ()
    group: int | None = None
    generation: int = 0


@dataclass(frozen=True)
class Reported:
    """Reports of one worker, in order; those already recorded may be among them."""

    attempt_id: str
    rank: int
    generation: int
    reports: tuple[e.ReportReceived, ...]


@dataclass(frozen=True)
class Completed:
    """A worker's train function returned, and all its reports were handed over."""

    attempt_id: str
    rank: int
    generation: int
    return_value: s.Value | None = None


@dataclass(frozen=True)
class WorkerFailed:
    """A worker raised, was lost, or hangs."""

    attempt_id: str
    rank: int
    generation: int
    cause: Cause
    error: s.Error


@dataclass(frozen=True)
class Published:
    """A pending checkpoint is complete, and found by whoever looks into the storage path."""

    attempt_id: str
    report_index: int
    size_bytes: int = 0
    group: int | None = None


@dataclass(frozen=True)
class Deleted:
    """A checkpoint was removed from storage; `text` says why not, if it could not be."""

    index: int
    text: str = ""


@dataclass(frozen=True)
class Cleared:
    """No worker of an attempt is left."""

    attempt_id: str


@dataclass(frozen=True)
class Described:
    """Something was found out that helps to understand the run: `what`, in a few words."""

    what: str
    provenance: s.Provenance


@dataclass(frozen=True)
class Closed:
    """Everything that is to run at the end of a run has run."""


@dataclass(frozen=True)
class Abort:
    """Somebody, or what became of the driver, wants the run ended."""

    cause: Cause
    text: str


@dataclass(frozen=True)
class Broke:
    """The controller itself failed, or a callback asked for the end of the run."""

    cause: Cause
    error: s.Error


@dataclass(frozen=True)
class HookFailed:
    """A callback raised, or took too long. It changes nothing else (row 57 of the issue, B.3 row 12)."""

    callback: str
    hook: str
    error: s.Error


Observation: TypeAlias = (
    Began
    | Described
    | Woke
    | Placed
    | Short
    | NotPlaced
    | Released
    | Preempted
    | GangUp
    | StartFailed
    | Ready
    | Reported
    | Completed
    | WorkerFailed
    | Published
    | Deleted
    | Cleared
    | Closed
    | Abort
    | Broke
    | HookFailed
)
