"""The planting of bugs works: what breaks a promise is killed, what does not survives and is told.

All of the bugs are planted by scripts/bench/planted-bugs; here a few, and two that are none.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.victims import ROOT

KILLED = [
    "acknowledge before the sync",
    "the bytes of a tear are not kept",
    "an incarnation is not checked",
    "the mark is not honoured on resuming",
]


@pytest.mark.slow
def test_a_broken_promise_is_noticed(shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four bugs are killed by their tests; a harmless edit survives; a text that is gone is an error."""
    monkeypatch.syspath_prepend(ROOT / "scripts/bench")
    from planted_bugs import BUGS, try_all

    bugs = [bug for bug in BUGS if bug.name in KILLED]
    harmless = bugs[0]._replace(old="import annotations", new="import annotations  # harmless")
    gone = bugs[0]._replace(old="no such text")
    found = [verdict.what for verdict in try_all([*bugs, harmless, gone], shm, 2)]
    assert [*["killed"] * 4, "SURVIVED", "NO SUCH TEXT"] == found


def test_enough_promises_are_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least 25, each of its own name, each text where the table says."""
    monkeypatch.syspath_prepend(ROOT / "scripts/bench")
    from planted_bugs import BUGS

    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 25
    texts = {file: (ROOT / file).read_text() for file in {bug.file for bug in BUGS}}
    lost = [
        bug.name
        for bug in BUGS
        for old in (bug.old, *(old for old, _ in bug.more))
        if texts[bug.file].count(old) != 1
    ]
    assert lost == []
