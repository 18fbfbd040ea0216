"""Exporters by name, with their options."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainstate.errors import UsageError
from trainstate.export import exporter_names, open_exporter, whole_number
from trainstate.export.registry import _entry_points


def test_ours_are_found_by_entry_point() -> None:
    """The two that ship with the library."""
    assert {"jsonl", "ray_export_log"} <= set(exporter_names())


def test_one_is_opened_by_name(tmp_path: Path) -> None:
    """On its target, with its options as a command line gives them."""
    exporter = open_exporter("ray_export_log", str(tmp_path / "logs"), max_bytes="1000")
    assert ("ray_export_log", str(tmp_path / "logs")) == (exporter.name, exporter.target)
    exporter.close()


def test_names_are_those_of_the_entry_points(tmp_path: Path) -> None:
    """The name in a cursor is the name a person types."""
    for name, point in _entry_points().items():
        assert name == point.load().name


def test_an_unknown_name_lists_the_known() -> None:
    """So that the next try is right."""
    with pytest.raises(UsageError, match=r"no exporter 'kafak'; there are .*jsonl"):
        open_exporter("kafak", "x")


def test_an_unknown_option_lists_the_known(tmp_path: Path) -> None:
    """Before anything is opened or made."""
    with pytest.raises(UsageError, match="no option 'maxbytes'; it has schema_version, max_bytes"):
        open_exporter("ray_export_log", str(tmp_path / "logs"), maxbytes=1)
    with pytest.raises(UsageError, match="it has none"):
        open_exporter("jsonl", str(tmp_path / "file"), max_bytes=1)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("value", ["-1", "1.5", "1e6", "", "many", -1])
def test_a_count_is_a_whole_number(value: str | int) -> None:
    """Anything else is wrong usage, and says of which option."""
    with pytest.raises(UsageError, match="max_bytes is a whole number"):
        whole_number("max_bytes", value)
    assert 5 == whole_number("max_bytes", "5") == whole_number("max_bytes", 5)
