"""What a run was asked for and made with: rows for a person, exact values for a program.

Settings are in the trainer's own arguments. Nested dicts are dotted names, and a key that would not read
as one step of such a name is in brackets: `scaling_config.label_selector["ray.io/zone"]`. A text that
would read as something else, `"1"` or `"true"`, is in quotes: what looks the same is the same.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainstate.cli import _render
from trainstate.cli._text import given
from trainstate.core import Run
from trainstate.core.secrets import MARKER
from trainstate.core.values import to_value
from trainstate.core.views.event_json import message_json
from trainstate.core.views.settings import model_of

_STEP = re.compile(r'[^.\["]+')
# Texts that would be taken for a number, a truth, a range, bytes, a list, or for nothing at all.
_READS_OTHERWISE = re.compile(
    r"""|-|null|true|false|-?(?:NaN|Infinity|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|-?\d+[ ]to[ ]-?\d+
    |0x[0-9a-f]*|["\[{].*|\s.*|.*\s""",
    re.VERBOSE,
)
_PROVENANCE: Mapping[str, str] = {
    "entrypoint": "entrypoint",
    "working_directory": "working directory",
    "python_version": "python",
    "operating_system": "operating system",
    "image": "image",
    "runtime_env_hash": "runtime env hash",
    "seed": "seed",
}


# --- the values -----------------------------------------------------------------------------------


def settings_of(run: Run) -> dict[str, Any]:
    """What a run was asked for; nothing where that is not recorded."""
    return {} if run.settings is None else model_of(run.settings)


def versions_of(run: Run) -> dict[str, str]:
    """The frameworks a run was made with, and their versions."""
    return {one.name: one.version for one in run.framework_versions}


def provenance_of(run: Run) -> dict[str, Any]:
    """Where a run comes from, in the names of the schema; what is not known is left out."""
    found = {} if run.provenance is None else message_json(run.provenance)
    return {name: value for name, value in found.items() if value not in ("", [])}


def exact(value: Any) -> Any:
    """A value as JSON has it: integers are exact, bytes hex, NaN and infinities texts."""
    return message_json(to_value(value))


def flat(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Each value that is no dict, or an empty one, under its dotted name."""
    for key, value in values.items():
        name = _joined(path, key)
        if isinstance(value, Mapping) and value:
            yield from flat(value, name)
        else:
            yield name, value


def _joined(path: str, key: str) -> str:
    if not (_STEP.fullmatch(key) and key.isprintable()):
        return f"{path}[{json.dumps(key)}]"
    return f"{path}.{key}" if path else key


def secrets_in(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The markers that stand in the place of secrets, each under the dotted name of where."""
    for name, value in flat(values):
        yield from ((name, marker) for marker in markers_in(shown(value)))


def markers_in(text: str) -> list[str]:
    """The markers of a text, each once."""
    return list(dict.fromkeys(MARKER.findall(text)))


# --- as a person reads them -----------------------------------------------------------------------


def shown(value: Any) -> str:
    """A value in one line, whole: two of them are the same if they look the same."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, tuple):
        return " to ".join(map(str, value))
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    plain = exact(value)
    # NaN and the infinities are texts only because JSON has no numbers for them.
    return plain if isinstance(plain, str) else _json(plain)


def _text(text: str) -> str:
    bare = text.isprintable() and not _READS_OTHERWISE.fullmatch(text)
    return text if bare else _json(text)


def _json(plain: Any) -> str:
    text = json.dumps(plain, ensure_ascii=False, sort_keys=True)
    return text if text.isprintable() else json.dumps(plain, sort_keys=True)


def command_line(words: Sequence[str]) -> str:
    """Words as a shell takes them, on one line and with nothing that a terminal takes for a command."""
    return " ".join(map(quoted, words))


def quoted(word: str) -> str:
    """A word as a shell takes it."""
    if word.isprintable():
        return shlex.quote(word)
    # The form that bash, zsh and POSIX of 2024 have for what cannot be seen.
    return f"$'{''.join(map(_escaped, word))}'"


def _escaped(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode())


def how_clean(dirty: bool | None) -> str:
    """What is known of the tracked files beside a commit."""
    if dirty is None:
        return ""
    return " (dirty: tracked files differed from it)" if dirty else " (clean)"


def node_type(one: Mapping[str, Any]) -> str:
    """Nodes that are alike: `4 x CPU=8 GPU=4, A100, zone=a`."""
    labels = {label["key"]: label["value"] for label in one["labels"]}
    parts = (given(one.get("resources", {})), one["accelerator_type"], given(labels))
    return f"{one['count']} x {', '.join(part for part in parts if part) or 'a node'}"


# --- trainstate show RUN --settings ---------------------------------------------------------------


def plain_settings(run: Run) -> dict[str, Any]:
    """All of it as one document."""
    return {
        "run_id": run.run_id,
        "name": run.name,
        "settings": exact(settings_of(run)),
        "framework_versions": versions_of(run),
        "provenance": {} if run.provenance is None else message_json(run.provenance),
    }


def tell_settings(run: Run) -> None:
    """Prints all of it, a value per line."""
    settings, versions = settings_of(run), versions_of(run)
    provenance = list(_provenance(provenance_of(run)))
    if not settings:
        _render.say(f"{run.run_id}: what it was asked for is not recorded")
    else:
        _render.facts([("run", run.run_id), ("name", run.name)])
        rows = [(name, shown(value)) for name, value in flat(settings)]
        _render.table(("argument", "value"), rows, "settings", "fold")
    if versions:
        _render.table(("framework", "version"), list(versions.items()), "versions", "fold")
    if provenance:
        _render.table(("what", "value"), provenance, "provenance", "fold")


def _provenance(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "git_commit" in found:
        dirty = how_clean(found.get("git_dirty"))
        yield "git commit", f"{found['git_commit']}{dirty}"
    if "argv" in found:
        yield "argv", command_line(found["argv"])
    yield from ((title, str(found[name])) for name, title in _PROVENANCE.items() if name in found)
    yield from (("nodes", node_type(one)) for one in found.get("node_types", ()))
