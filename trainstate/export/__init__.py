"""Export: events of a journal into sinks outside, resumable and acknowledged.

    Exporter      what a sink must be able to do; found by entry point `trainstate.exporters`
    Pump          tail, fold, encode, batch, retry, dead letters, commit: once, for every sink
    Cursor        how far a journal has been exported to one target, durably
    pins          what the cursors of a journal keep retention from

The contract is tested by `trainstate.testing.check_exporter`, which ships with the library.
"""

from trainstate.core import Run
from trainstate.export.cursor import (
    Cursor,
    CursorFile,
    CursorStore,
    MemoryCursor,
    cursor_path,
    load_cursor,
    pins,
)
from trainstate.export.delivery import Backoff, Counters, Stop
from trainstate.export.exporter import Exporter, Guarantee
from trainstate.export.pump import Pump
from trainstate.export.registry import exporter_names, open_exporter, whole_number
from trainstate.export.session import Limits
from trainstate.store import Recorded

__all__ = [
    "Backoff",
    "Counters",
    "Cursor",
    "CursorFile",
    "CursorStore",
    "Exporter",
    "Guarantee",
    "Limits",
    "MemoryCursor",
    "Pump",
    "Recorded",
    "Run",
    "Stop",
    "cursor_path",
    "exporter_names",
    "load_cursor",
    "open_exporter",
    "pins",
    "whole_number",
]
