"""Where the journals of a machine are, whose each one is, and whether that owner can come back.

The state actor's settings come from the head node: from the environment its raylet was started with. The
actor's own environment is that of the driver that happened to be first (rows 0-15, 0-16).

A journal's FENCE names a process by whose life the journal lives (the raylet; in local mode the training
process itself): pid, start time, boot, pid namespace. All four, because a pid is used again, and because
two containers of one machine have the same boot and see different processes. Only where all of them can
be compared is a process known to be gone.

No Ray here: the command line asks the same questions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Self

from trainstate.errors import TrainstateError, UsageError
from trainstate.store import History

# Set by `trainstate run`, which shows the runs that were created with its value.
LAUNCH_VARIABLE = "TRAINSTATE_LAUNCH"
_PROC = Path("/proc")
_OWNER = re.compile(
    r"(?P<who>.+) of process (?P<pid>\d+) since (?P<start>\d+), boot (?P<boot>[0-9a-f-]+),"
    r" pid namespace (?P<namespace>\d+)"
)


class Owner(NamedTuple):
    """Who writes a journal: a name for people, and the process by whose life the journal lives."""

    who: str
    pid: int
    start: int  # in clock ticks since the machine booted
    boot: str
    namespace: int

    @classmethod
    def of(cls, who: str, pid: int) -> Self:
        """The owner that lives by a process of this machine. Raises FileNotFoundError if it is gone."""
        return cls(who, pid, _start_of(pid), *_here())

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """What FENCE says, unless a writer of another kind has written it."""
        match = _OWNER.fullmatch(text)
        if match is None:
            return None
        return cls(
            match["who"],
            int(match["pid"]),
            int(match["start"]),
            match["boot"],
            int(match["namespace"]),
        )

    def __str__(self) -> str:
        return (
            f"{self.who} of process {self.pid} since {self.start}, boot {self.boot},"
            f" pid namespace {self.namespace}"
        )

    @property
    def is_here(self) -> bool:
        """Whether it is, or was, on this boot of this machine, where its process can be looked for."""
        return (self.boot, self.namespace) == _here()

    @property
    def lives(self) -> bool:
        """Whether its process lives; only to be asked where it `is_here`."""
        try:
            return _start_of(self.pid) == self.start
        except (FileNotFoundError, ProcessLookupError):
            return False


class Standing(Enum):
    """What is known of a journal's writer."""

    LIVE = "its writer lives"
    AWAY = "its writer is away, and will be back"
    LOST = "its writer is gone for good"
    UNKNOWN = "whether its writer will be back cannot be known from here"


def standing(journal: Path) -> Standing:
    """What is known of a journal's writer. Raises NotAJournal, JournalCorrupt, StorageError."""
    history = History(journal)
    if history.is_live:
        return Standing.LIVE
    owner = Owner.parse(history.owner)
    if owner is None or not owner.is_here:
        return Standing.UNKNOWN
    return Standing.AWAY if owner.lives else Standing.LOST


def stale(journal: Path) -> bool:
    """Whether the open runs of a journal are over without anybody having recorded it.

    A journal that cannot be read is not said to be stale.
    """
    try:
        return standing(journal) is Standing.LOST
    except TrainstateError:
        return False


class Raylet(NamedTuple):
    """The raylet that a worker process of Ray belongs to."""

    pid: int
    environ: dict[str, str]


def raylet_of(pid: int) -> Raylet:
    """The nearest ancestor of a process that is a raylet. Raises UsageError if there is none."""
    for ancestor in _ancestors(pid):
        command = (_PROC / str(ancestor) / "cmdline").read_bytes().split(b"\0")[0]
        if os.path.basename(command) == b"raylet":
            return Raylet(ancestor, _environ_of(ancestor))
    raise UsageError(
        f"process {pid} has no raylet among its ancestors",
        hint="the state actor runs in a worker process of Ray",
    )


def journals_of(environ: dict[str, str]) -> Path:
    """The folder with the journals, as a process with that environment has it."""
    home = environ.get("TRAINSTATE_HOME")
    root = Path(home) if home else Path(environ.get("HOME") or Path.home()) / ".trainstate"
    return root / "journals"


def _here() -> tuple[str, int]:
    """This boot of this machine, and the pid namespace of this process."""
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return boot, (_PROC / "self/ns/pid").stat().st_ino


def _stat_of(pid: int) -> list[str]:
    # What is before the last `)` is the pid and a name that may hold anything; the state comes next.
    text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    return text[text.rindex(")") + 2 :].split()


def _start_of(pid: int) -> int:
    return int(_stat_of(pid)[19])


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        pid = int(_stat_of(pid)[1])
        if pid > 0:
            yield pid


def _environ_of(pid: int) -> dict[str, str]:
    pairs = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    texts = (os.fsdecode(pair).partition("=") for pair in pairs if pair)
    return {name: value for name, _, value in texts}
