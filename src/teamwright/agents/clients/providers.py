"""The models that agents name or bring: providers by name, the extras that they need, and models that a caller made.

pydantic-ai takes seconds to import, so nothing here imports it: who has an instance of its `Model` has done so. The
caller owns the client of such a model.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard, cast

from teamwright.errors import MissingExtra, UsageError, nearest
from teamwright.values.specs.models import AnyModel, NamedModel, ServerModel, model_key
from teamwright.values.text.secrets import is_secret

if TYPE_CHECKING:
    from pydantic_ai.models import Model as OwnModel
    from pydantic_ai.profiles import ModelProfile

EXTRAS = {
    "local": "xllamacpp",
    "anthropic": "anthropic",
    "azure": "openai",
    "bedrock": "boto3",
    "google": "google.genai",
    "groq": "groq",
    "mistral": "mistralai",
    "ollama": "openai",
    "openai": "openai",
}
"""The module that each provider needs; its extra has the provider's name, and `openai` is part of `models`."""


def missing_extra(model: AnyModel) -> MissingExtra | None:
    """Return an error that names the extra that a model needs, if it is not installed; imports nothing."""
    name = model_key(model)
    provider = "openai" if isinstance(model, ServerModel) else name.partition(":")[0]
    family = provider.partition("-")[0]
    for module in ("pydantic_ai", EXTRAS.get(family)):
        if module is not None and not _importable(module):
            extra = family if family in EXTRAS and family != "openai" else "models"
            return MissingExtra(extra, f"The model {name!r}")
    return None


def _importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


MODEL = re.compile(r"local|(?:local|scripted):\S.*|(?:gateway/)?[a-z][a-z0-9_.-]*:\S+")
"""Matches a model by name. The provider, before the colon, is checked by itself."""


OWN = ("local", "scripted")


TEST_MODEL = "test"
"""pydantic-ai's model for tests, the only one of its models that has no provider."""


_NAMES = """
    alibaba anthropic azure azure-responses bedrock bedrock-mantle cerebras cohere crusoe deepseek fireworks github
    github-copilot google google-cloud groq heroku huggingface litellm meta mistral moonshotai nebius ollama openai
    openai-chat openai-chatgpt openai-codex openai-decisions openai-responses openrouter ovhcloud sambanova snowflake
    system-one together typesafe vercel vllm xai zai
"""


_GATEWAY_NAMES = """
    anthropic bedrock chat converse google google-cloud groq openai openai-chat openai-responses responses
"""


PROVIDERS = frozenset(_NAMES.split())


WITHOUT_MODELS = frozenset(("elevenlabs", "gateway", "openai-compatible", "sentence-transformers", "voyageai"))
"""Modules among pydantic-ai's providers that serve no language models by name."""


GATEWAY = "gateway/"


GATEWAY_PROVIDERS = frozenset(_GATEWAY_NAMES.split())
"""What may follow `gateway/`, the prefix for models that pydantic's gateway serves."""


def unknown_provider(model: str) -> str | None:
    """Return the provider of `provider:name` if there is none of this name; `None` for any other text."""
    provider, colon, _ = model.partition(":")
    if not colon or provider in OWN or provider in PROVIDERS:
        return None
    known = provider.startswith(GATEWAY) and provider.removeprefix(GATEWAY) in GATEWAY_PROVIDERS
    return None if known or _is_installed(provider) else provider


def undeclared_reason(model: str) -> str | None:
    """Return why a name is no model by itself, with a suggestion; `None` if it is one."""
    if MODEL.fullmatch(model) or model == TEST_MODEL:
        return None
    provider = model.removesuffix(":")
    if provider in PROVIDERS:
        return f"{model!r} is a provider without a model; write  {provider}:NAME"
    return f"{model!r} is not a model; write provider:name, local or local:FILE"


def provider_hint(provider: str) -> str:
    """Return the end of a sentence that suggests the nearest providers, or lists all of them."""
    known = GATEWAY_PROVIDERS if provider.startswith(GATEWAY) else PROVIDERS
    prefix = GATEWAY if provider.startswith(GATEWAY) else ""
    names = [f"{prefix}{one}:" for one in (*sorted(known), *(() if prefix else OWN))]
    return nearest(f"{provider}:", names, f"known are {', '.join(names)}").removesuffix(".")


@cache
def _is_installed(provider: str) -> bool:
    """Whether the installed pydantic-ai, which may be newer than this table, has a provider of this name."""
    if provider in WITHOUT_MODELS or provider.startswith("_"):
        return False
    found = find_spec("pydantic_ai")
    folders = found.submodule_search_locations if found else None
    file = f"{provider.replace('-', '_')}.py"
    return any((Path(folder) / "providers" / file).is_file() for folder in folders or ())


SUPPORT = {"supports_tools": True, "supports_json_object_output": False, "supports_json_schema_output": False}
"""What a model may support, and whether it does if its profile does not say."""


CLIENT_KEYS = (
    "api_key",  # OpenAI, Anthropic, Groq
    "auth_token",  # Anthropic
    "_azure_ad_token",  # Azure
    "_api_client.api_key",  # Google
    "_api_client._credentials.token",
    "sdk_configuration.security.api_key",  # Mistral
    "_request_signer._credentials.secret_key",  # Bedrock
    "_request_signer._credentials.token",
    "_request_signer._credentials._secret_key",  # of credentials that are refreshed
    "_request_signer._credentials._token",
    "_request_signer._auth_token.token",
    "_client_wrapper._token",  # Cohere
    "token",  # Hugging Face
)
"""Where the clients of providers keep their keys."""


def is_own_model(value: object) -> TypeGuard[OwnModel]:
    """Whether a value is an instance of pydantic-ai's `Model`."""
    module = sys.modules.get("pydantic_ai.models")
    return module is not None and isinstance(value, module.Model)


def check_model(agent: str, model: object) -> AnyModel:
    """Return the model of an agent as a declaration; one of the caller's own is named by its provider and name.

    The name is the identity of the model in records, rate limits and prices. Raises `UsageError` for anything else.
    """
    if isinstance(model, (str, NamedModel, ServerModel)) and model:
        check_provider(agent, model)
        return model
    if is_own_model(model):
        return own_model_name(model)
    if not model:
        raise UsageError(f"The agent {agent!r} needs a model, for example 'openai:gpt-5-mini' or 'local'.")
    raise UsageError(
        f"The model of the agent {agent!r} must be 'provider:name', a NamedModel, a ServerModel or a model of"
        f" pydantic-ai, not {model!r}."
    )


def check_provider(agent: str, model: AnyModel | None) -> None:
    """Raise `UsageError` with a suggestion if there is no provider of this name.

    A name without one passes: a manifest may leave its model to a cluster. A run with it is refused before it starts:
    by `Team.check_start` if the team was made in Python, and by the preflight of the command line.
    """
    name = model.model if isinstance(model, NamedModel) else model
    if isinstance(name, str) and (provider := unknown_provider(name)):
        text = f"there is no provider {provider!r} for the model {name!r}; {provider_hint(provider)}"
        raise UsageError(f"The agent {agent!r}: {text}.".replace("?.", "?"))


def own_model_name(model: OwnModel) -> str:
    """Return `provider:name` of a model, which is the same in every process."""
    name = model.model_name
    if _alternatives(model):
        return name
    return name.strip(":") if name.startswith(f"{model.system}:") else f"{model.system}:{name}"


def profile_of(model: OwnModel) -> ModelProfile:
    """Return what a model supports; of one that tries several others in turn, what all of them support."""
    alternatives = _alternatives(model)
    if not alternatives:
        return model.profile
    profiles = [profile_of(one) for one in alternatives]
    common = {name: all(bool(one.get(name, usual)) for one in profiles) for name, usual in SUPPORT.items()}
    return cast("ModelProfile", {**profiles[0], **common})


def can_stream(model: OwnModel) -> bool:
    """Whether the model can send a reply in pieces."""
    if alternatives := _alternatives(model):
        return all(map(can_stream, alternatives))
    model = _unwrapped(model)
    if "stream_function" in vars(model):  # a FunctionModel
        return getattr(model, "stream_function") is not None  # noqa: B009
    inherited = sys.modules["pydantic_ai.models"].Model.request_stream
    return type(model).request_stream is not inherited


def can_send_whole(model: OwnModel) -> bool:
    """Whether the model can send a reply as a whole."""
    if alternatives := _alternatives(model):
        return all(map(can_send_whole, alternatives))
    model = _unwrapped(model)
    return "stream_function" not in vars(model) or getattr(model, "function") is not None  # noqa: B009


def own_secrets(model: OwnModel) -> Iterator[str]:
    """Yield the key of a model's client and the secrets among the headers that it sends.

    A client that keeps its key elsewhere is not known here.
    """
    for one in _alternatives(model) or (_unwrapped(model),):
        if one is not model:
            yield from own_secrets(one)
    client: object = getattr(model, "client", None)
    keys = [reduce(_attribute, path.split("."), client) for path in CLIENT_KEYS]
    settings = cast("Mapping[str, object]", model.settings or {})
    for sent in (settings.get("extra_headers"), _attribute(client, "_custom_headers")):
        headers = cast("Mapping[str, object]", sent or {})
        keys += [value for name, value in headers.items() if is_secret("extra_headers", name)]
    yield from (key for key in keys if isinstance(key, str) and key.strip())


def _attribute(thing: object, name: str) -> object:
    """Return an attribute of an object or a tuple without calling a property, which might fetch new credentials."""
    return vars(thing).get(name) if hasattr(thing, "__dict__") else getattr(thing, name, None)


def _alternatives(model: OwnModel) -> Sequence[OwnModel]:
    """Return the models that a `FallbackModel` tries in turn; nothing for any other model."""
    found = vars(_unwrapped(model)).get("models")
    return cast("list[OwnModel]", found) if isinstance(found, list) else ()


def _unwrapped(model: OwnModel) -> OwnModel:
    while is_own_model(inner := vars(model).get("wrapped")):
        model = inner
    return model
