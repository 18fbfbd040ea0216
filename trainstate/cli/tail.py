"""`trainstate tail`: events as they were recorded, and as they come."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import click

from trainstate.cli._event_line import show_event
from trainstate.cli._follow import Follower
from trainstate.cli._options import journal_option, json_option
from trainstate.cli._text import clean, payload_word
from trainstate.cli._where import first_seq_since, home, open_root, parse_position
from trainstate.core.views.event_json import UNKNOWN_KIND
from trainstate.errors import NotAJournal, UsageError
from trainstate.store import History, Recorded, Root
from trainstate.store.events import recorded
from trainstate.v1 import event_pb2 as e

_PAYLOADS = [field.name for field in e.Event.DESCRIPTOR.oneofs_by_name["payload"].fields]
_KINDS = {payload_word(name).lower(): name for name in [*_PAYLOADS, UNKNOWN_KIND]}
# How long one look at the journal waits for news; Ctrl-C is honoured in between.
_WAIT_S = 1.0
# Between two looks at all of them.
_PAUSE_S = 0.05


class Selection(NamedTuple):
    """Which events are wanted."""

    run_id: str | None
    kinds: frozenset[str]
    not_before_ns: int = 0

    def wants(self, one: Recorded) -> bool:
        """Whether an event is among them."""
        event = one.event
        return (
            (self.run_id is None or event.run_id == self.run_id)
            and (not self.kinds or (event.WhichOneof("payload") or UNKNOWN_KIND) in self.kinds)
            and event.time_unix_nano >= self.not_before_ns
        )


@click.command()
@click.option("--follow", "-f", "follows", is_flag=True, help="Go on as events come; Ctrl-C ends.")
@click.option("--run", "prefix", metavar="RUN", help="Of one run only.")
@click.option(
    "--kind", "kinds", metavar="KIND", multiple=True, help="Of this kind only; repeatable."
)
@click.option(
    "--from",
    "start",
    metavar="SEQ|TIME|earliest|now",
    default="earliest",
    show_default=True,
    help="Begin there.",
)
@journal_option
@json_option
def tail(
    follows: bool,
    prefix: str | None,
    kinds: Sequence[str],
    start: str,
    journal: Path | None,
    as_json: bool,
) -> None:
    """Print events, and go on as they come.

    One line per event: position, time, run, what happened, and why. KIND is WorkerStarted or
    worker_started. Several journals are merged by time; to begin at a SEQ, name one journal or a run.
    --follow goes on in all of them, and in those that are made meanwhile.
    """
    wanted = frozenset(map(_kind, kinds))
    if prefix is None and follows and not start.isdecimal():
        events = _all_followed(journal, Selection(None, wanted), start)
    else:
        events = _events(open_root(journal), prefix, wanted, start, follows)
    for one in events:
        show_event(one, as_json)


def _kind(text: str) -> str:
    kind = _KINDS.get(text.replace("_", "").lower())
    if kind is None:
        named = [payload_word(name) for name in _PAYLOADS]
        raise UsageError(f"there is no event {text!r}", hint=f"one of {', '.join(named)}")
    return kind


def _events(
    root: Root, prefix: str | None, kinds: frozenset[str], start: str, follows: bool
) -> Iterator[Recorded]:
    """The events of a run, or of all journals; NotFound where one must be named."""
    if prefix is not None:
        found = root.find(prefix)
        return _source(found.history, Selection(found.run_id, kinds), start, follows)
    histories = [root.only()] if start.isdecimal() else root.journals
    return _merged(_source(one, Selection(None, kinds), start, follows) for one in histories)


def _merged(sources: Iterable[Iterator[Recorded]]) -> Iterator[Recorded]:
    return heapq.merge(*sources, key=lambda one: one.event.time_unix_nano)


def _all_followed(journal: Path | None, selection: Selection, start: str) -> Iterator[Recorded]:
    """What all journals hold, merged by time; then what comes, in whichever, as it comes."""
    path = journal or home()
    histories = _histories_at(journal, path, start)
    ends = {history.path: history.end.next_seq for history in histories}
    yield from _merged(_up_to(one, selection, start, ends[one.path]) for one in histories)
    follower = Follower(path, ends)
    try:
        while True:
            for _, events in follower.look():
                yield from filter(selection.wants, events)
            time.sleep(follower.pause_s(_PAUSE_S))
    finally:
        follower.close()


def _histories_at(journal: Path | None, path: Path, start: str) -> list[History]:
    """The journals that are there; if there is none, that is said, and one is waited for."""
    if start not in _NAMED:
        parse_position(start)  # which may be wrong, also where nothing is there to apply it to
    try:
        return open_root(journal).journals
    except NotAJournal:
        if path.is_file():
            raise
        click.echo(f"no journal at {clean(str(path))} yet: waiting for one", err=True)
        return []


def _up_to(history: History, selection: Selection, start: str, end_seq: int) -> Iterator[Recorded]:
    events = _source(history, selection, start, follows=False)
    return takewhile(lambda one: one.seq < end_seq, events)


def _source(
    history: History, selection: Selection, start: str, follows: bool
) -> Iterator[Recorded]:
    """The wanted events of one journal, from where `start` says."""
    from_seq, selection = _begin(history, selection, start)
    if follows:
        events = _followed(history, from_seq)
    elif selection.run_id is not None:
        events = history.events_of(selection.run_id, from_seq)
    else:
        events = history.events(from_seq)
    return filter(selection.wants, events)


def _begin(history: History, selection: Selection, start: str) -> tuple[int, Selection]:
    named = _NAMED.get(start)
    if named is not None:
        return named(history), selection
    position = parse_position(start)
    from_seq = max(first_seq_since(history, position), history.first_seq)
    # Behind the first event of a time come events of other runs that are older.
    return from_seq, selection._replace(not_before_ns=position.time_ns or 0)


def _followed(history: History, from_seq: int) -> Iterator[Recorded]:
    news = history.tail(from_seq)
    try:
        while True:
            yield from recorded(news.read(_WAIT_S), from_seq)
    finally:
        news.close()


_NAMED: dict[str, Callable[[History], int]] = {
    "earliest": lambda history: history.first_seq,
    "now": lambda history: history.end.next_seq,
}
