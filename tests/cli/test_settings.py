"""`show --settings`, `compare` and `rerun`: what a run was asked for and made with, put to use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import RUNS, Cli, Outcome
from trainstate.cli._settings import command_line, flat, shown
from trainstate.core.mask import EventMask
from trainstate.core.values import to_map
from trainstate.core.views.settings import settings_from
from trainstate.store import Store
from trainstate.testing.given import START_NS, event
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

SALT = b"the salt of home"
KEY, OTHER_KEY = "sk-abcdefghijklmnop1234", "sk-zyxwvutsrqponmlk9876"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = {
    "lr": 0.1,
    "big": 2**70,
    "loss": float("nan"),
    "raw": b"\x00\xff",
    "betas": [0.9, 0.999],
    "one": 1,
    "text": "1",
    "none": None,
    "a.b": {"": "dots"},
}
SETTINGS = {
    "train_loop_config": CONFIG,
    "backend_config": {"framework": "torch", "config": {}},
    "scaling_config": {
        "num_workers": (2, 4),
        "use_gpu": True,
        "resources_per_worker": {"GPU": 1.0},
    },
    "run_config": {"name": "mnist", "failure_config": {"max_failures": 3}},
}
NODES = [
    s.NodeType(
        count=4,
        resources=s.ResourceSet(
            resources=[s.Resource(name="CPU", amount=8), s.Resource(name="GPU", amount=4)]
        ),
        accelerator_type="A100",
        labels=[s.Label(key="ray.io/zone", value="a")],
    ),
    s.NodeType(count=1),
]
PROVENANCE: dict[str, Any] = {
    "git_commit": COMMIT,
    "git_dirty": True,
    "entrypoint": "train.py",
    "argv": ["train.py", "--name", "it's mine", "--lr=0.1"],
    "working_directory": "/srv/train",
    "python_version": "3.11.2",
    "operating_system": "Linux 6.1 x86_64",
    "runtime_env_hash": "cafe",
    "seed": 0,
    "image": "train:7",
    "node_types": NODES,
}


def created(settings: dict[str, Any] | None = SETTINGS, **provenance: Any) -> e.RunCreated:
    """What a run is created with."""
    made = e.RunCreated(name="mnist", start_time_ns=START_NS)
    if settings is not None:
        made.settings.CopyFrom(settings_from(settings))
    if provenance:
        made.provenance.CopyFrom(s.Provenance(**provenance))
    return made


def ended(workers: int, metrics: dict[str, Any]) -> list[e.Event]:
    """From its creation on: it trains, reports and ends well."""
    versions = [s.Version(name="ray", version="2.60.0"), s.Version(name="torch", version="2.9")]
    ranks = range(workers)
    return [
        event(e.RunScheduling(num_workers=workers)),
        event(e.AttemptPlanned(num_workers=workers), "a1"),
        *(event(e.WorkerScheduled(rank=rank), "a1") for rank in ranks),
        *(event(e.WorkerStarted(rank=rank), "a1") for rank in ranks),
        event(e.AttemptStarted(), "a1"),
        event(e.RunRunning()),
        event(e.FrameworkVersionsRecorded(versions=versions)),
        *(event(e.ReportReceived(rank=rank, metrics=to_map(metrics)), "a1") for rank in ranks),
        *(event(e.WorkerCompleted(rank=rank), "a1") for rank in ranks),
        event(e.AttemptEnded(status=s.ATTEMPT_STATUS_FINISHED, cause=s.CAUSE_COMPLETED), "a1"),
        event(e.RunShuttingDown(next=s.RUN_STATUS_FINISHED, cause=s.CAUSE_COMPLETED)),
        event(e.RunFinished(), reason="all workers returned"),
    ]


def record(cli: Cli, journal: str, run_id: str, *events: e.Event) -> None:
    """Records a run in a journal of the home, with the mask that all of its journals have."""
    path = cli.home / "journals" / journal
    path.parent.mkdir(parents=True, exist_ok=True)
    for at, one in enumerate(events):
        one.time_unix_nano = START_NS + at * 10**9
    with Store.open(path, segment_bytes_max=1 << 20, masking=EventMask(SALT)) as store:
        opened = store.open_run(run_id, "controller", START_NS)
        store.append(run_id, opened.incarnation, opened.run_seq, events)


@pytest.fixture
def home(cli: Cli) -> Cli:
    """A home with a run that has everything, one that differs in a few things, and a bare one."""
    record(cli, "one", "first", event(created(**PROVENANCE)), *ended(2, {"loss": 0.5}))
    changed = {**CONFIG, "lr": 0.2, "one": 1.0, "more": None}
    other = {**PROVENANCE, "git_commit": "f" * 40, "node_types": NODES[:1]}
    settings = {**SETTINGS, "train_loop_config": changed}
    record(cli, "two", "second", event(created(settings, **other)), *ended(3, {"loss": 0.5}))
    record(cli, "two", "third", event(created(None)))
    return cli


def rows(outcome: Outcome) -> dict[str, str]:
    """The lines of tables of two columns, by what is in the first."""
    assert (0, "") == (outcome.code, outcome.err)
    lines = (line.partition("  ") for line in outcome.out.splitlines())
    return {name: value.strip() for name, _, value in lines}


# --- show --settings ------------------------------------------------------------------------------


def test_show_settings_has_a_row_for_everything(home: Cli):
    """Arguments under dotted names with whole values; versions; provenance."""
    told = rows(home("show", "first", "--settings"))
    for name, value in {
        "run": "first",
        "train_loop_config.lr": "0.1",
        "train_loop_config.big": str(2**70),
        "train_loop_config.loss": "NaN",
        "train_loop_config.raw": "0x00ff",
        "train_loop_config.betas": "[0.9, 0.999]",
        "train_loop_config.one": "1",
        "train_loop_config.text": '"1"',
        "train_loop_config.none": "null",
        'train_loop_config["a.b"][""]': "dots",
        "backend_config.framework": "torch",
        "backend_config.config": "{}",
        "scaling_config.num_workers": "2 to 4",
        "scaling_config.use_gpu": "true",
        "scaling_config.use_tpu": "false",
        "scaling_config.resources_per_worker.GPU": "1.0",
        "run_config.failure_config.max_failures": "3",
        "torch": "2.9",
        "git commit": f"{COMMIT} (dirty: tracked files differed from it)",
        "entrypoint": "train.py",
        "argv": """train.py --name 'it'"'"'s mine' --lr=0.1""",
        "working directory": "/srv/train",
        "python": "3.11.2",
        "operating system": "Linux 6.1 x86_64",
        "image": "train:7",
        "runtime env hash": "cafe",
        "seed": "0",
    }.items():
        assert value == told[name]
    out = home("show", "first", "--settings").out
    assert "nodes              4 x CPU=8 GPU=4, A100, ray.io/zone=a\n" in out
    assert "nodes              1 x a node\n" in out
    assert "attempts" not in out


def test_show_settings_json_is_exact(home: Cli):
    """Nested, with integers as integers, bytes as hex, and what JSON has no number for as text."""
    document = home("show", "first", "--settings", "--json").document
    assert ["journal", "run_id", "name", "settings", "framework_versions", "provenance"] == [
        *document
    ]
    assert (str(home.home / "journals/one"), "first", "mnist") == (*document.values(),)[:3]
    settings = document["settings"]
    expected = {**CONFIG, "loss": "NaN", "raw": "00ff"}
    assert expected == settings["train_loop_config"]
    assert isinstance(settings["train_loop_config"]["one"], int)
    assert [2, 4] == settings["scaling_config"]["num_workers"]
    assert {"ray": "2.60.0", "torch": "2.9"} == document["framework_versions"]
    told = document["provenance"]
    assert (COMMIT, True, 0) == (told["git_commit"], told["git_dirty"], told["seed"])
    assert PROVENANCE["argv"] == told["argv"]
    assert {"CPU": 8.0, "GPU": 4.0} == told["node_types"][0]["resources"]


def test_show_settings_as_of(home: Cli):
    """What was known then: before the workers have told, there are no versions."""
    before = home("show", "first", "--settings", "--as-of", "2", "--json").document
    assert ({}, "torch") == (
        before["framework_versions"],
        before["settings"]["backend_config"]["framework"],
    )
    bare = home("show", "first", "--settings", "--as-of", "1")
    assert "first: what it was asked for is not recorded\n" == bare.out


def test_show_settings_of_a_run_without(home: Cli):
    """One line, and that is no error; in JSON there is nothing in it."""
    assert (0, "third: what it was asked for is not recorded\n", "") == home(
        "show", "third", "--settings"
    )
    document = home("show", "third", "--settings", "--json").document
    assert {"settings": {}, "framework_versions": {}, "provenance": {}} == {
        key: document[key] for key in ("settings", "framework_versions", "provenance")
    }


@pytest.mark.parametrize("others", [("--attempt", "1"), ("--traceback",)])
def test_show_settings_is_no_part_of_the_story(home: Cli, others: tuple[str, ...]):
    """Options of the story beside it are wrong usage."""
    for more in ((), ("--json",)):
        outcome = home("show", "first", "--settings", *others, *more)
        assert (2, "") == (outcome.code, outcome.out)
        assert f"error: --settings and {others[0]} exclude each other" in outcome.err
        assert "hint: trainstate show first --settings\n" in outcome.err


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (1.0, "1.0"),
        (True, "true"),
        (None, "null"),
        (float("-inf"), "-Infinity"),
        ((2, 4), "2 to 4"),
        ([], "[]"),
        ([{"b": 1, "a": "é"}], '[{"a": "é", "b": 1}]'),
        (["a\u2028\x7f"], '["a\\u2028\\u007f"]'),
        ("plain text", "plain text"),
        ("2.60.0", "2.60.0"),
        ("", '""'),
        ("-", '"-"'),
        ("1", '"1"'),
        ("1e-3", '"1e-3"'),
        ("NaN", '"NaN"'),
        ("true", '"true"'),
        ("2 to 4", '"2 to 4"'),
        ("[]", '"[]"'),
        (" a", '" a"'),
        ("a\nb\x1b", '"a\\nb\\u001b"'),
        ("0xff", '"0xff"'),
    ],
)
def test_what_looks_the_same_is_the_same(value: object, text: str):
    """A text that would read as another value is in quotes."""
    assert text == shown(value)


def test_no_two_values_have_one_name():
    """Whatever the keys are; nothing is lost."""
    keys = {"a": {"b": 1, 'c["d"]': 2, "e": {}}, "a.b": 3, "a[b": {"": 4}, 'a["e"]': 5, "\x1b": 6}
    found = list(flat(keys))
    assert [1, 2, {}, 3, 4, 5, 6] == [value for _, value in found]
    assert 7 == len({name for name, _ in found})
    assert all(name.isprintable() for name, _ in found)


def test_a_command_line_is_what_a_shell_takes():
    """To the byte, and with nothing in it that a terminal would take for a command."""
    words = ["a b", "it's", "$HOME", "é", "tab\t1\n'\\\x1b[31m\x7f", "*", ""]
    line = command_line(words)
    assert line.isprintable()
    python = f"{sys.executable} -c 'import sys; print(sys.argv[1:])' {line}"
    ran = subprocess.run(["bash", "-c", python], capture_output=True, text=True, check=True)
    assert f"{words}\n" == ran.stdout


# --- compare --------------------------------------------------------------------------------------


def test_compare_shows_what_differs(home: Cli):
    """By section, in the order in which one asks; and how much is equal, in one line."""
    outcome = home("compare", "first", "second")
    assert (0, "") == (outcome.code, outcome.err)
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    assert [
        f"first first mnist {home.home}/journals/one",
        f"second second mnist {home.home}/journals/two",
    ] == lines[1:3]
    headings = [lines[at + 1] for at, line in enumerate(lines) if not line]
    assert ["outcome", "code", "environment", "settings"] == headings[:-1]
    assert "versions" not in lines
    assert headings[-1].startswith("equal: ")
    assert headings[-1].endswith(" fields (--all shows them)")
    for row in (
        "reports 2 3",
        "workers 2 3",
        f"git_commit {COMMIT} {'f' * 40}",
        "train_loop_config.lr 0.1 0.2",
        "train_loop_config.one 1 1.0",
        "train_loop_config.more - null",
    ):
        assert row in lines
    assert not any(line.startswith(("status", "metrics.loss", "argv")) for line in lines)


def test_compare_all_shows_what_is_equal_too(home: Cli):
    """And marks what differs."""
    outcome = home("compare", "first", "second", "--all")
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    for row in (
        "status FINISHED FINISHED",
        "cause completed completed",
        "why all workers returned all workers returned",
        "attempts 1 1",
        "restarts.failures 0 0",
        "metrics.loss 0.5 0.5",
        "git_dirty true true",
        "workers 2 3 differs",
        "torch 2.9 2.9",
        "seed 0 0",
        "python_version 3.11.2 3.11.2",
        "scaling_config.num_workers 2 to 4 2 to 4",
        "train_loop_config.loss NaN NaN",
    ):
        assert row in lines
    document = home("compare", "first", "second", "--json").document
    every = [row for name, some in document.items() if name != "runs" for row in some]
    equal = sum(row["equal"] for row in every)
    assert f"equal: {equal} of {len(every)} fields" == lines[-1]
    assert f"equal: {equal} fields (--all shows them)" in home("compare", "first", "second").out


def test_compare_json_has_every_row(home: Cli):
    """Exact values, null where a run has none."""
    document = home("compare", "first", "second", "--json").document
    assert ["runs", "outcome", "code", "versions", "environment", "settings"] == [*document]
    journals = home.home / "journals"
    assert [
        {"run_id": "first", "name": "mnist", "journal": str(journals / "one")},
        {"run_id": "second", "name": "mnist", "journal": str(journals / "two")},
    ] == document["runs"]
    found = {row["field"]: row for name, some in document.items() if name != "runs" for row in some}
    assert {"field": "workers", "first": 2, "second": 3, "equal": False} == found["workers"]
    assert (2**70, 2**70, True) == (*found["train_loop_config.big"].values(),)[1:]
    assert ("NaN", "NaN", True) == (*found["train_loop_config.loss"].values(),)[1:]
    assert (1, 1.0, False) == (*found["train_loop_config.one"].values(),)[1:]
    assert (None, None, False) == (*found["train_loop_config.more"].values(),)[1:]
    assert [2, 4] == found["scaling_config.num_workers"]["first"]
    assert PROVENANCE["argv"] == found["argv"]["first"]
    assert 0 < found["goodput"]["first"] < 1
    assert 10**9 < found["duration_ns"]["first"]
    assert 2 == len(found["node_types"]["first"])


def test_a_run_compared_with_itself(home: Cli):
    """Nothing differs, and that is said."""
    outcome = home("compare", "first", "first")
    assert (0, "nothing differs; equal: ") == (outcome.code, outcome.out.splitlines()[-1][:24])
    document = home("compare", "first", "fir", "--json").document
    assert all(row["equal"] for name, some in document.items() if name != "runs" for row in some)


def test_equal_secrets_are_equal(cli: Cli):
    """By their markers: no secret is shown, and one is not taken for another."""
    for run_id, key in {"a": KEY, "b": KEY, "c": OTHER_KEY}.items():
        settings = {"train_loop_config": {"api_key": key}}
        record(cli, run_id, run_id, event(created(settings, argv=["t.py", "--api-key", key])))
    same = cli("compare", "a", "b", "--all", "--json").document
    (row,) = (row for row in same["settings"] if row["field"] == "train_loop_config.api_key")
    assert row["equal"]
    assert row["first"].startswith("<secret-")
    assert all(row["equal"] for row in same["code"])
    out = cli("compare", "a", "c").out
    assert "train_loop_config.api_key  <secret-" in out
    assert "argv   t.py --api-key '<secret-" in out
    assert "sk-" not in out


def test_compare_says_what_it_cannot_find(home: Cli):
    """Either of the two."""
    for named in (("first", "zzz"), ("zzz", "first")):
        outcome = home("compare", *named)
        assert (2, "") == (outcome.code, outcome.out)
        assert "no run fits 'zzz'" in outcome.err
    assert 2 == home("compare", "first").code


def test_compare_runs_that_have_next_to_nothing(home: Cli):
    """A bare run beside one with everything: what it lacks is a dash."""
    outcome = home("compare", "third", "first")
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    assert "scaling_config.num_workers - 2 to 4" in lines
    assert "ray - 2.60.0" in lines
    assert 0 == home("compare", "third", "third").code


# --- rerun ----------------------------------------------------------------------------------------

SCRIPT = """
import os, sys
print(os.getcwd(), sys.argv, sys.executable)
print("aside", file=sys.stderr)
raise SystemExit(7)
"""


class Started:
    """A run that a script in a folder of its own has recorded."""

    def __init__(self, cli: Cli, folder: Path) -> None:
        self.cli = cli
        self.folder = folder
        folder.mkdir()
        (folder / "train.py").write_text(SCRIPT)

    def recorded(self, settings: dict[str, Any] | None = None, **provenance: Any) -> None:
        known = {
            "entrypoint": "train.py",
            "argv": ["train.py", "--lr", "0.1"],
            "working_directory": str(self.folder),
        }
        record(self.cli, "one", "run", event(created(settings, **{**known, **provenance})))

    def git(self, *arguments: str) -> str:
        names = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", "-C", str(self.folder), *names, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self) -> str:
        self.git("init", "--quiet")
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", "x")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def started(cli: Cli, tmp_path: Path) -> Started:
    """A script that says where it is, and ends with 7."""
    return Started(cli, tmp_path / "code")


def test_rerun_prints_a_snippet(home: Cli):
    """Where, which code, and the command; then what it was asked for, as comments."""
    outcome = home("rerun", "first", "--print")
    assert (0, "") == (outcome.code, outcome.err)
    lines = outcome.out.splitlines()
    assert [
        "# run first mnist: FINISHED",
        "cd /srv/train",
        "# tracked files differed from this commit: it is not quite the code that ran",
        f"git checkout {COMMIT}",
        """python train.py --name 'it'"'"'s mine' --lr=0.1""",
        "# what it was asked for:",
        "#   train_loop_config.lr = 0.1",
    ] == lines[:7]
    assert all(line.startswith("#   ") for line in lines[6:])


def test_rerun_prints_only_what_is_known(started: Started):
    """No commit, no checkout; clean, no comment on it; the script's repository, if it is in one."""
    started.recorded()
    assert [f"cd {started.folder}", "python train.py --lr 0.1"] == started.cli(
        "rerun", "run", "--print"
    ).out.splitlines()[1:]
    code = {"entrypoint": "code/train.py", "argv": ["code/train.py"], "git_commit": COMMIT}
    record(started.cli, "one", "clean", event(created(None, git_dirty=False, **code)))
    assert [f"git -C code checkout {COMMIT}", "python code/train.py"] == started.cli(
        "rerun", "clean", "--print"
    ).out.splitlines()[1:]


def test_rerun_json(home: Cli):
    """All of it for a program."""
    document = home("rerun", "first", "--print", "--json").document
    assert ["python", *PROVENANCE["argv"]] == document["command"]
    assert ("/srv/train", COMMIT, True) == (
        document["working_directory"],
        document["git_commit"],
        document["git_dirty"],
    )
    environment = document["environment"]
    assert {"ray": "2.60.0", "torch": "2.9"} == environment["framework_versions"]
    assert ("3.11.2", "train:7", 0) == tuple(
        environment[name] for name in ("python_version", "image", "seed")
    )
    assert 2**70 == document["settings"]["train_loop_config"]["big"]
    assert [] == document["missing"]
    outcome = home("rerun", "first", "--json")
    assert (2, "") == (outcome.code, outcome.out)
    assert "hint: trainstate rerun first --print --json" in outcome.err


def test_rerun_names_the_secrets_that_it_lacks(started: Started):
    """With what stands in their place; and it does not start without them."""
    argv = ["train.py", "--api-key", KEY, f"--token={OTHER_KEY}", f"https://u:{'p' * 9}@h/x"]
    started.recorded({"train_loop_config": {"nested": {"password": "hunter22"}}}, argv=argv)
    document = started.cli("rerun", "run", "--print", "--json").document
    missing = document["missing"]
    assert ["--api-key", "--token", "argument 5"] == [one["where"] for one in missing]
    assert 3 == len({one["what"] for one in missing})
    assert ["train_loop_config.nested.password"] == [one["where"] for one in document["masked"]]
    assert document["command"][3] == missing[0]["what"]
    lines = started.cli("rerun", "run", "--print").out.splitlines()
    for one in missing:
        assert f"# replace {one['what']} in {one['where']}" in lines
    refused = started.cli("rerun", "run")
    assert (1, "") == (refused.code, refused.out)
    assert f"{missing[0]['what']} in --api-key" in refused.err
    assert "hint: trainstate rerun run --print" in refused.err
    everything = "".join((*lines, refused.err, str(document)))
    assert not any(one in everything for one in (KEY, OTHER_KEY, "hunter22", "p" * 9))


def test_rerun_has_the_variables_of_the_run(started: Started):
    """Names that were secret stay secret, and limits that were not the default are as they were."""
    limits = {"start_timeout_s": 5.0, "worker_timeout_s": 600.0, "upload_timeout_s": 1800.0}
    started.recorded({"secret_keys": ["pin", "internal code"], "limits": limits})
    told = {"TRAINSTATE_SECRET_KEYS": "pin,internal code", "TRAINSTATE_START_TIMEOUT_S": "5"}
    assert told == started.cli("rerun", "run", "--print", "--json").document["variables"]
    (command,) = [
        line
        for line in started.cli("rerun", "run", "--print").out.splitlines()
        if line.startswith("TRAIN")
    ]
    assert (
        "TRAINSTATE_SECRET_KEYS='pin,internal code' TRAINSTATE_START_TIMEOUT_S=5 python train.py"
        in command
    )


def test_rerun_runs_it_again(started: Started):
    """In its directory, with its arguments and this interpreter; its exit code is the command's."""
    started.recorded()
    outcome = started.cli.process("rerun", "run")
    said = f"{started.folder} {['train.py', '--lr', '0.1']} {sys.executable}\n"
    assert (7, said, "aside\n") == outcome


def test_rerun_runs_modules_and_code(started: Started):
    """A module and code in the command have no script to look for; odd arguments come through."""
    started.recorded(entrypoint="-m train", argv=["-m", "train", "a b\n'"])
    outcome = started.cli.process("rerun", "run")
    assert 7 == outcome.code
    assert str(["a b\n'"])[1:-1] in outcome.out
    code = {"entrypoint": "-c", "argv": ["-c", "print('code')"]}
    record(
        started.cli,
        "one",
        "code",
        event(created(None, working_directory=str(started.folder), **code)),
    )
    assert (0, "code\n", "") == started.cli.process("rerun", "code")


def test_rerun_warns_of_other_code(started: Started):
    """Of a commit that is not the one, of changes now and then; the right one is not spoken of."""
    commit = started.commit()
    started.recorded(git_commit=commit, git_dirty=False)
    assert "aside\n" == started.cli.process("rerun", "run").err
    (started.folder / "train.py").write_text(f"{SCRIPT}\n# changed\n")
    assert [f"warning: {started.folder}: tracked files differ from the commit here", "aside"] == (
        started.cli.process("rerun", "run").err.splitlines()
    )
    record(
        started.cli,
        "one",
        "other",
        event(
            created(
                None,
                entrypoint="train.py",
                argv=["train.py"],
                working_directory=str(started.folder),
                git_commit=COMMIT,
                git_dirty=True,
            )
        ),
    )
    outcome = started.cli.process("rerun", "other")
    assert 7 == outcome.code
    assert [
        f"warning: tracked files differed from commit {COMMIT} when it ran",
        f"warning: {started.folder}: the commit here is {commit}; it ran at {COMMIT}",
        f"warning: {started.folder}: tracked files differ from the commit here",
        "aside",
    ] == outcome.err.splitlines()


def test_rerun_warns_where_there_is_no_git(started: Started):
    """The commit is known, and nothing tells whether it is here."""
    started.recorded(git_commit=COMMIT)
    first, _ = started.cli.process("rerun", "run").err.splitlines()
    assert f"git tells no commit here; it ran at {COMMIT}" in first


@pytest.mark.parametrize(
    ("provenance", "message"),
    [
        ({"working_directory": "/nowhere/at/all"}, "/nowhere/at/all: its working directory is not"),
        ({"working_directory": ""}, "its working directory is not recorded"),
        ({"entrypoint": "gone.py", "argv": ["gone.py"]}, "gone.py: its script is not here"),
        ({"entrypoint": "", "argv": []}, "it was started in an interactive session"),
        ({"entrypoint": "", "argv": ["-i"]}, "it was started in an interactive session"),
        ({"entrypoint": "-", "argv": ["-"]}, "it was started in an interactive session"),
        ({"argv": ["train.py", "x... (20000 characters)"]}, "... (20000 characters) in argument 2"),
    ],
)
def test_rerun_refuses_what_cannot_be_the_same(
    started: Started, provenance: dict[str, Any], message: str
):
    """Before it has done anything, and says how to go on."""
    started.recorded(**provenance)
    outcome = started.cli.process("rerun", "run")
    assert (1, "") == (outcome.code, outcome.out)
    assert message in outcome.err
    assert "trainstate rerun run --print" in outcome.err.splitlines()[1]


def test_rerun_of_what_was_never_recorded(imported: Cli, home: Cli):
    """Ray's log does not say it; of such a run what it was asked for is printed all the same."""
    outcome = imported("rerun", RUNS[0])
    assert (1, "") == (outcome.code, outcome.out)
    assert "error: its log does not say how it was started" in outcome.err
    printed = imported("rerun", RUNS[0], "--print").out.splitlines()
    assert "# its log does not say how it was started" == printed[1]
    assert "#   train_loop_config.fail = true" in printed
    assert [] == imported("rerun", RUNS[0], "--print", "--json").document["command"]
    assert "how it was started is not recorded" in home("rerun", "third").err


def test_what_is_printed_is_plain(home: Cli):
    """No colours in a pipe, no blanks at the end of lines."""
    for args in (
        ("show", "first", "--settings"),
        ("compare", "first", "second", "--all"),
        ("rerun", "first", "--print"),
    ):
        out = home(*args).out
        assert "\x1b" not in out
        assert out == "".join(line.rstrip() + "\n" for line in out.splitlines())


@pytest.mark.parametrize("verb", ["show a --settings", "compare a b", "rerun a", "rerun a --print"])
def test_without_a_journal_there_is_a_hint(cli: Cli, verb: str):
    """As of every other verb."""
    cli.home.mkdir()
    outcome = cli(*verb.split())
    assert (2, "") == (outcome.code, outcome.out)
    assert "no journal here" in outcome.err
    assert 2 == len(outcome.err.splitlines())
