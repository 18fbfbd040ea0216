"""A traceback is in a run's events once; every other error like it has its digest."""

from __future__ import annotations

import pytest
from hypothesis import given as given_any
from hypothesis import strategies as st

from tests.core.runs import A1, placed, settings, training
from trainstate.core import Cause, Run, initial
from trainstate.core import observations as o
from trainstate.core.tracebacks import KEPT, digest, normalised, note, once, traceback_of
from trainstate.testing import Given
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

STORY = """Traceback (most recent call last):
  File "train.py", line {line}, in train
    raise ValueError(f"rank {{rank}}: {{batch}}")
ValueError: rank {rank}: <Batch at 0x7f{rank:010x}> has {size} rows
"""


def story(rank: int = 0, line: int = 12, size: int = 3) -> str:
    return STORY.format(rank=rank, line=line, size=size)


def failing(traceback: str, rank: int = 0) -> e.Event:
    error = s.Error(type="ValueError", message=f"of rank {rank}", traceback=traceback)
    return e.Event(worker_failing=e.WorkerFailing(rank=rank, error=error))


def noted(run: Run, *tracebacks: str) -> list[e.Event]:
    """The events of workers that fail with those, each noted by the run before the next is made."""
    made = []
    for rank, traceback in enumerate(tracebacks):
        for event in once(run, [failing(traceback, rank)]):
            note(run, event)
            made.append(event)
    return made


def tracebacks_of(events: list[e.Event]) -> list[str]:
    """What each event that has an error says of its traceback."""
    kinds = ((one, one.WhichOneof("payload") or "") for one in events)
    errors = (getattr(getattr(event, kind), "error", None) for event, kind in kinds)
    return [one.traceback for one in errors if one is not None and one.type]


# --- what is one traceback ------------------------------------------------------------------------


def test_numbers_do_not_matter_and_lines_do():
    """A thousand ranks that fail in one place have one traceback."""
    assert digest(story()) == digest(story(rank=999, size=10**9))
    assert digest(story()) != digest(story(line=13))
    assert digest(story()) != digest(story().replace("ValueError", "TypeError"))
    assert 8 == len(digest(""))


def test_a_normalised_text():
    """It is without addresses, sizes and ranks; the lines of its frames are there."""
    assert 'File "a0.py", line 12, in f\n0 at 0' == normalised(
        'File "a7.py", line 12, in f\n-3 at 0xdeadBEEF'.replace("-", "")
    )


@given_any(st.text())
def test_any_text_has_a_digest(text):
    """Whatever it is made of, also what has no UTF-8."""
    assert 8 == len(digest(text + "\ud800"))
    assert digest(text) == digest(text)


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        ("login(password='{}')", "hunter", "correct horse"),
        ("postgres://me:{}@host refused", "hunter", "horse"),
        ("401 for hf_{}", "a" * 24, "b" * 30),
    ],
)
def test_a_secret_is_not_in_the_digest(text, one, other):
    """Nobody can try passwords against it, and with another password it is the same failure."""
    assert digest(text.format(one)) == digest(text.format(other))
    assert digest(text.format(one)) != digest(text.format(one) + " more")


def test_what_a_run_says_is_secret_is_not_in_the_digest():
    """Nor a secret by a name that the run's settings add."""
    digests = set()
    for secret in ("alpha", "bravo"):
        run = initial("run")
        run.settings = s.RunSettings(secret_keys=["launch_code"])
        (event,) = noted(run, f"start(launch_code='{secret}')")
        digests.add(event.worker_failing.error.traceback_digest)
    assert 1 == len(digests)


# --- once -----------------------------------------------------------------------------------------


def test_the_first_has_the_text_and_the_others_the_digest():
    """Over several decisions, and inside of one."""
    run = initial("run")
    made = noted(run, story(0), story(1), story(line=99), story(2))
    assert [story(0), "", story(line=99), ""] == tracebacks_of(made)
    many = list(once(initial("run"), [failing(story(rank), rank) for rank in range(3)]))
    assert [story(0), "", ""] == tracebacks_of(many)
    assert {digest(story())} == {one.worker_failing.error.traceback_digest for one in many}


def test_messages_stay():
    """What an error says of itself is in each event."""
    made = noted(initial("run"), story(0), story(1))
    assert ["of rank 0", "of rank 1"] == [one.worker_failing.error.message for one in made]


def test_events_without_a_traceback_stay():
    """An error without one, and an event without an error, are as they were; in their order."""
    bare = [failing(""), e.Event(run_running={}), e.Event(), failing(story())]
    was = [one.SerializeToString() for one in bare[:3]]
    events = list(once(initial("run"), bare))
    assert was == [one.SerializeToString() for one in events[:3]]
    assert story() == events[3].worker_failing.error.traceback


def test_every_text_of_a_run_is_found():
    """By the error that has it, and by those that have its digest."""
    run = initial("run")
    made = noted(run, story(0), story(1))
    errors = [one.worker_failing.error for one in made]
    assert [story(0), story(0)] == [traceback_of(run, one) for one in errors]
    assert "" == traceback_of(run, s.Error(type="ValueError"))
    assert "" == traceback_of(run, s.Error(traceback_digest=b"unknown"))
    assert "as recorded" == traceback_of(run, s.Error(traceback="as recorded"))


def test_a_traceback_without_a_digest_is_the_errors_own():
    """Of an older journal: it is not the run's, and not lost."""
    run = initial("run")
    event = failing(story())
    note(run, event)
    assert [] == run.tracebacks
    assert story() == traceback_of(run, event.worker_failing.error)


def test_the_oldest_give_way():
    """A run keeps so many; one that has given way is recorded anew when it comes again."""
    run = initial("run")
    noted(run, *(story(line=line) for line in range(KEPT + 1)))
    assert KEPT == len(run.tracebacks)
    assert story(line=1) == run.tracebacks[0].text
    assert story(line=KEPT) == run.tracebacks[-1].text
    assert "" == traceback_of(run, s.Error(traceback_digest=digest(story(line=0))))
    again = noted(run, story(line=KEPT), story(line=0))
    assert ["", story(line=0)] == tracebacks_of(again)
    assert KEPT == len(run.tracebacks)


# --- decisions ------------------------------------------------------------------------------------


def broken(rank: int, traceback: str) -> o.WorkerFailed:
    error = s.Error(type="ValueError", message=f"of rank {rank}", traceback=traceback)
    return o.WorkerFailed(A1, rank, 0, Cause.WORKER_ERROR, error)


def failed(*tracebacks: str, max_failures: int = 0) -> Given:
    """The story of a run whose workers fail with those."""
    wanted = settings(workers=len(tracebacks), max_failures=max_failures)
    begun = training(wanted, placed(["n1"] * len(tracebacks)))
    for rank, traceback in enumerate(tracebacks):
        begun.observed(broken(rank, traceback)).then()
    return begun


@pytest.mark.parametrize("max_failures", [0, 1])
def test_workers_that_fail_alike_are_one_text_in_the_events(max_failures):
    """What is decided of them has it once, however many events speak of the error."""
    begun = failed(story(0), story(1), max_failures=max_failures)
    told = tracebacks_of(begun.events)
    assert [story(0)] == [one for one in told if one]
    assert len(told) > 2
    assert [story(0)] == [one.text for one in begun.run.tracebacks]
    workers = begun.run.attempts[-1].workers.values()
    errors = [one.error for one in workers if one.error is not None]
    assert {story(0)} == {traceback_of(begun.run, one) for one in errors}


def test_workers_that_fail_in_two_places_are_two_texts():
    """Each of them once."""
    begun = failed(story(line=1), story(line=2))
    told = [one for one in tracebacks_of(begun.events) if one]
    assert [story(line=1), story(line=2)][: len(told)] == told
    assert told == [one.text for one in begun.run.tracebacks]


def test_what_is_observed_is_not_changed():
    """The traceback is taken out of the events, not out of what was observed."""
    observed = broken(0, story())
    begun = failed(story(0), story(1))
    begun.observed(observed).then()
    assert story() == observed.error.traceback
