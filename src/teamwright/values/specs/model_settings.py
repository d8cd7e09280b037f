"""The settings of requests to models, as pydantic-ai's `ModelSettings` and its providers spell them.

They are listed here so that a manifest is checked without importing pydantic-ai; a test compares the list to the
installed version. A model ignores the settings of other providers.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, cast

from pydantic import ConfigDict, Field, JsonValue, ValidationError, with_config
from typing_extensions import TypedDict

from teamwright.errors import UsageError, nearest
from teamwright.values.text.validation_messages import misfits_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

INSTEAD = {
    "timeout": "set 'timeout' of the agent",
    "request_timeout": "set 'timeout' of the agent",
    "first_event_timeout": "set 'timeout' of the agent",
    "max_retries": "set 'retry' of the agent; requests are retried by the engine",
    "openai_background": "a request is one call, and the record can't continue one in the background",
    "openai_transport": "requests are sent over HTTP",
    "stop": "write stop_sequences",
    "effort": "write thinking, or the setting of the provider, such as openai_reasoning_effort",
    "reasoning": "write thinking, or the setting of the provider, such as openai_reasoning_effort",
    "headers": "write extra_headers",
    "body": "write extra_body",
}
"""What to write in place of settings that are refused, or that other libraries call so."""

MAX_TOKENS = "max_tokens"
"""The output cap: a field of an agent, and a setting of a model."""
Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
CacheTime = bool | Literal["5m", "1h"]
Data = dict[str, JsonValue]


class OpenAISettings(TypedDict, total=False):
    """Settings of OpenAI's models, by chat completions and responses."""

    openai_cache_instructions: bool
    openai_context_management: list[Data]
    openai_continuous_usage_stats: bool
    openai_conversation_id: str
    openai_include_code_execution_outputs: bool
    openai_include_file_search_results: bool
    openai_include_raw_annotations: bool
    openai_include_web_search_sources: bool
    openai_logprobs: bool
    openai_moderation: Data
    openai_native_tools: list[Data]
    openai_prediction: Data
    openai_previous_response_id: str
    openai_prompt_cache_diagnostics: bool
    openai_prompt_cache_key: str
    openai_prompt_cache_options: Data
    openai_prompt_cache_retention: Literal["in_memory", "24h"]
    openai_reasoning_context: Literal["auto", "current_turn", "all_turns"]
    openai_reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
    openai_reasoning_mode: Literal["standard", "pro"]
    openai_reasoning_summary: Literal["detailed", "concise", "auto"]
    openai_send_reasoning_ids: bool
    openai_service_tier: Literal["auto", "default", "flex", "priority"]
    openai_store: bool
    openai_text_verbosity: Literal["low", "medium", "high"]
    openai_top_logprobs: int
    openai_truncation: Literal["disabled", "auto"]
    openai_user: str


class AnthropicSettings(TypedDict, total=False):
    """Settings of Anthropic's models."""

    anthropic_betas: list[str]
    anthropic_cache: CacheTime
    anthropic_cache_diagnostics: bool
    anthropic_cache_instructions: CacheTime
    anthropic_cache_messages: CacheTime
    anthropic_cache_tool_definitions: CacheTime
    anthropic_code_execution_tool_version: Literal["20250825", "20260120", "auto"]
    anthropic_container: str | Literal[False] | Data
    anthropic_context_management: Data
    anthropic_eager_input_streaming: bool
    anthropic_effort: Literal["low", "medium", "high", "xhigh", "max"]
    anthropic_metadata: Data
    anthropic_service_tier: Literal["auto", "standard_only"]
    anthropic_speed: Literal["standard", "fast"]
    anthropic_task_budget: Data
    anthropic_thinking: Data
    anthropic_web_tools_allowed_callers: list[str]


class GoogleSettings(TypedDict, total=False):
    """Settings of Google's models."""

    google_cached_content: str
    google_cloud_service_tier: Literal[
        "pt_then_on_demand", "pt_only", "pt_then_flex", "pt_then_priority", "on_demand", "flex_only", "priority_only"
    ]
    google_labels: dict[str, str]
    google_logprobs: bool
    google_model_armor_config: Data
    google_safety_settings: list[Data]
    google_thinking_config: Data
    google_top_logprobs: int
    google_video_resolution: str


class BedrockSettings(TypedDict, total=False):
    """Settings of models on Amazon Bedrock."""

    bedrock_additional_model_requests_fields: Data
    bedrock_additional_model_response_fields_paths: list[str]
    bedrock_cache_instructions: CacheTime
    bedrock_cache_messages: CacheTime
    bedrock_cache_tool_definitions: CacheTime
    bedrock_guardrail_config: Data
    bedrock_inference_profile: str
    bedrock_performance_configuration: Data
    bedrock_prompt_variables: Data
    bedrock_request_metadata: dict[str, str]
    bedrock_service_tier: Data


class OtherSettings(TypedDict, total=False):
    """Settings of models of other providers."""

    cerebras_clear_thinking: bool
    cerebras_disable_reasoning: bool
    groq_reasoning_effort: Literal["none", "default", "low", "medium", "high"]
    groq_reasoning_format: Literal["hidden", "raw", "parsed"]
    mistral_prompt_cache_key: str
    openrouter_cache_instructions: CacheTime
    openrouter_cache_messages: CacheTime
    openrouter_cache_tool_definitions: CacheTime
    openrouter_models: list[str]
    openrouter_preset: str
    openrouter_provider: Data
    openrouter_reasoning: Data
    openrouter_transforms: list[str]
    openrouter_usage: Data
    snowflake_reasoning: Data
    xai_agent_count: int
    xai_include_attachment_search_output: bool
    xai_include_code_execution_output: bool
    xai_include_collections_search_output: bool
    xai_include_encrypted_content: bool
    xai_include_inline_citations: bool
    xai_include_mcp_output: bool
    xai_include_web_search_output: bool
    xai_include_x_search_output: bool
    xai_logprobs: bool
    xai_max_turns: int
    xai_previous_response_id: str
    xai_reasoning_effort: Literal["none", "low", "medium", "high"]
    xai_store_messages: bool
    xai_top_logprobs: int
    xai_user: str
    zai_clear_thinking: bool


@with_config(ConfigDict(extra="forbid", json_schema_extra={"instead": cast("JsonValue", INSTEAD)}))
class ModelSettings(OpenAISettings, AnthropicSettings, GoogleSettings, BedrockSettings, OtherSettings, total=False):
    """Settings of a model's requests: those that many providers have, and those of one, which begin with its name."""

    cache: bool | Literal["5m", "30m", "1h", "12h"] | Data
    citations: bool
    extra_body: Data
    extra_headers: dict[str, str]
    frequency_penalty: float
    logit_bias: dict[str, int]
    max_tokens: Annotated[int, Field(ge=1)]
    parallel_tool_calls: bool
    presence_penalty: float
    seed: int
    service_tier: Literal["auto", "default", "flex", "priority"]
    stop_sequences: list[str]
    temperature: Annotated[float, Field(ge=0, le=2)]
    thinking: bool | Effort
    tool_choice: Literal["none", "required", "auto"] | list[str]
    top_k: Annotated[int, Field(ge=1)]
    top_p: Annotated[float, Field(ge=0, le=1)]


def settings_schema() -> dict[str, JsonValue]:
    """The JSON Schema of settings."""
    return cast("dict[str, JsonValue]", _adapter().json_schema())


def check_settings(owner: str, settings: object) -> ModelSettings | None:
    """Return the settings of an agent, validated; raise `UsageError` with every mistake.

    Its output cap, on which budgets rely, is a field of the agent itself; a model may set one for its agents.
    """
    if settings is None:
        return None
    try:
        checked = validated(settings)
    except ValueError as error:
        raise UsageError(f"The settings of {owner} do not fit: {f'{error}.'.replace('?.', '?')}") from None
    if MAX_TOKENS in checked:
        raise UsageError(f"{MAX_TOKENS!r} is no setting of {owner} but a field: write it beside its settings.")
    return checked


def validated(settings: object) -> ModelSettings:
    """Validate settings; raises `ValueError` with every mistake, in our words."""
    try:
        return _adapter().validate_python(settings)
    except ValidationError as error:
        known = ModelSettings.__annotations__
        texts: list[str] = []
        for one in misfits_of(error, settings):
            unknown = one.at[0] if len(one.at) == 1 and one.at[0] not in known else None
            texts.append(f"{unknown!r} is no setting: {_instead_of(str(unknown))}" if unknown else str(one))
        raise ValueError("; ".join(texts)) from None


def _instead_of(name: str) -> str:
    return INSTEAD.get(name) or nearest(name, ModelSettings.__annotations__).rstrip(".")


@cache
def _adapter() -> TypeAdapter[ModelSettings]:
    """The validator, built on first use: most manifests have no settings."""
    from pydantic import TypeAdapter  # slow to import

    return TypeAdapter(ModelSettings)
