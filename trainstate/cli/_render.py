"""Tables, colours and progress bars. rich is loaded when something is shown, not before.

Everything shown is `Text`, never markup: names and reasons come from logs, and `[red]` in one of them is
five characters. Colours and bars appear on terminals only; NO_COLOR is honoured by rich.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal

import click

from trainstate.cli._plain import to_json
from trainstate.cli._text import clean

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress
    from rich.text import Text

    from trainstate.store import Recorded

# A text and its style: a colour, "dim", "bold", or nothing.
Styled = tuple[str, str]
Advance = Callable[[int], object]

# Wide enough for every line: what is piped is never wrapped or cut.
_PIPE_WIDTH = 10_000
# Progress is shown after so many steps; what takes fewer is over before a bar is drawn.
_STEPS_BETWEEN = 4_096

_WEIGHTS = frozenset({"dim", "bold"})
_GOOD, _BAD, _BUSY, _DONE = "green", "red", "yellow", "dim"
_COLOURS: Mapping[str, str] = {
    "RUNNING": _GOOD,
    "FINISHED": _GOOD,
    "COMPLETED": _GOOD,
    "READY": _GOOD,
    "SUCCEEDED": _GOOD,
    "ERRORED": _BAD,
    "FAILED": _BAD,
    "FAILING": _BAD,
    "DEAD": _BAD,
    "TIMED_OUT": _BAD,
    "ABORTED": _BUSY,
    "INITIALIZING": _BUSY,
    "SCHEDULING": _BUSY,
    "WAITING": _BUSY,
    "PENDING": _BUSY,
    "PREEMPTING": _BUSY,
    "RESTARTING": _BUSY,
    "RESIZING": _BUSY,
    "REPLACING": _BUSY,
    "REQUESTED": _BUSY,
    "SHUTTING_DOWN": _BUSY,
    "ENDED": _DONE,
    "RELEASED": _DONE,
}


def console() -> Console:
    """Standard output, as wide as the terminal, or as needed where there is none."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(width=width, markup=False, highlight=False, emoji=False)


def status(status: IntEnum) -> Text:
    """A status in its colour, for a table."""
    from rich.text import Text

    return Text(*in_colour(status.name, status))


def in_colour(text: str, status: IntEnum) -> Styled:
    """A text in the colour of a status, for a line."""
    return text, _COLOURS.get(status.name, "")


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    title: str = "",
    overflow: Literal["ellipsis", "fold"] = "ellipsis",
) -> None:
    """Prints rows under their heads. A head that begins with `>` is of numbers, set to the right.

    Columns in which no row has anything are left out. `overflow` is of what is wider than a terminal.
    """
    from rich.table import Table

    cells = [[_cell(value) for value in row] for row in rows]
    kept = [at for at in range(len(columns)) if any(row[at].plain for row in cells)]
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for at in kept:
        head = columns[at]
        side: Literal["right", "left"] = "right" if head.startswith(">") else "left"
        made.add_column(head.lstrip(">"), justify=side, overflow=overflow)
    for row in cells:
        made.add_row(*(row[at] for at in kept))
    if title:
        heading(title)
    _print(made)


def _print(renderable: RenderableType) -> None:
    """Prints without the blanks that fill up the cells of a last column."""
    out = console()
    with out.capture() as captured:
        out.print(renderable)
    click.echo("\n".join(row.rstrip() for row in captured.get().splitlines()))


def _cell(value: Any) -> Text:
    from rich.text import Text

    if isinstance(value, Text):
        return value
    return Text("" if value is None else clean(str(value)))


def heading(title: str) -> None:
    """Prints an empty line and what follows."""
    line("\n", (clean(title), "bold"))


def facts(rows: Iterable[tuple[str, Any]]) -> None:
    """Prints names and values, one per line, aligned; those without a value are left out."""
    from rich.table import Table

    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(style="dim")
    made.add_column(overflow="fold")
    for name, value in rows:
        cell = _cell(value)
        if cell.plain:
            made.add_row(name, cell)
    _print(made)


def line(*parts: str | Styled, err: bool = False) -> None:
    """Prints parts side by side on one line. Without rich: a tail of a million events is piped."""
    shown = (part if isinstance(part, str) else _styled(*part) for part in parts)
    click.echo("".join(shown), err=err, color=False if os.environ.get("NO_COLOR") else None)


def _styled(text: str, style: str) -> str:
    if style in _WEIGHTS:
        return click.style(text, **{style: True})
    return click.style(text, fg=style) if style else text


def cut(parts: Sequence[str | Styled], columns: int) -> str:
    """Parts side by side in so many columns, with the colours of the terminal at standard error."""
    from rich.console import Console
    from rich.text import Text

    text = Text.assemble(*parts, no_wrap=True, end="")
    text.truncate(columns, overflow="ellipsis")
    out = Console(stderr=True, width=columns, highlight=False)
    with out.capture() as captured:
        out.print(text)
    return captured.get()


def say(text: str) -> None:
    """Prints a plain line."""
    click.echo(clean(text))


def say_all(text: str) -> None:
    """Prints a text of ours as it is, line by line."""
    click.echo(text)


def emit(document: Any, err: bool = False) -> None:
    """Prints a JSON document on one line, and hands it on at once: its reader may be waiting."""
    click.echo(to_json(document), err=err)


@contextmanager
def progress(
    label: str, total: int | None = None, every: int = _STEPS_BETWEEN
) -> Iterator[Advance]:
    """A bar on standard error for long work: call what is given with how far the work has come.

    It is drawn for one in `every` calls, because drawing costs more than what is counted, and not
    before the first of them: short work shows none. Without a terminal there is no bar.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    bar = _Bar(label, total, every)
    try:
        yield bar.advance
    finally:
        bar.close()


class _Bar:
    """A progress bar that is made when it is first drawn."""

    def __init__(self, label: str, total: int | None, every: int) -> None:
        self._label = label
        self._total = total
        self._every = every
        self._calls = 0
        self._drawn: Progress | None = None

    def advance(self, done: int) -> None:
        """Counts a step, and draws one in so many."""
        self._calls += 1
        if self._calls % self._every:
            return
        if self._drawn is None:
            self._drawn = self._start()
        self._drawn.update(self._drawn.task_ids[0], completed=done)

    def _start(self) -> Progress:
        from rich.console import Console
        from rich.progress import Progress

        bar = Progress(console=Console(stderr=True), transient=True)
        bar.add_task(self._label, total=self._total)
        bar.start()
        return bar

    def close(self) -> None:
        """Takes the bar away."""
        if self._drawn is not None:
            self._drawn.stop()


def watched(events: Iterable[Recorded], advance: Advance) -> Iterator[Recorded]:
    """The events, with progress shown as they go by."""
    for one in events:
        advance(one.seq)
        yield one
