"""One JSON object per event and line, to a file or to standard output.

What an object looks like is in trainstate/core/views/event_json.py. A file is written exactly once: the
mark is its size and a digest of its end, and what lies behind it is cut off before writing on. What
cannot be cut (standard output, a pipe, a device) is written at least once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self

from trainstate.core.views.event_json import event_json
from trainstate.errors import SinkUnavailable, UsageError
from trainstate.export import Guarantee, Recorded, Run
from trainstate.export.files import AppendFile, resume_file, sink_errors

_STDOUT = "-"


class JsonLines:
    """Writes lines to a file, or to a stream; `open` chooses."""

    name = "jsonl"

    def __init__(self, target: str, sink: AppendFile | IO[bytes]) -> None:
        self.target = target
        self._sink = sink
        in_file = isinstance(sink, AppendFile)
        self.guarantee = Guarantee.EXACTLY_ONCE if in_file else Guarantee.AT_LEAST_ONCE

    @classmethod
    def open(cls, target: str) -> Self:
        """To the file `target`, made if it is missing; `-` is standard output.

        Raises UsageError for a folder, SinkUnavailable for a file that cannot be written, RefusedError
        for one that another export writes.
        """
        if target == _STDOUT:
            return cls(target, sys.stdout.buffer)
        path = Path(target).absolute()
        if path.is_dir():
            raise UsageError("it is a folder", path=path, hint="name a file in it")
        if path.exists() and not path.is_file():
            with sink_errors(path, "open it"):
                # Unbuffered: nothing is left to be written by `close`.
                return cls(str(path), path.open("wb", buffering=0))
        return cls(str(path), AppendFile(path))

    def encode(self, recorded: Recorded, run: Run) -> bytes:
        """The event as a line; the state of its run adds nothing."""
        return json.dumps(event_json(recorded), ensure_ascii=False).encode() + b"\n"

    def resume(self, mark: bytes | None) -> bytes:
        """Cuts the file back to the mark; a stream is left as it is."""
        return resume_file(self._sink, mark) if isinstance(self._sink, AppendFile) else b""

    def write(self, records: Sequence[bytes]) -> bytes:
        """Appends the lines; the mark is where the file ends then.

        A reader of a stream that has gone away is a BrokenPipeError: there is nobody to retry for.
        """
        data = b"".join(records)
        if isinstance(self._sink, AppendFile):
            self._sink.append(data)
            return self._sink.mark().encode()
        _write(self._sink, data, self.target)
        return b""

    def close(self) -> None:
        """Lets go of the file; standard output stays open."""
        if self._sink is not sys.stdout.buffer:
            self._sink.close()


def _write(stream: IO[bytes], data: bytes, target: str) -> None:
    left = memoryview(data)
    try:
        while left:
            left = left[stream.write(left) :]
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise SinkUnavailable(f"cannot write to {target}: {error.strerror or error}") from error
