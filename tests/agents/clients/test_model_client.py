from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator

import httpx2
import pytest
from pydantic_ai.messages import InstructionPart
from pydantic_ai.models import ModelRequestParameters, override_allow_model_requests
from typing_extensions import override

from teamwright.agents.clients.model_client import MOST_PREPARED, ChatCompletionsModel, server_profile
from teamwright.testing.model_server import ModelServer
from teamwright.values.specs.models import ServerModel
from tests.agents.clients.both_chat_clients import HELLO, PLAIN, Pieces, answer, body, chunk

HI = answer(body({"content": "Hi."}))


def made(http: httpx2.AsyncClient, url: str = "http://server.example/v1") -> ChatCompletionsModel:
    spec = ServerModel(url=url, name="tiny")
    return ChatCompletionsModel("tiny", url, http, server_profile(spec))


def client(*seen: list[httpx2.Request]) -> httpx2.AsyncClient:
    def handle(request: httpx2.Request) -> httpx2.Response:
        for one in seen:
            one.append(request)
        return HI()

    return httpx2.AsyncClient(transport=httpx2.MockTransport(handle))


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://server.example", "http://server.example/chat/completions"),
        ("http://server.example/v1?version=7", "http://server.example/v1/chat/completions?version=7"),
        ("http://server.example/v1/?a=b/c?d", "http://server.example/v1/chat/completions?a=b/c?d"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1/chat/completions"),
    ],
)
async def test_a_base_url_may_have_any_form(url: str, endpoint: str) -> None:
    seen: list[httpx2.Request] = []
    async with client(seen) as http:
        await made(http, url).request(HELLO, None, PLAIN)
    assert str(seen[0].url) == endpoint


@pytest.mark.parametrize("url", ["http://server.example/v1", "http://server.example/v1/"])
async def test_requests_go_to_the_chat_completions_of_the_server(url: str) -> None:
    seen: list[httpx2.Request] = []
    async with client(seen) as http:
        model = made(http, url)
        await model.request(HELLO, None, PLAIN)
        model.url = "http://other.example/api"
        await model.request(HELLO, {"extra_headers": {"x-tenant": "7"}}, PLAIN)
    assert [str(one.url) for one in seen] == [
        "http://server.example/v1/chat/completions",
        "http://other.example/api/chat/completions",
    ]
    assert seen[1].headers["x-tenant"] == "7"


async def test_an_offer_is_prepared_once_for_all_output_caps(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[object] = []
    async with client() as http:
        model = made(http)
        usual = model.prepare_request
        monkeypatch.setattr(model, "prepare_request", lambda *given: (prepared.append(given), usual(*given))[1])
        offer = ModelRequestParameters(instruction_parts=[InstructionPart(content="Be short.")])
        for cap in (10, 20, None):
            await model.request(HELLO, {"seed": 1} | ({"max_tokens": cap} if cap else {}), offer)  # pyright: ignore[reportArgumentType]
        assert len(prepared) == 1
        await model.request(HELLO, {"seed": 2}, offer)
        await model.request(HELLO, {"seed": 2}, ModelRequestParameters())
        assert len(prepared) == 3


async def test_what_was_prepared_does_not_grow_without_bound() -> None:
    async with client() as http:
        model = made(http)
        offers = [ModelRequestParameters() for _ in range(3 * MOST_PREPARED)]
        for offer in offers:
            await model.request(HELLO, None, offer)
        assert len(model._prepared) <= MOST_PREPARED


class Endless(httpx2.AsyncByteStream):
    """A body without an end, which says when it is closed."""

    closed = False

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield chunk({"content": "and "})

    @override
    async def aclose(self) -> None:
        self.closed = True


async def test_a_stream_that_is_left_is_closed() -> None:
    stream = Endless()
    headers = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, stream=stream))
    async with httpx2.AsyncClient(transport=transport) as http:
        async with made(http).request_stream(HELLO, None, PLAIN) as arriving:
            async for _ in arriving:
                await arriving.cancel()
                break
        assert stream.closed


async def test_a_response_that_is_an_error_is_closed_too() -> None:
    body = Pieces([b"no"])
    closed: list[bool] = []
    body.aclose = lambda: _note(closed)  # pyright: ignore[reportAttributeAccessIssue]
    transport = httpx2.MockTransport(lambda _: httpx2.Response(500, stream=body))
    async with httpx2.AsyncClient(transport=transport) as http:
        with pytest.raises(Exception, match="500"):
            async with made(http).request_stream(HELLO, None, PLAIN):
                pass
    assert closed


async def _note(closed: list[bool]) -> None:
    closed.append(True)


async def test_requests_can_be_forbidden_in_tests() -> None:
    async with client() as http:
        with override_allow_model_requests(False), pytest.raises(RuntimeError, match="not allowed"):
            await made(http).request(HELLO, None, PLAIN)


def test_the_first_call_of_a_server_model_imports_no_client_of_openai() -> None:
    program = """
import sys
from teamwright import ModelAgent, Team, run_sync
from teamwright.agents import ServerModel
team = Team("t", members=[ModelAgent("a", model=ServerModel(url=sys.argv[1], name="tiny"))])
result = run_sync(team, "Hello.")
assert result.status == "completed", result
sys.exit("openai" in sys.modules)
"""
    with ModelServer() as server:
        assert subprocess.run([sys.executable, "-c", program, server.url], check=False).returncode == 0
