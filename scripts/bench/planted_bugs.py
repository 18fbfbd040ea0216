"""Planted bugs: each breaks a promise in a copy of the tree, and the test named for it must fail.

The named tests must pass in the copy as it is. Then one bug at a time is planted and its test is run.
Prints killed or SURVIVED for each; exits 1 if one survives, or if its text is no longer in the file.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import NamedTuple

from planted_above import OTHER_BUGS
from planted_journal import JOURNAL_BUGS, Bug
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
BUGS = [*JOURNAL_BUGS, *OTHER_BUGS]
_TIMEOUT_S = 120
# What pytest exits with.
_PASSED, _FAILED = 0, 1


class Verdict(NamedTuple):
    """What became of a bug."""

    bug: Bug
    what: str
    seconds: float


def copy_tree(folder: Path) -> None:
    """Copy what is committed, or is about to be, to a folder."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)


def run_tests(folder: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests of a copy, with the copy's code; the exit status of pytest and what it printed."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'exporters'}",
        # Two edits within a second and of one length would leave a stale .pyc that looks fresh.
        "PYTHONDONTWRITEBYTECODE": "1",
        "TRAINSTATE_PROOF_SEED": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *tests]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        # All of its session: a test may have processes of its own.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return _FAILED, "it hangs"
    return process.returncode, printed


@contextmanager
def planted(bug: Bug, folder: Path) -> Iterator[bool]:
    """The bug is in the copy meanwhile; False if it cannot be planted."""
    file = folder / bug.file
    text = wrong = file.read_text()
    for old, new in ((bug.old, bug.new), *bug.more):
        if wrong.count(old) != 1:
            yield False
            return
        wrong = wrong.replace(old, new)
    file.write_text(wrong)
    try:
        yield True
    finally:
        file.write_text(text)


def try_bug(bug: Bug, folder: Path) -> Verdict:
    """Plant one bug and run its test."""
    start = time.monotonic()
    with planted(bug, folder) as there:
        status, printed = run_tests(folder, [bug.test]) if there else (_PASSED, "")
    what = {_PASSED: "SURVIVED", _FAILED: "killed"}.get(status, "NO TEST")
    if not there:
        what = "NO SUCH TEXT"
    elif "SyntaxError" in printed or "NameError" in printed:
        what = "NO BUG"  # what is planted must be wrong, and not merely broken
    return Verdict(bug, what, time.monotonic() - start)


def try_all(bugs: Sequence[Bug], folder: Path, processes: int) -> list[Verdict]:
    """Every bug in a copy of its own process, in the order of the table."""
    copies: Queue[Path] = Queue()
    for number in range(processes):
        copies.put(folder / str(number))
        copy_tree(folder / str(number))

    def one(bug: Bug) -> Verdict:
        copy = copies.get()
        try:
            return try_bug(bug, copy)
        finally:
            copies.put(copy)

    status, printed = run_tests(folder / "0", sorted({bug.test for bug in bugs}))
    if status:
        raise SystemExit(f"the tests must pass without a bug:\n{printed}")
    with ThreadPoolExecutor(processes) as pool:
        return list(pool.map(one, bugs))


def main() -> int:
    """Plants; 1 if a bug survives or cannot be planted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of bugs, or parts of them; default: all")
    options = parser.parse_args()
    bugs = [
        bug for bug in BUGS if not options.names or any(name in bug.name for name in options.names)
    ]
    with tempfile.TemporaryDirectory(prefix="planted-bugs-") as folder:
        verdicts = try_all(bugs, Path(folder), os.cpu_count() or 1)
    table = Table("bug", "in", "test", "", "s", title="planted bugs")
    for bug, what, seconds in verdicts:
        test = bug.test.rpartition("/")[2].replace(".py::", ": ").replace("test_", "")
        table.add_row(bug.name, bug.file.rpartition("/")[2], test, what, f"{seconds:.0f}")
    Console(width=None if os.isatty(1) else 170).print(table)
    killed = sum(what == "killed" for _, what, _ in verdicts)
    print(f"{killed} of {len(verdicts)} killed")
    return int(killed != len(verdicts))


if __name__ == "__main__":
    sys.exit(main())
