"""`trainstate run`: the script's streams, signals and exit code are its own, and its runs are shown."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.conftest import ROOT, Cli, Outcome
from tests.cli.test_terminal import read_all
from tests.cluster import Cluster
from trainstate.cli._live import Lives
from trainstate.cli._region import Region
from trainstate.cli._shown import Lines
from trainstate.store import Store
from trainstate.testing.given import event
from trainstate.testing.story import write_story
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

# A script that records a run as the state actor would, and then does what a test wants.
WRITER = """
import os, signal, sys, time
from pathlib import Path
from trainstate.core.values import to_map
from trainstate.store import Store
from trainstate.testing.given import event
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

class Run:
    def __init__(self, name, run_id):
        path = Path(os.environ["TRAINSTATE_HOME"]) / "journals" / name
        self.store = Store.open(path, segment_bytes_max=1 << 20)
        self.opened = self.store.open_run(run_id, "controller", time.time_ns())
        self.seq = self.opened.run_seq
    def record(self, *payloads, attempt="", reason=""):
        events = [event(one, attempt, reason) for one in payloads]
        for one in events:
            one.time_unix_nano = time.time_ns()
        self.store.append(self.opened.state.run_id, self.opened.incarnation, self.seq, events)
        self.seq += len(events)
    def start(self, name="mnist"):
        self.record(e.RunCreated(name=name), reason="fit() was called")
        self.record(e.RunScheduling(num_workers=2))
        self.record(e.AttemptPlanned(num_workers=2), attempt="a1")
        self.record(e.RunWaiting(have=1, need=2), reason="1 of 2 bundles fits")
        self.record(e.RunScheduling(num_workers=2))
        self.record(*(e.WorkerScheduled(rank=rank) for rank in (0, 1)), attempt="a1")
        self.record(*(e.WorkerStarted(rank=rank) for rank in (0, 1)), attempt="a1")
        self.record(e.AttemptStarted(), attempt="a1")
        self.record(e.RunRunning(), reason="all train")
    def report(self, index=0):
        metrics = to_map({"loss": 0.25})
        for rank in (0, 1):
            self.record(e.ReportReceived(rank=rank, index=index, metrics=metrics), attempt="a1")
    def finish(self):
        self.record(*(e.WorkerCompleted(rank=rank) for rank in (0, 1)), attempt="a1")
        self.record(e.AttemptEnded(status=3, cause=1), attempt="a1")
        self.record(e.RunShuttingDown(next=9, cause=1))
        self.record(e.RunFinished(), reason="all workers returned")
        self.store.close()
"""
STATUSES = [
    "INITIALIZING",
    "SCHEDULING",
    "WAITING",
    "SCHEDULING",
    "RUNNING",
    "SHUTTING_DOWN",
    "FINISHED",
]
TRAINS = WRITER + "run = Run('one', 'run-one')\nrun.start()\nrun.report()\nrun.finish()\n"
WAITS = "print('ready', flush=True)\ntime.sleep(60)\n"


class Scripted(NamedTuple):
    """A home, and scripts that are run in it."""

    cli: Cli
    folder: Path

    def script(self, text: str) -> Path:
        path = self.folder / "train.py"
        path.write_text(text)
        return path

    def run(self, text: str, *options: str, args: tuple[str, ...] = (), **popen: object) -> Outcome:
        return self.cli.process("run", *options, self.script(text), *args, **popen)

    def start(self, text: str, *options: str) -> subprocess.Popen[str]:
        return self.cli.start("run", *options, self.script(text))


@pytest.fixture
def scripted(cli: Cli, tmp_path: Path) -> Scripted:
    """Scripts in an empty home."""
    return Scripted(cli, tmp_path)


# --- the script is itself -------------------------------------------------------------------------


def test_streams_and_arguments_are_the_scripts(scripted: Scripted):
    """What follows the script is its own, and so is what it reads and writes, to the byte."""
    text = (
        "import sys\n"
        "print(sys.argv[1:], sys.stdin.read(), sys.executable)\n"
        "print('aside', file=sys.stderr)\n"
    )
    asked = ("--json", "--journal", "x", "--", "-h")
    with (scripted.folder / "in").open("w+") as stdin:
        stdin.write("typed")
        stdin.seek(0)
        outcome = scripted.run(text, "--quiet", args=asked, stdin=stdin)
    assert (0, f"{[*asked]} typed {sys.executable}\n", "aside\n") == outcome


@pytest.mark.parametrize(
    ("ends", "code"),
    [("sys.exit(7)", 7), ("raise ValueError", 1), ("os.kill(os.getpid(), signal.SIGKILL)", 137)],
)
def test_the_exit_code_is_the_scripts(scripted: Scripted, ends: str, code: int):
    """Its own, or 128 and the signal that ended it."""
    assert code == scripted.run(f"import os, signal, sys\n{ends}\n", "--quiet").code


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "Missing argument 'SCRIPT'"),
        (("nothing.py",), "'nothing.py' does not exist"),
        ((".",), "'.' is a directory"),
        (("--nonsense", "x.py"), "No such option '--nonsense'"),
        (("--quiet", "--json", __file__), "exclude each other"),
    ],
)
def test_what_cannot_be_run_is_said(cli: Cli, args: tuple[str, ...], message: str):
    """One message, one hint, exit code 2, and nothing was started."""
    outcome = cli("run", *args)
    assert (2, "") == (outcome.code, outcome.out)
    assert message in outcome.err
    assert "hint: trainstate run --help" == outcome.err.splitlines()[1]


# --- what is shown --------------------------------------------------------------------------------


def test_a_pipe_has_a_line_per_status_and_one_at_the_end(scripted: Scripted):
    """Each status with its reason, in order, none left out; then what it came to, and what next."""
    outcome = scripted.run(TRAINS)
    *lines, last = outcome.err.splitlines()
    assert (0, "") == (outcome.code, outcome.out)
    assert STATUSES == [line.split(" · ")[0].split()[-1] for line in lines]
    assert "WAITING · attempt 1 · 1/2 workers fit · 1 of 2 bundles fits" in lines[2]
    assert "RUNNING · attempt 1 · 2/2 workers · all train" in lines[4]
    assert "2 reports" in lines[-1]
    assert "loss=0.25" in lines[-1]
    journal = scripted.cli.home / "journals" / "one"
    assert last.startswith("mnist FINISHED · completed · 1 attempt · 2 reports · goodput ")
    assert last.endswith(f"% · {journal} · trainstate show run-one")
    assert "\x1b" not in outcome.err


def test_json_has_an_object_per_change(scripted: Scripted):
    """On standard error, beside nothing of ours; integers are integers."""
    *changes, end = map(json.loads, scripted.run(TRAINS, "--json").err.splitlines())
    assert STATUSES == [one["status"] for one in changes]
    assert {"status"} == {one["kind"] for one in changes}
    running = changes[4]
    assert ("RUNNING", 2, 2, 1) == tuple(
        running[name] for name in ("status", "workers_alive", "workers", "attempt")
    )
    assert ("end", "FINISHED", "COMPLETED", 2, {"loss": 0.25}) == tuple(
        end[name] for name in ("kind", "status", "cause", "reports", "metrics")
    )
    assert 0 < end["goodput"] < 1


def test_runs_of_before_and_imported_ones_are_not_the_scripts(scripted: Scripted, imported: Cli):
    """Only what begins while it runs is shown; where that is nothing, so much is said."""
    write_story(scripted.cli.home / "journals" / "before")
    outcome = scripted.run(
        "import shutil, sys\nshutil.copytree(sys.argv[1], sys.argv[2])\n",
        args=(str(imported.journal), str(scripted.cli.home / "journals" / "copied")),
    )
    assert "trainstate: the script started no run that is recorded here\n" == outcome.err


def test_a_run_in_a_journal_that_was_there_is_found(scripted: Scripted):
    """A cluster that goes on has its journal already; only what is new in it counts."""
    path = scripted.cli.home / "journals" / "one"
    write_story(path)
    lines = scripted.run(TRAINS).err.splitlines()
    assert len(STATUSES) + 1 == len(lines)


def test_damage_does_not_stop_the_script(scripted: Scripted):
    """What was damaged before is left alone; a journal that turns up damaged ends the showing, once."""
    before = scripted.cli.home / "journals" / "before"
    write_story(before)
    (before / "IDENTITY").write_bytes(b"garbage")
    damaging = (
        "run = Run('one', 'run-one')\nrun.start()\ntime.sleep(1)\n"
        "bad = run.store.history.path.with_name('bad')\nbad.mkdir()\n"
        "(bad / 'IDENTITY').write_bytes(b'garbage')\ntime.sleep(1)\nprint('done')\nrun.finish()\n"
    )
    outcome = scripted.run(WRITER + damaging)
    assert (0, "done\n") == outcome[:2]
    assert 1 == outcome.err.count("nothing more is shown")
    assert "RUNNING" in outcome.err.partition("nothing more is shown")[0]


def test_progress_is_told_every_ten_seconds(tmp_path: Path, capsys):
    """A run that only goes on has a line now and then, if it has reported something since."""
    now_s = 100.0
    lives, lines = Lives(tmp_path), Lines(lambda: now_s)
    begun = [
        event(e.RunCreated(name="a")),
        event(e.RunScheduling(num_workers=1)),
        event(e.AttemptPlanned(num_workers=1), "a1"),
        event(e.WorkerScheduled(), "a1"),
        event(e.WorkerStarted(), "a1"),
        event(e.AttemptStarted(), "a1"),
        event(e.RunRunning()),
    ]
    reports = [[event(e.ReportReceived(index=index), "a1")] for index in range(4)]
    moments = [100.0, 105.0, 110.0, 119.0, 120.0, 140.0]
    with Store.open(tmp_path / "j", segment_bytes_max=1 << 20) as store:
        opened = store.open_run("r", "controller", 1)
        position, told = opened.run_seq, []
        for now_s, events in zip(moments, [begun, *reports, []], strict=True):
            store.append("r", opened.incarnation, position, events)
            position += len(events)
            for live in lives.look(now_s):
                lines.moved(live)
            lines.looked(lives)
            told.append(len(capsys.readouterr().err.splitlines()))
    lives.close()
    assert [3, 0, 1, 0, 1, 0] == told


def test_what_another_launch_began_is_its_own(tmp_path: Path):
    """Of two scripts on one home each shows the runs with its launch id, or with none."""
    lives = Lives(tmp_path, "mine")
    with Store.open(tmp_path / "j", segment_bytes_max=1 << 20) as store:
        for launch_id in ("mine", "another", ""):
            created = e.RunCreated(name="a", provenance=s.Provenance(launch_id=launch_id))
            opened = store.open_run(f"run-{launch_id}", "controller", 1)
            begun = [event(created), event(e.RunScheduling())]
            store.append(f"run-{launch_id}", opened.incarnation, opened.run_seq, begun)
        shown = {live.run.run_id for live in lives.look(0.0)}
    lives.close()
    assert {"run-mine", "run-"} == shown == set(lives.all)


# --- being asked to end ---------------------------------------------------------------------------


def asked(process: subprocess.Popen[str], *numbers: int) -> tuple[int, str, str]:
    """Sends signals to us alone, when the script says that it is ready, one after the other."""
    assert "ready\n" == process.stdout.readline()
    for number in numbers:
        process.send_signal(number)
        time.sleep(0.3)
    out, err = process.communicate(timeout=20)
    return process.returncode, out, err


def test_the_first_ctrl_c_is_passed_on_once(scripted: Scripted):
    """The script hears of it, and ends as it likes."""
    text = "import time\ntry:\n    print('ready', flush=True); time.sleep(60)\n"
    text += "except KeyboardInterrupt:\n    print('asked', flush=True); time.sleep(1)\n"
    text += "    raise SystemExit(3)\n"
    with scripted.start(text) as process:
        code, out, err = asked(process, signal.SIGINT)
    assert (3, "asked\n") == (code, out)
    assert "asked to end; Ctrl-C again" in err


@pytest.mark.parametrize(
    ("ignored", "sent", "code"),
    [
        ((), [signal.SIGTERM], 143),
        (("SIGINT",), [signal.SIGINT] * 2, 143),
        (("SIGINT", "SIGTERM"), [signal.SIGINT] * 3, 137),
        (("SIGTERM",), [signal.SIGTERM] * 2, 137),
    ],
)
def test_asked_again_it_is_told_more_plainly(scripted: Scripted, ignored, sent, code):
    """SIGINT, SIGTERM, SIGKILL; the exit code says which of them ended it."""
    text = "import signal, time\n"
    text += "".join(f"signal.signal(signal.{name}, signal.SIG_IGN)\n" for name in ignored)
    with scripted.start(text + WAITS, "--quiet") as process:
        assert code == asked(process, *sent)[0]


def test_ctrl_c_on_a_terminal_reaches_the_script_once(scripted: Scripted):
    """The terminal has told it already: it is not told again."""
    text = (
        "import signal, time\ncount = 0\ndef heard(*_):\n    global count\n    count += 1\n"
        "signal.signal(signal.SIGINT, heard)\nprint('ready', flush=True)\n"
        "end = time.monotonic() + 1.5\nwhile time.monotonic() < end: time.sleep(0.1)\n"
        "print('heard', count)\n"
    )
    with at_a_terminal(scripted, text) as terminal:
        read_until(terminal, "ready")
        os.write(terminal.fd, b"\x03")
        assert "heard 1" in read_all(terminal.fd)


# --- the foot of a terminal -----------------------------------------------------------------------


class Terminal(NamedTuple):
    """Our end of a terminal that a process has as its own."""

    fd: int
    pid: int

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def at_a_terminal(scripted: Scripted, text: str) -> Terminal:
    """Runs a script where the terminal is the controlling one, 80 columns wide and 24 rows high."""
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "rows", "24", "cols", "80"], stdin=theirs, check=True)
    take = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
    take += "; os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    command = ["-c", take, "-m", "trainstate.cli", "run", str(scripted.script(text))]
    env = {"TRAINSTATE_HOME": str(scripted.cli.home), "TERM": "xterm", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, **env},
    )
    os.close(theirs)
    process.returncode = 0  # it is waited for by its number
    return Terminal(ours, process.pid)


def read_until(terminal: Terminal, wanted: str) -> str:
    """What is printed, up to and including what is waited for."""
    text = ""
    while wanted not in text:
        text += os.read(terminal.fd, 4096).decode(errors="replace")
    return text


def test_the_foot_of_a_terminal_is_taken_and_given_back(scripted: Scripted):
    """The script prints above it; the end is a line that stays."""
    text = WRITER + (
        "run = Run('one', 'run-one')\nrun.start()\nrun.report()\ntime.sleep(1)\nprint('above')\n"
        "run.finish()\n"
    )
    with at_a_terminal(scripted, text) as terminal:
        shown = read_all(terminal.fd)
    assert "\x1b[1;22r" in shown
    assert "RUNNING" in shown
    assert shown.index("\x1b[1;22r") < shown.index("above") < shown.index("\x1b[r")
    assert "trainstate show run-one" in shown[shown.index("\x1b[r") :]


@pytest.fixture
def screen() -> Iterator[tuple[int, Callable[[], str]]]:
    """A terminal of 10 rows: its descriptor, and what has been written to it."""
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "rows", "10", "cols", "40"], stdin=theirs, check=True)
    os.set_blocking(ours, False)

    def written() -> str:
        try:
            return os.read(ours, 65536).decode()
        except BlockingIOError:
            return ""

    yield theirs, written
    os.close(ours)
    os.close(theirs)


def test_a_region_writes_only_what_is_new(screen):
    """Nothing for the same rows; on a terminal of another size it is taken anew."""
    fd, written = screen
    region = Region(fd)
    region.show(["a", "b"])
    assert "\x1b[1;8r" in written()
    region.show(["a", "b"])
    assert "" == written()
    region.show(["c"])
    assert "\x1b[9;1H\x1b[2Kc\x1b[10;1H\x1b[2K" in written()
    subprocess.run(["stty", "rows", "12", "cols", "40"], stdin=fd, check=True)
    region.show(["c"])
    assert "\x1b[1;10r" in written()
    region.close()
    assert "\x1b[r" in written()
    region.close()
    assert "" == written()


# --- with Ray -------------------------------------------------------------------------------------

REAL = """
import os, sys
import ray
from trainstate import train
from trainstate.train import DataParallelTrainer, RunConfig, ScalingConfig

def loop():
    for step in range(3):
        train.report({"step": step})

ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False)
scaling = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5})
DataParallelTrainer(
    loop, scaling_config=scaling, run_config=RunConfig(name="watched", storage_path=sys.argv[2])
).fit()
"""


def test_a_real_training_is_shown(cluster: Cluster, tmp_path: Path):
    """A script on a cluster that is there: its run is found, followed to its end and summed up."""
    scripted = Scripted(Cli(cluster.home), tmp_path)
    path = scripted.script(REAL)
    with scripted.cli.start(
        "run", "--json", path, cluster.address, tmp_path / "storage"
    ) as process:
        _, err = process.communicate(timeout=90)
    documents = [json.loads(line) for line in err.splitlines() if line.startswith('{"kind"')]
    mine = [one for one in documents if one["name"] == "watched"]
    assert 0 == process.returncode, err
    assert ["SCHEDULING", "RUNNING"] == [
        one["status"] for one in mine if one["status"] in ("SCHEDULING", "RUNNING")
    ]
    assert ("end", "FINISHED", 6, {"step": 2}) == tuple(
        mine[-1][name] for name in ("kind", "status", "reports", "metrics")
    )
