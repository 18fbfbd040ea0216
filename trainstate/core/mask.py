"""Secrets out of events, before they are recorded: the one door is `store.append`.

The table says which fields hold what users wrote or what was raised. Names, ids, paths in storage and
everything that decisions are made by stay as they are. What is under a secret name is masked whatever it
is; everywhere else, what looks like a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from trainstate.core.markers import Mask
from trainstate.core.model import Run
from trainstate.core.secrets import ALWAYS, Names
from trainstate.core.values import from_value, to_value
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

# Texts, by message; `ValueMap` and `Value` are looked through wherever they are.
_TEXTS: Mapping[str, tuple[str, ...]] = {
    "Error": ("message", "traceback", "hint"),
    "Traceback": ("text",),
    "Provenance": ("entrypoint", "working_directory", "argv", "image"),
    "RunConfig": ("storage_path", "storage_filesystem"),
    "SyncStarted": ("source", "target"),
    "SyncSkipped": ("source", "target"),
    "ForeignStatusObserved": ("text",),
}
# How the value of an encoded entry begins if it is a text, bytes, a list or a map; and what looks so.
_TEXT_IN = re.compile(rb"\x12[\x80-\xff]{0,4}[\x00-\x7f][*2:BJ]")
# Payloads that hold nothing else that could be a secret: metrics, names, positions.
_MEASURED = frozenset({"report_received", "checkpoint_committed"})
Cleaner = Callable[[Any, Mask], None]


class EventMask:
    """Masks events in place, with one salt; the secret names of a run are in its settings.

    `mask` is for what is no event yet.
    """

    def __init__(self, salt: bytes) -> None:
        self.salt = salt
        self.mask = Mask(salt)
        self._of_names = lru_cache(lambda more: Mask(salt, Names(more) if more else ALWAYS))

    def may_touch(self, event: e.Event, encoded: bytes) -> bool:
        """Whether there may be a secret in an event; quick, for the many that are numbers only."""
        kind = event.WhichOneof("payload") or ""
        if kind in _MEASURED:
            return bool(event.reason or _TEXT_IN.search(encoded))
        return bool(event.reason) or kind in _payloads()

    def __call__(self, event: e.Event, run: Run) -> None:
        """Masks `event`, which comes after what `run` is the state of."""
        kind = event.WhichOneof("payload") or ""
        step = _payloads().get(kind)
        settings = event.run_created.settings if kind == "run_created" else run.settings
        mask = self._of_names(tuple(settings.secret_keys)) if settings is not None else self.mask
        if event.reason:
            event.reason = mask.text(event.reason)
        if step is not None:
            step(event, mask)


class Unmasked:
    """Masks nothing: for who asked to keep secrets."""

    mask: Mask | None = None

    def may_touch(self, event: e.Event, encoded: bytes) -> bool:
        """Never."""
        return False

    def __call__(self, event: e.Event, run: Run) -> None:
        """Leaves `event` as it is."""


Masking: TypeAlias = EventMask | Unmasked


def clean(message: Message, mask: Mask) -> None:
    """Masks a message in place."""
    for step in _steps(message.DESCRIPTOR):
        if not step.has_presence or message.HasField(step.name):
            step.clean(message, mask)


class _Step(NamedTuple):
    name: str
    has_presence: bool
    clean: Cleaner


@cache
def _steps(descriptor: Descriptor) -> Sequence[_Step]:
    """What there is to do for a message of that type; worked out once per type."""
    texts = _TEXTS.get(descriptor.name, ())
    found = []
    for field in descriptor.fields:
        inner = field.message_type
        if field.name in texts:
            step = _clean_text(field.name)
        elif inner is None or not _holds_text(inner):
            continue
        else:
            step = _SPECIAL.get(inner.name, _clean_inner)(field.name)
        found.append(_Step(field.name, field.has_presence, step))
    return found


@cache
def _payloads() -> Mapping[str, Cleaner]:
    """What there is to do for an event, by the kind of its payload: for most there is nothing."""
    return {step.name: step.clean for step in _steps(e.Event.DESCRIPTOR)}


@cache
def _holds_text(descriptor: Descriptor) -> bool:
    if descriptor.name in _SPECIAL or descriptor.name in _TEXTS:
        return True
    inner = (field.message_type for field in descriptor.fields)
    return any(one is not None and _holds_text(one) for one in inner)


def _clean_text(name: str) -> Cleaner:
    def step(message: Any, mask: Mask) -> None:
        found = getattr(message, name)
        if not isinstance(found, str):  # repeated
            found[:] = mask.plain(list(found))
        elif found:
            setattr(message, name, mask.text(found))

    return step


def _clean_inner(name: str) -> Cleaner:
    def step(message: Any, mask: Mask) -> None:
        found = getattr(message, name)
        for one in [found] if isinstance(found, Message) else found:
            clean(one, mask)

    return step


def _clean_map(name: str) -> Cleaner:
    def step(message: Any, mask: Mask) -> None:
        used = mask.sparing_numbers() if name == "metrics" else mask
        for entry in getattr(message, name).entries:
            _clean_entry(entry, used)

    return step


def _clean_entry(entry: s.ValueEntry, mask: Mask) -> None:
    """Only what has a secret is written anew: a newer version's kinds of values stay as they are."""
    plain = {entry.key: from_value(entry.value)}
    masked = mask.plain(plain)
    if masked != plain:
        ((entry.key, value),) = masked.items()
        entry.value.CopyFrom(to_value(value))


def _clean_value(name: str) -> Cleaner:
    def step(message: Any, mask: Mask) -> None:
        value = getattr(message, name)
        plain = from_value(value)
        masked = mask.plain(plain)
        if masked != plain:
            value.CopyFrom(to_value(masked))

    return step


_SPECIAL: Mapping[str, Callable[[str], Cleaner]] = {"ValueMap": _clean_map, "Value": _clean_value}
