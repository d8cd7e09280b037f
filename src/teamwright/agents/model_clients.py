"""Clients: the pydantic-ai model behind a name, a server or a local file. Imported at the first model call.

Clients never retry by themselves; the engine does, where it can be seen and paid for.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from teamwright.agents.local import SLOTS, LocalModel
from teamwright.errors import UsageError
from teamwright.values.limits import Pace
from teamwright.values.specs import ServerModel

LOCAL = "local"
KEY = re.compile(r"\b[A-Z][A-Z0-9_]*_(?:KEY|TOKEN)\b")
FORMS = "write provider:name, local or scripted:FILE, or declare it under 'models'"
NOT_STARTED = "http://127.0.0.1:9/v1"
TEMPLATE_BYTES = 128
ONE_FOR_EACH_SLOT = Pace(concurrency=SLOTS)


@dataclass(frozen=True, slots=True)
class ModelClient:
    """A model that is ready to be asked, once `ready` has been awaited.

    `hidden_bytes` is what its chat template adds to a prompt unseen; `pace` is how fast it takes requests by itself.
    """

    name: str
    model: Model
    native_output: bool = False
    hidden_bytes: int = 0
    local: LocalModel | None = None
    provider: OpenAICompatibleProvider | None = None
    pace: Pace | None = None

    @property
    def takes_tools(self) -> bool:
        """Whether the model can be offered tools at all."""
        return bool(self.model.profile.get("supports_tools", True))

    async def check(self) -> None:
        """Raise a `UsageError` if it can't be used, without starting or asking anything."""
        if self.local is not None:
            await self.local.weights()

    async def ready(self) -> None:
        """Start the local model unless it runs; part of the call, so that a replay starts nothing."""
        if self.local is not None and self.provider is not None:
            self.provider.client.base_url = await self.local.url()


@asynccontextmanager
async def open_client(spec: str | ServerModel) -> AsyncGenerator[ModelClient]:
    """Open the client of a model and close it at the end, with its connections and its local server."""
    if isinstance(spec, ServerModel):
        provider, model = _server(spec)
        async with model:
            yield ModelClient(spec.name, model, True, provider=provider)
    elif spec == LOCAL or spec.startswith(f"{LOCAL}:"):
        path = spec.partition(":")[2] or None
        provider, model = _server(ServerModel(url=NOT_STARTED, name=LOCAL, max_tokens_field="max_tokens"))
        async with LocalModel(path) as local, model:
            yield ModelClient(spec, model, True, TEMPLATE_BYTES, local, provider, ONE_FOR_EACH_SLOT)
    else:
        async with _named(spec) as model:
            yield ModelClient(spec, model)


def _server(spec: ServerModel) -> tuple[OpenAICompatibleProvider, OpenAIChatModel]:
    profile = OpenAIModelProfile(
        openai_chat_supports_max_completion_tokens=spec.max_tokens_field == "max_completion_tokens",
        supports_json_schema_output=True,
    )
    provider = OpenAICompatibleProvider("server", base_url=spec.url, api_key=spec.api_key, profile=profile)
    return provider, OpenAIChatModel(spec.name, provider=provider)


def _named(name: str) -> Model:
    try:
        return infer_model(name)
    except (ImportError, UserError, ValueError) as error:
        raise UsageError(f"The model {name!r} can't be used: {_reason(name, str(error))}") from error


def _reason(name: str, told: str) -> str:
    """What pydantic-ai objects to, in words for whoever writes manifests rather than its classes."""
    if told.startswith("Unknown model"):
        provider, colon, _ = name.partition(":")
        what = f"the provider {provider!r} is not known" if colon else "nothing declares it"
        return f"{what}; {told.partition('. ')[2] or FORMS}"
    if keys := dict.fromkeys(KEY.findall(told)):
        return f"set {' or '.join(keys)} in the environment"
    return told
