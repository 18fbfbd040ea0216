"""An event in one line, as `tail` and `replay --step` print it."""

from __future__ import annotations

from trainstate.cli import _render
from trainstate.cli._text import fields, headline, instant, payload_word, short
from trainstate.core.transitions import TARGETS
from trainstate.core.views.event_json import event_json
from trainstate.store import Recorded

# As wide as the longest payload but a few, so that what follows is mostly aligned.
_KIND_WIDTH = 22


def show_event(recorded: Recorded, as_json: bool) -> None:
    """Prints one event: position, time, run, what happened, and why."""
    plain = event_json(recorded)
    if as_json:
        _render.emit(plain)
        return
    kind = plain["kind"]
    said, reason = fields(plain["payload"]), headline(plain["reason"])
    word = f"{payload_word(kind):{_KIND_WIDTH}}" if said or reason else payload_word(kind)
    target = TARGETS.get(kind)
    _render.line(
        f"{recorded.seq:>7}  ",
        (f"{instant(recorded.event.time_unix_nano)}  ", "dim"),
        f"{short(recorded.event.run_id):12}  ",
        word if target is None else _render.in_colour(word, target),
        f"  {said}" if said else "",
        (f"  {reason}", "dim") if reason else "",
    )
