"""Being asked to stop: once politely, then as always."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from trainstate.cli._signals import asked_to_stop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks(number):
    """It wakes up who waits; nothing is interrupted."""
    with asked_to_stop() as stop:
        assert not stop.wait(0)
        os.kill(os.getpid(), number)
        assert stop.wait(30)
        assert stop.is_set()


def test_a_signal_while_waiting():
    """The one who waits is in the thread that the signal interrupts."""
    with asked_to_stop() as stop:
        threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
        assert stop.wait(30)


def test_the_second_signal_acts_as_always():
    """Who does not want to wait for the end of the work presses again."""
    with asked_to_stop() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(30)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_handlers_are_put_back():
    """What was there before is there after."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with asked_to_stop():
        assert before[0] != signal.getsignal(signal.SIGINT)
    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
