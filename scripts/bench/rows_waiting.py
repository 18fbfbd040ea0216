"""What waiting for resources costs."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from fitting import journal, ours
from measuring import Row, absolute, cpu_s

from trainstate.controller import launch
from trainstate.core import Cause, Run, RunStatus
from trainstate.train import TrainingFailedError

SECONDS = 15


def waiting_rows(folder: Path, rounds: int) -> list[Row]:
    """The processor time of a controller that waits for 1,000 workers, in percent of one core."""
    fit = threading.Thread(target=_fit, args=(folder,))
    fit.start()
    run = _waiting()
    pid = _controller(run.run_id)
    began_s, used_s = time.time(), cpu_s(pid)
    time.sleep(SECONDS)
    share = (cpu_s(pid) - used_s) / (time.time() - began_s)
    launch.find(run.run_id).abort.remote(int(Cause.USER_ABORT), "measured")
    fit.join()
    return [absolute("waiting for resources, of one core", 100 * share, "%", 1.0, most=True)]


def _fit(folder: Path) -> None:
    try:
        ours(lambda: None, folder, num_workers=1000)
    except TrainingFailedError:
        return


def _waiting() -> Run:
    while True:
        time.sleep(0.2)
        history = journal()
        run = history.run(history.summaries()[-1].run_id)
        if run.status is RunStatus.WAITING:
            return run


def _controller(run_id: str) -> int:
    events = (one.event for one in journal().events_of(run_id))
    return next(one.controller_started.pid for one in events if one.HasField("controller_started"))
