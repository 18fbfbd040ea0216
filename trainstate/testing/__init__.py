"""The test kit we ship: for who writes deciders, exporters and tools on top of trainstate.

given(...).when(...).then(...)   what events mean, without a store
event, stamp                     events without their envelope, and the envelope
check_exporter                   the contract of a sink, with kills, tears and refusals
"""

from trainstate.testing.exporters import check_exporter
from trainstate.testing.given import Given, When, event, given, stamp

__all__ = ["Given", "When", "check_exporter", "event", "given", "stamp"]
