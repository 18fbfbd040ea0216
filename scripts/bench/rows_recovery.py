"""What it takes to get over a killed worker, and over a killed controller."""

from __future__ import annotations

import os
import signal
import statistics
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from fitting import Fit, journal, newest_events, ours, rays
from measuring import Row, Seconds, absolute, alternate, at_most

from trainstate import train
from trainstate.store import History
from trainstate.store.events import recorded

KILLS = 8


def recovery_rows(folder: Path, rounds: int) -> list[Row]:
    """A worker killed with -9, against Ray Train V2; and a controller, eight times in one run."""
    noticed: list[float] = []

    def our_restart() -> Seconds:
        took_s, killed_s = _restart(ours, folder)
        noticed.append(_failure_seen_s() - killed_s)
        return took_s

    restart = alternate(rounds, our_restart, lambda: _restart(rays, folder)[0])
    back_s, repeated, restarted = _controller_kills(folder)
    return [
        at_most("worker killed, until training again", *restart, "Ray Train V2", 0.3, "s"),
        absolute(
            "worker killed, until recorded", 1000 * statistics.median(noticed), "ms", 30, most=True
        ),
        absolute("controller killed, until in control again", max(back_s), "s", 1.0, most=True),
        absolute(f"steps repeated, {KILLS} controllers killed", repeated, "", 0, most=True),
        absolute(f"workers restarted, {KILLS} controllers killed", restarted, "", 0, most=True),
    ]


def _restart(fit: Fit, folder: Path) -> tuple[Seconds, float]:
    """From the death of rank 1 until every rank trains again; and when it died."""
    marks = folder / uuid.uuid4().hex
    marks.mkdir()
    fit(_dying(marks), folder, max_failures=1)
    killed_s = float((marks / "killed").read_text())
    again_s = [float(mark.read_text()) for mark in marks.glob("again-*")]
    return max(again_s) - killed_s, killed_s


def _dying(marks: Path) -> Callable[[], None]:
    def function() -> None:
        first = marks / "killed"
        if first.exists():
            (marks / f"again-{os.getpid()}").write_text(str(time.time()))
            return
        (marks / f"started-{os.getpid()}").touch()
        while len(list(marks.glob("started-*"))) < 2:
            time.sleep(0.01)
        try:
            (marks / "one").mkdir()  # only one of them gets it
        except FileExistsError:
            time.sleep(600)
        time.sleep(0.5)
        first.write_text(str(time.time()))
        os.kill(os.getpid(), signal.SIGKILL)

    return function


def _failure_seen_s() -> float:
    seen = [one.time_unix_nano for one in newest_events() if one.HasField("worker_failing")]
    return seen[0] / 1e9


def _controller_kills(folder: Path) -> tuple[list[Seconds], int, int]:
    """The times until a successor was in control; steps done twice; workers started twice."""
    steps = folder / "steps"
    over = folder / "over"

    def function() -> None:
        step = 0
        while not over.exists():
            with steps.open("a") as written:
                written.write(f"{train.get_context().get_world_rank()} {step}\n")
            train.report({"step": step})
            step += 1
            time.sleep(0.01)

    killed_s: list[float] = []
    killer = threading.Thread(target=_kill, args=(journal(), killed_s, over))
    killer.start()
    ours(function, folder)
    killer.join()
    events = list(newest_events())
    took_up = [one.time_unix_nano / 1e9 for one in events if one.HasField("controller_started")][1:]
    lines = steps.read_text().splitlines()
    started = sum(one.HasField("worker_started") for one in events)
    back_s = [again - killed for again, killed in zip(took_up, killed_s, strict=True)]
    return back_s, len(lines) - len(set(lines)), started - 2


def _kill(history: History, killed_s: list[float], over: Path) -> None:
    """Kills each controller of the next run once it has taken ten reports."""
    pid, reports = 0, 0
    with history.tail(history.end.next_seq) as tail:
        while len(killed_s) < KILLS:
            for one in recorded(tail.read(1.0)):
                kind = one.event.WhichOneof("payload")
                if kind == "controller_started":
                    pid, reports = one.event.controller_started.pid, 0
                reports += kind == "report_received"
                if pid and reports > 9:
                    killed_s.append(time.time())
                    os.kill(pid, signal.SIGKILL)
                    pid = 0
        while pid == 0 or reports < 10:
            for one in recorded(tail.read(1.0)):
                kind = one.event.WhichOneof("payload")
                pid = pid or (kind == "controller_started")
                reports += kind == "report_received"
    over.touch()
