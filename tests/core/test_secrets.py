"""What is a secret, by its name and by its form; and what of a text is left when it is hidden."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import settings as settings_of
from hypothesis import strategies as st

from trainstate.core.markers import HIDDEN, Mask
from trainstate.core.secrets import Names, begin_of, end_of

MASK = Mask(b"a salt of tests")
MARKER = r"<secret-[0-9a-f]{12}>"
# Written in two parts, so that nobody's scanner takes this file for a leak.
AWS = "AKIA" + "Q3EGUJ2HX5LNRVTW"
LONG = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PEM = "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIB\nVgIBADAN\n-----END RSA PRIVATE" + " KEY-----"
PGP = PEM.replace("RSA ", "PGP ").replace("KEY-----", "KEY BLOCK-----")

BY_FORM = {
    "aws": ("key ", AWS, ", and more"),
    "aws-temporary": ("", "ASIA" + AWS[4:], ""),
    "google": ("'", "AIza" + LONG[:35], "'"),
    "google-oauth": ("(", "ya29." + LONG, ")"),
    "google-client": ("", "GOCSPX-" + LONG, "\n"),
    "github": ("remote: ", "ghp_" + LONG, " refused"),
    "github-app": ("", "ghs_" + LONG, ""),
    "github-fine": ("", "github_pat_" + LONG, ""),
    "gitlab": ("", "glpat-" + LONG, ""),
    "slack": ("", "xoxb-" + LONG, ""),
    "slack-app": ("", "xapp-" + LONG, ""),
    "openai": ("Incorrect API key provided: ", "sk-proj-" + LONG, "."),
    "anthropic": ("", "sk-ant-api03-" + LONG, ""),
    "stripe": ("", "sk_live_" + LONG, ""),
    "stripe-restricted": ("", "rk_test_" + LONG, ""),
    "hugging-face": ("401 for ", "hf_" + LONG, ""),
    "npm": ("", "npm_" + LONG, ""),
    "pypi": ("", "pypi-" + LONG, ""),
    "digital-ocean": ("", "dop_v1_" + "0123456789abcdef" * 4, ""),
    "square": ("", "sq0atp-" + LONG, ""),
    "sendgrid": ("", "SG." + LONG + "." + LONG, ""),
    "jwt": ("got ", "eyJhbGciOiJ9.eyJzdWIiOiIx.c2lnbmF0dXJl", " back"),
    "bearer": ("sent Bearer ", "abc.def-1234", " to host"),
    "private-key": ("read ", PEM, " from a file"),
    "openssh-key": ("", PEM.replace("RSA", "OPENSSH"), ""),
    "plain-key": ("", PEM.replace("RSA ", ""), ""),
    "pgp-key": ("", PGP, ""),
    "key-without-end": ("read ", PEM.partition("-----END")[0], ""),
    "url": ("at postgres://user:", "hunter2", "@host/db?x=1"),
    "url-without-user": ("redis://:", "hunter2", "@host:6379/0"),
    "url-with-port": ("https://user:", "hunter2", "@host:8080/path"),
    "url-number": ("amqp://user:", "123456", "@host"),
    "url-short-number": ("amqp://user:", "1234", "@host"),
    "url-percent": ("mysql://user:", "hunter%402", "@host"),
    "url-at": ("postgres://user:", "hun@ter2", "@host/db"),
    "url-slash": ("postgres://user:", "hun/ter2", "@host/db"),
    "url-at-and-slash": ("postgres://user:", "hun@te/r2", "@host/db"),
    "presigned-aws": ("https://h/o?X-Amz-Signature=", "0a1b2c", "&X-Amz-Expires=9"),
    "presigned-aws-id": ("https://h/o?a=1&X-Amz-Credential=", "ABC%2F2024", "&b"),
    "presigned-aws-token": ("https://h/o?a=1&X-Amz-Security-Token=", "IQoJb3J%2F", " x"),
    "presigned-google": ("https://h/o?X-Goog-Signature=", "0a1b2c", ""),
    "presigned-azure": ("https://h/o?sv=1&sig=", "ab%2Bc%3D", "&se=2024"),
}
BY_NAME = {
    "environment": ("HF_TOKEN=", "x1", ""),
    "export": ("export AWS_SECRET_ACCESS_KEY=", "wJalr/K7+x=", ";ls"),
    "yaml": ("db-password: ", "x1", "\nuser: me"),
    "toml": ("password = ", "hunter2", "\n"),
    "camel": ("apiKey='", "two words", "', n=1"),
    "dotted": ("spark.fs.s3a.secret.key=", "x1", " "),
    "walrus": ("(password := ", "x1", ")"),
    "ruby": ('"password" => "', "x1", '"'),
    "option": ("train.py --password ", "x1", " --lr 1"),
    "option-equals": ("train.py --db-password=", "x1", " --lr 1"),
    "option-quoted": ("train.py --password '", "two words", "' --lr 1"),
    "option-of-model": ("train.py --model.api_key=", "x1", " --lr 1"),
    "argv": ("['--password', '", "x1", "', '--lr', '1']"),
    "argv-tuple": ("('--password', '", "x1", "')"),
    "argv-json": ('["--api-key","', "x1", '","--lr"]'),
    "dict": ("{'token': '", "x1", "', 'n': 1}"),
    "json": ('{"token": "', "x1", '", "n": 1}'),
    "json-escapes": ('{"token": "', r"x\"1\\", '", "n": 1}'),
    "json-in-a-string": (r"{\"token\": \"", "x1", r"\", \"n\": 1}"),
    "json-in-a-string-escapes": (r"{\"token\": \"", r"x\\\"1", r"\", \"n\": 1}"),
    "dataclass": ("Config(user='me', password='", "x1", "', n=1)"),
    "dataclass-bytes": ("Config(user='me', password=b'", "hunter2", "', n=1)"),
    "dict-bytes": ("{'password': b'", "hunter2", "'}"),
    "subscript": ("os.environ['HF_TOKEN'] = '", "x1", "'"),
    "subscript-double": ('config["db_password"]="', "x1", '"'),
    "connection": ("AccountName=me;AccountKey=", "x1==", ";Suffix=y"),
    "query": ("https://host/path?token=", "x1", "&n=1"),
    "header": ("Authorization: ", "Basic dXNlcjpwYXNz", "\r\n"),
    "header-token": ("authorization: ", "Token x1", ""),
    "header-key": ("-H 'X-Api-Key: ", "x1", "'"),
    "cookies": ("Cookie: ", "a=x1; session=x2", "\r\n"),
    "unclosed": ("password='", "hunter2 and more", "\nnext line"),
    "unclosed-last": ('{"password": "', "hunter2 and", ""),
}
PLANTED = BY_FORM | BY_NAME

SECRET_NAMES = """
    password PASSWORD db_password db-password dbPassword dbPassword2 DBPassword passwd passphrase
    pwd secret client_secret clientSecret aws_secret_access_key AWS_ACCESS_KEY_ID secrets credential
    credentials apikey api_key apiKey APIKey X-Api-Key OPENAI_API_KEY private_key signing_key
    account.key ssh-key2 connectionString Authorization Proxy-Authorization auth http_auth cookie
    Set-Cookie jwt bearer SENTRY_DSN slackWebhookUrl token HF_TOKEN hfToken HFToken2 access_token
    sessionToken github_pat passkey passwords api_keys
"""
OTHER_NAMES = """
    lr key keys monkey keyboard_layout primary_key sort_key author authors authority path pattern
    compass passed bypass num_tokens max_tokens token_count token_ids tokenizer tokenizer_name
    pad_token padToken bos_token eos_token eos_token_id unk_token sep_token cls_token mask_token
    special_token image_token authentic secretary passwordless n 1 _
"""


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_a_secret_name(name):
    """However it is written, a name is secret by its words."""
    assert Names().secret(name)


@pytest.mark.parametrize("name", OTHER_NAMES.split())
def test_no_secret_name(name):
    """Words that only begin like a secret's, and the tokens of a tokenizer."""
    assert not Names().secret(name)
    assert not Names().secret("")


def test_more_names_and_fewer():
    """A run may add names, in any spelling, and take names out with a "!"."""
    names = Names(["launchCode", " ", "!", "!db-password", "!api_key"])
    assert [True, True] == [names.secret(one) for one in ("my_launch_code", "LAUNCH-CODE2")]
    assert not names.secret("launch")
    assert [False, False] == [names.secret(one) for one in ("DB_PASSWORD", "openai.apiKey")]
    assert names.secret("password")
    assert "launchCode=<secret> n=1" == Mask(None, names).text("launchCode=x n=1")
    assert "api_key=x" == Mask(None, names).text("api_key=x")


@pytest.mark.parametrize("key", PLANTED)
def test_a_secret_in_a_text_is_hidden(key):
    """All of it, and nothing but it."""
    before, secret, after = PLANTED[key]
    assert f"{before}<secret>{after}" == HIDDEN.text(before + secret + after)
    assert f"{before}{MASK.marker(secret)}{after}" == MASK.text(before + secret + after)


@pytest.mark.parametrize(
    "key", [one for one in BY_NAME if not one.startswith(("unclosed", "json-in"))]
)
def test_a_value_under_a_name_is_hidden_in_json_of_it(key):
    """A text with a secret stays without it when it is quoted once more."""
    text = "".join(BY_NAME[key])
    assert BY_NAME[key][1] not in json.loads(HIDDEN.text(json.dumps({"log": text})))["log"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lr=0.1, pad_token='<pad>', num_tokens=5, key=3, author: me, path=/data",
        "max_tokens=4096 eos_token_id: 2 token_ids=[1, 2]",
        "https://host:8080/path@2x.png",
        "http://localhost:8265 s3://bucket/a:b/c git@host:me/code.git user@host",
        "https://user@host/path?signature_version=4&sigma=1",
        "task-" + LONG + " disk-" + LONG + " my_hf_" + LONG,
        "sk-learn hf_hub npm_install glpat- AKIA xoxb- eyJ.a.b SG.x",
        "XAKIAQ3EGUJ2HX5LNRVTW " + AWS + "XYZ",
        "the bearer of bad news, bearer tokens; Bearer token",
        "KeyError: 'password'",
        "if password == 'x' or token != None:",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC" + " KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "--password",
        "--use-token --verbose",
        "password: \n",
        "password=''",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "secret=<secret>, token='<secret-0123456789ab>', postgres://u:<secret-0123456789ab>@h",
        "passwords and secrets and tokens, authentication failed",
    ],
)
def test_what_is_no_secret_stays(text):
    """Names and forms that only resemble a secret's, and markers."""
    assert text == HIDDEN.text(text)


# --- plain values ---------------------------------------------------------------------------------


def test_under_a_secret_name_everything_is_hidden():
    """Texts, numbers, bytes, however deep; what says nothing stays."""
    value = {
        "password": {"a": 1, "b": ["x", 2.5, b"y"], "c": None, "d": True, "e": "", "f": b""},
        "lr": 0.1,
        "layers": [{"apiKey": 7}, {"pad_token": "<pad>", "pad_token_id": 0}],
    }
    shown = {
        "password": {
            "a": "<secret>",
            "b": ["<secret>"] * 3,
            "c": None,
            "d": True,
            "e": "",
            "f": b"",
        },
        "lr": 0.1,
        "layers": [{"apiKey": "<secret>"}, {"pad_token": "<pad>", "pad_token_id": 0}],
    }
    assert shown == HIDDEN.plain(value)
    assert "<secret>" == HIDDEN.plain("x", "password")
    assert "x" == HIDDEN.plain("x", "name")


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--password", "x"], ["--password", "<secret>"]),
        (["--model.api_key", "x", "y"], ["--model.api_key", "<secret>", "y"]),
        (["-token", "x"], ["-token", "<secret>"]),
        (["--password=x", "y"], ["--password=<secret>", "y"]),
        (["--model.api_key=x", "y"], ["--model.api_key=<secret>", "y"]),
        (["-e", "HF_TOKEN=x"], ["-e", "HF_TOKEN=<secret>"]),
        (["--header", "Authorization: Bearer x"], ["--header", "Authorization: <secret>"]),
        (["--password", "--verbose", "x"], ["--password", "--verbose", "x"]),
        (["password", "x"], ["password", "x"]),
        (["--lr", "0.1", AWS], ["--lr", "0.1", "<secret>"]),
        (["--password", "<secret>"], ["--password", "<secret>"]),
    ],
)
def test_a_command_line(argv, shown):
    """What follows `--password` is secret, and only that."""
    assert shown == HIDDEN.plain(argv)


def test_keys_and_bytes_are_looked_through():
    """A secret is no key, and none in bytes; other bytes stay bytes."""
    assert {"<secret>": 1} == HIDDEN.plain({AWS: 1})
    assert [b"\xff\x00", "key <secret>\xff"] == HIDDEN.plain(
        [b"\xff\x00", b"key " + AWS.encode() + b"\xff"]
    )


# --- markers --------------------------------------------------------------------------------------


def test_a_secret_has_one_marker_per_salt():
    """Equal in every call and in every form of the value, and another one where the salt is."""
    again, other = Mask(b"a salt of tests"), Mask(b"another salt")
    assert re.fullmatch(MARKER, MASK.text(AWS))
    assert MASK.text(AWS) == again.text(AWS) == again.plain({"key": AWS})["key"]
    assert MASK.marker("7") == MASK.plain({"password": 7})["password"]
    assert MASK.marker(AWS) == MASK.plain(AWS.encode())
    assert MASK.text(AWS) != MASK.text("ASIA" + AWS[4:])
    assert MASK.text(AWS) != other.text(AWS)


@pytest.mark.parametrize("key", PLANTED)
def test_without_a_salt_a_marker_has_no_digest(key):
    """Nobody can try passwords against what is printed."""
    before, secret, after = PLANTED[key]
    assert not re.search(MARKER, HIDDEN.text(before + secret + after))
    assert "<secret>" == HIDDEN.marker(secret)


def test_a_marker_of_what_has_no_utf8():
    """A lone surrogate is no reason to fail."""
    assert re.fullmatch("password=" + MARKER, MASK.text("password=\ud800"))


glue = st.text(alphabet="ab1 \n\t'\"\\=:,;@/?&{}[]()<>-.\ud800é", max_size=12)
fragments = st.sampled_from(
    ["password=", "'token': '", '"api_key":"', "--secret ", "://", "Bearer ", "sig=", "<secret>"]
)
planted = st.sampled_from([*PLANTED.values()]).map("".join)
texts = st.lists(glue | fragments | planted, max_size=8).map("".join)


@given(texts)
@settings_of(max_examples=500, deadline=None)
def test_a_masked_text_stays_as_it_is(text):
    """Masked once more it is the same: an append may be repeated, and an event pass two doors."""
    masked = MASK.text(text)
    assert masked == MASK.text(masked)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner | st.just("--password"), max_size=4)
        | st.dictionaries(st.sampled_from(["lr", "password", "apiKey", AWS]) | texts, inner)
    ),
    max_leaves=8,
)


@given(values)
@settings_of(max_examples=200, deadline=None)
def test_a_masked_value_stays_as_it_is(value):
    """The same for values."""
    masked = MASK.plain(value)
    assert repr(masked) == repr(MASK.plain(masked))


@given(glue, st.sampled_from([*BY_FORM]), st.sampled_from([*BY_FORM]), glue)
@settings_of(max_examples=300, deadline=None)
def test_what_has_the_form_of_a_secret_is_hidden_wherever_it_is(before, one, other, after):
    """Whatever is around it, and however many there are."""
    text = "\n".join((before, *map("".join, (BY_FORM[one], BY_FORM[other])), after))
    masked = MASK.text(text)
    for key in (one, other):
        assert BY_FORM[key][1] not in masked


# --- cuts -----------------------------------------------------------------------------------------


def assert_not_cut(text: str, secret: str, length: int) -> None:
    """Neither end of a cut text has a part of the secret."""
    start = text.index(secret)
    begin, end = begin_of(text, length), end_of(text, length)
    assert text.startswith(begin)
    assert len(begin) <= length
    assert not start < len(begin) < start + len(secret)
    assert text.endswith(end)
    assert len(end) <= length
    assert not start < len(text) - len(end) < start + len(secret)


@pytest.mark.parametrize("key", PLANTED)
def test_no_cut_goes_through_a_secret(key):
    """At every length near it."""
    before, secret, after = PLANTED[key]
    text = f"some text\n{before}{secret}{after}\nmore of it"
    for length in range(len(text) + 2):
        assert_not_cut(text, secret, length)


@given(st.sampled_from([*PLANTED]), st.integers(0, 20_000), st.integers(0, 20_000), st.data())
@settings_of(max_examples=50, deadline=None)
def test_no_cut_of_a_long_text_goes_through_a_secret(key, left, right, data):
    """Wherever it is in a text, however long that is."""
    before, secret, after = PLANTED[key]
    line = "ab c\n"
    text = f"{line * (left // 5)}\n{before}{secret}{after}\n{line * (right // 5)}"
    start = text.index(secret)
    at = data.draw(st.integers(start - 2, start + len(secret) + 2))
    assert_not_cut(text, secret, max(0, at))
    assert_not_cut(text, secret, max(0, len(text) - at))


def test_a_cut_elsewhere_is_exact():
    """Without a secret there, it is the text's own beginning and end."""
    text = f"abc {AWS} xyz"
    assert ("abc", "xyz", "", "") == (
        begin_of(text, 3),
        end_of(text, 3),
        begin_of(text, 0),
        end_of(text, 0),
    )
    assert text == begin_of(text, 99) == end_of(text, 99)
    assert f"abc {AWS}" == begin_of(text, 24)


# --- texts made to be slow ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [
        "password='",
        'a="\\" ',
        "token=\\'",
        "://a:",
        "://" + "a" * 255 + ":",
        "-----BEGIN A ",
        "-----BEGIN PRIVATE" + " KEY-----",
        "bearer ",
        "--token ",
        "token,",
        "eyJaaaaaa.",
        "sk-",
        "a.",
        "\\",
        "secret   \n",
        "?sig=",
    ],
)
def test_texts_made_to_be_slow(part):
    """A text of nothing but beginnings is done with, and is no secret of ours afterwards."""
    text = part * (30_000 // len(part)) + "\n" + AWS
    masked = MASK.text(text)
    assert AWS not in masked
    assert masked == MASK.text(masked)


def quoted_lines() -> str:
    return "\n".join(["HUNTER" * 10] * 700)


@pytest.mark.parametrize(
    "secret",
    [
        "-----BEGIN RSA PRIVATE" + f" KEY-----\n{quoted_lines()}\n-----END RSA PRIVATE KEY-----",
        "secret=" + "HUNTER" * 9000,
        f'secret="{quoted_lines()}"',
    ],
    ids=["key", "plain", "quoted"],
)
@pytest.mark.parametrize("before", [0, 2000, 15_000])
def test_no_part_of_a_long_secret_is_left(secret, before):
    """Longer than what is kept of the text, wherever that is cut."""
    text = "x " * before + secret + " y" * before
    for length in (4000, 16_000):
        for kept in (begin_of(text, length), end_of(text, length)):
            assert "HUNTER" not in HIDDEN.text(kept)


def test_no_cut_goes_through_a_secret_of_a_run():
    """By a name that is secret there only."""
    names = Names(["pin"])
    text = "x " * 100 + "pin='4711471147114711'" + " y" * 100
    for length in range(190, 240):
        for kept in (begin_of(text, length, names), end_of(text, length, names)):
            assert "4711471147114711" in kept or "4711" not in kept


def test_a_text_does_not_grow_without_bound():
    """One of many small secrets is masked as a whole, so that there is room for it as before."""
    text = "pwd=a;" * 2700
    assert MASK.marker(text) == MASK.text(text)
    assert "pwd=" in MASK.text("pwd=a; pwd=b")


def test_numbers_of_metrics_are_spared():
    """A measurement is no secret, whatever it is named; a text among them is."""
    metrics = {"loss_per_token": [0.1, 0.2], "token": {"acc": 0.9, "text": "x1", "on": True}}
    masked = MASK.sparing_numbers().plain(metrics)
    assert [0.1, 0.2] == masked["loss_per_token"]
    assert {"acc": 0.9, "text": MASK.marker("x1"), "on": True} == masked["token"]
