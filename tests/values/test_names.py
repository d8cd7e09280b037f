"""Names and addresses."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from teamwright.agents import ServerModel
from teamwright.errors import InvalidName, InvalidValue
from teamwright.people import Notify
from teamwright.values.names import check_name, is_web_address, plain_strategy_name, suggest_name


@pytest.mark.parametrize("name", ["a", "A-b_c.d", "0", "x" * 64])
def test_a_name_is_returned_as_it_is(name: str) -> None:
    assert check_name("agent", name) == name


@pytest.mark.parametrize("name", ["", " a", "a b", "-a", ".a", "x" * 65, "größe", "a\n", "a/b", "a\x00"])
def test_anything_else_is_refused_with_a_suggestion(name: str) -> None:
    with pytest.raises(InvalidName) as raised:
        check_name("agent", name)
    assert repr(raised.value.suggestion) in str(raised.value)


@given(st.text())
def test_every_suggestion_is_a_name(text: str) -> None:
    assert check_name("agent", suggest_name(text))


def test_strategies_may_be_spelt_with_either_dash() -> None:
    assert plain_strategy_name(" round-robin ") == plain_strategy_name("round_robin") == "round_robin"


@pytest.mark.parametrize(
    "text",
    [
        "http://localhost:1", "https://example.com/a?b=c", "${ADDRESS}", "http://${HOST}/v1", "http://${HOST}:${PORT}",
        "http://[::1]:8000/v1", "https://user:word@example.com", "https://bücher.example/v1",
    ],
)  # fmt: skip
def test_an_address_is_http_or_contains_a_variable(text: str) -> None:
    assert is_web_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "localhost:8000", "ftp://example.com", "http://", "http://a b", "http:///v1", "http://:80/v1",
        "http://host:99999", "http://host:0", "http://host:port/v1", "http://[::1/v1", "http://host/\x7f",
    ],
)  # fmt: skip
def test_anything_else_is_none(text: str) -> None:
    assert not is_web_address(text)


def test_servers_and_webhooks_refuse_anything_else_in_python() -> None:
    with pytest.raises(InvalidValue, match="ServerModel: url: 'localhost:8000' is not an http address"):
        ServerModel(url="localhost:8000", name="m")
    with pytest.raises(InvalidValue, match=r"Notify: webhook: is not an http address\.$"):
        Notify(webhook="hooks.example.com/s3cret")
