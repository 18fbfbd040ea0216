"""The examples of docs/CLI.md, run one after the other, print what the page says."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import LOG, ROOT, Cli

PAGE = ROOT / "docs/CLI.md"
# How many events share a frame, and so its size, is a matter of the moment.
BY_CHANCE = re.compile(r"[\d.]+ (KiB|B per event|frames|of # entries)")


def examples() -> Iterator[str]:
    """The blocks of the page that show a terminal."""
    yield from re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def replayed(cli: Cli, block: str) -> str:
    """The commands of a block, each with what it prints now."""
    shown = []
    for line in block.splitlines():
        if line.startswith("$ trainstate "):
            outcome = cli(*line.split()[2:])
            printed = (outcome.out + outcome.err).replace(str(cli.home), "~/.trainstate")
            shown.append(f"{line}\n{printed}")
    return "".join(shown).replace(f"{Path.cwd()}/", "")


def masked(text: str) -> str:
    """Without what is another number every time."""
    return BY_CHANCE.sub("# \\1", re.sub(r"of [\d.]+ entries", "of # entries", text))


@pytest.fixture
def in_utc(monkeypatch):
    """The page shows local times of a reader in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_examples_print_what_the_page_says(cli: Cli, tmp_path: Path, monkeypatch, in_utc):
    """In the order of the page, which is a story."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(LOG, tmp_path / "event_EXPORT_TRAIN_STATE.log")
    blocks = list(examples())
    assert len(blocks) > 10
    for block in blocks:
        assert masked(block) == masked(replayed(cli, block))
