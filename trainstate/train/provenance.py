"""What it takes to run it again: the command, the code and the Python that called `fit()`.

Static data, taken on the driver, every part of it optional: what cannot be had is left out. What git
says takes a process or two, so nothing waits for it.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainstate.core.redact import plain
from trainstate.state.home import LAUNCH_VARIABLE
from trainstate.v1 import state_pb2 as s

# Names that a seed goes by in a train_loop_config, the first one that is there.
_SEEDS = ("seed", "random_seed", "random_state")
_INT64 = range(-(2**63), 2**63)
_ARGV_BYTES_MAX = 16 * 1024


def command(train_loop_config: Mapping[str, Any] | None) -> s.Provenance:
    """How this process was started, and where; microseconds."""
    machine = os.uname()
    return s.Provenance(
        entrypoint=_found(_entrypoint),
        argv=map(str, plain(sys.orig_argv[1:], _ARGV_BYTES_MAX)),
        working_directory=_found(_working_directory),
        python_version=platform.python_version(),
        operating_system=f"{machine.sysname} {machine.release} {machine.machine}",
        seed=_seed(train_loop_config),
        launch_id=os.environ.get(LAUNCH_VARIABLE, ""),
    )


def _found(look: Callable[[], str]) -> str:
    """What is found, as UTF-8; "" for what cannot be had: a script may have changed what it is from."""
    try:
        return str(plain(look()))
    except Exception:  # the boundary: a path may be anything by now, and no run is to fail of that
        return ""


def code(timeout_s: float) -> s.Provenance:
    """The commit of the script's repository, and whether tracked files differ from it.

    Nothing where there is no git, no repository, or no answer within `timeout_s`.
    """
    found = s.Provenance()
    where, until_s = _directory(), time.monotonic() + timeout_s
    commit = git(where, timeout_s, "rev-parse", "--verify", "HEAD")
    if commit is not None:
        found.git_commit = commit
        left_s = until_s - time.monotonic()
        state = git(where, left_s, "status", "--porcelain", "--untracked-files=no")
        if state is not None:
            found.git_dirty = bool(state)
    return found


def _entrypoint() -> str:
    """`train.py`, `-m package.module`, `-c`; "" for an interactive session."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return f"-m {spec.name.removesuffix('.__main__')}"
    return str(sys.argv[0]) if sys.argv else ""


def _working_directory() -> str:
    """Where the process was started: a script may have gone elsewhere since."""
    script, asked = _script(), str(sys.argv[0]) if sys.argv else ""
    if script and asked and not os.path.isabs(asked) and script.endswith(f"/{asked}"):
        return script.removesuffix(f"/{asked}") or "/"
    return os.getcwd()


def _script() -> str:
    """The path of the script, which Python makes absolute when it starts."""
    return str(getattr(sys.modules.get("__main__"), "__file__", None) or "")


def _directory() -> Path:
    script = _script()
    return Path(script).parent if os.path.isfile(script) else Path()


def _seed(config: Any) -> int | None:
    found = (config.get(name) for name in _SEEDS) if isinstance(config, dict) else ()
    whole = (int(one) for one in found if isinstance(one, int) and not isinstance(one, bool))
    return next((one for one in whole if one in _INT64), None)


def git(directory: Path, timeout_s: float, *arguments: str) -> str | None:
    """What git says; None where it says nothing: no git, no repository, no answer in time."""
    asked = ["git", "--no-optional-locks", "-C", str(directory), *arguments]
    try:
        told = subprocess.run(
            asked, capture_output=True, timeout=timeout_s, stdin=subprocess.DEVNULL, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.decode("utf-8", "replace").strip()
