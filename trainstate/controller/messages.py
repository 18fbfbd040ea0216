"""What a controller and its workers say to each other; all of it pickled, none of it kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from trainstate.controller.hooks import Callback
from trainstate.controller.session import Preemption, SessionInfo
from trainstate.controller.storage import Storage


@dataclass(frozen=True, slots=True)
class Kept:
    """A committed checkpoint: its directory, the encoded ValueMap of its metrics, and whose it is."""

    index: int
    directory: str
    metrics: bytes
    group: int | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who a worker is and what it needs; the same every time it is told.

    `rank_zero` is the name of its gang's first actor; `extra`, what callbacks add; `directory_prefix`,
    how the directories of its checkpoints begin; `report_buffer`, how many reports may be
    unacknowledged; `secret_keys`, names whose values are secret in this run.
    """

    info: SessionInfo
    storage: Storage
    rank_zero: str
    callbacks: tuple[Callback, ...]
    shards: Mapping[str, Any]
    extra: Mapping[str, Any]
    directory_prefix: str
    report_buffer: int
    secret_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ack:
    """What of a worker's reports is durable, and what of its gang's is committed (both exclusive).

    `kept` lists the checkpoints of the run when they are not those the worker knows (`version`). Those
    below `visible`, and its replica group's own, are what it goes on from.
    """

    durable: int
    committed: int
    version: int
    kept: tuple[Kept, ...] | None = None
    preemption: Preemption | None = None
    visible: int | None = None


class HookFailure(NamedTuple):
    """A callback in a worker that raised; `error` is an encoded Error."""

    callback: str
    hook: str
    error: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """News of a worker: reports after the acknowledged ones, encoded, and how its function ended.

    `ended` is "" while it runs, "completed", "failed", or "superseded": another call took over.
    `terminating` says that its process was told to end, by SIGTERM.
    `value` is the pickled return value; `summary` the same as an encoded Value; `error` an encoded
    Error, `cause` its number, `exception` the pickled exception.
    """

    reports: Sequence[bytes] = ()
    ended: str = ""
    value: bytes = b""
    summary: bytes = b""
    error: bytes = b""
    cause: int = 0
    exception: bytes = b""
    version: int = 0
    hook_failures: Sequence[HookFailure] = ()
    terminating: bool = False
