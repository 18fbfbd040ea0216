"""The documents name what there is, and what they name is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from trainstate.cli import main
from trainstate.train.settings import LIMITS
from trainstate.v1 import event_pb2

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


def commands(command: click.Command, words: str) -> Iterator[tuple[str, click.Command]]:
    """("trainstate import ray-export", its command) for every command that does something."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None, f"{words} {name} is listed and cannot be loaded"
        yield from commands(child, f"{words} {name}")


def test_every_command_and_option_is_documented():
    """docs/CLI.md names every verb with its options."""
    text = (ROOT / "docs/CLI.md").read_text()
    found = dict(commands(main, "trainstate"))
    assert [words for words in found if words not in text] == []
    options = {
        option
        for command in found.values()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    assert sorted(option for option in options if option not in text) == []


def test_every_documented_command_is_there():
    """No line of a code block in docs/CLI.md names a verb that is gone."""
    text = (ROOT / "docs/CLI.md").read_text()
    known = tuple(words for words, _ in commands(main, "trainstate"))
    lines = re.findall(r"^trainstate .*", text, re.MULTILINE)
    assert [line for line in lines if not line.startswith(known)] == []


def test_every_payload_is_documented():
    """docs/EVENTS.md has a section for every payload."""
    text = (ROOT / "docs/EVENTS.md").read_text()
    payloads = event_pb2.Event.DESCRIPTOR.oneofs_by_name["payload"].fields
    names = [field.message_type.name for field in payloads]
    assert [name for name in names if f"\n### {name}\n" not in text] == []


def test_every_setting_is_documented():
    """docs/TRAINING.md has every variable that is read on the driver, with its default."""
    text = (ROOT / "docs/TRAINING.md").read_text()
    rows = [f"| {name} | {default:g} |" for name, (_, default) in LIMITS.items()]
    assert [row for row in rows if row not in text] == []


def test_the_demo_asks_for_what_there_is():
    """Every option that scripts/demo gives to a verb is one of its own."""
    known = dict(commands(main, "trainstate"))
    lines = re.findall(
        r"^say (trainstate (?:[^\\\n]|\\\n)+)", (ROOT / "scripts/demo").read_text(), re.M
    )
    assert lines
    for line in lines:
        words = line.split()
        verb = known[" ".join(words[:2])]
        options = {option for parameter in verb.params for option in parameter.opts}
        assert [one for one in words if one.startswith("--") and one not in options] == []


def test_readme_opens_with_the_two_commands():
    """The first code block of the README is the demo and the tests."""
    block = re.search(r"```[a-z]*\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    assert ["./scripts/demo", "./scripts/test"] == [
        line.split()[0] for line in block[1].splitlines()
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_points_to_exists(page):
    """Every relative link leads somewhere, and every script a page names can be run."""
    text = page.read_text()
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    scripts = set(re.findall(r"\bscripts/[a-z][\w/-]*\b(?![./\w])", text))
    assert [name for name in sorted(scripts) if not os.access(ROOT / name, os.X_OK)] == []


def test_the_python_of_the_readme_runs(tmp_path):
    """As it stands there, in an empty folder; it prints what its comment says."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert re.findall(r"print.*# (\w+)", code) == ran.stdout.split()
