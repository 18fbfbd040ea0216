"""Cycles of real kills: a victim dies anywhere, and what it left is held against what it reported."""

from __future__ import annotations

import json
import random
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from trainstate_exporters.ray_export_log import LOG_NAME, RayExportLog

from tests.proofs import victims
from tests.proofs.lives import chunk, numbers
from tests.proofs.victims import RUNS, Nursery, Victim
from tests.proofs.volume import Unsynced
from trainstate.core.views.event_json import event_json
from trainstate.export import Pump, load_cursor
from trainstate.journal import Reader, Writer, is_journal, verify
from trainstate.store import History

HEIR = 50_000_000  # what the entries of a writer that took over say
_SPIN_MAX = 20_000  # turns of an empty loop, about half a millisecond


def spin(draw: random.Random) -> None:
    """Let the victim get a little further, for a time that nobody measures."""
    for _ in range(draw.randrange(_SPIN_MAX)):
        pass


class WriterKills:
    """One journal, writers that are killed one after the other, and what all of them reported."""

    def __init__(self, folder: Path, nursery: Nursery) -> None:
        self.path = folder / "journal"
        self._nursery = nursery
        self.acked = dict.fromkeys(RUNS, 0)
        self.counts: Counter[str] = Counter()

    def cycle(self, draw: random.Random) -> None:
        """Start a writer, kill it after a few acknowledgements, and look at what it left."""
        victim = self._nursery.start(victims.write, self.path)
        lines = victim.lines(draw.randrange(40))
        spin(draw)
        lines += victim.kill()
        for line in lines:
            run_id, run_seq = line.split()
            self.acked[run_id] = max(self.acked[run_id], int(run_seq))
            self.counts["acknowledgements"] += 1
        assert victim.killed
        self.counts["kills"] += 1
        if (self.path / "IDENTITY").exists():
            self.check()
        else:
            assert not any(self.acked.values())

    def check(self) -> None:
        """Nothing acknowledged is lost, nothing invented, and every run counts without a gap."""
        report = verify(self.path)
        assert report.ok, report.damages
        self.counts["torn"] += report.tear is not None
        history = History(self.path)
        found = Counter[str]()
        for seq, (at, event) in enumerate(history.events(), start=1):
            assert seq == at
            found[event.run_id] += 1
            assert found[event.run_id] == event.run_seq
            kind = event.WhichOneof("payload")
            if kind == "sync_skipped":
                assert f"{event.run_id} {event.run_seq}" == event.sync_skipped.source
            else:
                assert kind in ("run_opened", "run_created")
        for run_id in RUNS:
            assert found[run_id] >= self.acked[run_id]


def killed_import(
    folder: Path, nursery: Nursery, log: Path, kills: int, draw: random.Random
) -> int:
    """Import a log, killed that often; the export equals that of one undisturbed import.

    Returns how many of the killed had left events.
    """
    whole, broken = folder / "whole", folder / "broken"
    assert 0 == run_to_end(nursery.start(victims.import_log, whole, log))
    lines = len(log.read_bytes().splitlines())
    left = killed = 0
    while killed < kills:
        victim = nursery.start(victims.import_log, broken, log)
        victim.lines(draw.randrange(lines))
        spin(draw)
        victim.kill()
        killed += victim.killed
        left += victim.killed and is_journal(broken) and History(broken).end.next_seq > 1
        if not victim.killed:
            shutil.rmtree(broken)
    assert 0 == run_to_end(nursery.start(victims.import_log, broken, log))
    assert ray_lines(whole) == ray_lines(broken)
    for made in (whole, broken):
        shutil.rmtree(made)
    return left


def run_to_end(victim: Victim) -> int:
    """Let a victim live; its exit status."""
    while victim.line():
        pass
    return victim.end()


def ray_lines(journal: Path) -> list[object]:
    """The journal as Ray's log: every line but its event id, which is made of its position."""
    target = journal.with_name(journal.name + "-exported")
    with Pump.open(History(journal), RayExportLog.open(str(target))) as pump:
        pump.run_once()
    documents = [json.loads(line) for line in (target / LOG_NAME).read_bytes().splitlines()]
    shutil.rmtree(target)
    return [{**one, "event_id": ""} for one in documents]


def killed_export(
    folder: Path, nursery: Nursery, journal: Path, kills: int, draw: random.Random
) -> int:
    """Export a journal, killed that often; the sink holds every event exactly once.

    Returns how many of the killed left a range in flight.
    """
    sink = folder / "sink.jsonl"
    events = [event_json(one) for one in History(journal).events()]
    killed = in_flight = 0
    while killed < kills:
        victim = nursery.start(victims.export, journal, sink)
        victim.lines(draw.randrange(max(2, len(events) // 12)))
        spin(draw)
        victim.kill()
        killed += victim.killed
        cursor = next((journal / "cursor").glob("*.cursor"), None)
        if victim.killed and cursor:
            in_flight += load_cursor(cursor).in_flight is not None  # type: ignore[union-attr]
        if not victim.killed:
            _begin_anew(journal, sink)
    assert 0 == run_to_end(nursery.start(victims.export, journal, sink))
    assert events == [json.loads(line) for line in sink.read_bytes().splitlines()]
    _begin_anew(journal, sink)
    return in_flight


def _begin_anew(journal: Path, sink: Path) -> None:
    sink.unlink()
    for file in (journal / "cursor").iterdir():
        file.unlink()


class Zombie(NamedTuple):
    """What a stopped and fenced writer did, and the journal after it."""

    acknowledged: int
    adopted: int


def zombie(path: Path, nursery: Nursery, draw: random.Random) -> Zombie:
    """Stop a writer anywhere, take over, let it go on: it is fenced, and nothing is lost or doubled."""
    victim = nursery.start(victims.write_until_fenced, path)
    said = victim.lines(draw.randrange(1, 30))
    spin(draw)
    victim.stop()
    with Writer.take_over(path, segment_bytes_max=victims.SEGMENT_BYTES, disk=Unsynced()) as heir:
        begin = heir.next_seq
        mine = [heir.append(chunk(HEIR + number)) for number in range(5)]
        victim.send(signal.SIGCONT)
        said += victim.lines(20_000)
        assert "fenced again" == said[-1]
        assert 0 == victim.end()
        mine += [heir.append(chunk(HEIR + number)) for number in range(5, 10)]
    *acked, fenced, _ = said
    assert fenced.startswith("fenced the writer of epoch"), fenced
    acknowledged = int(acked[-1].split()[1])
    assert [f"acknowledged {seq}" for seq in range(1, acknowledged + 1)] == acked
    assert acknowledged < begin
    assert list(range(begin, begin + 10)) == mine
    expected = [*range(1, begin), *range(HEIR, HEIR + 10)]
    assert expected == numbers(Reader(path).frames())
    assert verify(path).ok
    return Zombie(acknowledged, begin - 1 - acknowledged)
