"""Ray's log out of a journal: equal to what came in, and as Ray would write it for runs of our own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray.train.v2._internal.state.schema import _to_json_serializable_value
from trainstate_exporters import ray_export_log
from trainstate_exporters.ray_export_log import LOG_NAME, SOURCES, RayExportLog, selected_sources

from trainstate.core.mask import Unmasked
from trainstate.core.values import to_map
from trainstate.core.views import ray_line
from trainstate.errors import RefusedError, UsageError
from trainstate.export import Counters, Limits, Pump, pins
from trainstate.integrations.ray_export import Importer, Rejects, SourceLine, read, siblings
from trainstate.store import History, Store
from trainstate.testing import event
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

DATA = Path(__file__).parents[1] / "data"
LOGS = [DATA / "event_EXPORT_TRAIN_STATE.ray-2.60.0.log", *sorted(DATA.glob("ray_logs/**/*.log"))]
VARIANTS = json.loads((DATA / "ray_export_shape_variants.json").read_text())


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the tests run in."""
    monkeypatch.delenv("RAY_enable_export_api_write", raising=False)
    monkeypatch.delenv("RAY_enable_export_api_write_config", raising=False)


def import_lines(journal: Path, lines: Iterable[SourceLine]) -> History:
    """A journal of those lines."""
    rejects = Rejects(journal.with_name("rejects"))
    with (
        Store.open(journal, segment_bytes_max=1 << 20, masking=Unmasked()) as store,
        Importer(store, rejects) as importer,
    ):
        for line in lines:
            importer.take(line)
    return History(journal)


def export(history: History, folder: Path, **options: Any) -> list[dict[str, Any]]:
    """The lines that an export of the journal writes."""
    with Pump.open(history, RayExportLog.open(str(folder), **options)) as pump:
        counters = pump.run_once()
        assert 0 == counters.dead
    return [json.loads(line) for line in written(folder)]


def written(folder: Path) -> list[str]:
    """The lines in the files of the log, oldest first."""
    paths = [path for path in siblings(folder / LOG_NAME) if path.exists()]
    return [line for path in paths for line in path.read_text().splitlines()]


def usable(path: Path) -> Iterator[tuple[SourceLine, dict[str, Any]]]:
    """The lines of a log, rotated files first, without one that was cut off at its end."""
    for file in siblings(path):
        for line in read(file):
            try:
                yield line, json.loads(line.raw)
            except ValueError:
                continue


def without_id(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What must be equal of a line: all but its id."""
    return [{key: value for key, value in line.items() if key != "event_id"} for line in lines]


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_a_real_log_comes_back_line_by_line(log: Path, tmp_path: Path) -> None:
    """In order and equal but for the event id, in the schema version it came in."""
    source = list(usable(log))
    history = import_lines(tmp_path / "journal", (line for line, _ in source))
    expected = [document for _, document in source]
    found = export(history, tmp_path / "out")
    assert len(expected) == len(found)
    for number, (one, other) in enumerate(
        zip(without_id(expected), without_id(found), strict=True)
    ):
        assert one == other, f"line {number + 1}"


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("version", [3, 4])
def test_every_shape_comes_back(name: str, version: int, tmp_path: Path) -> None:
    """All oneof variants that real Ray was made to print; read as schema 3, they need the residue."""
    document = VARIANTS[name]
    document["event_data"]["schema_version"] = version
    raw = json.dumps(document).encode()
    history = import_lines(tmp_path / "journal", [SourceLine(Path("log"), 1, raw, len(raw))])
    assert without_id([document]) == without_id(export(history, tmp_path / "out"))


def test_strange_members_come_back(tmp_path: Path) -> None:
    """What our tables do not know is in the residue: members more and less, of odd names and values."""
    documents = []
    for number, (name, document) in enumerate(sorted(VARIANTS.items())):
        copied = json.loads(json.dumps(document))
        copied["event_id"] = f"{number:018x}"
        copied["x/y~z"] = {"a": [1, 1.0, True, None, "\u2028\x00"], "": {}}
        copied["event_data"]["new"] = name
        copied["event_data"]["name"] = "訓練\x7f"
        del copied["event_data"]["ray_train_version"]
        documents.append(copied)
    raws = [json.dumps(document).encode() for document in documents]
    lines = [SourceLine(Path("log"), n, raw, 0) for n, raw in enumerate(raws, start=1)]
    history = import_lines(tmp_path / "journal", lines)
    assert without_id(documents) == without_id(export(history, tmp_path / "out"))


class Interrupted(BaseException):
    """The process of the pump has ended."""


@pytest.mark.parametrize("cut", range(1, 126, 8))
def test_an_export_goes_on_in_the_middle_of_a_line(cut: int, tmp_path: Path) -> None:
    """Wherever among the events of a line the pump ended, the state of the run is folded up to there."""
    history = import_lines(tmp_path / "journal", read(LOGS[0]))
    told: list[int] = []

    def interrupt(counters: Counters) -> None:
        told.append(pins(history.path).get(f"export ray_export_log to {tmp_path / 'out'}", 1))
        if len(told) == cut:
            raise Interrupted

    every_event = Limits(records=1, events=1)
    exporter = RayExportLog.open(str(tmp_path / "out"))
    pump = Pump.open(history, exporter, limits=every_event, progress=interrupt)
    with pytest.raises(Interrupted), pump:
        pump.run_once()
    # What is still needed begins with a run's first event, never between two of its events.
    firsts = {summary.first_seq for summary in history.summaries()}
    assert set(told) <= firsts | {1}
    found = export(history, tmp_path / "out")
    assert without_id(json.loads(line.raw) for line in read(LOGS[0])) == without_id(found)


def test_the_text_is_that_of_json_dumps(tmp_path: Path) -> None:
    """Default separators, ASCII only, one line each: as Ray writes it."""
    history = import_lines(tmp_path / "journal", read(LOGS[0]))
    export(history, tmp_path / "out")
    for line in written(tmp_path / "out"):
        assert line == json.dumps(json.loads(line))
    assert (tmp_path / "out" / LOG_NAME).read_bytes().isascii()


def test_event_ids_are_the_same_every_time(tmp_path: Path) -> None:
    """18 hex digits of (run, run_seq), each once."""
    history = import_lines(tmp_path / "journal", read(LOGS[0]))
    first = [line["event_id"] for line in export(history, tmp_path / "one")]
    assert first == [line["event_id"] for line in export(history, tmp_path / "other")]
    assert len(set(first)) == len(first) == 45
    assert {18} == {len(event_id) for event_id in first}


def test_rotation_loses_no_line(tmp_path: Path) -> None:
    """Files stay under the limit, are named as Ray names them, and none is removed by default."""
    history = import_lines(tmp_path / "journal", read(LOGS[0]))
    whole = export(history, tmp_path / "whole")
    assert [LOG_NAME] == [path.name for path in (tmp_path / "whole").iterdir()]
    for max_bytes in (1, 5000, 20_000):
        folder = tmp_path / str(max_bytes)
        assert whole == export(history, folder, max_bytes=max_bytes)
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        assert sizes.keys() == {LOG_NAME} | {f"{LOG_NAME}.{n}" for n in range(1, len(sizes))}
        one_line = max(map(len, written(folder))) + 1
        assert max(sizes.values()) <= max(max_bytes, one_line)


def test_only_acknowledged_files_are_removed_and_only_if_asked(tmp_path: Path) -> None:
    """`backup_count` keeps the newest; a file is removed by the batch after the one that wrote it."""
    history = import_lines(tmp_path / "journal", read(LOGS[0]))
    whole = export(history, tmp_path / "whole")
    exporter = RayExportLog.open(str(tmp_path / "out"), max_bytes="20000", backup_count="2")
    held: list[int] = []
    with Pump.open(
        history, exporter, limits=Limits(records=5), progress=lambda _: held.append(files())
    ) as pump:

        def files() -> int:
            return len(list((tmp_path / "out").iterdir()))

        pump.run_once()
    assert max(held) <= 2 + 1 + 2  # what the newest batch rotated is still there
    found = [json.loads(line) for line in written(tmp_path / "out")]
    assert whole[-len(found) :] == found
    assert 0 < len(found) < len(whole)


def test_a_log_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """Ray's own log in that folder, rotated or not, is neither appended to nor rotated."""
    history = import_lines(tmp_path / "journal", read(LOGS[0]))
    for name in (LOG_NAME, f"{LOG_NAME}.7"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_bytes(b"theirs\n")
        with pytest.raises(RefusedError, match="no cursor accounts for"):
            export(history, folder)
        assert b"theirs\n" == (folder / name).read_bytes()


def test_one_export_at_a_time_writes_a_folder(tmp_path: Path) -> None:
    """Also of two journals."""
    first = RayExportLog.open(str(tmp_path / "out"))
    with pytest.raises(RefusedError, match="another export"):
        RayExportLog.open(str(tmp_path / "out"))
    first.close()
    RayExportLog.open(str(tmp_path / "out")).close()


# --- row 0-24: Ray's environment variables -----------------------------------------------------------


@pytest.mark.parametrize(
    ("everything", "named", "sources"),
    [
        (None, None, SOURCES),
        ("", " ", SOURCES),
        ("0", None, SOURCES),
        ("1", None, SOURCES),
        ("true", "EXPORT_TASK", SOURCES),
        (None, "EXPORT_TRAIN_RUN", {"EXPORT_TRAIN_RUN"}),
        ("0", "EXPORT_TRAIN_RUN_ATTEMPT", {"EXPORT_TRAIN_RUN_ATTEMPT"}),
        (None, "EXPORT_TRAIN_RUN, EXPORT_TRAIN_RUN_ATTEMPT", SOURCES),
        (None, " EXPORT_TASK ,EXPORT_TRAIN_RUN", {"EXPORT_TRAIN_RUN"}),
        (None, "EXPORT_TASK", set()),
    ],
)
def test_row_0_24_selects_sources(
    everything: str | None, named: str | None, sources: set[str]
) -> None:
    """All, or the listed, blanks or not; without either variable, all."""
    told = {
        "RAY_enable_export_api_write": everything,
        "RAY_enable_export_api_write_config": named,
    }
    environ = {key: value for key, value in told.items() if value is not None}
    assert sources == selected_sources(environ)


def test_row_0_24_is_read_when_the_exporter_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is not selected is not written."""
    history = import_lines(tmp_path / "journal", read(LOGS[0]))
    whole = without_id(export(history, tmp_path / "whole"))
    for source in SOURCES:
        monkeypatch.setenv("RAY_enable_export_api_write_config", f"EXPORT_TASK, {source}")
        selected = [line for line in whole if line["source_type"] == source]
        assert selected == without_id(export(history, tmp_path / source))


# --- live runs -----------------------------------------------------------------------------------------

RUN, ATTEMPT = "EXPORT_TRAIN_RUN", "EXPORT_TRAIN_RUN_ATTEMPT"


def live(journal: Path, *payloads: Any, run_id: str = "live") -> History:
    """A journal with a run of our own; attempts are `a`."""
    with Store.open(journal, segment_bytes_max=1 << 20) as store:
        opened = store.open_run(run_id, "controller", 1)
        events = [event(payload, "a", at_s=n + 0.9) for n, payload in enumerate(payloads, 1)]
        store.append(run_id, opened.incarnation, opened.run_seq, events)
    return History(journal)


STARTING = [
    e.RunCreated(name="live"),
    e.RunScheduling(num_workers=2),
    e.AttemptPlanned(num_workers=2, replica_group_size=1),
    e.WorkerScheduled(rank=0),
    e.WorkerScheduled(rank=1),
    e.WorkerStarted(rank=0),
    e.WorkerStarted(rank=1),
    e.AttemptStarted(),
    e.RunRunning(),
    e.FrameworkVersionsRecorded(versions=[s.Version(name="ray", version="2.60.0")]),
]


def shown(lines: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Source type and status."""
    return [(line["source_type"], line["event_data"]["status"]) for line in lines]


def test_a_live_run_has_lines_where_ray_has(tmp_path: Path) -> None:
    """Statuses that Ray has, framework versions, statuses of attempts; not workers, not reports."""
    history = live(
        tmp_path / "journal",
        *STARTING,
        e.ReportReceived(rank=0, index=0),
        e.RunPreempting(),
        e.FrameworkVersionsRecorded(versions=[s.Version(name="ray", version="2.61.0")]),
        e.RunRunning(),
        e.WorkerFailing(rank=1, cause=s.CAUSE_WORKER_ERROR),
        e.WorkerDied(rank=0),
        e.WorkerDied(rank=1),
        e.AttemptEnded(status=s.ATTEMPT_STATUS_ERRORED, cause=s.CAUSE_WORKER_ERROR),
        e.RunRestarting(cause=s.CAUSE_WORKER_ERROR),
        e.RunWaiting(have=1, need=2),
        e.RunShuttingDown(),
        e.RunAborted(cause=s.CAUSE_USER_ABORT),
    )
    lines = export(history, tmp_path / "out")
    assert [
        (RUN, "INITIALIZING"),
        (RUN, "SCHEDULING"),
        (ATTEMPT, "PENDING"),
        (ATTEMPT, "RUNNING"),
        (RUN, "RUNNING"),
        (RUN, "RUNNING"),  # the framework versions
        (RUN, "RUNNING"),  # the newer ones came while Ray has no status to show
        (ATTEMPT, "ERRORED"),
        (RUN, "RESTARTING"),
        (RUN, "ABORTED"),
    ] == shown(lines)
    assert {"ray": "2.61.0"} == lines[-1]["event_data"]["framework_versions"]
    assert ["ALIVE", "ALIVE"] == [one["status"] for one in lines[3]["event_data"]["workers"]]
    assert ["DEAD", "DEAD"] == [one["status"] for one in lines[7]["event_data"]["workers"]]
    assert {4} == {line["event_data"]["schema_version"] for line in lines}


def test_the_time_stamp_is_in_whole_seconds(tmp_path: Path) -> None:
    """As Ray's is: cut, not rounded."""
    history = live(tmp_path / "journal", *STARTING)
    stamps = {one.event.run_seq: one.event.time_unix_nano // 10**9 for one in history.events()}
    expected = [stamps[seq] for seq in (2, 3, 4, 9, 10, 11)]
    assert expected == [line["timestamp"] for line in export(history, tmp_path / "out")]


def test_a_replacement_has_one_line(tmp_path: Path) -> None:
    """Of the attempt, when it is complete, with the new worker in it."""
    history = live(
        tmp_path / "journal",
        *STARTING,
        e.WorkerFailing(rank=1),
        e.ReplicaGroupFailed(group=1),
        e.ReplicaGroupReplacing(group=1, generation=1),
        e.WorkerScheduled(rank=1, generation=1),
        e.WorkerStarted(rank=1, pid=77),
        e.ReplicaGroupReplaced(group=1, generation=1),
    )
    lines = export(history, tmp_path / "out")[6:]
    assert [(ATTEMPT, "RUNNING")] == shown(lines)
    assert [0, 77] == [worker["pid"] for worker in lines[0]["event_data"]["workers"]]


@pytest.mark.parametrize("version", ray_line.VERSIONS_SHIPPED)
def test_a_live_run_is_written_in_the_version_asked_for(tmp_path: Path, version: int) -> None:
    """1 to 4; what came later is not in it."""
    history = live(tmp_path / "journal", *STARTING)
    lines = export(history, tmp_path / "out", schema_version=str(version))
    runs = [line["event_data"] for line in lines if line["source_type"] == RUN]
    assert {version} == {run["schema_version"] for run in runs}
    assert (version >= 3) == all("framework_versions" in run for run in runs)
    assert (version >= 2) == all("train_run_panels" in run for run in runs)


def test_imported_runs_keep_their_version_beside_live_ones(tmp_path: Path) -> None:
    """The option is for live runs only."""
    import_lines(tmp_path / "journal", read(LOGS[0]))
    history = live(tmp_path / "journal", *STARTING)
    lines = export(history, tmp_path / "out", schema_version=1)
    assert [4] * 45 + [1] * 6 == [line["event_data"]["schema_version"] for line in lines]


def test_settings_that_json_cannot_say_are_written_as_ray_would(tmp_path: Path) -> None:
    """`inf` is text in Ray's log, and every line is strict JSON."""
    config = s.ValueMap(
        entries=[
            s.ValueEntry(key="inf", value=s.Value(double=float("inf"))),
            s.ValueEntry(key="nan", value=s.Value(double=float("nan"))),
            s.ValueEntry(key="raw", value=s.Value(bytes=b"\xff")),
            s.ValueEntry(key="whole", value=s.Value(int=3)),
        ]
    )
    settings = s.RunSettings(train_loop_config=config)
    history = live(tmp_path / "journal", e.RunCreated(name="n", settings=settings))
    (line,) = export(history, tmp_path / "out")
    expected = {"inf": "inf", "nan": "nan", "raw": "b'\\xff'", "whole": 3.0}
    assert expected == line["event_data"]["run_settings"]["train_loop_config"]


@pytest.mark.parametrize(
    "options",
    [{"schema_version": 0}, {"schema_version": 5}, {"max_bytes": "10 MB"}, {"backup_count": -1}],
)
def test_options_out_of_range_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    """Before the folder is made."""
    with pytest.raises(UsageError):
        RayExportLog.open(str(tmp_path / "out"), **options)
    assert not (tmp_path / "out").exists()


def test_an_imported_line_without_its_attempt_is_a_dead_letter(tmp_path: Path) -> None:
    """A journal that another program wrote ends nobody's export."""
    lost = e.LineImported(source_type=ATTEMPT, schema_version=4, timestamp_s=1)
    history = live(tmp_path / "journal", e.RunCreated(name="n"), lost, e.RunAborted())
    with Pump.open(history, RayExportLog.open(str(tmp_path / "out"))) as pump:
        assert 1 == pump.run_once().dead
        assert "which the run has not" in pump.dead_letters.read_text()
    assert 2 == len(written(tmp_path / "out"))


def test_nothing_happens_on_import() -> None:
    """The environment is read by `open`, and a default is no mutable thing."""
    assert SOURCES == ray_export_log.SOURCES
    assert isinstance(SOURCES, frozenset)


def test_settings_are_as_deep_as_ray_shows_them(tmp_path: Path) -> None:
    """3-07: three levels of dicts, of each dict that users fill; lists do not count."""
    deep = {"a": {"b": [{"c": 1}, {"d": {"e": 2}}], "f": {"g": 3}}}
    settings = s.RunSettings(
        train_loop_config=to_map(deep),
        run_config=s.RunConfig(worker_runtime_env=to_map({"env_vars": {"A": "1"}})),
    )
    history = live(tmp_path / "journal", e.RunCreated(name="n", settings=settings))
    (line,) = export(history, tmp_path / "out")
    shown = line["event_data"]["run_settings"]
    assert _to_json_serializable_value(deep) == _as_ints(shown["train_loop_config"])
    assert {"env_vars": {"A": "1"}} == shown["run_config"]["worker_runtime_env"]


def _as_ints(value: Any) -> Any:
    return json.loads(json.dumps(value), parse_float=lambda text: int(float(text)))
