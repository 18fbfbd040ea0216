"""The verbs that look: each on the real log of Ray 2.60, imported."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import LINES, RUNS, Cli

NAME = "ray_train_run-2026-11-21_00-43-02"


# --- runs ---------------------------------------------------------------------------------------


def test_runs_is_one_aligned_table(imported: Cli):
    """A head and a line per run, in the order they began."""
    outcome = imported("runs")
    head, *rows = outcome.out.splitlines()
    assert (0, "") == (outcome.code, outcome.err)
    assert ["run", "name", "status", "cause", "started", "duration", "attempts"] == head.split()
    assert [run[:12] for run in RUNS] == [row.split()[0] for row in rows]
    assert {head.index("name")} == {row.index("ray_train_run") for row in rows}
    assert outcome.out.count("FINISHED") == 3


def test_runs_json(imported: Cli):
    """One object per line; integers are integers."""
    first, *rest = imported("runs", "--json").documents
    assert RUNS == [first["run_id"], *(one["run_id"] for one in rest)]
    assert (NAME, "FINISHED", "COMPLETED", 2) == (
        first["name"],
        first["status"],
        first["cause"],
        first["attempts"],
    )
    assert 1795221786886513114 == first["start_time_ns"]
    assert str(imported.journal) == first["journal"]


def test_a_root_a_journals_folder_and_a_journal_are_read_the_same(imported: Cli):
    """`--journal` takes each of them, and goes before the environment."""
    paths = [imported.home, imported.home / "journals", imported.journal]
    found = {imported("runs", "--journal", path, TRAINSTATE_HOME="/nowhere").out for path in paths}
    assert {imported("runs").out} == found


# --- show ---------------------------------------------------------------------------------------


def test_show_tells_the_story(imported: Cli):
    """The head, the attempts with what ended them, and the workers of the newest."""
    outcome = imported("show", RUNS[0])
    assert (0, "") == (outcome.code, outcome.err)
    for said in (
        f"name               {NAME}",
        "incarnation        1 (written by ray-export)",
        "frameworks         ray 2.60.0, torch 2.13.0+cpu",
        "failures allowed   max_failures=1 controller_failure_limit=-1",
        "[Rank 1 Error Snippet]: … RuntimeError: boom",
        "workers of attempt 2",
        "192.0.2.2",
    ):
        assert said in outcome.out


def test_show_one_attempt(imported: Cli):
    """By number or by prefix; with the whole text of what ended it, if that is asked for."""
    outcome = imported("show", RUNS[0], "--attempt", "1", "--traceback")
    assert "workers of attempt 1" in outcome.out
    assert 'p.touch(); raise RuntimeError("boom")' in outcome.out
    assert outcome == imported("show", RUNS[0], "--attempt", "ad30b", "--traceback")
    assert "p.touch()" not in imported("show", RUNS[0], "--attempt", "1").out


def test_show_as_of(imported: Cli):
    """The same run earlier: by position, and by time, inclusively."""
    assert "INITIALIZING" == imported("show", RUNS[0], "--as-of", "3", "--json").document["status"]
    running = imported("show", RUNS[0], "--as-of", "@1795221793", "--json").document
    assert ("RUNNING", 1) == (running["status"], len(running["attempts"]))
    assert imported("show", RUNS[1], "--as-of", "3").code == 2


def test_show_json(imported: Cli):
    """One document: the whole state, exact."""
    run = imported("show", NAME, "--json").document
    assert (RUNS[0], 1795221786886513114) == (run["run_id"], run["start_time_ns"])
    assert ["ERRORED", "FINISHED"] == [one["status"] for one in run["attempts"]]
    assert {"fail": True} == run["settings"]["train_loop_config"]
    attempt = imported("show", NAME, "--attempt", "1", "--json").document
    assert [4380, 4405] == [worker["pid"] for worker in attempt["workers"]]


@pytest.mark.parametrize("named", [RUNS[0], RUNS[0][:4], RUNS[0][:1], NAME])
def test_a_run_is_named_by_id_prefix_or_name(imported: Cli, named):
    """All of them lead to the same run."""
    assert RUNS[0] == imported("show", named, "--json").document["run_id"]


# --- goodput ------------------------------------------------------------------------------------


def test_goodput_sums_to_the_wall_time(imported: Cli):
    """The buckets of the document sum exactly; the bars say what is known of losses."""
    document = imported("goodput", RUNS[0], "--json").document
    assert document["wall_ns"] == sum(document["buckets_ns"].values()) > 0
    outcome = imported("goodput", RUNS[0])
    assert (0, 9) == (outcome.code, len(outcome.out.splitlines()))
    assert "█" in outcome.out
    assert "note: this log records no checkpoints" in outcome.out


# --- tail ---------------------------------------------------------------------------------------


def test_tail_prints_every_event_on_a_line(imported: Cli):
    """In the order of the journal, as a table and as JSON."""
    lines = imported("tail").out.splitlines()
    events = imported("tail", "--json").documents
    assert list(range(1, len(events) + 1)) == [event["seq"] for event in events]
    assert [event["seq"] for event in events] == [int(line.split()[0]) for line in lines]
    assert LINES == sum(event["kind"] == "line_imported" for event in events)


@pytest.mark.parametrize(
    "kinds", [("run_finished", "AttemptEnded"), ("RunFinished", "attempt_ended")]
)
def test_tail_of_some_kinds(imported: Cli, kinds):
    """As the schema or as its messages write them; more than one may be given."""
    events = imported("tail", "--kind", kinds[0], "--kind", kinds[1], "--json").documents
    assert {"run_finished": 3, "attempt_ended": 6} == {
        kind: sum(event["kind"] == kind for event in events)
        for kind in sorted({event["kind"] for event in events}, reverse=True)
    }


def test_tail_of_one_run(imported: Cli):
    """Only its events, all of them."""
    events = imported("tail", "--run", RUNS[1][:6], "--json").documents
    assert {RUNS[1]} == {event["run_id"] for event in events}
    assert list(range(1, len(events) + 1)) == [event["run_seq"] for event in events]


def test_tail_from(imported: Cli):
    """A position, a time, earliest or now."""
    every = imported("tail", "--json").documents

    def seqs(start: str) -> list[int]:
        return [event["seq"] for event in imported("tail", "--from", start, "--json").documents]

    late = [one["seq"] for one in every if one["time_unix_nano"] >= 1795221837 * 10**9]
    assert [one["seq"] for one in every] == seqs("earliest")
    assert seqs("earliest")[99:] == seqs("100")
    assert late == seqs("@1795221837") == seqs("2026-11-21T00:43:57Z")
    assert [] == seqs("now") == seqs("-1s")


# --- replay -------------------------------------------------------------------------------------


def test_replay_ends_where_runs_are(imported: Cli):
    """A full replay gives the same table as the fold of `runs`."""
    assert imported("runs").out == imported("replay").out
    assert imported("runs", "--json").out == imported("replay", "--json").out


def test_replay_until(imported: Cli):
    """As of then: one run, in the middle of it."""
    (run,) = imported("replay", "--until", "20", "--json").documents
    assert (RUNS[0], "SCHEDULING", 20) == (run["run_id"], run["status"], run["last_seq"])


def test_replay_step_shows_events_and_what_they_make(imported: Cli):
    """Without a terminal nothing waits for Enter."""
    steps = imported("replay", "--until", "4", "--step", "--json").documents
    assert ["run_opened", "run_created", "line_imported", "run_scheduling"] == [
        step["event"]["kind"] for step in steps
    ]
    assert ["UNSPECIFIED", "INITIALIZING", "INITIALIZING", "SCHEDULING"] == [
        step["run"]["status"] for step in steps
    ]
    lines = imported("replay", "--until", "4", "--step").out.splitlines()
    assert 8 == len(lines)
    assert "SCHEDULING" in lines[-1]


# --- diff ---------------------------------------------------------------------------------------


def test_diff_names_each_field(imported: Cli):
    """What an event changed, before and after, and nothing else."""
    (run,) = imported("diff", "3", "4", "--json").document["runs"]
    assert [
        {"field": "status", "before": "INITIALIZING", "after": "SCHEDULING"},
        {
            "field": "status_reason",
            "before": "",
            "after": "Scheduling 2 workers, each requiring: {'CPU': 1}.",
        },
    ] == run["changes"]
    assert "SCHEDULING" in imported("diff", "3", "4").out


def test_diff_from_nothing_and_to_nothing(imported: Cli):
    """0 is before everything; after the end nothing changes."""
    document = imported("diff", "0", "9999", "--json").document
    assert RUNS == [run["run_id"] for run in document["runs"]]
    assert "no events after 9000 up to 9999\n" == imported("diff", "9000", "9999").out


def test_diff_of_workers_goes_by_rank(imported: Cli):
    """A path names the attempt by its number and the worker by its rank."""
    (run,) = imported("diff", "9", "11", "--json").document["runs"]
    fields = {change["field"]: change["after"] for change in run["changes"]}
    assert ("RUNNING", 4405) == (
        fields["attempts.1.workers.1.status"],
        fields["attempts.1.workers.1.pid"],
    )


# --- stats --------------------------------------------------------------------------------------


def test_stats_count_what_there_is(imported: Cli):
    """Entries, kinds and statuses agree with what tail and runs print."""
    events = imported("tail", "--json").documents
    document = imported("stats", "--json").document
    assert len(events) == document["entries"] == sum(document["events"].values())
    assert LINES == document["events"]["line_imported"]
    assert {"FINISHED": 3} == document["runs"]
    assert events[0]["time_unix_nano"] == document["first_time_ns"]
    assert events[-1]["time_unix_nano"] == document["last_time_ns"]
    assert "LineImported" in imported("stats").out


# --- all of them --------------------------------------------------------------------------------

LOOKS = [
    ("runs",),
    ("show", RUNS[0]),
    ("goodput", RUNS[0]),
    ("tail",),
    ("replay",),
    ("replay", "--step"),
    ("diff", "3", "99"),
    ("stats",),
    ("verify",),
]


@pytest.mark.parametrize("args", LOOKS, ids=" ".join)
def test_what_is_piped_is_plain(imported: Cli, args):
    """No colours, no escape sequences, nothing cut, nothing on standard error."""
    outcome = imported(*args)
    assert (0, "") == (outcome.code, outcome.err)
    assert "\x1b" not in outcome.out
    assert outcome.out == "".join(line.rstrip() + "\n" for line in outcome.out.splitlines())


@pytest.mark.parametrize("args", LOOKS, ids=" ".join)
def test_json_is_json(imported: Cli, args):
    """Every line of `--json` is a document of its own, and none has a number as a string."""
    documents = imported(*args, "--json").documents
    assert documents
    assert "NaN" not in json.dumps(documents)
    numbers = [key for key in _keys(documents) if key.endswith(("_ns", "seq", "_unix_nano"))]
    assert numbers


def _keys(value: object) -> list[str]:
    if isinstance(value, dict):
        strings = [key for key, one in value.items() if isinstance(one, int | list)]
        return strings + [key for one in value.values() for key in _keys(one)]
    return [key for one in value for key in _keys(one)] if isinstance(value, list) else []
