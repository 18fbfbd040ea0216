"""What failed, told for a person: an error, the ranks that failed alike, and texts of many lines."""

from __future__ import annotations

from trainstate.cli import _render
from trainstate.cli._text import count, headline, word
from trainstate.core import Attempt, Cause, Run
from trainstate.core.deciding import said
from trainstate.core.tracebacks import traceback_of
from trainstate.core.views.failures import Failure, failures, whole
from trainstate.v1 import state_pb2 as s


def tell_error(title: str, run: Run, error: s.Error | None, cause: Cause, tracebacks: bool) -> None:
    if error is None:
        return
    traceback = traceback_of(run, error)
    _render.heading(title)
    _render.facts(
        [
            ("type", error.type),
            ("message", headline(error.message)),
            ("cause", word(cause)),
            ("ranks", ", ".join(map(str, error.ranks))),
            ("node", error.node_id),
            ("hint", error.hint),
            ("traceback", "" if tracebacks else _how_to_see(traceback)),
        ]
    )
    if tracebacks:
        _block(traceback)


def tell_failures(run: Run, attempt: Attempt, tracebacks: bool) -> None:
    """Which ranks failed alike, if it was more than one."""
    found = failures(run, attempt)
    if sum(len(one.ranks) for one in found) < 2:
        return
    rows = [(_ranks(one), headline(said(one.error))) for one in found]
    _render.table(("ranks", "what"), rows, f"failures of attempt {attempt.number}")
    told = {whole(run, one) for one in (run.error, attempt.error) if one is not None}
    for one in found:
        if tracebacks and one.text not in told:
            _render.heading(f"ranks {_ranks(one)}")
            _block(one.text)


def _ranks(failure: Failure) -> str:
    return ", ".join(map(str, failure.ranks))


def _how_to_see(traceback: str) -> str:
    lines = traceback.strip().splitlines()
    return f"{count(len(lines), 'line')}: --traceback" if lines else ""


def tell_whole(title: str, text: str) -> None:
    """A text of several lines, such as a traceback, of which a table shows the first and the last."""
    if "\n" in text.strip():
        _render.heading(title)
        _block(text)


def _block(text: str) -> None:
    for row in text.splitlines():
        _render.say(row)
