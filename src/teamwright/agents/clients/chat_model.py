"""The model of a server that offers chat completions, as a `Model` of pydantic-ai that needs no client library.

OpenAI's own client takes 0.6 s to import and most of the time of a turn: it builds a validated object for every chunk.
Here a request is one JSON document over HTTP, and a chunk is a dictionary. What a model supports is known by its name:
`vendor/model` names a family, as most open models are named.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, NamedTuple, cast

import httpx2
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, check_allow_model_requests
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer, OpenAIModelProfile, openai_model_profile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_core import to_json
from typing_extensions import override

from teamwright.agents.clients.chat_request import SYSTEM, request_body
from teamwright.agents.clients.chat_response import ResponseOrigin, read_response, reading_errors, status_error
from teamwright.agents.clients.chat_stream import ChatStream
from teamwright.values.specs.manifest import ServerModel

FAMILIES = {
    "amazon": "amazon",
    "anthropic": "anthropic",
    "bedrock": "amazon",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "deepseek-ai": "deepseek",
    "google": "google",
    "meta": "meta",
    "meta-llama": "meta",
    "mistral": "mistral",
    "mistralai": "mistral",
    "moonshotai": "moonshotai",
    "qwen": "qwen",
    "x-ai": "grok",
}
"""The profile of pydantic-ai for each vendor in the name of a model."""
OWN_RULES = ("openai_supports_reasoning", "openai_chat_supports_web_search")
"""Marks of OpenAI's own models, whose requests have rules that differ from model to model."""


def server_profile(spec: ServerModel) -> OpenAIModelProfile:
    """Return what the model of a server supports, as far as its name tells."""
    usual = OpenAIModelProfile(json_schema_transformer=OpenAIJsonSchemaTransformer)
    declared = OpenAIModelProfile(
        openai_chat_supports_max_completion_tokens=spec.max_tokens_field == "max_completion_tokens",
        supports_json_schema_output=True,
    )
    return cast("OpenAIModelProfile", merge_profile(merge_profile(usual, _family_profile(spec.name)), declared))


def has_own_rules(profile: OpenAIModelProfile) -> bool:
    """Whether requests to a model follow rules that only pydantic-ai's client for OpenAI knows."""
    return any(profile.get(mark) for mark in OWN_RULES)


def _family_profile(name: str) -> ModelProfile:
    vendor, slash, model = name.partition("/")
    family = FAMILIES.get(vendor.lower()) if slash else None
    if family is None:
        return openai_model_profile(model if slash and vendor == "openai" else name)
    module = import_module(f"pydantic_ai.profiles.{family}")
    profile_of = cast("Callable[[str], ModelProfile | None]", getattr(module, f"{family}_model_profile"))
    profile = profile_of(model)
    if profile is None:
        return openai_model_profile(name)
    if family == "mistral" and not model.startswith("magistral"):  # they differ from others in the ids of calls alone
        return merge_profile(openai_model_profile(model), profile)
    return profile


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
