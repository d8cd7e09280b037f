"""The same server, asked by our client and by OpenAI's: what each sends, and what each makes of the answer."""

from __future__ import annotations

import json
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

import anyio.lowlevel
import httpx2
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings
from typing_extensions import override

from teamwright.agents.clients.model_client import ChatCompletionsModel, server_profile
from teamwright.values.specs.models import ServerModel

URL = "http://server.example/v1/"
HELLO: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("Hello.")])]
PLAIN = ModelRequestParameters()
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
Json = dict[str, Any]


class Pieces(httpx2.AsyncByteStream):
    """A body that arrives in these pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


@dataclass(frozen=True)
class Exchange:
    """What a client sent, and the response or the error that it gave back."""

    sent: Json
    response: ModelResponse | None = None
    error: Exception | None = None
    events: tuple[object, ...] = ()

    @property
    def parts(self) -> list[Any]:
        assert self.response is not None, self.error
        return list(self.response.parts)


def body(message: Json, finish: str | None = "stop", **more: Any) -> Json:
    """The body of a response with this message."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    frame = {"id": "r-1", "object": "chat.completion", "created": 1_790_000_000, "model": "tiny-1"}
    usage = {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}
    return {**frame, "choices": [choice], "usage": usage, **more}


def chunk(delta: Json | None, finish: str | None = None, **more: Any) -> bytes:
    """One event of a stream."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    frame = {"id": "r-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "tiny-1"}
    return b"data: " + json.dumps({**frame, "choices": choices, **more}).encode() + b"\n\n"


def answer(value: Json | bytes | str, status: int = 200, **headers: str) -> Callable[[], httpx2.Response]:
    """Return what a server answers at once."""
    content = value.encode() if isinstance(value, str) else value
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    sent = {"content-type": "application/json", **headers}
    return lambda: httpx2.Response(status, headers=sent, stream=Pieces([content]))


def stream(*pieces: bytes) -> Callable[[], httpx2.Response]:
    """Return a stream of these pieces."""
    return lambda: httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Pieces(pieces))


async def ours(
    server: Callable[[], httpx2.Response],
    messages: list[ModelMessage] = HELLO,
    settings: Json | None = None,
    parameters: ModelRequestParameters = PLAIN,
    *,
    streams: bool = False,
    name: str = "tiny",
) -> Exchange:
    """Ask with our client."""
    return await _ask(_our_model, server, messages, settings, parameters, streams, name)


async def both(
    server: Callable[[], httpx2.Response],
    messages: list[ModelMessage] = HELLO,
    settings: Json | None = None,
    parameters: ModelRequestParameters = PLAIN,
    *,
    streams: bool = False,
    name: str = "tiny",
) -> tuple[Exchange, Exchange]:
    """Ask with our client and with OpenAI's."""
    mine = await _ask(_our_model, server, messages, settings, parameters, streams, name)
    return mine, await _ask(_their_model, server, messages, settings, parameters, streams, name)


def _our_model(spec: ServerModel, http: httpx2.AsyncClient) -> Model:
    return ChatCompletionsModel(spec.name, spec.url, http, server_profile(spec))


def _their_model(spec: ServerModel, http: httpx2.AsyncClient) -> Model:
    provider = OpenAICompatibleProvider(
        "server", base_url=spec.url, api_key="none", http_client=http, profile=server_profile(spec)
    )
    provider.client.max_retries = 0
    return OpenAIChatModel(spec.name, provider=provider)


async def _ask(
    make: Callable[[ServerModel, httpx2.AsyncClient], Model],
    server: Callable[[], httpx2.Response],
    messages: list[ModelMessage],
    settings: Json | None,
    parameters: ModelRequestParameters,
    streams: bool,
    name: str,
) -> Exchange:
    sent: list[Json] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        return server()

    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(transport=httpx2.MockTransport(handle)))
        model = await stack.enter_async_context(make(ServerModel(url=URL, name=name), http))
        events: list[object] = []
        given = cast("ModelSettings", settings or {})
        try:
            if streams:
                async with model.request_stream(messages, given, parameters) as arriving:
                    events += [event async for event in arriving]
                    response = arriving.get()
            else:
                response = await model.request(messages, given, parameters)
        except Exception as error:  # noqa: BLE001 - an error is an outcome here
            await _let_go(error)
            return Exchange(_plain(sent), error=error, events=tuple(events))
    return Exchange(_plain(sent), replace(response, timestamp=WHEN), events=tuple(events))


async def _let_go(error: BaseException) -> None:
    """Let generators be closed that OpenAI's client left behind: the frames of an error keep them."""
    cause: BaseException | None = error
    while cause is not None:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__cause__ or cause.__context__
    for _ in range(10):  # one by one
        await anyio.lowlevel.checkpoint()


def _plain(sent: list[Json]) -> Json:
    """What was sent, without the statement that a whole response is wanted, which is the default."""
    if not sent:
        return {}
    (one,) = sent
    return {key: value for key, value in one.items() if (key, value) != ("stream", False)}
