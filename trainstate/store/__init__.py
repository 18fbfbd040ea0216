"""Events over a journal: append with rules, read by run, position or time, fold into state.

Recorded(seq, event)      what readers get
Store                     the one writer of a journal: check, then durable, then evolve
History                   a journal read only, live or long dead
Root                      a directory with many journals, read as one list of runs
"""

from trainstate.store.archive import Archive
from trainstate.store.events import EVENT_BYTES_MAX, Recorded, until_seq, until_time
from trainstate.store.fold import Fold, Resident, summary_of
from trainstate.store.history import History
from trainstate.store.root import Root
from trainstate.store.writer import Opened, Pending, Store

__all__ = [
    "EVENT_BYTES_MAX",
    "Archive",
    "Fold",
    "History",
    "Opened",
    "Pending",
    "Recorded",
    "Resident",
    "Root",
    "Store",
    "summary_of",
    "until_seq",
    "until_time",
]
