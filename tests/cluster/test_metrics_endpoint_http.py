"""The HTTP endpoint of a worker takes requests from strangers."""

from __future__ import annotations

import anyio
import pytest

from teamwright.cli.terminal.options import parse_address
from teamwright.cluster.metrics_endpoint import Page, serving
from teamwright.errors import UsageError


@pytest.mark.parametrize(
    ("place", "parsed"), [("9100", ("127.0.0.1", 9100)), ("0.0.0.0:80", ("0.0.0.0", 80)), ("[::1]:1", ("::1", 1))]
)
def test_a_place_is_a_port_with_or_without_a_host(place: str, parsed: tuple[str, int]) -> None:
    assert parse_address(place) == parsed


@pytest.mark.parametrize("place", ["", "x", "70000", "host:", "1:x"])
def test_a_place_that_is_none_is_refused_in_words(place: str) -> None:
    with pytest.raises(UsageError, match="write a port such as 9100"):
        parse_address(place)


@pytest.mark.parametrize("request_", [b"\r\n\r\n", b"GET\r\n\r\n", b"\xff\xfe / HTTP/1.1\r\n\r\n", b"A" * 40_000])
async def test_what_is_no_request_is_refused_and_the_next_one_served(request_: bytes) -> None:
    async def page() -> Page:
        return Page("ok\n")

    async with serving("0", {"/": page}) as address:
        port = int(address.rpartition(":")[2])
        assert not (await _exchange(port, request_)).startswith(b"HTTP/1.1 200")
        assert (await _exchange(port, b"GET / HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\nok\n")
        assert (await _exchange(port, b"HEAD / HTTP/1.1\r\n\r\n")).endswith(b"Connection: close\r\n\r\n")


async def _exchange(port: int, request: bytes) -> bytes:
    answer = b""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        try:
            await stream.send(request)
            while True:
                answer += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return answer
