import pytest

from teamwright.agents import ServerModel
from teamwright.errors import InvalidValue
from teamwright.people import Notify
from teamwright.values.text.web_address import is_web_address


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
