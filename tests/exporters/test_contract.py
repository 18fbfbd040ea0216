"""Every exporter we ship keeps the contract, and the contract finds what breaks it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from trainstate_exporters.jsonl import JsonLines
from trainstate_exporters.ray_export_log import LOG_NAME, RayExportLog

from tests.exporters.broken import (
    BROKEN,
    at_least_once,
    opening,
    read_lines,
    tear_line,
)
from trainstate.export import Exporter
from trainstate.integrations.ray_export import siblings
from trainstate.testing import check_exporter


def test_json_lines_in_a_file() -> None:
    """Exactly once."""
    check_exporter(opening(JsonLines), read_lines, tear=tear_line)


def test_json_lines_in_a_stream(tmp_path: Path) -> None:
    """At least once: what was not acknowledged comes again."""

    class Stream(JsonLines):
        def close(self) -> None:
            self._sink.close()

    def stream(folder: Path) -> Exporter[bytes]:
        return Stream("-", (folder / "out.jsonl").open("ab"))

    check_exporter(stream, read_lines)


def read_log(folder: Path) -> list[bytes]:
    """The lines of all files of the log, oldest first."""
    logs = folder / "logs"
    paths = siblings(logs / LOG_NAME) if logs.exists() else []
    return [
        line
        for path in paths
        if path.exists()
        for line in path.read_bytes().splitlines(keepends=True)
    ]


def tear_log(folder: Path) -> None:
    """The process ended in the middle of a write."""
    with (folder / "logs" / LOG_NAME).open("ab") as file:
        file.write(b'{"event_id": "torn')


def tear_after_rotation(folder: Path) -> None:
    """It ended in the middle of a write that had rotated the log twice; some renames were not made."""
    logs = folder / "logs"
    log = logs / LOG_NAME
    free = 1
    while (logs / f"{LOG_NAME}.{free}").exists():
        free += 1
    for number in range(free - 1, 0, -1):
        os.rename(logs / f"{LOG_NAME}.{number}", logs / f"{LOG_NAME}.{number + 2}")
    log.rename(logs / f"{LOG_NAME}.2")
    (logs / f"{LOG_NAME}.1").write_bytes(b'{"event_id": "not acknowledged"}\n')
    log.write_bytes(b'{"event_id": "torn')


def tear_between_renames(folder: Path) -> None:
    """It ended when the log had its new name, and no new log was there yet."""
    logs = folder / "logs"
    free = 1
    while (logs / f"{LOG_NAME}.{free}").exists():
        free += 1
    for number in range(free, 0, -1):
        source = f"{LOG_NAME}.{number - 1}" if number > 1 else LOG_NAME
        os.rename(logs / source, logs / f"{LOG_NAME}.{number}")


@pytest.mark.parametrize("tear", [tear_log, tear_after_rotation, tear_between_renames])
@pytest.mark.parametrize("max_bytes", [0, 1, 1500])
def test_rays_log(max_bytes: int, tear) -> None:  # type: ignore[no-untyped-def]
    """Exactly once, over rotations: none, one per line, several per batch."""
    check_exporter(
        lambda folder: RayExportLog.open(str(folder / "logs"), max_bytes=max_bytes),
        read_log,
        tear=tear,
    )


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_the_contract_finds(kind: type[JsonLines]) -> None:
    """Each broken exporter, by the promise it breaks."""
    with pytest.raises(AssertionError, match=BROKEN[kind]):
        check_exporter(opening(kind), read_lines, tear=tear_line)


def test_at_least_once_may_repeat() -> None:
    """An exporter that does not cut keeps its contract if it promises no more than it does."""
    check_exporter(at_least_once, read_lines)
