"""Texts and plain values with markers in the place of their secrets.

A marker has a keyed digest, `<secret-1a2b3c4d5e6f>`: the same secret has the same one wherever the same
salt is, so that two runs can be compared, and without the salt nobody can try passwords against it. A
marker is never masked again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from trainstate.core.secrets import ALWAYS, MARKER, Names, Span, spans

ANY_MARKER = re.compile(rb"<secret-[0-9a-f]{12}>")
_GIVEN = re.compile(r"(?P<before>-{0,2}(?P<name>[^\W\d][\w.-]{0,127})=)(?P<value>[\s\S]+)")
# A marker may set free what stood behind a secret, so a text is looked through again.
_ROUNDS = 3
# Characters that masking may add to a text, and a quarter of it.
_GROWTH_MAX = 256


class Mask:
    """Replaces what looks secret in texts and in plain values, by markers of one salt.

    Without a salt every secret has the same marker: for what is not kept, such as logs.
    """

    def __init__(self, salt: bytes | None, names: Names = ALWAYS) -> None:
        self._salt = salt
        self.names = names

    def text(self, text: str) -> str:
        """A text without its secrets."""
        for _ in range(_ROUNDS):
            found = spans(text, self.names)
            if not found:
                break
            marked = self._marked(text, found)
            # Many small secrets: a text must not grow beyond what there is room for.
            text = marked if len(marked) <= len(text) * 1.25 + _GROWTH_MAX else self.marker(text)
        return text

    def _marked(self, text: str, found: Sequence[Span]) -> str:
        made: list[str] = []
        at = 0
        for one in found:
            made += text[at : one.start], self.marker(text[one.start : one.end])
            at = one.end
        return "".join((*made, text[at:]))

    def marker(self, secret: str) -> str:
        """What stands in the place of a secret."""
        if self._salt is None:
            return "<secret>"
        data = secret.encode("utf-8", "backslashreplace")
        return f"<secret-{blake2b(data, digest_size=6, key=self._salt).hexdigest()}>"

    def plain(self, value: Any, name: str = "") -> Any:
        """A plain value (None, bool, numbers, str, bytes, lists, dicts) without its secrets.

        Under a secret name that is every text and number in it, whatever it looks like.
        """
        return self._under(value) if name and self.names.secret(name) else self._plain(value)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                self.text(key): self.plain(one, _name(value, key)) for key, one in value.items()
            }
        if isinstance(value, list):
            return self._items(value)
        if isinstance(value, bytes):
            text = value.decode("latin-1")
            return self.text(text) if spans(text, self.names) else value
        return value

    def _items(self, values: list[Any]) -> list[Any]:
        """Of a command line, what follows `--password` is secret too."""
        made: list[Any] = []
        before: Any = ""
        for one in values:
            option = before.lstrip("-") if isinstance(before, str) and before[:1] == "-" else ""
            is_option = isinstance(one, str) and one[:2] == "--" != one[2:4]
            follows = bool(option) and "=" not in option and not is_option
            made.append(self.plain(one, option) if follows else self._item(one))
            before = one
        return made

    def _item(self, value: Any) -> Any:
        """Of `--name=value` and `NAME=value` all is the value that follows."""
        given = _GIVEN.fullmatch(value) if isinstance(value, str) else None
        if given is None or not self.names.secret(given["name"]):
            return self._plain(value)
        return f"{given['before']}{self._under(given['value'])}"

    def sparing_numbers(self) -> Mask:
        """The same for metrics, whose numbers are measurements."""
        return _MetricsMask(self._salt, self.names)

    def _under(self, value: Any) -> Any:
        if value is None or isinstance(value, bool) or value in ("", b""):
            return value
        if isinstance(value, Mapping):
            return {self.text(key): self._under(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._under(one) for one in value]
        if isinstance(value, str) and MARKER.fullmatch(value):
            return value
        return self.marker(value.decode("latin-1") if isinstance(value, bytes) else str(value))


class _MetricsMask(Mask):
    def _under(self, value: Any) -> Any:
        return value if isinstance(value, int | float) else super()._under(value)


def _name(values: Mapping[str, Any], key: str) -> str:
    """What a value is named by: its key, or what stands beside it (`{"name": ..., "value": ...}`)."""
    named = values.get("name", values.get("key")) if key == "value" else None
    return named if isinstance(named, str) else key


HIDDEN = Mask(None)
