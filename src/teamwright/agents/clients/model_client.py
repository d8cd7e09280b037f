"""Model clients: opens the pydantic-ai model for a name, a server or a local file. Imported at the first model call.

Clients must never retry by themselves: the engine does, so that retries are recorded and budgeted. A server that offers
chat completions needs no client library: OpenAI's own takes 0.6 s to import and most of the time of a turn. Here a
request is one JSON document over HTTP, and a chunk is a dictionary. What a model of a server supports is known by its
name: `vendor/model` names a family, as most open models are named.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple, cast
from warnings import filterwarnings

import httpx2
from pydantic_ai.exceptions import UsageExtractionFailedWarning, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, check_allow_model_requests, infer_model
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer, OpenAIModelProfile, openai_model_profile
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_core import to_json
from typing_extensions import override

from teamwright.agents.clients.chat_request import SYSTEM, request_body
from teamwright.agents.clients.chat_response import ResponseOrigin, read_response, reading_errors, status_error
from teamwright.agents.clients.chat_stream import ChatStream
from teamwright.agents.clients.http_transport import GuardedTransport, guarded_client
from teamwright.agents.clients.local_model import SLOTS, LocalModel
from teamwright.agents.clients.providers import (
    can_send_whole,
    can_stream,
    own_model_name,
    profile_of,
    provider_hint,
    unknown_provider,
)
from teamwright.errors import UsageError
from teamwright.values.limits import Pace
from teamwright.values.specs.models import ServerModel

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
        return self._name

    @property
    @override
    def system(self) -> str:
        return SYSTEM

    @property
    @override
    def base_url(self) -> str:
        return self.url

    @override
    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
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


LOCAL = "local"
HTTPX2 = re.compile(r"HTTPClient|httpx2")
"""Matches the annotation of a provider's parameter that accepts an httpx2 client, not only an httpx one."""
UNDECLARED = "nothing declares it; write provider:name, local or scripted:FILE, or declare it under 'models'"
KEY = re.compile(r"\b[A-Z][A-Z0-9_]*_(?:KEY|TOKEN)\b")
UNSTARTED_URL = "http://127.0.0.1:9/v1"
TEMPLATE_BYTES = 128
NO_KEY = "api-key-not-set"
"""The key for a server that needs none: some refuse a request without one."""
ONE_FOR_EACH_SLOT = Pace(max_parallel=SLOTS)


@dataclass(frozen=True, slots=True)
class ModelClient:
    """An open client of a model; await `ready` before a request.

    `hidden_bytes` is the size that its chat template adds to a prompt; `pace` is the rate limit of the model itself.
    """

    name: str
    model: Model
    native_output: bool = False
    hidden_bytes: int = 0
    local: LocalModel | None = None
    pace: Pace | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    refused_modes: set[str] = field(default_factory=set[str])
    """The modes of answers that the server has refused; what a run did is in its record."""
    output_caps: set[int] = field(default_factory=set[int])
    """The output cap to send in place of a larger one of the budget, if the server has refused one."""
    streams: bool = True
    sends_whole: bool = True
    """Whether the model can send a reply in pieces, and as a whole."""

    @property
    def retries(self) -> bool:
        """Whether the client repeats failed requests by itself, unless the settings of a request forbid it."""
        if isinstance(self.model, ChatCompletionsModel):
            return False
        own = getattr(self.model, "client", None)
        return getattr(own, "max_retries", None) != 0 and "max_retries" not in self.model.unsupported_settings

    @property
    def supports_tools(self) -> bool:
        return bool(profile_of(self.model).get("supports_tools", True))

    async def check(self) -> None:
        """Raise a `UsageError` if the model can't be used, without starting it or making a request."""
        if self.local is not None:
            await self.local.weights()

    async def ready(self) -> None:
        """Start the local model unless it is running; called within the effect, so that a replay starts nothing."""
        if self.local is not None and isinstance(self.model, ChatCompletionsModel):
            self.model.url = await self.local.url()
            self.model.is_guided = self.local.is_guided
            self.headers.update(_authorization(self.local.key))


@asynccontextmanager
async def open_client(spec: str | ServerModel) -> AsyncGenerator[ModelClient]:
    """Open the client of a model; on exit close it, with its connections and its local server."""
    # A server may report impossible usage, which then counts as none: that is nothing for the screen of a user.
    filterwarnings("ignore", category=UsageExtractionFailedWarning)
    if isinstance(spec, ServerModel):
        headers = _authorization(spec.api_key)
        async with (
            guarded_client(GuardedTransport(headers)) as http,
            _without_retries(_server_model(spec, http)) as model,
        ):
            yield ModelClient(spec.name, model, True)
    elif spec == LOCAL or spec.startswith(f"{LOCAL}:"):
        path, headers = spec.partition(":")[2] or None, _authorization(None)
        async with LocalModel(path) as local, guarded_client(GuardedTransport(headers)) as http:
            server = ServerModel(url=UNSTARTED_URL, name=LOCAL, max_tokens_field="max_tokens")
            async with _server_model(server, http) as model:
                yield ModelClient(spec, model, True, TEMPLATE_BYTES, local, ONE_FOR_EACH_SLOT, headers)
    else:
        async with guarded_client(GuardedTransport()) as http, _without_retries(_named_model(spec, http)) as model:
            yield ModelClient(spec, model)


@asynccontextmanager
async def open_own_client(model: Model) -> AsyncGenerator[ModelClient]:
    """Open the client of a model that the caller made; its provider closes what it has opened itself."""
    async with model:
        streams, whole = can_stream(model), can_send_whole(model)
        yield ModelClient(own_model_name(model), model, streams=streams, sends_whole=whole)


def _without_retries(model: Model) -> Model:
    """Let the client of a model never repeat a request: the engine does.

    The settings of a request could forbid it too, but then some libraries copy their client for each request.
    """
    client = getattr(model, "client", None)
    if isinstance(getattr(client, "max_retries", None), int):
        setattr(client, "max_retries", 0)  # noqa: B010 - providers have clients of different types
    return model


def _authorization(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key or NO_KEY}"}


def _server_model(spec: ServerModel, http: httpx2.AsyncClient) -> Model:
    """Return the model of a server. OpenAI's own models, behind a gateway, need the client that knows their rules."""
    profile = server_profile(spec)
    if not has_own_rules(profile):
        return ChatCompletionsModel(spec.name, spec.url, http, profile)
    from pydantic_ai.models.openai import OpenAIChatModel  # takes 0.7 s to import
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    key = spec.api_key or NO_KEY
    provider = OpenAICompatibleProvider(SYSTEM, base_url=spec.url, api_key=key, http_client=http, profile=profile)
    return OpenAIChatModel(spec.name, provider=provider)


def _named_model(name: str, http: httpx2.AsyncClient) -> Model:
    try:
        return infer_model(name, _provider_factory(http) if _is_known_provider(name) else infer_provider)
    except (ImportError, UserError, ValueError) as error:
        raise UsageError(f"The model {name!r} can't be used: {_reason(name, str(error))}") from error


def _is_known_provider(name: str) -> bool:
    try:
        infer_provider_class(name.partition(":")[0])
    except (ImportError, ValueError):
        return False
    return True


def _provider_factory(http: httpx2.AsyncClient) -> Callable[[str], Provider[Any]]:
    """Return a factory of providers that send their requests through this client, if they accept one."""

    def make(name: str) -> Provider[Any]:
        provider = None if name.startswith("gateway/") else infer_provider_class(name)
        parameter = inspect.signature(provider).parameters.get("http_client") if provider else None
        if provider is None or parameter is None or not HTTPX2.search(str(parameter.annotation)):
            return infer_provider(name)
        return provider(http_client=http)  # pyright: ignore[reportCallIssue]

    return make


def _reason(name: str, message: str) -> str:
    """Rephrase an error message of pydantic-ai for the author of a manifest."""
    if message.startswith("Unknown model"):
        provider = unknown_provider(name)
        return f"there is no provider {provider!r}; {provider_hint(provider)}" if provider else UNDECLARED
    if keys := dict.fromkeys(KEY.findall(message)):
        return f"set {' or '.join(keys)} in the environment"
    return message
