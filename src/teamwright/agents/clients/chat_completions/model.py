"""The model of a server that offers chat completions, as a `Model` of pydantic-ai that needs no client library.

OpenAI's own client takes 0.6 s to import and most of the time of a turn: it builds a validated object for every chunk.
Here a request is one JSON document over HTTP, and a chunk is a dictionary.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import httpx2
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, check_allow_model_requests
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_core import to_json
from typing_extensions import override

from teamwright.agents.clients.chat_completions.errors import reading_errors, status_error
from teamwright.agents.clients.chat_completions.request import SYSTEM, request_body
from teamwright.agents.clients.chat_completions.response import ResponseOrigin, read_response
from teamwright.agents.clients.chat_completions.stream import ChatStream

PATH = "/chat/completions"
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
MOST_PREPARED = 64


class PreparedTemplate(NamedTuple):
    """What preparing a request gave; it depends on the parameters and on the settings without the output cap."""

    given: ModelRequestParameters
    given_settings: dict[str, object]
    settings: dict[str, Any]
    parameters: ModelRequestParameters


class ChatCompletionsModel(Model[httpx2.AsyncClient]):
    """A model on a server; `url` is the base URL, which may change between two requests."""

    def __init__(self, name: str, url: str, http: httpx2.AsyncClient, profile: ModelProfile) -> None:
        super().__init__(profile=profile)
        self._name, self._http = name, http
        self.url = url
        self.is_guided = False
        """Whether the server takes grammars of llguidance, besides JSON schemas."""
        self._prepared: dict[int, PreparedTemplate] = {}

    @property
    def http(self) -> httpx2.AsyncClient:
        """The connections to the server, which their opener closes."""
        return self._http

    @property
    @override
    def model_name(self) -> str:
        """The name of the model at its server."""
        return self._name

    @property
    @override
    def system(self) -> str:
        """The name of the provider."""
        return SYSTEM

    @property
    @override
    def base_url(self) -> str:
        """The base URL of the server."""
        return self.url

    @override
    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send a request and read the whole response."""
        settings, parameters = self._prepare(model_settings, model_request_parameters)
        response = await self._send(messages, settings, parameters, stream=False)
        return read_response(response.content, self._origin())

    @override
    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[ChatStream]:
        """Send a request and yield its response while it arrives."""
        settings, parameters = self._prepare(model_settings, model_request_parameters)
        response = await self._send(messages, settings, parameters, stream=True)
        try:
            yield ChatStream(parameters, response, self._origin())
        finally:
            await response.aclose()

    async def _send(
        self,
        messages: list[ModelMessage],
        settings: dict[str, Any],
        parameters: ModelRequestParameters,
        *,
        stream: bool,
    ) -> httpx2.Response:
        """Send a request; raise an error of pydantic-ai if the server can't be reached or refuses it."""
        check_allow_model_requests()
        body = request_body(
            self._name, messages, settings, parameters, self.profile, stream=stream, guided=self.is_guided
        )
        headers = {**HEADERS, **settings.get("extra_headers", {})}
        base, mark, query = self.url.partition("?")
        url = f"{base.rstrip('/')}{PATH}{mark}{query}"
        request = self._http.build_request("POST", url, content=to_json(body), headers=headers)
        with reading_errors(self._name):
            response = await self._http.send(request, stream=True)
            if stream and response.is_success:
                return response
            try:
                await response.aread()
            finally:
                await response.aclose()
        if not response.is_success:
            raise status_error(self._name, response)
        return response

    def _origin(self) -> ResponseOrigin:
        return ResponseOrigin(self._name, self.url)

    def _prepare(
        self, settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> tuple[dict[str, Any], ModelRequestParameters]:
        """Prepare a request as pydantic-ai does, once for all requests with the same offer: it takes 180 µs."""
        given = cast("dict[str, Any]", settings or {})
        cap = given.get("max_tokens")
        rest = {key: value for key, value in given.items() if key != "max_tokens"}
        last = self._prepared.get(id(parameters))
        if last is None or last.given is not parameters or last.given_settings != rest:
            prepared, customized = self.prepare_request(cast("ModelSettings", rest), parameters)
            last = PreparedTemplate(parameters, rest, cast("dict[str, Any]", dict(prepared or {})), customized)
            if len(self._prepared) >= MOST_PREPARED:
                self._prepared.clear()
            self._prepared[id(parameters)] = last
        return ({**last.settings, "max_tokens": cap} if cap is not None else last.settings), last.parameters
