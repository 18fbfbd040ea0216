"""`trainstate import`: what another system recorded, into a journal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from trainstate.cli import _render
from trainstate.cli._options import PATH, json_option
from trainstate.cli._signals import asked_to_stop
from trainstate.cli._text import count
from trainstate.cli._where import import_target
from trainstate.core.mask import Unmasked
from trainstate.errors import DecodeError, UsageError
from trainstate.integrations.ray_export import Counts, Importer, Rejects, follow, read, siblings
from trainstate.state.salt import masking_of
from trainstate.store import Store

_REASONS_SHOWN = 3


@click.group("import", no_args_is_help=False)
def import_group() -> None:
    """Take in what another system recorded."""


@import_group.command("ray-export")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=PATH)
@click.option(
    "--follow", "-f", "follows", is_flag=True, help="Go on as the log grows; Ctrl-C ends."
)
@click.option(
    "--rejects",
    metavar="PATH",
    type=PATH,
    help="Where lines go that cannot be used.  [default: beside the journal]",
)
@click.option(
    "--journal",
    metavar="PATH",
    type=PATH,
    help="The journal to add to; made if it is not there."
    "  [default: journals/imported in $TRAINSTATE_HOME]",
)
@click.option(
    "--keep-secrets",
    is_flag=True,
    help="Take passwords and keys in as they are, so that an export is equal to the log.",
)
@json_option
def ray_export(
    files: Sequence[Path],
    follows: bool,
    rejects: Path | None,
    journal: Path | None,
    keep_secrets: bool,
    as_json: bool,
) -> None:
    """Import Ray's own event_EXPORT_TRAIN_STATE.log.

    Of every schema version Ray has shipped. Rotated files (FILE.1, FILE.2) are found and read oldest
    first. Importing twice adds nothing. What looks like a password or a key is replaced by a marker
    that is the same for the same secret (--keep-secrets: not). A line that cannot be used is counted and
    kept in the reject file, with its number and what is wrong with it; the rest goes on.
    """
    if follows and len(files) > 1:
        raise UsageError(
            f"--follow goes with one file, here are {len(files)}",
            hint="import the others first, without --follow",
        )
    logs = in_order(files)
    target = import_target(journal)
    target.parent.mkdir(parents=True, exist_ok=True)
    kept = Rejects(rejects or target.with_name(f"{target.name}.rejects.jsonl"))
    masking = Unmasked() if keep_secrets else masking_of(dict(os.environ))
    with (
        Store.open(target, owner="trainstate import", masking=masking) as store,
        Importer(store, kept) as importer,
    ):
        if follows:
            _follow(importer, logs)
        else:
            _read(importer, logs)
        importer.flush()
    _report(importer.counts, kept, target, as_json)


def in_order(files: Iterable[Path]) -> list[Path]:
    """The files and their rotated siblings, each once, oldest first. OSError if one cannot be read."""
    found = list(dict.fromkeys(log for file in files for log in siblings(_base(file))))
    for log in found:
        if log.is_fifo():
            raise UsageError("it is a pipe", path=log, hint="write it to a file, and name that")
        log.open("rb").close()
    return found


def _base(file: Path) -> Path:
    """The log that a rotated file belongs to, if it is still there; else the file itself."""
    plain = file.with_suffix("")
    rotated = file.suffix[1:].isdigit() and plain.is_file()
    return plain if rotated else file


def _read(importer: Importer, logs: Sequence[Path]) -> None:
    with _render.progress("importing", sum(log.stat().st_size for log in logs)) as advance:
        done = 0
        for log in logs:
            for line in read(log):
                importer.take(line)
                advance(done + line.end)
            done += log.stat().st_size


def _follow(importer: Importer, logs: Sequence[Path]) -> None:
    *rotated, log = logs
    _read(importer, rotated)
    with asked_to_stop() as stop:
        for line in follow(log, stop):
            if line is None:
                importer.flush()
            else:
                importer.take(line)


def _report(counts: Counts, kept: Rejects, target: Path, as_json: bool) -> None:
    where = str(kept.path) if counts.rejected else None
    if as_json:
        _render.emit({**counts._asdict(), "journal": str(target), "rejects": where})
    else:
        _render.say(_sentence(counts, target))
    for reason in kept.kept[:_REASONS_SHOWN]:
        click.echo(f"rejected: {reason}", err=True)
    if counts.rejected and not counts.imported + counts.known:
        raise DecodeError(
            f"not one of {count(counts.rejected, 'line')} is of Ray's train state log",
            hint=f"is it the right file? the rejected lines and why: {where}",
        )
    if counts.rejected:
        click.echo(f"the rejected lines and why: {where}", err=True)


def _sentence(counts: Counts, target: Path) -> str:
    parts = [f"imported {count(counts.imported, 'line')} into {target}"]
    if counts.known:
        parts.append(f"{counts.known:,} known already")
    if counts.rejected:
        parts.append(f"{counts.rejected:,} rejected")
    if counts.flagged:
        parts.append(f"{counts.flagged:,} flagged as out of the ordinary")
    return ", ".join(parts)
