"""Lines become deltas: nothing they say is lost, and what our tables refuse is flagged."""

from __future__ import annotations

from copy import deepcopy

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integrations.ray_export.log import (
    REAL_LOG,
    REAL_LOGS,
    RUN_ID,
    SHAPES,
    Log,
    at,
    log_name,
    pair,
    raw,
    to_finished,
    to_running,
    worker_data,
)
from trainstate.core import AttemptStatus, RunStatus, WorkerStatus, check, evolve, initial
from trainstate.core.freeze import copy, freeze, to_proto
from trainstate.core.json_patch import apply
from trainstate.core.views import ray_line
from trainstate.integrations.ray_export.deltas import deltas
from trainstate.integrations.ray_export.files import siblings
from trainstate.integrations.ray_export.lines import NESTING_MAX, LineRefused, parse
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import view_pb2 as v

VERSIONS = [1, 2, 3, 4]


class Taken:
    """Runs as lines make them, and a second fold of the same events, checked as the store does."""

    def __init__(self, lines=()):
        self.runs = {}
        self.stored = {}
        self.events = []
        for one in lines:
            self.take(one)

    def take(self, raw_line):
        """The events of a line; proves that they are legal, and that they hold all of the line."""
        line = parse(raw_line)
        run = self.runs.setdefault(line.run_id, initial(line.run_id))
        run.imported = True
        events = deltas(run, line)
        stored = self.stored.setdefault(line.run_id, initial(line.run_id))
        stored.imported = True
        for event in events:
            assert stored.run_seq + 1 == event.run_seq
            check(stored, event)
            evolve(stored, type(event).FromString(event.SerializeToString()))
        assert freeze(stored) == freeze(run)
        assert line.document == rendered(run, line, events[-1].line_imported)
        self.events += events
        return events

    @property
    def run(self):
        (run,) = self.runs.values()
        return run


def rendered(run, line, imported):
    """The line as it is written back from the state."""
    data = ray_line.run_line(run, imported.schema_version)
    if imported.source_type == ray_line.ATTEMPT_LINE:
        attempt = run.find_attempt(line.data["attempt_id"])
        data = ray_line.attempt_line(run, attempt, imported.schema_version)
    ours = ray_line.envelope(
        imported.ray_event_id, imported.timestamp_s, imported.source_type, data
    )
    return apply(ours, orjson.loads(imported.residue or b"[]"))


def kinds(events):
    """The payloads of a line's events, without the LineImported every line ends with."""
    *changes, last = [event.WhichOneof("payload") for event in events]
    assert "line_imported" == last
    return changes


# --- real logs ------------------------------------------------------------------------------------


def lines_of(path):
    """The whole lines of a log, oldest file first, without one that a killed Ray left unfinished."""
    lines = [
        line for file in siblings(path) for line in file.read_bytes().splitlines(keepends=True)
    ]
    return [line.rstrip(b"\n") for line in lines if line.endswith(b"\n")]


@pytest.mark.parametrize("path", REAL_LOGS, ids=log_name)
def test_a_real_log_leaves_no_residue(path):
    """Our rendering equals every line Ray wrote, in every schema version: residues are empty.

    But for one setting that Ray 2.55 prints with another memory address in each line.
    """
    taken = Taken()
    for number, one in enumerate(lines_of(path), start=1):
        residue = orjson.loads(taken.take(one)[-1].line_imported.residue or b"[]")
        left = [one for one in residue if " object at 0x" not in str(one.get("value"))]
        assert [] == left, number


def test_the_story_of_a_real_log():
    """The log of Ray 2.60: three runs, each with a failed attempt and a finished one, none odd."""
    taken = Taken(lines_of(REAL_LOG))
    assert 3 == len(taken.runs)
    for run in taken.runs.values():
        assert (RunStatus.FINISHED, [], True) == (run.status, run.irregular, run.imported)
        assert [AttemptStatus.ERRORED, AttemptStatus.FINISHED] == [a.status for a in run.attempts]
        assert run.attempts[0].status_reason.startswith("[Rank 1 Error Snippet]:\nTraceback")
        assert {WorkerStatus.DEAD} == {w.status for a in run.attempts for w in a.workers.values()}


def test_events_are_deltas():
    """0-25, B.3 row 9: a line that repeats what is known adds its LineImported and nothing else."""
    log = to_running()
    log.run("RUNNING").attempt("RUNNING", pair("ALIVE"))
    taken = Taken()
    changes = [kinds(taken.take(one)) for one in log]
    workers = ["worker_scheduled", "worker_started"] * 2
    assert [
        ["run_created"],
        ["run_scheduling"],
        ["attempt_planned"],
        [*workers, "attempt_started"],
        ["run_running"],
        [],
        [],
    ] == changes


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_from_start_to_end(version):
    """A whole run in each schema version: regular, and equal when rendered."""
    taken = Taken(to_finished(version))
    assert RunStatus.FINISHED == taken.run.status
    assert [] == taken.run.irregular
    assert all(b"" == event.line_imported.residue for event in taken.events)


def test_every_shape_of_settings():
    """D: each one-of of RunSettings, as Ray prints it."""
    for name, document in orjson.loads(SHAPES.read_bytes()).items():
        imported = Taken().take(raw(document))[-1].line_imported
        left = [one["path"] for one in orjson.loads(imported.residue or b"[]")]
        # These documents were made by hand around the settings: without the panels Ray always prints.
        made_by_hand = {"/event_data/train_run_panels", "/event_data/train_worker_panels"}
        assert set(left) <= made_by_hand, name


def test_what_a_line_says_of_a_run():
    """Each value of a run line, where it is found in the state."""
    log = Log().run("INITIALIZING").run("ERRORED", status_detail="boom", end_time_ns=at(5))
    run = Taken(log).run
    assert (RUN_ID, "mnist", b"\x01\x00\x00\x00") == (run.run_id, run.name, run.job_id)
    assert bytes.fromhex("64b87bc08a70c2fcee4b30b001000000") == run.controller_actor_id
    assert (RunStatus.ERRORED, "boom") == (run.status, run.status_reason)
    assert (at(0), at(5)) == (str(run.start_time_ns), str(run.end_time_ns))
    assert "/logs/controller.log" == run.controller_log_path
    assert [("ray", "2.60.0")] == [(v.name, v.version) for v in run.framework_versions]


def test_what_a_line_says_of_a_worker():
    """Each value of a worker, where it is found in the state; gpu ids are texts (0-13)."""
    gpus = [worker_data(0, gpu_ids=[0, 3]), worker_data(1)]
    taken = Taken(Log().run("INITIALIZING").attempt("RUNNING", gpus))
    worker = taken.run.attempt.workers[0]
    assert (("0", "3"), 1000, "10.0.0.1", "/logs/0.log") == (
        worker.accelerator_ids,
        worker.pid,
        worker.node_ip,
        worker.log_path,
    )
    assert (b"actor00000000000", b"node") == (worker.actor_id, worker.node_id)
    assert {"CPU": 1.0} == {r.name: r.amount for r in worker.resources.resources}
    assert b"" == taken.events[-1].line_imported.residue


def test_framework_versions_come_later():
    """A6.5: the second SCHEDULING line differs only in the versions rank 0 reported."""
    log = Log().run("INITIALIZING").run("SCHEDULING")
    log.run("SCHEDULING", framework_versions={"ray": "2.60.0", "torch": "2.9"})
    taken = Taken()
    changes = [kinds(taken.take(one)) for one in log]
    assert ["framework_versions_recorded"] == changes[-1]
    assert 2 == len(taken.run.framework_versions)


def test_times_of_events_are_the_lines():
    """Design section 9: an event's time is its line's timestamp; Ray's ns times ride in payloads."""
    log = to_running()
    taken = Taken()
    for one, document in zip(log, log.documents, strict=True):
        expected = document["timestamp"] * 10**9
        assert {expected} == {event.time_unix_nano for event in taken.take(one)}


def test_time_does_not_go_back():
    """A line that is a little older than the run's newest event does not turn its clock back."""
    log = to_running()
    log.documents[-1]["timestamp"] -= 10
    taken = Taken(log)
    times = [event.time_unix_nano for event in taken.events]
    assert sorted(times) == times


# --- what Ray records and our tables refuse ---------------------------------------------------------


def test_run_aborted_before_its_attempt():
    """A6.5: when the controller was killed Ray aborts the run first: kept in that order, flagged."""
    text = "Run aborted because the driver process exited unexpectedly."
    log = to_running().run("ABORTED", status_detail=text, end_time_ns=at(40))
    log.attempt("ABORTED", pair("DEAD"), status_detail=text, end_time_ns=at(41))
    taken = Taken()
    *_, run_line, attempt_line = [taken.take(one) for one in log]
    assert ["foreign_status_observed"] == kinds(run_line)
    assert "attempt ad30b1 is still RUNNING" in run_line[0].reason
    assert text == run_line[0].foreign_status_observed.text
    assert {"foreign_status_observed"} == set(kinds(attempt_line))
    run = taken.run
    assert (RunStatus.ABORTED, AttemptStatus.ABORTED) == (run.status, run.attempt.status)
    assert at(41) == str(run.attempt.end_time_ns)
    assert 4 == run.irregular_count  # the run, its attempt and two workers
    assert b"" == attempt_line[-1].line_imported.residue


def test_attempt_planned_again():
    """A6.3: Ray retries a failed start under the same attempt id, with a new start time."""
    log = Log().run("INITIALIZING").run("SCHEDULING").attempt("PENDING")
    log.attempt("PENDING", start_time_ns=at(60)).attempt(
        "RUNNING", pair("ALIVE"), start_time_ns=at(60)
    )
    taken = Taken()
    changes = [kinds(taken.take(one)) for one in log]
    assert ["foreign_status_observed"] == changes[3]
    assert at(60) == str(taken.run.attempt.start_time_ns)
    assert (AttemptStatus.RUNNING, 1) == (taken.run.attempt.status, taken.run.irregular_count)


def test_attempt_planned_again_in_another_size():
    """A6.3: an elastic run retries with the workers it can get, under the same attempt id."""
    log = Log().run("INITIALIZING").run("SCHEDULING").attempt("PENDING")
    sizes = {"resources": [{"resources": {"CPU": 1.0}}] * 3, "start_time_ns": at(60)}
    workers = [worker_data(rank) for rank in range(3)]
    log.attempt("PENDING", **sizes).attempt("RUNNING", workers, **sizes)
    taken = Taken()
    changes = [kinds(taken.take(one)) for one in log]
    assert ["foreign_status_observed", "attempt_planned"] == changes[3]
    assert (3, AttemptStatus.RUNNING) == (taken.run.attempt.num_workers, taken.run.attempt.status)
    assert {0, 1, 2} == taken.run.attempt.workers.keys()
    assert all(b"" == event.line_imported.residue for event in taken.events)


def test_attempt_finished_with_workers_alive():
    """Ray 2.44 never says that a worker ended: kept as it said, flagged, and nothing is invented."""
    log = to_running(version=1)
    log.attempt("FINISHED", pair("ALIVE"), version=1, end_time_ns=at(9))
    log.run("FINISHED", version=1, end_time_ns=at(10))
    taken = Taken(log)
    run = taken.run
    assert (RunStatus.FINISHED, AttemptStatus.FINISHED) == (run.status, run.attempt.status)
    assert [WorkerStatus.RUNNING] * 2 == [w.status for w in run.attempt.workers.values()]
    assert 1 == run.irregular_count
    assert "2 of its workers are alive" in run.irregular[0].text
    assert all(b"" == event.line_imported.residue for event in taken.events)


def test_a_run_goes_back():
    """A0.5: Ray takes FINISHED -> RUNNING; what it recorded is kept and flagged, ours refuses."""
    taken = Taken(to_finished())
    events = taken.take(raw(to_running().documents[-1]))
    assert ["foreign_status_observed"] == kinds(events)
    assert "the run ended as FINISHED" in events[0].reason
    assert RunStatus.RUNNING == taken.run.status


def test_a_run_initializes_again():
    """No payload of ours leads back to INITIALIZING: observed."""
    log = Log().run("INITIALIZING").run("SCHEDULING").run("INITIALIZING")
    taken = Taken(log)
    assert (RunStatus.INITIALIZING, 1) == (taken.run.status, taken.run.irregular_count)


def test_an_end_before_the_start():
    """A0.3: Ray does not check end >= start; the line is kept, and flagged."""
    taken = Taken(Log().run("INITIALIZING"))
    events = taken.take(next(iter(Log().run("ERRORED", end_time_ns=at(-1)))))
    assert "is before its start" in events[0].reason
    assert at(-1) == str(taken.run.end_time_ns)


def test_a_worker_rises_from_the_dead():
    """A worker that is ALIVE after it was DEAD: kept and flagged."""
    log = to_running()
    log.attempt("RUNNING", [worker_data(0, "DEAD"), worker_data(1)])
    log.attempt("RUNNING", pair("ALIVE"))
    taken = Taken(log)
    assert WorkerStatus.RUNNING == taken.run.attempt.workers[0].status
    assert 1 == taken.run.irregular_count


def test_a_second_attempt_before_the_first_has_ended():
    """Kept and flagged, with what its line says in the residue."""
    log = to_running()
    log.attempt("PENDING", attempt_id="bca20c", start_time_ns=at(7))
    taken = Taken(log)
    assert ["ad30b1", "bca20c"] == [attempt.attempt_id for attempt in taken.run.attempts]
    assert "attempt ad30b1 is still RUNNING" in taken.run.irregular[1].text


@pytest.mark.parametrize("lost", range(1, 7))
def test_a_log_that_has_lost_its_first_lines(lost):
    """Whatever line comes first: the run is made from it, and the rest of the log is taken in."""
    lines = list(to_finished())[lost:]
    taken = Taken(lines)
    run = taken.run
    assert RunStatus.FINISHED == run.status
    assert "mnist" == run.name
    if lost < 6:
        assert AttemptStatus.FINISHED == run.attempt.status


def test_a_log_of_attempts_only():
    """0-24: `RAY_enable_export_api_write_config` may name only one of the two sources."""
    log = to_finished()
    only = [raw(d) for d in log.documents if d["source_type"] == "EXPORT_TRAIN_RUN_ATTEMPT"]
    run = Taken(only).run
    assert (RunStatus.INITIALIZING, "") == (run.status, run.name)
    assert AttemptStatus.FINISHED == run.attempt.status
    only = [raw(d) for d in log.documents if d["source_type"] == "EXPORT_TRAIN_RUN"]
    run = Taken(only).run
    assert (RunStatus.FINISHED, []) == (run.status, run.attempts)


# --- what our state has no place for ---------------------------------------------------------------

STRANGE = {
    "extra-key": {"surplus": {"a": [1, None, 1.5]}},
    "extra-attempt-id": {"attempt_id": 5},
    "no-name": {"name": None},
    "no-panels": {"train_run_panels": None},
    "start-as-number": {"start_time_ns": 7},
    "detail-while-running": {"status_detail": "so far so good"},
    "empty-detail": {"status_detail": ""},
    "other-version-key": {"ray_train_version": 3},
    "train-loop-config-of-ints": {"run_settings": {"train_loop_config": {"n": 3, "x": 2**60}}},
    "unknown-setting": {"run_settings": {"new": {"a": 1}}},
    "empty-settings": {"run_settings": {}},
    "settings-of-another-order": {"framework_versions": {"torch": "2.9", "ray": "2.60.0"}},
}


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
def test_what_the_state_does_not_show_is_in_the_residue(strange):
    """Whatever else a run line holds is written back with it."""
    taken = Taken(Log().run("INITIALIZING", **strange))
    taken.take(raw({**Log().run("SCHEDULING", **strange).documents[0], "event_id": "2"}))


STRANGE_WORKERS = {
    "uuid": {"gpu_ids": ["GPU-5b6c1c8e", 0]},
    "number-as-text": {"gpu_ids": ["3"]},
    "endless-number": {"gpu_ids": ["9" * 5000]},
    "negative": {"gpu_ids": [-1]},
    "no-gpus": {"gpu_ids": None},
    "no-status": {"status": None},
    "unknown-status": {"status": "ZOMBIE"},
    "no-resources": {"resources": None},
    "no-log": {"log_file_path": None},
    "rank-out-of-range": {"world_rank": 7},
    "negative-rank": {"world_rank": -1},
    "extra": {"surplus": True},
}


@pytest.mark.parametrize("strange", STRANGE_WORKERS.values(), ids=STRANGE_WORKERS)
def test_what_a_worker_does_not_show_is_in_the_residue(strange):
    """0-13 and others: whatever a worker of a line holds is written back with it."""
    workers = [{**worker_data(0), **strange}, worker_data(1)]
    workers[0] = {key: value for key, value in workers[0].items() if value is not None}
    dead = [{**worker, "status": "DEAD"} for worker in workers]
    log = Log().run("INITIALIZING").attempt("PENDING").attempt("RUNNING", workers)
    Taken(log.attempt("FINISHED", dead, end_time_ns=at(9)))


def test_two_workers_of_one_rank():
    """A line that names a rank twice is kept."""
    Taken(Log().run("INITIALIZING").attempt("RUNNING", [worker_data(0), worker_data(0, pid=7)]))


def settings_of_depth(levels):
    """Two places for a value in the settings, each with one that nests so deep."""
    deep = {}
    for level in range(levels):
        deep = {"inner": deep} if level % 2 else {"inner": [deep]}
    options = {"default": {"resource_limits": deep}, "per_dataset_execution_options": {}}
    yield {"train_loop_config": deep}
    yield {"data_config": {"data_execution_options": options}}


@pytest.mark.parametrize("levels", [1, 3, 10])
def test_deep_settings_can_be_read_again(levels):
    """Protobuf reads 100 levels of messages: what is let in is far enough from that."""
    for deep in settings_of_depth(levels):
        events = Taken().take(raw(Log().run("INITIALIZING", run_settings=deep).documents[0]))
        again = type(events[0]).FromString(events[0].SerializeToString())
        assert events[0] == again


@pytest.mark.parametrize("levels", [20, 40, 300])
def test_deeper_settings_are_refused(levels):
    """What could be written and never be read again is not written."""
    for deep in settings_of_depth(levels):
        with pytest.raises(LineRefused, match="nested deeper than 32 levels"):
            Taken().take(raw(Log().run("INITIALIZING", run_settings=deep).documents[0]))


def test_the_deepest_line_can_be_read_again():
    """Every place of a line, nested as deep as is let in, in a batch and in a frozen state."""
    for path in (
        ["train_loop_config"],
        ["backend_config", "config"],
        ["run_config", "worker_runtime_env"],
    ):
        deep = {}
        for _ in range(NESTING_MAX - 3 - len(path)):
            deep = {"inner": deep}
        for key in reversed(path):
            deep = {key: deep}
        taken = Taken()
        events = taken.take(raw(Log().run("INITIALIZING", run_settings=deep).documents[0]))
        batch = e.Batch(events=events)
        assert batch == e.Batch.FromString(batch.SerializeToString())
        resident = v.ResidentRun(run=to_proto(taken.run))
        snapshot = v.Snapshot(runs=[resident])
        assert snapshot == v.Snapshot.FromString(snapshot.SerializeToString())


# --- refused, before anything changes ------------------------------------------------------------------

GARBAGE = {
    "number-name": ("run", {"name": 5}),
    "list-detail": ("run", {"status_detail": ["a"]}),
    "job-id-not-base64": ("run", {"job_id": "AQ=A"}),
    "job-id-not-ascii": ("run", {"job_id": "é"}),
    "number-job-id": ("run", {"job_id": 1}),
    "start-not-a-number": ("run", {"start_time_ns": "soon"}),
    "start-negative": ("run", {"start_time_ns": "-1"}),
    "start-too-large": ("run", {"start_time_ns": str(2**64)}),
    "start-list": ("run", {"start_time_ns": [1]}),
    "end-negative": ("run", {"status": "FINISHED", "end_time_ns": "-1"}),
    "end-too-large": ("run", {"status": "ERRORED", "end_time_ns": str(2**64)}),
    "versions-list": ("run", {"framework_versions": ["ray"]}),
    "version-number": ("run", {"framework_versions": {"ray": 2.6}}),
    "panels-object": ("run", {"train_run_panels": {"id": "1"}}),
    "panel-without-id": ("run", {"train_worker_panels": [{"title": "a"}]}),
    "settings-text": ("run", {"run_settings": "all"}),
    "settings-null-config": ("run", {"run_settings": {"train_loop_config": 7}}),
    "settings-text-number": (
        "run",
        {"run_settings": {"scaling_config": {"num_workers_fixed": "2"}}},
    ),
    "settings-int32": ("run", {"run_settings": {"scaling_config": {"num_workers_fixed": 2**31}}}),
    "settings-list-text": ("run", {"run_settings": {"run_config": {"name": ["a"]}}}),
    "settings-object-bool": ("run", {"run_settings": {"scaling_config": {"use_gpu": {}}}}),
    "settings-framework": ("run", {"run_settings": {"backend_config": {"framework": "CAFFE"}}}),
    "settings-no-values": ("run", {"run_settings": {"data_config": {"datasets": {}}}}),
    "settings-num-to-keep": (
        "run",
        {"run_settings": {"run_config": {"checkpoint_config": {"num_to_keep": "many"}}}},
    ),
    "resources-object": ("attempt", {"resources": {"CPU": 1}}),
    "resources-flat": ("attempt", {"resources": [{"CPU": 1}]}),
    "resources-text": ("attempt", {"resources": [{"resources": {"CPU": "1"}}]}),
    "workers-number": ("attempt", {"workers": 3}),
    "workers-texts": ("attempt", {"workers": ["a"]}),
    "worker-without-rank": ("attempt", {"workers": [worker_data(0, world_rank=None)]}),
    "worker-text-rank": ("attempt", {"workers": [worker_data(0, world_rank="0")]}),
    "worker-huge-rank": ("attempt", {"workers": [worker_data(0, world_rank=2**31)]}),
    "worker-half-pid": ("attempt", {"workers": [worker_data(0, pid=1.5)]}),
    "worker-actor": ("attempt", {"workers": [worker_data(0, actor_id="no base64")]}),
    "worker-gpus": ("attempt", {"workers": [worker_data(0, gpu_ids=3)]}),
    "attempt-end": ("attempt", {"end_time_ns": str(2**64)}),
    "attempt-detail": ("attempt", {"status_detail": 3}),
}


@pytest.mark.parametrize(("kind", "garbage"), GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_refused_before_anything_changes(kind, garbage):
    """A value of another type than Ray's: refused with a sentence, the state untouched."""
    for log in (Log(), to_running()):
        run = Taken(log).run if log.documents else initial(RUN_ID)
        before = freeze(run)
        status = garbage.get("status", "RUNNING")
        rest = {key: value for key, value in garbage.items() if key != "status"}
        if kind == "attempt":
            rest.setdefault("workers", pair("ALIVE"))
        line = parse(raw(getattr(Log(), kind)(status, **rest).documents[0]))
        with pytest.raises(LineRefused, match="not in Ray's form"):
            deltas(run, line)
        assert before == freeze(run)


texts = st.sampled_from(["", "a", "RUNNING", "DEAD", "AQAAAA==", "7", "-7", "1e5", str(2**64)])
numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abx"), inner),
    max_leaves=4,
)
SEEDS = [*to_finished().documents, *orjson.loads(SHAPES.read_bytes()).values()]


def places(value, path=()):
    """The paths of everything inside a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inside:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


@st.composite
def mutated(draw):
    """A line of Ray's with up to three values replaced, removed or added."""
    document = deepcopy(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from([*places(document)]))
        target = document
        for key in path:
            target = target[key]
        if draw(st.booleans()):
            target[last] = draw(json_values)
        else:
            del target[last]
    return document


NOTHING = initial(RUN_ID)
NOTHING.imported = True
BEFORE = [NOTHING, Taken(to_running()).run, Taken(to_finished()).run]


class OneRun:
    """The runs of `Taken` where every line is of one and the same run."""

    def __init__(self, run):
        self.run = copy(run)

    def setdefault(self, run_id, _):
        self.run.run_id = run_id
        return self.run


@given(mutated(), st.sampled_from(BEFORE))
@settings(max_examples=400, deadline=None)
def test_any_line_is_refused_or_kept_whole(document, before):
    """Whatever a line holds: it is refused and changes nothing, or can be written back equal."""
    taken = Taken()
    taken.runs, taken.stored = OneRun(before), OneRun(before)
    try:
        taken.take(orjson.dumps(document))
    except LineRefused:
        taken.runs.run.run_id = before.run_id
        assert freeze(before) == freeze(taken.runs.run)


# --- a crash in the middle of a line ---------------------------------------------------------------


@pytest.mark.parametrize("log", [to_finished(), to_finished(1)], ids=["version-4", "version-1"])
def test_a_line_of_which_only_a_part_was_stored_is_completed(log):
    """A crash leaves a prefix of a line's events: taken again, the state becomes what it should be."""
    whole = Taken()
    for position, one in enumerate(log):
        events = whole.take(one)
        for stored in range(len(events) - 1):
            run = Taken(list(log)[:position]).run if position else initial(RUN_ID)
            run.imported = True
            for event in events[:stored]:
                evolve(run, event)
            again = deltas(run, parse(one))
            assert "line_imported" == again[-1].WhichOneof("payload")
            assert len(events) == stored + len(again), (position, stored)
            assert freeze(whole.run) == freeze(run)


# --- size -----------------------------------------------------------------------------------------


def test_a_line_of_4096_workers():
    """0-15, B.3 row 9: the snapshot costs megabytes once; repeated, it costs one event."""
    alive = [worker_data(rank, log_file_path=f"/logs/{'x' * 450}") for rank in range(4096)]
    log = Log().run("INITIALIZING")
    for _ in range(2):
        log.attempt("RUNNING", alive, resources=[{"resources": {"CPU": 1.0}}] * 4096)
    first, planned, again = log
    assert len(planned) > 3_000_000
    taken = Taken([first])
    events = taken.take(planned)
    assert 2 * 4096 + 3 == len(events)
    assert b"" == events[-1].line_imported.residue
    assert max(map(len, (event.SerializeToString() for event in events))) < 1024
    assert [] == kinds(taken.take(again))
