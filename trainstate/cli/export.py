"""`trainstate export`: events into a sink outside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from trainstate.cli import _render
from trainstate.cli._options import PATH, journal_option, json_option
from trainstate.cli._signals import asked_to_stop
from trainstate.cli._text import count
from trainstate.cli._where import open_journal
from trainstate.errors import UsageError
from trainstate.export import Backoff, Counters, Exporter, MemoryCursor, Pump, open_exporter
from trainstate.store import History

_STDOUT = "-"
_COUNTS = ("written", "skipped", "retried", "dead", "lag")


@click.command()
@click.argument("sink", metavar="SINK")
@click.option(
    "--to", "target", metavar="TARGET", required=True, help="A directory, a file, an address."
)
@click.option("--follow", "-f", "follows", is_flag=True, help="Go on as events come; Ctrl-C ends.")
@click.option(
    "--option",
    "options",
    metavar="NAME=VALUE",
    multiple=True,
    help="A setting of the sink; repeatable.",
)
@click.option(
    "--cursor",
    metavar="PATH",
    type=PATH,
    help="Keep there how far it came, for a journal that may only be read.  [default: in the journal]",
)
@journal_option
@json_option
def export(
    sink: str,
    target: str,
    follows: bool,
    options: Sequence[str],
    cursor: Path | None,
    journal: Path | None,
    as_json: bool,
) -> None:
    """Send events to a sink.

    SINK is ray_export_log (Ray's own log again), jsonl, or what an installed package adds. It goes on
    where it stopped, by a cursor that is committed after the sink has acknowledged.
    """
    history = open_journal(journal)
    exporter = open_exporter(sink, target, **dict(map(_option, options)))
    with _render.progress("exporting", history.end.next_seq, every=4) as advance:
        settings = {
            # Somebody waits for an export that ends; one that follows is patient with its sink.
            "backoff": Backoff(attempts_max=None) if follows else Backoff(attempts_max=4),
            "progress": lambda done: advance(done.written + done.skipped),
        }
        pump = _pump(history, exporter, cursor, settings)
        with pump, asked_to_stop() as stop:
            if follows:
                pump.follow(stop)
            else:
                pump.run_once(stop)
    _report(pump, exporter.target, as_json)


def _pump(
    history: History, exporter: Exporter[Any], cursor: Path | None, settings: dict[str, Any]
) -> Pump[Any]:
    if exporter.target != _STDOUT or cursor is not None:
        return Pump.open(history, exporter, cursor=cursor, **settings)
    # Nobody knows what became of what was printed: it begins anew every time.
    dead = history.path / "quarantine" / "dead-stdout.jsonl"
    return Pump(history, exporter, MemoryCursor(), dead, **settings)


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or name == "target":
        raise UsageError(f"--option {text!r} is not NAME=VALUE", hint="trainstate export --help")
    return name, value


def _report(pump: Pump[Any], target: str, as_json: bool) -> None:
    done: Counters = pump.counters
    dead = str(pump.dead_letters) if done.dead else None
    # Standard output may be the sink.
    aside = target == _STDOUT
    if as_json:
        plain = {name: getattr(done, name) for name in _COUNTS}
        _render.emit({**plain, "target": target, "dead_letters": dead}, err=aside)
    else:
        click.echo(f"wrote {count(done.written, 'record')} to {target}", err=aside)
    if dead and not as_json:
        click.echo(f"refused by the sink: {count(done.dead, 'record')}, kept in {dead}", err=True)
    if dead:
        raise click.exceptions.Exit(1)
