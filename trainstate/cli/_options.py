"""What several verbs take, so that it is called and explained the same everywhere."""

from __future__ import annotations

from pathlib import Path

import click

# Not checked by click: a path that may not be read ends like every error of the operating system.
PATH = click.Path(path_type=Path, readable=False)

journal_option = click.option(
    "--journal",
    metavar="PATH",
    type=PATH,
    help="A journal, or a directory with many.  [default: $TRAINSTATE_HOME, or ~/.trainstate]",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Write JSON, for programs; integers stay integers."
)
run_argument = click.argument("prefix", metavar="RUN")
# `trainstate verify PATH` is what our own hints say.
place_argument = click.argument("place", metavar="[PATH]", required=False, type=PATH)
