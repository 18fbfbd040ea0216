"""Importer of Ray's own `event_EXPORT_TRAIN_STATE.log`, of every schema version shipped (1 to 4).

A line of that log is a full snapshot of a run or an attempt. It becomes the events that say what it
changed, and one `LineImported` that carries whatever our rendering of the state would not show
(`residue`), so that the line can be written back equal. Importing the same line twice adds nothing.

    lines      bytes of a line -> Line, or why it is none
    deltas     (state of the run, Line) -> events
    importer   Lines -> store, rejects
    files      rotated files, growing files -> lines
"""

from trainstate.integrations.ray_export.files import SourceLine, follow, read, siblings
from trainstate.integrations.ray_export.importer import Counts, Importer, Rejects
from trainstate.integrations.ray_export.lines import Line, LineRefused, parse

__all__ = [
    "Counts",
    "Importer",
    "Line",
    "LineRefused",
    "Rejects",
    "SourceLine",
    "follow",
    "parse",
    "read",
    "siblings",
]
