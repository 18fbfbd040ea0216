"""The test kit we ship: for who trains with trainstate, and who builds on top of it.

given(...).when(...).then(...)   what events mean, without a store
event, stamp                     events without their envelope, and the envelope
check_exporter                   the contract of a sink, with kills, tears and refusals
Faults                           what a training function and its run do when things fail
"""

from trainstate.testing.exporters import check_exporter
from trainstate.testing.faults import Faults, InjectedFailure
from trainstate.testing.given import Given, When, event, given, stamp

__all__ = [
    "Faults",
    "Given",
    "InjectedFailure",
    "When",
    "check_exporter",
    "event",
    "given",
    "stamp",
]
