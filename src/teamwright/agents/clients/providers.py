"""The providers of models by name, so that a misspelt one is refused where it is written.

pydantic-ai, which knows them too, takes seconds to import and must not be imported here.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from teamwright.errors import nearest

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
