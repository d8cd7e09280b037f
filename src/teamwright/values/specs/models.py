"""Declared models: by name or behind a server, with rate limits, price and settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from teamwright.values.limits import Pace
from teamwright.values.names import is_web_address
from teamwright.values.usage_and_prices import Price

if TYPE_CHECKING:
    from teamwright.values.specs.model_settings import ModelSettings

OutputChoice = Literal["auto", "native", "tool", "prompt"]
"""How a model gives an answer that has a schema; `auto` is the first way that its server takes."""
PrescribedMode = Literal["native", "tool", "prompt"]


def _checked(settings: object) -> ModelSettings:
    from teamwright.values.specs.model_settings import validated

    return validated(settings)


if TYPE_CHECKING:
    CheckedSettings = ModelSettings
else:
    CheckedSettings = Annotated[
        dict, PlainValidator(_checked), WithJsonSchema({"type": "object"}), PlainSerializer(dict)
    ]
    """The type of a field for settings, which builds their validator and their schema only where some are given."""


SETTINGS = "settings of its requests, as pydantic-ai spells them: top_p, seed, thinking, openai_reasoning_effort …"
OUTPUT_MODE = (
    "how a model gives an answer that has a schema: native (the provider's JSON mode), tool, prompt, or auto,"
    " which takes the next one where a server refuses one"
)

TokenizerName = Literal["o200k_base", "cl100k_base"]
"""The tokenizers that are known offline."""


class DeclaredModel(Pace):
    """What is declared of any model: rate limits, price, settings, and what its provider does not say."""

    price: Price | None = Field(
        default=None, description="US dollars per million tokens; the public price of the model by default"
    )
    settings: CheckedSettings | None = Field(default=None, description=SETTINGS)
    output_mode: OutputChoice | None = Field(default=None, description=OUTPUT_MODE)
    context: int | None = Field(
        default=None, ge=1, description="tokens of its context window, for `compact`; the published number by default"
    )
    tokenizer: TokenizerName | Annotated[float, Field(ge=1, le=16)] | None = Field(
        default=None,
        description="how prompts are counted under a limit: by this tokenizer (extra `tokens`), or by so many UTF-8"
        " bytes a token; by default known from its name",
    )


class NamedModel(DeclaredModel):
    """A model by name."""

    model: str = Field(description="provider:name, local, local:FILE or scripted:FILE")


class ServerModel(DeclaredModel):
    """A model behind an OpenAI-compatible server."""

    url: str = Field(description="base URL, for example http://localhost:8000/v1")
    name: str = Field(description="the model's name at that server")
    api_key: str | None = Field(default=None, description="${NAME} reads the environment")
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = Field(
        default="max_completion_tokens", description="the name of the output cap at the server"
    )

    def mistakes(self) -> Iterable[str]:
        return () if is_web_address(self.url) else (f"url: {self.url!r} is not an http address",)


CacheMode = Literal["auto", "off"]
"""Whether requests ask their provider to cache prompts, where it has to be asked."""

AnyModel = str | NamedModel | ServerModel


def model_key(model: AnyModel) -> str:
    """Return the identity of a model: all ways to declare it share its rate limits."""
    match model:
        case str():
            return model
        case NamedModel():
            return model.model
        case ServerModel():
            return f"{model.name} at {model.url}"
