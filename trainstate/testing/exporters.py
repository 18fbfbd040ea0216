"""The contract of an exporter, as tests: every sink passes the same ones.

    def test_my_sink_keeps_the_contract():
        check_exporter(lambda folder: MySink.open(str(folder / "out")), read_my_sink)

A pump is killed at every step it has: before and after each save of the cursor, in the middle of each
write and after it. Killed means that nothing of it runs on but `close` of the exporter; the next pump
must bring the sink to what its guarantee promises.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from trainstate.core.freeze import to_proto
from trainstate.errors import (
    CursorMismatch,
    RefusedError,
    SinkRejected,
    SinkUnavailable,
    TrainstateError,
)
from trainstate.export import Exporter, Guarantee
from trainstate.testing import story
from trainstate.testing.export_bench import (
    LIMITS,
    Bench,
    Faults,
    FaultyExporter,
    NoWait,
    be_away,
    die,
    encoded,
    require,
    require_equal,
    states,
    without_repeats,
)

R = TypeVar("R")


def check_exporter(
    open_in: Callable[[Path], Exporter[R]],
    read_back: Callable[[Path], Sequence[Any]],
    *,
    tear: Callable[[Path], None] | None = None,
    shown: Callable[[R], Any] = lambda record: record,
) -> None:
    """Checks the whole contract, each part on a fresh folder. Raises AssertionError when one is broken.

    `open_in(folder)` opens the exporter on a sink of that folder, the same sink every time;
    `read_back(folder)` tells what the sink holds, in order (for effectively_once: as who reads by key
    sees it); `shown(record)` is what `read_back` tells of a record.
    `tear(folder)` leaves in the sink what a write of more records leaves when it is cut short; without
    it no write is cut short.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        story.write_story(root / "journal")
        for number, (name, check) in enumerate(CONTRACT.items()):
            home = root / str(number)
            home.mkdir()
            bench = Bench(root / "journal", home, open_in, read_back, tear, shown)
            try:
                check(bench)
            except (AssertionError, TrainstateError) as broken:
                raise AssertionError(f"{name}: {broken}") from broken


# --- the contract -----------------------------------------------------------------------------


def _empty(bench: Bench[R]) -> None:
    bench.journal = bench.home / "empty"
    story.write_empty(bench.journal)
    bench.run()
    bench.require_delivered("of an empty journal")


def _in_order(bench: Bench[R]) -> None:
    counters = bench.run()
    require(counters.written > 2 * LIMITS.records, "too few records to tell anything")
    bench.require_delivered("everything, in the order of the journal")
    bench.run()
    bench.require_delivered("everything, after an export with nothing to do")


def _pure(bench: Bench[R]) -> None:
    one, other = bench.open_in(bench.sink("one")), bench.open_in(bench.sink("other"))
    try:
        for recorded, run in states(bench.journal):
            before = to_proto(run), recorded.event.SerializeToString()
            records = (
                one.encode(recorded, run),
                one.encode(recorded, run),
                other.encode(recorded, run),
            )
            after = to_proto(run), recorded.event.SerializeToString()
            require(records[0] == records[1] == records[2], f"seq {recorded.seq} encodes unequally")
            require(before == after, f"encoding seq {recorded.seq} changes the event or its run")
        require(not bench.read_back(bench.sink("one")), "encoding writes")
    finally:
        one.close()
        other.close()


def _independent(bench: Bench[R]) -> None:
    exporter = bench.open_in(bench.sink())
    try:
        early = [repr(bench.shown(record)) for record in encoded(exporter, bench.journal)]
        late = [repr(bench.shown(record)) for record in list(encoded(exporter, bench.journal))]
    finally:
        exporter.close()
    require_equal(early, late, "records that do not change with the run they were of")


def _acknowledged(bench: Bench[R]) -> None:
    expected = len(bench.expected())
    held: list[int] = []

    def count() -> None:
        held.append(len(bench.read_back(bench.sink())))

    writes = -(-expected // LIMITS.records) + 1
    faults = Faults({("acknowledged", number): count for number in range(1, writes + 1)})
    with bench.pump(faults) as pump:
        pump.run_once(NoWait())
    require(faults.fired > 1, "nothing was written")
    grew = all(before < after for before, after in pairwise([0, *held]))
    require(grew, f"write returned before the sink held it: {held} after each")
    require(held[-1] >= expected, f"after the last write the sink holds {held[-1]} of {expected}")


def _grows(bench: Bench[R]) -> None:
    bench.journal = bench.home / "growing"
    story.write_beginning(bench.journal)
    with bench.pump(Faults()) as pump:
        pump.run_once(NoWait())
        bench.require_delivered("the first half")
        story.write_ending(bench.journal)
        pump.run_once(NoWait())
        bench.require_delivered("both halves")


def _grows_between(bench: Bench[R]) -> None:
    bench.journal = bench.home / "growing"
    story.write_beginning(bench.journal)
    bench.run()
    story.write_ending(bench.journal)
    bench.run()
    bench.require_delivered("both halves, by two pumps")


def _killed_anywhere(bench: Bench[R]) -> None:
    for number, (step, count) in enumerate(bench.steps()):
        name = f"sink-{number}"
        bench.kill(name, (step, count))
        bench.run(name=name)
        bench.require_delivered(f"after a kill at {step} {count}", name)


def _killed_twice(bench: Bench[R]) -> None:
    bench.kill("sink", ("acknowledged", 2))
    bench.kill("sink", ("acknowledged", 1))
    bench.run()
    bench.require_delivered("after a kill, and another while the same range was sent again")


def _torn(bench: Bench[R]) -> None:
    tear = bench.tear
    if tear is None:
        return
    writes = sum(step == "write" for step, _ in bench.steps())
    for number in range(1, writes + 1):
        name = f"sink-{number}"
        bench.kill(name, ("write", number), partial(_cut_short, tear, bench.sink(name)))
        bench.run(name=name)
        bench.require_delivered(f"after write {number} was cut short", name)


def _cut_short(tear: Callable[[Path], None], sink: Path) -> None:
    tear(sink)
    die()


def _away(bench: Bench[R]) -> None:
    plan = {(step, n): be_away for step in ("resume", "write", "acknowledged") for n in (1, 3)}
    faults = Faults(plan)
    counters = bench.run(faults)
    require(faults.fired == len(plan), f"{faults.fired} of {len(plan)} faults fired")
    require_equal(len(plan), counters.retried, "each of them retried")
    bench.require_delivered("from a sink that was away, before and after it took the records")


def _away_for_long(bench: Bench[R]) -> None:
    faults = Faults({("write", number): be_away for number in range(2, 99)})
    try:
        bench.run(faults)
    except SinkUnavailable:
        bench.run()
        bench.require_delivered("by the next pump, after the first gave up")
        return
    raise AssertionError("the pump did not give up on a sink that is away")


def _refused(bench: Bench[R]) -> None:
    exporter = bench.open_in(bench.sink("never-written"))
    exporter.close()
    bad = list(encoded(exporter, bench.journal))[2:13:5]

    class Refusing(FaultyExporter[R]):
        def write(self, records: Sequence[R]) -> bytes:
            if any(record in bad for record in records):
                raise SinkRejected("it is not to the taste of this sink")
            return super().write(records)

    everything = bench.open_in
    bench.open_in = lambda folder: Refusing(everything(folder), Faults())
    counters = bench.run()
    bench.open_in = everything
    require_equal(len(bad), counters.dead, "each refused record counted")
    require_equal(len(bad), bench.dead().read_bytes().count(b"\n"), "each in the dead letters")
    refused = [bench.shown(record) for record in bad]
    left = [one for one in bench.expected() if one not in refused]
    found = list(bench.read_back(bench.sink()))
    require_equal(left, without_repeats(found), "all but the refused")


def _other_journal(bench: Bench[R]) -> None:
    bench.run()
    before = list(bench.read_back(bench.sink()))
    bench.journal = bench.home / "other"
    story.write_story(bench.journal)
    try:
        bench.run()
    except CursorMismatch:
        found = list(bench.read_back(bench.sink()))
        require_equal(before, found, "nothing sent from the wrong journal")
        return
    raise AssertionError("the cursor of one journal was used for another")


def _lost_cursor(bench: Bench[R]) -> None:
    bench.run()
    (bench.home / "sink.cursor").unlink()
    if bench.guarantee() is not Guarantee.EXACTLY_ONCE:
        return
    try:
        bench.run()
    except RefusedError:
        bench.require_delivered("and left alone without its cursor")
        return
    raise AssertionError("without a cursor everything was written to the sink a second time")


def _closed(bench: Bench[R]) -> None:
    exporter = bench.open_in(bench.sink())
    exporter.close()
    exporter.close()
    bench.run()
    before = list(bench.read_back(bench.sink()))
    exporter = bench.open_in(bench.sink())
    exporter.close()
    require_equal(before, list(bench.read_back(bench.sink())), "nothing written by opening it")


# What is promised, in a sentence, and the check of it.
CONTRACT: Mapping[str, Callable[[Bench[Any]], None]] = {
    "an empty journal is exported as nothing": _empty,
    "write returns when the sink holds the records": _acknowledged,
    "records arrive in order": _in_order,
    "encode is pure": _pure,
    "a record keeps nothing of the run": _independent,
    "a pump goes on with a growing journal": _grows,
    "the next pump goes on where the last one ended": _grows_between,
    "a kill at any step loses nothing, within the guarantee": _killed_anywhere,
    "a second kill while sending again loses nothing": _killed_twice,
    "a write cut short is undone": _torn,
    "a sink that is away is waited for": _away,
    "a sink that stays away loses nothing": _away_for_long,
    "a refused record goes to the dead letters, the rest goes on": _refused,
    "a cursor of another journal is refused": _other_journal,
    "an exactly-once sink refuses to be filled twice": _lost_cursor,
    "close may be called twice, and writes nothing": _closed,
}
