"""What a model on a server supports, by its name: `vendor/model` names a family, as most open models are named."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer, OpenAIModelProfile, openai_model_profile

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
