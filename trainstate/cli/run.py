"""`trainstate run`: a training script, and beside it how its runs go."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import click

from trainstate.cli._child import Child
from trainstate.cli._live import Lives
from trainstate.cli._options import journal_option
from trainstate.cli._shown import Shown, choose
from trainstate.cli._where import home
from trainstate.errors import TrainstateError, UsageError
from trainstate.state.home import LAUNCH_VARIABLE, Standing, standing

# Between two looks at the journals; so what is shown changes at most five times a second.
_LOOK_S = 0.2
# What a script left open is ended by the cluster's reaper, within about two seconds.
_REAPED_S = 5.0
_ASKED = (
    "asked to end; Ctrl-C again ends it with SIGTERM, then with SIGKILL",
    "told to end (SIGTERM); Ctrl-C again kills it",
    "killed (SIGKILL)",
)


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option("--quiet", "-q", is_flag=True, help="Show nothing; what the script prints is passed.")
@journal_option
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object per change, on standard error."
)
def run(
    script: str, arguments: Sequence[str], quiet: bool, journal: Path | None, as_json: bool
) -> int:
    """Run a training script, and show how it goes.

    SCRIPT runs as with `python SCRIPT ARGS...`, with this interpreter and these streams. The runs that
    begin meanwhile are shown on standard error: at the foot of a terminal, as lines where there is
    none. Ctrl-C asks the script to end, a second one with SIGTERM, a third one kills it. The exit code
    is the script's; 128 and the number of a signal that ended it.
    """
    if quiet and as_json:
        raise UsageError("--quiet and --json exclude each other", hint="trainstate run --help")
    shown = choose(quiet, as_json)
    launch_id = uuid.uuid4().hex
    lives = Lives(journal or home(), launch_id)
    environ = {**os.environ, LAUNCH_VARIABLE: launch_id}
    try:
        with Child([sys.executable, script, *arguments], environ) as child:
            return _Watch(child, lives, shown).to_the_end()
    finally:
        lives.close()


class _Watch:
    """Looks at the journals until the script and its runs have ended."""

    def __init__(self, child: Child, lives: Lives, shown: Shown) -> None:
        self._child = child
        self._lives = lives
        self._shown = shown
        self._is_blind = False

    def to_the_end(self) -> int:
        """The exit code of the script."""
        while (code := self._child.code) is None:
            self._wait_and_look()
        deadline_s = time.monotonic() + _REAPED_S
        while self._reaper_is_due() and time.monotonic() < deadline_s:
            if self._wait_and_look():
                break
        self._guarded(lambda: self._shown.over(self._lives))
        return code

    def _wait_and_look(self) -> bool:
        """Waits for whatever is next; whether somebody asked to end."""
        asked = self._child.wait(self._lives.pause_s(_LOOK_S))
        if asked:
            self._guarded(lambda: self._shown.say(_ASKED[self._child.asked - 1]))
        if not self._is_blind:
            self._guarded(self._look)
        return asked

    def _look(self) -> None:
        for live in self._lives.look(time.monotonic()):
            self._shown.moved(live)
        self._shown.looked(self._lives)

    def _reaper_is_due(self) -> bool:
        stand = {standing(one.journal) for one in self._lives.open} if not self._is_blind else set()
        return not stand.isdisjoint((Standing.LIVE, Standing.AWAY))

    def _guarded(self, step: Callable[[], None]) -> None:
        """The script goes on, whatever befalls a journal or the terminal; it is said, if it can be."""
        try:
            step()
        except (TrainstateError, OSError) as error:
            self._is_blind = True
            with suppress(OSError):
                self._shown.say(f"nothing more is shown: {error}")
