"""What failed in an attempt: ranks that failed alike together, each text in a length to look at.

Alike is what differs in numbers only (A6.4). The whole traceback is the run's, once
(core/tracebacks.py); here is its beginning and its end, where it says what was raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from trainstate.core.deciding import said
from trainstate.core.model import Attempt, Run
from trainstate.core.secrets import ends_of
from trainstate.core.tracebacks import normalised, traceback_of
from trainstate.v1 import state_pb2 as s

SNIPPET_MAX = 1000


class Failure(NamedTuple):
    """The ranks that failed alike, the error of the first of them, and its text."""

    ranks: tuple[int, ...]
    error: s.Error
    text: str


def failures(run: Run, attempt: Attempt) -> list[Failure]:
    """The failures of an attempt, by the first rank of each; its own if no worker has one."""
    failed = [
        Failure((worker.rank,), worker.error, whole(run, worker.error))
        for worker in sorted([*attempt.replaced, *attempt.workers.values()], key=attrgetter("rank"))
        if worker.error is not None
    ]
    if not failed and attempt.error is not None:
        return [Failure(tuple(attempt.error.ranks), attempt.error, whole(run, attempt.error))]
    alike: dict[bytes | str, list[Failure]] = {}
    for one in failed:
        key = one.error.traceback_digest or normalised(one.text)
        alike.setdefault(key, []).append(one)
    return [_together(many) for many in alike.values()]


def _together(many: Sequence[Failure]) -> Failure:
    ranks = dict.fromkeys(rank for one in many for rank in one.ranks)
    return many[0]._replace(ranks=tuple(ranks))


def whole(run: Run, error: s.Error) -> str:
    """The traceback of an error, which ends with its message; the message, if there is none."""
    return (traceback_of(run, error) or said(error)).strip()


def in_rays_words(run: Run, attempt: Attempt) -> str:
    """The failures as Ray's log tells them (A6.4); "" without any."""
    return "\n".join(
        f"{_heading(one.ranks)}{ends_of(one.text, SNIPPET_MAX)}\n" for one in failures(run, attempt)
    )


def _heading(ranks: Sequence[int]) -> str:
    return f"[Rank {','.join(map(str, ranks))} Error Snippet]:\n" if ranks else ""
