"""One wrong bit, a cut-off end, a file that is gone: in every file of a small journal.

Each must be *detected* (a typed error that names the file, and nothing is changed) or be *harmless*: the
same events are read, by seq and by run, the same states folded, the same records exported, and the next
writer opens and appends.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.proofs import exports
from tests.proofs.lives import kill
from tests.proofs.volume import State, Unsynced, read_in, write_out
from trainstate.core.views.event_json import event_json
from trainstate.errors import TrainstateError
from trainstate.export import pins
from trainstate.journal import Reader, verify
from trainstate.store import History
from trainstate.v1 import event_pb2 as e

_RUNS = 9
LEFT_BY = ("a clean end", "a killed writer", "a power cut")


class Harm(NamedTuple):
    """What is done to a file: a bit flipped, its end cut off, or all of it removed."""

    file: str
    flipped: int | None = None  # the bit
    size: int | None = None  # what is left

    @property
    def sort(self) -> str:
        if self.flipped is not None:
            return "bits"
        return "removals" if self.size is None else "truncations"

    def do(self, state: State) -> State:
        data = state[self.file]
        assert data is not None
        if self.flipped is not None:
            wrong = bytearray(data)
            wrong[self.flipped // 8] ^= 1 << self.flipped % 8
            return {**state, self.file: bytes(wrong)}
        if self.size is not None:
            return {**state, self.file: data[: self.size]}
        return {name: content for name, content in state.items() if name != self.file}


def kind_of(file: str) -> str:
    """What sort of file it is."""
    name = Path(file).name
    return {"ended": "archive", "out.jsonl": "sink"}.get(name) or Path(name).suffix[1:] or name


class Specimen:
    """A journal with every kind of file, as a killed writer, a clean end or a power cut left it.

    After the power cut there is no DURABLE: nothing proves the last frame but itself, and a lost end of
    the last segment looks like one that was never written. So these two are left out, and nothing else.
    """

    def __init__(self, root: Path, left_by: str) -> None:
        self.root = root
        root.mkdir(parents=True)
        with exports.few_kept():
            store = exports.open_store(root, Unsynced())
            for number in range(_RUNS):
                opened = store.open_run(f"r{number}", "test", 1)
                made = exports.payloads(number)
                store.append(f"r{number}", opened.incarnation, opened.run_seq, made)
            exports.export(root)
            store.append("r0", 1, 3, [e.Event(sync_skipped=e.SyncSkipped(source="last"))])
            if left_by == "a clean end":
                store.close()
            else:
                store._archive.close()
                kill(store.writer)
            if left_by == "a power cut":
                (root / exports.JOURNAL / "DURABLE").unlink()
            self.state = read_in(root)
            self.events = [one.event.SerializeToString() for one in self._history.events()]
            self.summaries = self._history.summaries()
            extent = self._history.restored()[1]
            assert extent is not None
            assert extent.size > len(self._history.uuid), "a snapshot with archived runs"
            frames = list(Reader(root / exports.JOURNAL).frames())
            self.ends = {str(one.segment.relative_to(root)): one.end for one in frames}
            self._unproven = {}
            if left_by == "a power cut":
                last = frames[-1]
                self._unproven[str(last.segment.relative_to(root))] = range(last.offset, last.end)

    @property
    def _history(self) -> History:
        return History(self.root / exports.JOURNAL)

    @property
    def files(self) -> list[str]:
        """The journal's files; those without content are left out: a lock is no record."""
        return [
            name
            for name, data in self.state.items()
            if data and name != exports.SINK and not name.endswith(".lock")
        ]

    @property
    def _irreplaceable(self) -> set[str]:
        """Without these it is another thing: no journal, a younger history, an export never begun."""
        first = min(name for name in self.files if name.endswith(".seg"))
        cursors = {name for name in self.files if name.endswith(".cursor")}
        return {f"{exports.JOURNAL}/IDENTITY", first, *cursors}

    def harms(self, bits: int = 1, sizes: int = 1, start: int = 0) -> Iterator[Harm]:
        """Every so manieth bit and every so manieth length of every file, from `start` on.

        With the first of them (`start` 0), the removal of every file that can be told from one that
        never was.
        """
        for file in self.files:
            size = len(self.state[file] or b"")
            if not start and file not in {*self._irreplaceable, *self._unproven}:
                yield Harm(file)
            unproven = self._unproven.get(file, range(0))
            for bit in range(start, size * 8, bits):
                if bit // 8 not in unproven:
                    yield Harm(file, flipped=bit)
            for left in range(start % sizes, size, sizes):
                if left >= unproven.stop:
                    yield Harm(file, size=left)

    def check(self, harm: Harm) -> str:
        """Look at the journal with that harm: "detected" or "harmless"; anything else is raised."""
        shutil.rmtree(self.root)
        write_out(harm.do(self.state), self.root)
        before = read_in(self.root)
        try:
            verify(self.root / exports.JOURNAL)
            with exports.few_kept():
                self._read()
                self._go_on()
        except TrainstateError as error:
            self._check_detected(harm, error, before)
            return "detected"
        if kind_of(harm.file) == "seg":
            where = harm.size if harm.flipped is None else harm.flipped // 8
            assert where is not None, (harm, "a segment is gone and nobody noticed")
            assert where >= self.ends[harm.file], (harm, "entries are damaged and nobody noticed")
        return "harmless"

    def _read(self) -> None:
        history = self._history
        assert self.events == [one.event.SerializeToString() for one in history.events()]
        by_run = [
            one.event.SerializeToString()
            for number in range(_RUNS)
            for one in history.events_of(f"r{number}")
        ]
        assert sorted(self.events) == sorted(by_run)
        assert len(self.events) == len(list(history.since(0)))
        assert self.summaries == history.summaries()
        pins(history.path)

    def _go_on(self) -> None:
        with exports.open_store(self.root, Unsynced()) as store:
            assert self.summaries == store.summaries()
            store.open_run("after", "test", 1)
        exports.export(self.root)
        events = list(self._history.events())
        assert self.events == [one.event.SerializeToString() for one in events[:-1]]
        sent = (self.root / exports.SINK).read_bytes().splitlines()
        assert [event_json(one) for one in events] == [json.loads(line) for line in sent]
        report = verify(self.root / exports.JOURNAL)
        assert report.ok, report.damages

    def _check_detected(self, harm: Harm, error: TrainstateError, before: State) -> None:
        assert error.path == str(self.root / harm.file), (harm, error)
        assert error.hint, (harm, error)
        if kind_of(harm.file) == "seg" and harm.sort == "bits":
            assert error.offset is not None
            assert error.offset <= (harm.flipped or 0) // 8
        after = read_in(self.root)
        for name, content in before.items():
            if name.endswith(".seg"):
                assert content == after[name], (harm, name)


def table(specimen: Specimen, harms: Iterator[Harm]) -> Counter[tuple[str, str, str]]:
    """(kind of file, sort of harm, outcome) -> how often."""
    return Counter((kind_of(harm.file), harm.sort, specimen.check(harm)) for harm in harms)
