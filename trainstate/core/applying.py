"""What every applier of core/evolve.py needs: moving a status, owning a message, reading an enum."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message

from trainstate.core.model import Irregularity, Run, Status
from trainstate.core.transitions import TARGETS, allowed
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

Applier = Callable[[Run, e.Event, Any], None]

# Notes kept of moves outside the tables; all of them are counted.
IRREGULAR_KEPT = 100
UINT64_MAX = 2**64 - 1

_Message = TypeVar("_Message", bound=Message)
_Enum = TypeVar("_Enum", bound=IntEnum)
_Status = TypeVar("_Status", bound=Status)


class _Entity(Protocol[_Status]):
    status: _Status
    status_reason: str


def move(run: Run, entity: _Entity[_Status], target: _Status, reason: str, what: str) -> None:
    """Gives `entity` its new status. A move outside the table is made all the same, and noted."""
    if not allowed(entity.status, target):
        note(run, f"{what} went from {entity.status.name} to {target.name}")
    entity.status = target
    entity.status_reason = reason


def target_of(event: e.Event) -> Any:
    """The status, of whichever machine, that a payload of core/transitions.py TARGETS leads to."""
    return TARGETS[event.WhichOneof("payload") or ""]


def observe(run: Run, event: e.Event, entity: _Entity[_Status], target: _Status, what: str) -> None:
    """Gives `entity` the status another system recorded, and notes why our tables had refused it."""
    note(run, f"{what} was said to go from {entity.status.name} to {target.name}: {event.reason}")
    entity.status = target
    entity.status_reason = event.foreign_status_observed.text


def note(run: Run, text: str) -> None:
    """Keeps that something recorded was out of the ordinary."""
    run.irregular_count += 1
    if len(run.irregular) < IRREGULAR_KEPT:
        run.irregular.append(Irregularity(run.run_seq, text))


def after(index: int) -> int:
    """The index due after `index`; of the last one that 64 bits can count, itself."""
    return min(index + 1, UINT64_MAX)


def later(time_ns: int, seconds: float) -> int:
    """The time so many seconds after `time_ns`; a delay beyond all counting adds nothing."""
    delay_ns = int(seconds * 10**9) if 0 < seconds < UINT64_MAX / 10**9 else 0
    return min(time_ns + delay_ns, UINT64_MAX)


def stamp(run: Run, event: e.Event) -> None:
    """Makes `event` the next one of `run`: identity, position, writer, a time not before the last."""
    event.run_id = run.run_id
    event.run_seq = run.run_seq + 1
    event.incarnation = run.incarnation
    event.time_unix_nano = max(event.time_unix_nano, run.time_ns)


def own(message: _Message) -> _Message:
    """A copy: a part of an event would keep its whole batch in memory."""
    mine = type(message)()
    mine.CopyFrom(message)
    return mine


def own_error(payload: Any) -> s.Error | None:
    """The error a payload carries, if any; its traceback is the run's, if that knows it by digest."""
    if not payload.HasField("error"):
        return None
    mine: s.Error = own(payload.error)
    if mine.traceback_digest:
        mine.ClearField("traceback")
    return mine


def known(kind: type[_Enum], number: int) -> _Enum:
    """The enum member of a number; UNSPECIFIED for one that only a newer version knows."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)
