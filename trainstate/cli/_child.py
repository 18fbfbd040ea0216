"""A program that runs as our child, in our place: it has our streams, and is told what we are told.

Ctrl-C on a terminal goes to all its programs, so the child has it already; what was sent to us alone is
passed on. Asked again, the child is told more plainly: SIGINT, then SIGTERM, then SIGKILL.

Signals are waited for, not handled: the same call that waits for news hears of the end of the child, and
the signal says who sent it. It is Linux's, as Ray's clusters are.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Self

_LADDER = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_HEARD = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGCHLD})
# The si_code of what the kernel sent by itself; Python has no name for it.
_SI_KERNEL = 0x80


class Child:
    """Starts a program. While it is open, Ctrl-C and SIGTERM are for the child."""

    def __init__(self, command: list[str], environ: Mapping[str, str]) -> None:
        self.code: int | None = None
        self.asked = 0
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
        # Not subprocess: nothing else gives the child the mask that we had, without a moment between.
        self.pid = os.posix_spawn(command[0], command, environ, setsigmask=self._before)

    def wait(self, timeout_s: float) -> bool:
        """Waits so many seconds, or until something happened; whether the child was asked to end."""
        heard = signal.sigtimedwait(_HEARD, timeout_s)
        asks = heard is not None and heard.si_signo != signal.SIGCHLD
        if heard is not None and asks:
            self._pass_on(heard)
        self._reap()
        return asks

    def _pass_on(self, heard: signal.struct_siginfo) -> None:
        self.asked = min(max(self.asked + 1, _LADDER.index(heard.si_signo) + 1), len(_LADDER))
        number = _LADDER[self.asked - 1]
        has_it = heard.si_code == _SI_KERNEL and heard.si_signo == number
        if self.code is None and not has_it:
            os.kill(self.pid, number)

    def _reap(self) -> None:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.code = 128 - code if code < 0 else code

    def close(self) -> None:
        """Signals are for this process again; those that came too late are nobody's."""
        while signal.sigtimedwait(_HEARD, 0):
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
