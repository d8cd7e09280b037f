"""Texts that look like secrets are masked, in whole texts, in data and in streams; plain words stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st
from pydantic import JsonValue

from teamwright.values.text import secrets
from teamwright.values.text.secrets import HIDDEN, MaskedStream, mask_text, mask_value
from tests.growth import assert_linear, assert_linear_calls

WEB_TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq2\nZm9vYmFy\n-----END RSA PRIVATE KEY-----"

# S-06
KEYS = [
    "sk-abcdefghijklmnop1234", "sk_live_abcdefgh12345678", "rk_test_abcdefgh12345678", "ghp_abcdefghijklmnopqrst1234",
    "github_pat_11ABCDEFG0abcdefghij_xyz", "glpat-abcdefghij-klmnop12", "AKIAABCDEFGHIJKLMNOP", "xoxb-1234567890-abc",
    "AIza" + "x" * 35, "hf_abcdefghijklmnopqrstuv", WEB_TOKEN, PEM, "SG.abcdefghijklmnop1234.abcdefghijklmnop1234",
    "whsec_abcdefghijklmnop1234", "tw_" + "aB3-_" * 8 + "xyz", "tws_" + "aB3-_" * 8 + "xyz",
]  # fmt: skip
IN_PLACE = [
    ("Authorization: Bearer abcdef0123456789xyz", "Authorization: Bearer [redacted]"),
    ("authorization: Bearer short1", "authorization: Bearer [redacted]"),
    ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted]"),
    ("curl -H 'Authorization: Token abc123'", "curl -H 'Authorization: Token [redacted]'"),
    ("authorization=dXNlcjpwYXNz", "authorization=[redacted]"),
    ("x-api-key: abc123", "x-api-key: [redacted]"),
    ("bearer abcdef0123456789xyz", "bearer [redacted]"),
    ("DB_PASS=hunter2", "DB_PASS=[redacted]"),
    ('export STRIPE_KEY="abcdefgh"', 'export STRIPE_KEY="[redacted]"'),
    ("GITHUB_TOKEN: abc-123", "GITHUB_TOKEN: [redacted]"),
    ("DATABASE_URL=postgres://u:p@db/x", "DATABASE_URL=[redacted]"),
    ('{"password": "hunter2"}', '{"password": "[redacted]"}'),
    ("run --api-key a1b2c3d4 --x", "run --api-key [redacted] --x"),
    ("run --db-password=hunter2", "run --db-password=[redacted]"),
    ("clientSecret: 'a1b2c3d4'", "clientSecret: '[redacted]'"),
    ("postgres://bob:hunter2@db/x", "postgres://bob:[redacted]@db/x"),
    ("postgres://bob:p@ss@db/x", "postgres://bob:[redacted]@db/x"),
    ("https://a1b2c3d4e5f6g7@host/", "https://[redacted]@host/"),
    ("https://h/p?token=abc&x=1", "https://h/p?token=[redacted]&x=1"),
    ("https://h/p?x=1&sig=abc#top", "https://h/p?x=1&sig=[redacted]#top"),
    ("https://h/p?X-Amz-Signature=0a1b", "https://h/p?X-Amz-Signature=[redacted]"),
    ("https://hooks.slack.com/services/T00/B00/xyz", "https://hooks.slack.com/services/[redacted]"),
]
PLAIN = [
    "ask-and-answer", "task-oriented", "the bearer of news", "risk-free", "key: value", "Upgrade postgres",
    "max_tokens=500", "total_tokens: 12345", "password: required", "API_KEY: required", "api_key: ${SHOP_KEY}",
    "https://user@host/path?page=2", "git@github.com:a/b.git", "author: Ann", "sort key=value", "token",
    "export OPENAI_API_KEY=…", "the secret: nobody knows", "t/round-1/writer#2", "tw_a_name_of_ours",
    "-----BEGIN CERTIFICATE-----",
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_keys_are_known_by_their_shape(key: str) -> None:
    assert mask_text(f"use {key}, please") == f"use {HIDDEN}, please"


@pytest.mark.parametrize(("text", "masked"), IN_PLACE)
def test_credentials_are_known_by_what_stands_before_them(text: str, masked: str) -> None:
    assert mask_text(f"so {text} then") == f"so {masked} then"


@pytest.mark.parametrize("text", PLAIN)
def test_plain_words_stay(text: str) -> None:
    assert mask_text(text) == text


def test_a_private_key_that_is_cut_off_is_masked_as_far_as_it_goes() -> None:
    begun = "-----BEGIN PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7bq2\n" * 3
    assert mask_text(f"a {begun}b") == f"a {HIDDEN}\nb"
    assert mask_text(f"{PEM} and {PEM}") == f"{HIDDEN} and {HIDDEN}"


@given(st.lists(st.sampled_from([*KEYS, *(one[0] for one in IN_PLACE), *PLAIN, " ", "=", ":", "\n"])).map("".join))
def test_what_is_masked_is_not_masked_again(text: str) -> None:
    once = mask_text(text)
    assert mask_text(once) == once


def test_data_is_masked_by_its_keys_and_its_texts() -> None:
    data: dict[str, JsonValue] = {
        "Authorization": "anything",
        "X-Api-Key": "abc",
        "accept": "text",
        "api_key": None,
        "password": "swordfish",
    }
    assert mask_value({"headers": [data], "key": "t/q", "api_key": "${SHOP_KEY}", "n": 5, KEYS[0]: KEYS[1]}) == {
        "headers": [
            {"Authorization": HIDDEN, "X-Api-Key": HIDDEN, "accept": "text", "api_key": None, "password": HIDDEN}
        ],
        "key": "t/q",
        "api_key": "${SHOP_KEY}",
        "n": 5,
        HIDDEN: HIDDEN,
    }


@pytest.mark.parametrize("text", [*(key for key in KEYS if key != PEM), *(one[0] for one in IN_PLACE), *PLAIN[:-1]])
def test_a_stream_shows_what_the_whole_text_would(text: str) -> None:
    whole = f"so {text} then"
    for at in range(len(whole) + 1):
        coming = MaskedStream()
        shown = coming.feed(whole[:at]) + coming.feed(whole[at:]) + coming.flush()
        assert shown == mask_text(whole)
    coming = MaskedStream()
    assert "".join(map(coming.feed, whole)) + coming.flush() == mask_text(whole)


def test_a_stream_shows_nothing_of_a_private_key() -> None:
    coming = MaskedStream()
    shown = "".join(map(coming.feed, f"before {PEM} after ")) + coming.flush()
    assert shown.startswith(f"before {HIDDEN}")
    assert shown.endswith(" after ")
    assert "MIIE" not in shown
    assert "Zm9v" not in shown


def test_words_wait_for_their_end_but_other_scripts_and_endless_words_do_not() -> None:
    coming = MaskedStream()
    assert [coming.feed(piece) for piece in ("Wor", "ds and", " mo")] == ["", "Words ", "and "]
    assert coming.flush() == "mo"
    assert coming.flush() == ""
    assert coming.feed("日本語") == "日本語"
    assert [coming.feed("x" * 3_000) for _ in range(3)] == [""] * 3
    assert coming.feed(" y") == "… "


# S-01
HOSTILE: dict[str, Callable[[int], str]] = {
    unit: lambda size, unit=unit: unit * (size // len(unit))
    for unit in (
        "x", " ", "-", "sk-", "sk-a ", "eyJ", "eyJaaaaaaaa.", "-eyJaaaaaaaa.aaaa", "eyJaaaaaaaa.aaaa.", "://", "://a:",
        "://a:b@", "?token", "?token=", "&a=", "a=", "key=", "API_KEY=", "API_KEY", "_", "A", "api-key: ", "bearer ",
        "bearer\t\t\t\t", "authorization", "authorization:", "authorization: bearer ", "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ", "-----BEGIN RSA ", "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n-----END ", "SG.", "語",
        "hooks.slack.com/services/", "\"'", "password='", "gl", "--api-key ", "--a ", "SG.aaaaaaaaaaaaaaaaaaaa.",
    )
}  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE)
def test_masking_takes_time_in_proportion_to_the_text(unit: str) -> None:
    assert_linear(mask_text, prepare=HOSTILE[unit], size=30_000)


@pytest.mark.parametrize("unit", ["x", " ", "sk-a ", "API_KEY=", "-----BEGIN ", "authorization: bearer ", "語", "a=1 "])
@pytest.mark.parametrize("length", [1, 5, 1_000_000])
def test_masking_a_stream_takes_time_in_proportion_to_it(unit: str, length: int) -> None:
    def pieces(size: int) -> list[str]:
        text = unit * (size // len(unit))
        return [text[at : at + length] for at in range(0, len(text), length)]

    def shown(given: list[str]) -> str:
        coming = MaskedStream()
        return "".join(map(coming.feed, given)) + coming.flush()

    assert_linear(shown, prepare=pieces, size=2_000 if length < 10 else 30_000)


def test_masking_data_takes_time_in_proportion_to_it() -> None:
    def data(size: int) -> list[JsonValue]:
        return [{"a": "b", f"k{one}": ["API_KEY=abcd"]} for one in range(size)]

    assert_linear_calls(mask_value, prepare=data)


def test_every_name_of_a_secret_contains_a_sign_for_which_texts_are_searched() -> None:
    words = {*secrets._SECRET_WORDS, *secrets._SECRET_ENDINGS, *secrets._ADDRESSES}
    assert [word for word in words if not any(sign in word for sign in secrets._NAME_SIGNS)] == []
    assert any(sign in "tokens" for sign in secrets._NAME_SIGNS)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("after", ["\nand more ----- text", "", " of it, ended", "\n"])
def test_the_last_line_of_a_streamed_private_key_is_hidden_with_it(size: int, after: str) -> None:
    text = f"It is\n-----BEGIN RSA PRIVATE KEY-----\n{'MIIE ' * 20}\n-----END RSA PRIVATE KEY-----{after}"
    stream = MaskedStream()
    shown = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.flush()
    assert shown == f"It is\n{HIDDEN}{after}" == mask_text(text)
