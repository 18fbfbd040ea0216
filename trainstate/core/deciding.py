"""What every handler of core/decide.py needs: making an event, and finding what is meant by an id.

A handler takes (run, observation, now_ns) and yields bare events: payload, attempt, reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from google.protobuf.message import Message

from trainstate.core.model import Attempt, Run, RunStatus, Worker
from trainstate.core.secrets import begin_of
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

Handler = Callable[[Run, Any, int], Iterable[e.Event]]

STARTING = (RunStatus.SCHEDULING, RunStatus.WAITING)
TRAINING = (RunStatus.RUNNING, RunStatus.PREEMPTING)
# In these the newest attempt is brought to its end, if it has not come to it.
STOPPING = (RunStatus.RESTARTING, RunStatus.RESIZING, RunStatus.SHUTTING_DOWN)
# In these another attempt follows.
ANEW = (RunStatus.RESTARTING, RunStatus.RESIZING)

# Of an error's text in a reason, which is a sentence; the error has all of it.
_LINE_MAX = 300

KIND_OF: Mapping[str, str] = {
    field.message_type.full_name: field.name
    for field in e.Event.DESCRIPTOR.oneofs_by_name["payload"].fields
    if field.message_type
}


def bare(payload: Message, reason: str = "", attempt: str = "") -> e.Event:
    """An event of that payload; its time, identity and position are not its maker's to give."""
    event = e.Event(reason=reason, attempt_id=attempt)
    getattr(event, KIND_OF[payload.DESCRIPTOR.full_name]).CopyFrom(payload)
    return event


def said(error: s.Error) -> str:
    """What an error says: its type and message."""
    return f"{error.type}: {error.message}" if error.type else error.message


def first_line(error: s.Error) -> str:
    """What an error says, in a line that is not too long to be read."""
    line = said(error).strip().split("\n", 1)[0]
    return line if len(line) <= _LINE_MAX else f"{begin_of(line, _LINE_MAX)}..."


def open_attempt(run: Run) -> Attempt | None:
    """The newest attempt, if it has not ended."""
    attempt = run.attempt
    return None if attempt is None or attempt.status.is_terminal else attempt


def current(run: Run, attempt_id: str) -> Attempt | None:
    """The attempt of that id, if it is the one that is open."""
    attempt = open_attempt(run)
    return attempt if attempt is not None and attempt.attempt_id == attempt_id else None


def current_worker(run: Run, attempt_id: str, rank: int, generation: int) -> Worker | None:
    """A worker of the open attempt, if it is still of that generation."""
    attempt = current(run, attempt_id)
    worker = attempt.workers.get(rank) if attempt is not None else None
    return worker if worker is not None and worker.generation == generation else None
