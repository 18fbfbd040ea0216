"""`trainstate completion`: the script that teaches a shell our verbs."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from trainstate.cli import _render


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a shell completion script.

    For bash and zsh: eval "$(trainstate completion bash)"; for fish: trainstate completion fish | source
    """
    from trainstate.cli import main

    script = get_completion_class(shell)
    assert script is not None
    made = script(main, {}, "trainstate", "_TRAINSTATE_COMPLETE")
    # Not `source()`: for bash that runs bash to ask its version.
    _render.say_all(made.source_template % made.source_vars())
