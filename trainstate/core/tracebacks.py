"""Tracebacks, kept once: the first error of a run with one has its text, every later one its digest.

Two tracebacks are one if only numbers differ that are no line numbers (addresses, ranks, sizes): so a
thousand ranks that fail in one place are one text in the journal, each with a message of its own. The
digest is of the text without secrets, as nobody must be able to try passwords against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b

from trainstate.core.markers import Mask
from trainstate.core.model import Run
from trainstate.core.secrets import Names
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

# Of a run; the oldest give way, and are in the journal still.
KEPT = 64
ERRING = frozenset(
    field.name
    for field in e.Event.DESCRIPTOR.oneofs_by_name["payload"].fields
    if field.message_type and "error" in field.message_type.fields_by_name
)
_NUMBER = re.compile(r"(line )?(?:0x[0-9a-fA-F]+|\d+)")


def once(run: Run, events: Iterable[e.Event]) -> Iterator[e.Event]:
    """The events, which come after what `run` is the state of, with no traceback a second time."""
    known = {one.digest for one in run.tracebacks}
    names = tuple(run.settings.secret_keys) if run.settings is not None else ()
    for event in events:
        error = _error_of(event)
        if error is not None and error.traceback:
            error.traceback_digest = digest(error.traceback, names)
            if error.traceback_digest in known:
                error.ClearField("traceback")
            known.add(error.traceback_digest)
        yield event


def note(run: Run, event: e.Event) -> None:
    """Keeps the traceback of an event that is the first with it."""
    error = _error_of(event)
    if error is None or not (error.traceback and error.traceback_digest):
        return
    if all(one.digest != error.traceback_digest for one in run.tracebacks):
        kept = s.Traceback(digest=error.traceback_digest, text=error.traceback)
        run.tracebacks = [*run.tracebacks[1 - KEPT :], kept]


def traceback_of(run: Run, error: s.Error) -> str:
    """The traceback of an error of a run; "" if it has none, or the run has had too many since."""
    known = (one.text for one in run.tracebacks if one.digest == error.traceback_digest)
    return error.traceback or next(known, "")


def digest(traceback: str, secret_names: tuple[str, ...] = ()) -> bytes:
    """What tracebacks have in common that differ in numbers only."""
    return _digest(normalised(traceback), secret_names)


@lru_cache(KEPT)
def _digest(text: str, secret_names: tuple[str, ...]) -> bytes:
    hidden = Mask(None, Names(secret_names)).text(text)
    return blake2b(hidden.encode("utf-8", "backslashreplace"), digest_size=8).digest()


def normalised(text: str) -> str:
    """A text with 0 for each of its numbers, but for those of lines."""
    return _NUMBER.sub(lambda match: match[0] if match[1] else "0", text)


def _error_of(event: e.Event) -> s.Error | None:
    kind = event.WhichOneof("payload") or ""
    payload = getattr(event, kind) if kind in ERRING else None
    return payload.error if payload is not None and payload.HasField("error") else None
