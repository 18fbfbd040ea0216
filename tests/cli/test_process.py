"""The command line as a process: pipes, signals, full disks, and a journal that another one writes."""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import LINES, LOG, RUNS, Cli

RAY = LOG.read_bytes().splitlines(keepends=True)
# The event of a run's end, and the line it was read from.
LAST_KINDS = ["run_finished", "line_imported"]


@contextmanager
def running(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that is gone afterwards, whatever happens."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def interrupt(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Presses Ctrl-C."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    return process.returncode, out, err


def half_imported(cli: Cli, tmp_path: Path) -> tuple[Path, int]:
    """A log with the first run of the real one, imported; and the number of events it made."""
    log = tmp_path / "growing.log"
    log.write_bytes(b"".join(RAY[:15]))
    assert 0 == cli("import", "ray-export", log).code
    return log, len(cli("tail", "--json").documents)


def test_a_reader_that_has_enough_is_no_error(imported: Cli):
    """`trainstate tail | head -1` is silent."""
    with running(imported.start("tail", "--json")) as process:
        assert 1 == json.loads(process.stdout.readline())["seq"]
        process.stdout.close()
        assert "" == process.stderr.read()
        process.wait(timeout=20)


@pytest.mark.parametrize("args", [("tail", "--json"), ("runs",), ("export", "jsonl", "--to", "-")])
def test_nobody_reads_at_all(imported: Cli, args):
    """A pipe that is closed from the start ends every verb in silence."""
    with running(imported.start(*args)) as process:
        process.stdout.close()
        assert "" == process.stderr.read()
        process.wait(timeout=20)


def test_a_full_disk_under_standard_output(imported: Cli):
    """What cannot be printed is an error like any other, said once."""
    with open("/dev/full", "w") as full:
        outcome = imported.process("runs", stdout=full)
    assert 1 == outcome.code
    assert [
        "error: no space left on device",
        "hint: free space on that disk (df -h), or choose another place",
    ] == outcome.err.splitlines()


def test_ctrl_c_ends_a_tail(imported: Cli):
    """Without a traceback, with the exit code of an interrupted program."""
    events = len(imported("tail", "--json").documents)
    with running(imported.start("tail", "-f")) as process:
        for _ in range(events):
            process.stdout.readline()
        code, out, err = interrupt(process)
    assert (130, "", "") == (code, out, err.strip())


def test_a_tail_sees_what_another_process_appends(cli: Cli, tmp_path: Path):
    """It goes on where the journal ended, and misses nothing."""
    log, before = half_imported(cli, tmp_path)
    with running(cli.start("tail", "-f", "--json")) as process:
        for _ in range(before):
            process.stdout.readline()
        with log.open("ab") as file:
            file.writelines(RAY[15:])
        assert 0 == cli.process("import", "ray-export", log).code
        after = len(cli("tail", "--json").documents)
        seen = [json.loads(process.stdout.readline()) for _ in range(before, after)]
        assert 130 == interrupt(process)[0]
    assert list(range(before + 1, after + 1)) == [event["seq"] for event in seen]
    assert LAST_KINDS == [event["kind"] for event in seen[-2:]]


def test_an_import_follows_a_growing_log(cli: Cli, tmp_path: Path):
    """Lines come in as they are written; Ctrl-C ends it, and it says what it did."""
    log, before = half_imported(cli, tmp_path)
    with (
        running(cli.start("import", "ray-export", "--follow", log, "--json")) as importing,
        running(cli.start("tail", "-f", "--json")) as tail,
    ):
        for _ in range(before):
            tail.stdout.readline()
        with log.open("ab") as file:
            file.writelines(RAY[15:30])
        kinds: list[str] = []
        while LAST_KINDS != kinds[-2:]:
            event = json.loads(tail.stdout.readline())
            kinds.append(event["kind"])
        code, out, err = interrupt(importing)
    assert (0, "") == (code, err.strip())
    assert (15, 15) == (json.loads(out)["known"], json.loads(out)["imported"])
    assert RUNS[1] == event["run_id"]


def test_an_export_follows_until_it_is_asked_to_stop(own: Cli):
    """SIGTERM, as a service manager sends it: what is delivered is committed, and the exit is clean."""
    events = len(own("tail", "--json").documents)
    with running(own.start("export", "jsonl", "--to", "/dev/stdout", "--follow")) as process:
        for _ in range(events):
            process.stdout.readline()
        process.terminate()
        out, err = process.communicate(timeout=20)
    assert (0, "") == (process.returncode, err)
    assert f"wrote {events} records" in out


# --- no permission, no space --------------------------------------------------------------------

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 24, 1, 2


def as_anybody() -> None:
    """Root without the capability to read and write what it may not, from the next exec on."""
    libc = ctypes.CDLL(None)
    for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.mark.parametrize("verb", ["runs", "verify"])
@pytest.mark.parametrize("locked", ["journals", "journals/imported", "journals/imported/seg"])
def test_no_permission(own: Cli, locked, verb):
    """A directory that may not be read says so, whichever it is."""
    (own.home / locked).chmod(0)
    outcome = own.process(verb, preexec_fn=as_anybody)
    (own.home / locked).chmod(0o755)
    assert 1 == outcome.code
    assert "permission denied" in outcome.err.lower()
    assert_two_lines(outcome.err)


def test_no_permission_for_a_log(cli: Cli, tmp_path: Path):
    """Nor for the file to import."""
    log = tmp_path / "secret.log"
    log.write_bytes(RAY[0])
    log.chmod(0)
    outcome = cli.process("import", "ray-export", log, preexec_fn=as_anybody)
    assert 1 == outcome.code
    assert f"error: {log}: permission denied" in outcome.err
    assert_two_lines(outcome.err)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_under_the_journal(cli: Cli, small_disk: Path):
    """An import that cannot be kept says so; nothing is acknowledged, nothing is a traceback."""
    outcome = cli.process("import", "ray-export", LOG, "--journal", small_disk / "journal")
    assert 1 == outcome.code
    assert "no space left on device" in outcome.err.lower()
    assert_two_lines(outcome.err)


def test_a_full_disk_under_an_export(imported: Cli, small_disk: Path):
    """The sink is what is full, and the cursor stays where it was."""
    (small_disk / "ballast").write_bytes(bytes(1 << 20))
    cursor = small_disk.parent / "cursor.json"
    outcome = imported.process("export", "jsonl", "--to", small_disk / "x", "--cursor", cursor)
    assert 1 == outcome.code
    assert "no space left on device" in outcome.err.lower()
    assert_two_lines(outcome.err)


def assert_two_lines(err: str) -> None:
    """An error on one line, a hint on the next, no traceback."""
    error, hint = err.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")


def test_the_log_has_what_these_tests_count_on():
    """45 lines, 15 of each run."""
    assert LINES == len(RAY)
    assert [run.encode() in RAY[15 * at] for at, run in enumerate(RUNS)] == [True] * 3
