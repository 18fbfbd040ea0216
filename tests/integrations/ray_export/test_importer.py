"""Lines into a store: each once, in order, durable; the unusable ones set aside with a reason."""

from __future__ import annotations

import json

import pytest

from tests.integrations.ray_export.log import (
    REAL_LOG,
    REAL_LOGS,
    RUN_ID,
    Log,
    at,
    log_name,
    pair,
    raw,
    to_finished,
    to_running,
    worker_data,
)
from trainstate.core import RunStatus, WorkerStatus
from trainstate.core.freeze import freeze
from trainstate.core.mask import EventMask, Unmasked
from trainstate.core.values import from_map
from trainstate.errors import UsageError
from trainstate.integrations.ray_export import (
    Counts,
    Importer,
    Rejects,
    SourceLine,
    read,
    siblings,
)
from trainstate.integrations.ray_export.deltas import deltas
from trainstate.integrations.ray_export.lines import parse
from trainstate.store import Store
from trainstate.testing import event
from trainstate.v1 import event_pb2 as e


class Desk:
    """A journal, a log file, and imports from the one into the other, each by a process of its own."""

    def __init__(self, folder):
        self.journal = folder / "journal"
        self.log = folder / "export.log"
        self.rejects = folder / "rejects.jsonl"

    def write(self, *lines):
        self.log.write_bytes(b"".join(line + b"\n" for line in lines))

    def take(self, *paths):
        rejects = Rejects(self.rejects)
        with Store.open(self.journal) as store, Importer(store, rejects) as importer:
            for path in paths or [self.log]:
                for line in read(path):
                    importer.take(line)
        return importer.counts

    def events(self):
        with Store.open(self.journal) as store:
            return [one.event for one in store.history.events(1)]

    def run(self, run_id=RUN_ID):
        with Store.open(self.journal) as store:
            return store.state(run_id)

    def rejected(self):
        return [json.loads(line) for line in self.rejects.read_text().splitlines()]


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def imported(events):
    return [one.line_imported for one in events if one.HasField("line_imported")]


@pytest.mark.parametrize("path", REAL_LOGS, ids=log_name)
def test_a_real_log(desk, path):
    """Every line of a log that Ray wrote is taken in, with one LineImported in its place."""
    lines = [line for file in siblings(path) for line in read(file)]
    counts = desk.take(*siblings(path))
    whole = [line for line in lines if line.raw.endswith(b"}")]
    assert (len(whole), 0) == (counts.imported, counts.known)
    assert len(lines) - len(whole) == counts.rejected
    ended = {RunStatus.FINISHED, RunStatus.ERRORED, RunStatus.ABORTED}
    assert ended & {desk.run(parse(line.raw).run_id).status for line in whole}
    expected = [json.loads(line.raw)["event_id"] for line in whole]
    assert expected == [line.ray_event_id for line in imported(desk.events())]


def test_importing_twice_adds_nothing(desk):
    """The second time every line is known: not even the opening of a run is written."""
    first = desk.take(REAL_LOG)
    before = desk.events()
    assert Counts(imported=0, known=first.imported, rejected=0, flagged=0) == desk.take(REAL_LOG)
    assert before == desk.events()


def test_a_log_that_has_grown(desk):
    """Only what is new is written; the run goes on where it was, under a new incarnation."""
    lines = list(to_finished())
    desk.write(*lines[:4])
    assert 4 == desk.take().imported
    desk.write(*lines)
    assert Counts(imported=3, known=4, rejected=0, flagged=0) == desk.take()
    run = desk.run()
    assert (RunStatus.FINISHED, 2, []) == (run.status, run.incarnation, run.irregular)


def secretive():
    """A line with secrets in a text, under names, and in numbers."""
    line = json.loads(next(iter(to_finished())))
    line["event_data"]["status_detail"] = "login failed: password=hunter2"
    config = {"api_key": "PLANTED1", "password": 8315, "lr": 0.1}
    line["event_data"]["run_settings"] = {"train_loop_config": config}
    return json.dumps(line).encode()


def test_secrets_are_left_out(desk):
    """In what is made of the line and in its residue; the line is known again by what is kept of it."""
    desk.write(secretive())
    assert 1 == desk.take().imported
    assert not [one for one in ("hunter2", "PLANTED1", "8315") if one in str(desk.events())]
    config = from_map(desk.run().settings.train_loop_config)
    assert (0.1, True) == (config["lr"], config["password"].startswith("<secret-"))


def test_a_line_with_secrets_is_known_again(desk):
    """With the same salt, and with another: what is kept of its secrets is not looked at."""
    desk.write(secretive())
    for salt, counts in ((b"a" * 16, (1, 0, 0)), (b"a" * 16, (0, 1, 0)), (b"b" * 16, (0, 1, 0))):
        rejects = Rejects(desk.rejects)
        with (
            Store.open(desk.journal, masking=EventMask(salt)) as store,
            Importer(store, rejects) as importer,
        ):
            for line in read(desk.log):
                importer.take(line)
        assert counts == importer.counts[:3]


def test_a_rejected_line_has_no_secret(desk):
    """Nor has the reason why."""
    desk.write(
        b'{"source_type": "x", "token": "PLANTED1"}', b'{"source_type": "password=PLANTED2"}'
    )
    assert 2 == desk.take().rejected
    assert "PLANTED" not in desk.rejects.read_text()


def test_secrets_may_be_kept(desk):
    """By who asks for it: then nothing is changed."""
    desk.write(secretive())
    with (
        Store.open(desk.journal, masking=Unmasked()) as store,
        Importer(store, Rejects(desk.rejects)) as importer,
    ):
        for line in read(desk.log):
            importer.take(line)
    assert 8315 == from_map(desk.run().settings.train_loop_config)["password"]


def test_following_a_growing_file(desk):
    """What was taken is durable after `flush`, while the importer goes on."""
    lines = list(to_finished())
    with Store.open(desk.journal) as store, Importer(store, Rejects(desk.rejects)) as importer:
        for number in range(1, len(lines) + 1):
            desk.write(*lines[:number])
            *_, newest = read(desk.log)
            importer.take(newest)
            importer.flush()
            stored = imported(one.event for one in store.history.events(1))
            assert number == len(stored)
        assert RunStatus.FINISHED == store.state(RUN_ID).status


def test_rotated_files_are_one_log(desk):
    """Oldest first: the run is whole, whatever file its lines are in."""
    lines = list(to_finished())
    for name, part in ((".2", lines[:2]), (".1", lines[2:5]), ("", lines[5:])):
        part_of = desk.log.with_name(desk.log.name + name)
        part_of.write_bytes(b"".join(line + b"\n" for line in part))
    assert len(lines) == desk.take(*siblings(desk.log)).imported
    assert RunStatus.FINISHED == desk.run().status


def test_two_runs_side_by_side(desk):
    """Lines of several runs may be mixed: each run has its own events, without gaps."""
    ours = to_finished().documents
    theirs = json.loads(json.dumps(ours).replace(RUN_ID, "another").replace('"0000', '"1111'))
    desk.write(*(raw(one) for both in zip(ours, theirs, strict=True) for one in both))
    assert 2 * len(ours) == desk.take().imported
    for run_id in (RUN_ID, "another"):
        seqs = [one.run_seq for one in desk.events() if one.run_id == run_id]
        assert [*range(1, len(seqs) + 1)] == seqs
        assert RunStatus.FINISHED == desk.run(run_id).status


# --- rejected -------------------------------------------------------------------------------------


def test_a_bad_line_does_not_stop_the_rest(desk):
    """It is kept with file, line number and reason; the lines around it are taken in."""
    lines = list(to_finished())
    desk.write(lines[0], b"{not json", *lines[1:3], b"\xff\xfe", *lines[3:], lines[0][:50])
    assert Counts(imported=len(lines), known=0, rejected=3, flagged=0) == desk.take()
    kept = desk.rejected()
    assert [2, 5, 10] == [one["line"] for one in kept]
    assert {str(desk.log)} == {one["file"] for one in kept}
    assert "{not json" == kept[0]["text"]
    assert all(one["why"].startswith("it is not JSON") for one in kept)
    assert RunStatus.FINISHED == desk.run().status


def test_the_same_event_id_with_another_content(desk):
    """One of the two is not what Ray wrote: the second is refused, the first stays."""
    lines = list(to_running())
    changed = lines[1].replace(b"mnist", b"cifar")
    desk.write(*lines, changed)
    assert 1 == desk.take().rejected
    assert "is known, with another content" in desk.rejected()[0]["why"]
    desk.write(changed)
    assert Counts(imported=0, known=0, rejected=1, flagged=0) == desk.take()
    assert "mnist" == desk.run().name


def test_an_older_line_is_rejected(desk):
    """A rotated file given after its successor: the state would go back, so its lines are refused."""
    lines = list(to_finished())
    desk.write(*lines[3:])
    desk.take()
    desk.write(*lines)
    counts = desk.take()
    assert (0, 4, 3) == (counts.imported, counts.known, counts.rejected)
    assert all("oldest first" in one["why"] for one in desk.rejected())


def test_lines_of_one_second_are_in_order(desk):
    """Ray's timestamps are whole seconds: an equal one is not older."""
    log = to_finished()
    for document in log.documents:
        document["timestamp"] = 1795221788
    desk.write(*log)
    assert Counts(imported=7, known=0, rejected=0, flagged=0) == desk.take()


def test_a_refused_first_line_opens_no_run(desk):
    """A run of which nothing usable is known does not appear."""
    desk.write(*Log().run("RUNNING", name=7))
    assert Counts(imported=0, known=0, rejected=1, flagged=0) == desk.take()
    assert [] == desk.events()


def test_a_line_too_large_for_an_event(desk):
    """3-14: Ray exports settings of megabytes; the line is set aside, the run goes on without it."""
    lines = list(to_finished())
    large = {"run_settings": {"train_loop_config": {"text": "x" * 300_000}}}
    desk.write(*Log().run("INITIALIZING", **large), *lines[1:])
    counts = desk.take()
    assert (len(lines) - 1, 1) == (counts.imported, counts.rejected)
    assert "the limit is 262144" in desk.rejected()[0]["why"]
    assert RunStatus.FINISHED == desk.run().status


def test_a_run_of_ours_takes_no_lines(desk):
    """A run that trainstate recorded itself is not mixed with what Ray says of it."""
    with Store.open(desk.journal) as store:
        opened = store.open_run(RUN_ID, "controller", 1)
        created = event(e.RunCreated(name="mnist"))
        store.append(RUN_ID, opened.incarnation, opened.run_seq, [created])
    desk.write(*to_running())
    assert 5 == desk.take().rejected
    assert "recorded by trainstate itself" in desk.rejected()[0]["why"]


def test_no_reject_file_without_rejects(desk):
    """The file is made when the first unusable line comes, and no import empties it."""
    desk.write(*to_running())
    desk.take()
    assert not desk.rejects.exists()
    desk.write(b"garbage")
    desk.take()
    desk.write(*to_running())
    desk.take()
    assert 1 == len(desk.rejected())


# --- flagged, and crashes ---------------------------------------------------------------------------


def test_what_our_tables_refuse_is_counted(desk):
    """A6.5: a line with a move of its own kind is imported, and counted as flagged."""
    log = to_running().run("ABORTED", end_time_ns=at(40))
    desk.write(*log.attempt("ABORTED", pair("DEAD"), end_time_ns=at(41)))
    assert Counts(imported=7, known=0, rejected=0, flagged=2) == desk.take()
    assert 4 == desk.run().irregular_count


@pytest.mark.parametrize("stored", range(6))
def test_a_crash_in_the_middle_of_a_line(desk, stored):
    """Only a part of a line's events was durable: importing again completes it, nothing twice."""
    lines = list(to_finished())
    desk.write(*lines)
    whole = Desk(desk.journal.with_name("whole"))
    whole.journal.parent.mkdir()
    whole.write(*lines)
    whole.take()
    desk.write(*lines[:3])
    desk.take()
    with Store.open(desk.journal) as store:
        opened = store.open_run(RUN_ID, "ray-export", int(at(3)), foreign=True)
        events = deltas(opened.state, parse(lines[3]))
        store.append(RUN_ID, opened.incarnation, opened.run_seq, events[:stored])
    desk.write(*lines)
    counts = desk.take()
    assert (4, 0) == (counts.imported, counts.rejected)
    assert comparable(whole.run()) == comparable(desk.run())


def comparable(run):
    """A state without what says how often it was written to."""
    run.run_seq = run.incarnation = run.time_ns = run.first_time_ns = run.status_time_ns = 0
    for attempt in run.attempts:
        for worker in attempt.workers.values():
            worker.start_time_ns = worker.end_time_ns = 0
    return freeze(run)


def test_a_line_of_4096_workers(desk):
    """Its thousands of events are stored and read again; repeated, the line is one event."""
    alive = [worker_data(rank) for rank in range(4096)]
    sizes = {"resources": [{"resources": {"CPU": 1.0}}] * 4096}
    log = Log().run("INITIALIZING").attempt("RUNNING", alive, **sizes)
    log.attempt("RUNNING", alive, **sizes)
    desk.write(*log)
    assert Counts(imported=3, known=0, rejected=0, flagged=0) == desk.take()
    workers = desk.run().attempt.workers
    assert (4096, {WorkerStatus.RUNNING}) == (len(workers), {w.status for w in workers.values()})


def test_a_file_that_is_no_reject_file_is_never_touched(tmp_path):
    """--rejects naming the log itself, or anything else, is refused; nothing is emptied."""
    other = tmp_path / "precious.log"
    other.write_bytes(b'{"event_id": "1"}\n')
    with pytest.raises(UsageError, match="no reject file"):
        Rejects(other)
    assert b'{"event_id": "1"}\n' == other.read_bytes()


def test_rejects_of_one_import_survive_the_next(tmp_path):
    """A reject file is added to, a line that is in it is not added again."""
    path = tmp_path / "rejects.jsonl"
    for number in (1, 2, 2):
        rejects = Rejects(path)
        rejects.add(SourceLine(tmp_path / "a.log", number, b"\xff" * 100_000, 0), "garbage")
        rejects.close()
    records = path.read_bytes().splitlines()
    assert [1, 2] == [json.loads(one)["line"] for one in records]
    assert 100_000 == json.loads(records[0])["bytes"]
