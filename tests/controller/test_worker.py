"""A worker's process and signals."""

from __future__ import annotations

import subprocess
import sys

FORKS = """
import multiprocessing, os, signal, threading
from trainstate.controller.worker import _on_sigterm
heard = threading.Event()
_on_sigterm(heard.set)
fork = multiprocessing.get_context("fork")
ready = fork.Event()
child = fork.Process(target=lambda: (ready.set(), signal.pause()))
child.start()
ready.wait()
child.terminate()
child.join()
print(child.exitcode)
os.kill(os.getpid(), signal.SIGTERM)
print(heard.wait(10))
"""


def test_sigterm_is_a_notice_for_the_worker_alone():
    """It lives on and says so; what its training function forks ends by it as ever."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS], capture_output=True, text=True, timeout=60
    )
    assert ("-15\nTrue\n", "") == (done.stdout, done.stderr)
