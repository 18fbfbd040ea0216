"""A state as bytes and back is the same state."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.histories import any_events, legal, legal_histories
from trainstate.core import evolve, initial
from trainstate.core.freeze import copy, freeze, thaw


def fold(events):
    run = initial("run")
    for one in events:
        evolve(run, one)
    return run


@given(legal_histories)
@settings(max_examples=60, deadline=None)
def test_thaw_gives_back_what_was_frozen(events):
    """Equal in every field, and in the order of what it keeps; statuses are statuses again."""
    run = fold(events)
    thawed = thaw(freeze(run))
    assert run == thawed
    assert freeze(run) == freeze(thawed)
    assert run.status.is_terminal == thawed.status.is_terminal
    for ours, again in zip([run, *run.attempts], [thawed, *thawed.attempts], strict=True):
        for name in ("placements", "checkpoints", "syncs", "budgets", "workers", "groups"):
            assert list(getattr(ours, name, ())) == list(getattr(again, name, ()))


@given(legal_histories, st.integers(0, 80))
@settings(max_examples=60, deadline=None)
def test_a_thawed_state_goes_on_like_the_original(events, cut):
    """Snapshot and tail fold to what the whole history folds to, wherever it is cut."""
    thawed = thaw(freeze(fold(events[:cut])))
    for one in events[cut:]:
        evolve(thawed, one)
    assert freeze(fold(events)) == freeze(thawed)


@given(st.lists(any_events(), max_size=12))
@settings(max_examples=150, deadline=None)
def test_every_state_can_be_frozen(events):
    """Whatever was recorded, its fold is a state that a snapshot can hold and give back."""
    frozen = freeze(fold(events))
    assert frozen == freeze(thaw(frozen))


def test_a_copy_shares_nothing():
    """What is handed out does not change with the original, nor the original with it."""
    events = legal([*range(0, 4000, 37)])
    run = fold(events)
    before, mine = freeze(run), copy(run)
    for attempt in mine.attempts:
        attempt.workers.clear()
        attempt.resources.clear()
    for checkpoint in mine.checkpoints.values():
        checkpoint.directory = "gone"
    mine.settings.Clear()
    mine.attempts.clear()
    mine.budgets.clear()
    assert before == freeze(run)


def test_a_state_keeps_no_part_of_an_event():
    """A part of an event would keep its whole batch in memory; a changed event changes no state."""
    events = legal([*range(0, 4000, 37)])
    run = fold(events)
    before = freeze(run)
    for one in events:
        payload = getattr(one, one.WhichOneof("payload"))
        for field, value in payload.ListFields():
            if field.message_type and not isinstance(field.default_value, list):
                value.Clear()
    assert before == freeze(run)
