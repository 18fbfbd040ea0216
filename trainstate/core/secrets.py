"""What looks secret: by the name it stands under, or by its own form; and cuts that go through none.

A name is secret by its words, however it is written: `HF_TOKEN`, `db-password`, `apiKey`. A value is by
the form that its issuer gave it: keys of clouds and services, bearer tokens, private keys, passwords in
URLs. In a text both are looked for; what is found too much is lost to a reader, what is found too little
is lost to the user. A marker (core/markers.py) is no secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

# Words that make a name secret wherever they stand in it, and how words end that do.
_ANYWHERE = """
    pwd pw cred creds authorization cookie cookies jwt bearer dsn webhook passcode connection_string
    api_key access_key private_key account_key secret_key signing_key encryption_key shared_key ssh_key
    session_key service_key master_key storage_key license_key auth_key openai_key anthropic_key hf_key
    wandb_key kaggle_key comet_key neptune_key aws_key gcp_key azure_key google_key github_key
    subscription_key auth_config api_tokens auth_tokens access_tokens refresh_tokens
    api_token auth_token access_token refresh_token bearer_token session_token hf_token github_token
"""
_ENDINGS = (
    *("password", "passwords", "passwd", "passphrase", "passphrases"),
    *("secret", "secrets", "credential", "credentials"),
)
# And at its end: `token` and `mytoken`, but not `token_count`; `db_pass`, but not `forward_pass`.
_LAST = "auth pat passkey"
_PASSES = (
    "forward backward first second third last one two single multi low high band by all n num per"
)
# A tokenizer's, which nobody hides.
_TOKENIZERS = "bos eos pad unk sep cls mask special image audio video start end stop prompt decoder"
# Words that people write as one.
_JOINED = {
    f"{first}{last}": (first, last)
    for last, firsts in {"key": "api access private account secret auth", "pass": "db user"}.items()
    for first in firsts.split()
}
# Without one of these (lower case) in it, no name above is in a text, and no form below.
_HINTS = """
    pass pw cred secret token key auth cookie jwt bearer dsn connection webhook _pat -pat
    akia asia abia acca aiza ya29. gocspx- ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xox xapp- sk- hf_
    sk_ rk_ npm_ pypi- dop_v1_ sq0 sg. eyj nvapi- r8_ dapi hvs. :// -----begin sig= signature=
"""

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^\W\d_A-Za-z]+")
# Each form, and the part of it that is the secret.
_FORMS: tuple[tuple[re.Pattern[str], str | int], ...] = (
    (
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
            r"(?:[\s\S]*?-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|[\s\S]*)"
        ),
        0,
    ),
    (
        re.compile(
            r"""(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))(?:
              (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])
            | AIza[\w-]{35} | ya29\.[\w.-]{16,} | GOCSPX-[\w-]{20,}
            | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_\w{20,} | glpat-[\w-]{16,}
            | xox[abeoprs]-[\w-]{10,} | xapp-[\w-]{10,}
            | sk-[\w-]{16,} | [rs]k_(?:live|test)_[A-Za-z0-9]{10,} | hf_[A-Za-z0-9]{20,}
            | npm_[A-Za-z0-9]{30,} | pypi-[\w-]{16,} | dop_v1_[a-f0-9]{32,} | sq0[a-z]{3}-[\w-]{20,}
            | nvapi-[\w-]{16,} | gsk_\w{20,} | r8_\w{20,} | dapi[a-f0-9]{32} | hvs\.[\w-]{16,}
            | SG\.[\w-]{16,}\.[\w-]{16,} | eyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]*
            )""",
            re.VERBOSE,
        ),
        0,
    ),
    (re.compile(r"(?i:\bbearer) +(?P<bearer>(?=[A-Za-z._~+/=-]*\d)[\w.~+/=-]{8,})"), "bearer"),
    (
        re.compile(
            r"[?&;](?:sig|[Xx]-[A-Za-z]+-(?:Signature|Credential|Security-Token))="
            r"(?P<signature>[^&\s\"'<>]+)"
        ),
        "signature",
    ),
)
# What may be a URL, or several: its password is before the last "@", and begins as no port does.
_RUN = re.compile(r"[^\s\"<>]+")
_SCHEME = re.compile("://")
_SCHEMES_MAX = 16
_PORT = re.compile(r"\d{1,5}[/?#]")
# `name=value`, `"name": value`, `['name'] = value`, `--name value`: the name, and all up to the value.
_NAMED = re.compile(
    r"""(?:(?<![\w.\\-])|(?<=\\[nrt]))
        (?:--(?P<option>[^\W\d_][\w.-]{0,127})(?:\\?["']?,\s*|[^\S\n]+(?!--)|=)
        | -?(?P<name>[^\W\d][\w.-]{0,127})\\?["']?\]?\s*(?:=>|:=|[=:](?!=|//))[^\S\n]*
          (?:[A-Za-z_][\w.|\[\] ]{0,60}[ ]=[ ]+)?)""",
    re.VERBOSE,
)
# A quote that nobody closes is closed by the end of its line.
_VALUE = re.compile(
    r"""[bBfFrRuU]{0,2}(?P<quote>\\?(?:\"{3}|'{3}|["']))
        (?:(?P<quoted>(?:\\\\\\["']|(?!(?P=quote))(?:\\[\s\S]|[^\\]))*)(?P=quote) | (?P<rest>[^\n]*))
      | (?P<open>[\[{(])
      | (?P<plain>(?:(?:[Bb]earer|[Bb]asic|[Tt]oken|[Dd]igest)[ ]+)?[^\s,;&"'(){}\[\]<>\\]+)""",
    re.VERBOSE,
)
_BRACKET = re.compile(r"[\[{()}\]]")
_HEADER = re.compile(r"(?P<rest>[^\r\n\"']+)")
_NOTHING = frozenset({"", "None", "True", "False", "null", "true", "false"})
# What stands in the place of a secret, and is none.
MARKER = re.compile(r"<secret(?:-[0-9a-f]{12})?>")
# A secret that a cut goes through is looked for so far before it, and beyond it.
_REACH_BACK, _REACH = 256 * 1024, 8 * 1024
# Names that are remembered with their answer; a text may have any.
_NAMES_KEPT = 4096


class Names:
    """Which names are secret: those that always are, and `more`; a name with a "!" in front is not."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        given = [one.strip() for one in more if one.strip(" !")]
        self._never = [_words(one[1:]) for one in given if one.startswith("!")]
        self._also = [_words(one) for one in given if not one.startswith("!")]
        self.hints = (*_HINTS.split(), *(words[0] for words in self._also if words))
        self.secret = lru_cache(_NAMES_KEPT)(self._secret)

    def _secret(self, name: str) -> bool:
        words = () if MARKER.search(name) else _words(name)  # what is masked names nothing
        if any(_within(one, words) for one in self._never):
            return False
        if any(_within(one, words) for one in (*_SECRET, *self._also)):
            return True
        if words[-1:] in _ENDS or any(word.endswith(_ENDINGS) for word in words):
            return True
        if words[-1:] == ("pass",):
            return len(words) > 1 and words[-2] not in _COUNTED
        last = "".join(words[-2:])
        return last.endswith("token") and last.removesuffix("token") not in _HARMLESS


def _words(name: str) -> tuple[str, ...]:
    """The words of a name in lower case, without digits: `dbPassword2` is of ("db", "password")."""
    words = (word.lower() for word in _WORD.findall(name[:256]))
    plain = ("key" if word == "keys" else word for word in words)
    return tuple(part for word in plain for part in _JOINED.get(word, (word,)))


def _within(some: tuple[str, ...], words: tuple[str, ...]) -> bool:
    size = len(some)
    return any(words[at : at + size] == some for at in range(len(words) - size + 1)) and size > 0


_SECRET = tuple(_words(one) for one in _ANYWHERE.split())
_ENDS = {_words(one) for one in _LAST.split()}
_HARMLESS = frozenset(_TOKENIZERS.split())
_COUNTED = frozenset(_PASSES.split())
ALWAYS = Names()


class Span(NamedTuple):
    """A secret inside a text, from `start` to `end`."""

    start: int
    end: int


def suspicious(lowered: str, names: Names = ALWAYS) -> bool:
    """Whether there may be a secret in a text, given in lower case; quick, and often wrongly so."""
    return any(hint in lowered for hint in names.hints)


def spans(text: str, names: Names = ALWAYS) -> list[Span]:
    """Where the secrets of a text are, in order, none inside another."""
    if not suspicious(text.lower(), names):
        return []
    found = sorted({*_by_form(text), *_by_name(text, names)})
    kept: list[Span] = []
    for one in found:
        if kept and one.start < kept[-1].end:
            kept[-1] = Span(kept[-1].start, max(one.end, kept[-1].end))
        else:
            kept.append(one)
    return kept


def _by_form(text: str) -> Iterator[Span]:
    for form, part in _FORMS:
        yield from (Span(*match.span(part)) for match in form.finditer(text))
    if "://" in text and "@" in text:
        yield from _in_urls(text)


def _in_urls(text: str) -> Iterator[Span]:
    for run in _RUN.finditer(text):
        until, _, _ = run[0].rpartition("@")
        for scheme in islice(_SCHEME.finditer(until), _SCHEMES_MAX):
            user, _, password = until[scheme.end() :].partition(":")
            if password and not _PORT.match(password) and not set("/?#") & set(user):
                end = run.start() + len(until)
                yield Span(end - len(password), end)
                break


def _by_name(text: str, names: Names) -> Iterator[Span]:
    at = 0
    while named := _NAMED.search(text, at):
        at = named.end()
        name = named["option"] or named["name"]
        if not names.secret(name):
            continue
        value = (_HEADER if "cookie" in name.lower() else _VALUE).match(text, at)
        if value is not None:
            part = value.lastgroup or "plain"
            start, end = value.span(part)
            if part == "open" or (part == "plain" and text[end : end + 1] == "("):
                end = _closed(text, end)
            at = max(end, value.end())
            if text[start:end] not in _NOTHING and not MARKER.match(text[start:end]):
                yield Span(start, end)


def _closed(text: str, at: int) -> int:
    """Where the bracket ends that `at` is in or before; a bracket that nobody closes, with its line."""
    depth = int(text[at : at + 1] != "(")
    for bracket in _BRACKET.finditer(text, at, at + _REACH):
        depth += 1 if bracket[0] in "[{(" else -1
        if depth <= 0:
            return bracket.end()
    line = text.find("\n", at)
    return len(text) if line < 0 else line


def begin_of(text: str, length: int, names: Names = ALWAYS) -> str:
    """The first `length` characters of a text, fewer if that would cut a secret in two."""
    start, _ = _around(text, length, _REACH, names)
    return text[:start]


def end_of(text: str, length: int, names: Names = ALWAYS) -> str:
    """The last `length` characters of a text, fewer if that would cut a secret in two."""
    _, end = _around(text, max(0, len(text) - length), length, names)
    return text[end:]


def ends_of(text: str, length: int, names: Names = ALWAYS) -> str:
    """A text of up to `length` characters; of a longer one the beginning and the end.

    What the cut would leave a part of, and that looks secret, goes with the middle.
    """
    if len(text) <= length:
        return text
    begin, end = begin_of(text, length // 2, names), end_of(text, length // 2, names)
    left_out = len(text) - len(begin) - len(end)
    return f"{begin}\n... ({left_out} characters) ...\n{end}"


def _around(text: str, at: int, ahead: int, names: Names) -> tuple[int, int]:
    """From where to where the secret is that a cut at `at` would go through; else (at, at)."""
    first = max(0, at - _REACH_BACK)
    # What is quoted beyond the window ends with it.
    window = text[first : at + ahead] + ("\"'" if at + ahead < len(text) else "")
    through = (one for one in spans(window, names) if first + one.start < at < first + one.end)
    start, end = next(through, (at - first, at - first))
    return first + start, min(first + end, len(text))
