"""The salt of a home: what makes the markers of secrets there comparable, and worthless without it.

It is made once, in `$TRAINSTATE_HOME/salt`, readable by its owner only, and never goes into a journal or
an export. Where it cannot be kept, markers hold for one process: masking never stops a job.
"""

from __future__ import annotations

import os
from pathlib import Path

from trainstate.core.mask import EventMask
from trainstate.state.home import journals_of

_BYTES = 32


def masking_of(environ: dict[str, str]) -> EventMask:
    """What masks events for the journals of the home that a process with that environment has."""
    return EventMask(salt_in(journals_of(environ).parent))


def salt_in(home: Path) -> bytes:
    """The salt of a home, made if it has none; one of this process alone if it cannot be kept."""
    path = home / "salt"
    try:
        return _read(path) or _made(path)
    except OSError:
        return os.urandom(_BYTES)


def _read(path: Path) -> bytes:
    if not path.is_file():  # nor a pipe, which would be waited for
        return b""
    salt = path.read_bytes()
    return salt if len(salt) == _BYTES else b""


def _made(path: Path) -> bytes:
    """Puts a whole file into place, so that of two processes one wins and none reads a part.

    A file of another length is none of ours, or damaged: it is replaced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(f"salt.{os.getpid()}.{os.urandom(4).hex()}")
    file = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, os.urandom(_BYTES))
        os.fsync(file)
        _place(whole, path)
    finally:
        os.close(file)
        whole.unlink(missing_ok=True)
    return _read(path) or os.urandom(_BYTES)


def _place(whole: Path, path: Path) -> None:
    try:
        os.link(whole, path)
    except OSError:  # it is there by now, or this file system has no links
        if not _read(path):
            os.replace(whole, path)
