"""Ray's own log: `event_EXPORT_TRAIN_STATE.log` in a folder, line for line as Ray would write it.

Which events have a line, and what is in it, is in trainstate/core/views/ray_log.py; here it becomes
text (`json.dumps`, default separators, ASCII) and files. Files rotate by renaming, as Ray's do: `.log`
becomes `.log.1`, what was `.log.1` becomes `.log.2`. Ray deletes the oldest of more than 20; here
nothing is ever deleted unless `backup_count` asks for it, and then only what was acknowledged.

The mark is the size of the newest file and a digest of its end. By that digest the file is found again,
wherever a rotation that was never acknowledged has renamed it to: newer files are removed, the file gets
its name back and is cut.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from trainstate.core.views.ray_line import ATTEMPT_LINE, RUN_LINE, VERSIONS_SHIPPED
from trainstate.core.views.ray_log import log_line
from trainstate.errors import UsageError
from trainstate.export import Guarantee, Recorded, Run, whole_number
from trainstate.export.files import (
    AppendFile,
    FileMark,
    lock,
    lost,
    require_empty,
    sink_errors,
    sync_dir,
)

LOG_NAME = "event_EXPORT_TRAIN_STATE.log"
SOURCES = frozenset({RUN_LINE, ATTEMPT_LINE})

# Reference row 0-24.
_ALL_VARIABLE = "RAY_enable_export_api_write"
_SOURCES_VARIABLE = "RAY_enable_export_api_write_config"


class RayExportLog:
    """Writes Ray's log to a folder: the lines of `sources`, those of live runs in schema `version`."""

    name = "ray_export_log"
    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(
        self,
        folder: Path,
        *,
        version: int = VERSIONS_SHIPPED[-1],
        sources: frozenset[str] = SOURCES,
        max_bytes: int = 100_000_000,
        backup_count: int | None = None,
    ) -> None:
        self.target = str(folder)
        self._version = version
        self._sources = sources
        self._files = _Files(folder, max_bytes, backup_count)

    @classmethod
    def open(
        cls,
        target: str,
        *,
        schema_version: str | int = VERSIONS_SHIPPED[-1],
        max_bytes: str | int = 100_000_000,
        backup_count: str | int | None = None,
    ) -> Self:
        """To the folder `target`, made if it is missing, with what Ray's environment variables select.

        `schema_version` is that of live runs. A file over `max_bytes` is rotated (0: never); of the
        rotated ones `backup_count` are kept (None: all).
        Raises UsageError for an option out of its range, SinkUnavailable if the folder cannot be
        written, RefusedError while another export writes it.
        """
        version = whole_number("schema_version", schema_version)
        if version not in VERSIONS_SHIPPED:
            known = f"{VERSIONS_SHIPPED[0]} to {VERSIONS_SHIPPED[-1]}"
            raise UsageError(
                f"schema_version {version} is none of Ray's, which are {known}",
                hint="--option schema_version=4",
            )
        return cls(
            Path(target).absolute(),
            version=version,
            sources=selected_sources(os.environ),
            max_bytes=whole_number("max_bytes", max_bytes),
            backup_count=None
            if backup_count is None
            else whole_number("backup_count", backup_count),
        )

    def encode(self, recorded: Recorded, run: Run) -> bytes | None:
        """The line of an event that has one, and is of a source asked for.

        Raises SinkRejected for an imported line that fits no state of its run.
        """
        line = log_line(recorded.event, run, self._version)
        if line is None or line["source_type"] not in self._sources:
            return None
        return json.dumps(line).encode() + b"\n"

    def resume(self, mark: bytes | None) -> bytes:
        """Undoes what was written and rotated after the mark."""
        return self._files.resume(mark)

    def write(self, records: Sequence[bytes]) -> bytes:
        """Appends the lines, durably, rotating where a file is full."""
        return self._files.write(records)

    def close(self) -> None:
        """Lets go of the folder."""
        self._files.close()


def selected_sources(environ: Mapping[str, str]) -> frozenset[str]:
    """The sources that Ray's two variables turn on; all, if neither is set: this export was asked for.

    Blanks around a name do not matter (Ray loses the second name to one, row 0-24).
    """
    named = environ.get(_SOURCES_VARIABLE, "")
    if environ.get(_ALL_VARIABLE, "").lower() in ("1", "true") or not named.strip():
        return SOURCES
    return SOURCES & {name.strip() for name in named.split(",")}


class _Files:
    """The log and its rotated siblings: `.log` is the newest, then `.log.1`, `.log.2`, ..."""

    def __init__(self, folder: Path, max_bytes: int, backup_count: int | None) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._backup_count = backup_count
        self._active: AppendFile | None = None
        with sink_errors(folder, "open the folder"):
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        lock(self._lock, folder)

    def resume(self, mark: bytes | None) -> bytes:
        """See `Exporter.resume`."""
        self._let_go()
        if mark is None:
            for path in self._newest_first():
                require_empty(path, path.stat().st_size)
            return self._open().mark().encode()
        acknowledged = FileMark.decode(mark, self._folder)
        with sink_errors(self._folder, "undo an unfinished rotation"):
            self._bring_back(acknowledged)
        self._open().cut(acknowledged)
        return mark

    def write(self, records: Sequence[bytes]) -> bytes:
        """See `Exporter.write`."""
        with sink_errors(self._folder, "remove a rotated file"):
            self._prune()
        active = self._active or self._open()
        waiting: list[bytes] = []
        size = active.size
        for line in records:
            if self._max_bytes and size and size + len(line) > self._max_bytes:
                active.append(b"".join(waiting))
                with sink_errors(self._folder, "rotate the log"):
                    active = self._rotate()
                waiting, size = [], 0
            waiting.append(line)
            size += len(line)
        active.append(b"".join(waiting))
        return active.mark().encode()

    def close(self) -> None:
        """Lets go of everything."""
        self._let_go()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _open(self) -> AppendFile:
        self._active = AppendFile(self._path(0))
        return self._active

    def _let_go(self) -> None:
        if self._active is not None:
            self._active.close()
            self._active = None

    def _path(self, number: int) -> Path:
        return self._folder / (f"{LOG_NAME}.{number}" if number else LOG_NAME)

    def _newest_first(self) -> list[Path]:
        numbers = (path.name.removeprefix(f"{LOG_NAME}.") for path in self._folder.iterdir())
        rotated = sorted(int(number) for number in numbers if number.isdecimal())
        return [path for path in map(self._path, [0, *rotated]) if path.exists()]

    def _bring_back(self, acknowledged: FileMark) -> None:
        """Gives the file that the mark is of its name back, and removes the newer ones."""
        newer: list[Path] = []
        for path in self._newest_first():
            if acknowledged.size and _holds(path, acknowledged):
                break
            newer.append(path)
        else:
            # Everything here is unacknowledged; that is right only if nothing ever was.
            if acknowledged.size:
                raise lost(self._path(0))
            path = None
        for unacknowledged in reversed(newer):
            unacknowledged.unlink()
        if path is not None:
            path.rename(self._path(0))
        sync_dir(self._folder)

    def _rotate(self) -> AppendFile:
        """Renames every file up to the first free number, oldest first, and opens a new log."""
        self._let_go()
        free = 1
        while self._path(free).exists():
            free += 1
        for number in range(free, 0, -1):
            self._path(number - 1).rename(self._path(number))
            # Each is durable before the next frees its name: in no order of renames is one lost.
            sync_dir(self._folder)
        return self._open()

    def _prune(self) -> None:
        """Removes the oldest of too many rotated files: called while the mark is of the newest."""
        if self._backup_count is None:
            return
        for path in self._newest_first()[self._backup_count + 1 :]:
            path.unlink()


def _holds(path: Path, mark: FileMark) -> bool:
    file = AppendFile(path)
    try:
        return file.holds(mark)
    finally:
        file.close()
