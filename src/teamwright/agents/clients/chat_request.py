"""The body of a request in the format of chat completions, from the messages, settings and tools of pydantic-ai."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.profiles.openai import OPENAI_REASONING_EFFORT_MAP
from pydantic_ai.tools import ToolDefinition

Json = dict[str, Any]

SYSTEM = "server"
"""The name of the provider in records."""
FIELDS = {
    "frequency_penalty": "frequency_penalty",
    "logit_bias": "logit_bias",
    "presence_penalty": "presence_penalty",
    "seed": "seed",
    "stop_sequences": "stop",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "openai_logprobs": "logprobs",
    "openai_moderation": "moderation",
    "openai_prediction": "prediction",
    "openai_prompt_cache_key": "prompt_cache_key",
    "openai_prompt_cache_options": "prompt_cache_options",
    "openai_prompt_cache_retention": "prompt_cache_retention",
    "openai_store": "store",
    "openai_text_verbosity": "verbosity",
    "openai_top_logprobs": "top_logprobs",
    "openai_user": "user",
}
"""The field of a request for each setting. `top_k` is a field of most servers that people run, though not of OpenAI."""
GUIDANCE = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "lenient": True,
    "coerce_one_of": True,
}
"""How llguidance reads a schema. Small models write white space until they reach their limit, wherever they may. What
no grammar can enforce of a schema is left out: we validate every answer."""
REASONING_FIELDS = ("reasoning", "reasoning_content")
"""The fields in which servers send what a model thought."""


def request_body(
    model: str,
    messages: Sequence[ModelMessage],
    settings: Mapping[str, Any],
    parameters: ModelRequestParameters,
    profile: ModelProfile,
    *,
    stream: bool,
    guided: bool = False,
) -> Json:
    """Return the body of a request. What `extra_body` says comes last and wins.

    A `guided` answer is held to its schema by a grammar without white space; no server takes one together with tools.
    """
    supported = cast("Mapping[str, Any]", profile)
    body: Json = {"model": model, "messages": _messages(messages, parameters, supported)}
    if tools := _tools(settings, parameters, supported):
        body |= tools
    if answer := _response_format(parameters, supported):
        grammar = (
            _grammar(answer["json_schema"]["schema"]) if guided and not tools and "json_schema" in answer else None
        )
        body |= {"response_format": answer} if grammar is None else {"grammar": grammar}
    if stream:
        body |= {"stream": True, "stream_options": _stream_options(settings)}
    for setting, value in settings.items():
        if (field := FIELDS.get(setting)) is not None:
            body[field] = value
    if "max_tokens" in settings:
        current = supported.get("openai_chat_supports_max_completion_tokens", True)
        body["max_completion_tokens" if current else "max_tokens"] = settings["max_tokens"]
    if tier := settings.get("openai_service_tier") or settings.get("service_tier"):
        body["service_tier"] = tier
    return body | _thinking(settings, parameters, supported) | settings.get("extra_body", {})


def _stream_options(settings: Mapping[str, Any]) -> Json:
    more = {"continuous_usage_stats": True} if settings.get("openai_continuous_usage_stats") else {}
    return {"include_usage": True} | more


def _thinking(settings: Mapping[str, Any], parameters: ModelRequestParameters, profile: Mapping[str, Any]) -> Json:
    """How much the model shall think, unless it always does."""
    if effort := settings.get("openai_reasoning_effort"):
        return {"reasoning_effort": effort}
    thinking = parameters.thinking
    if thinking is None or (thinking is False and profile.get("thinking_always_enabled")):
        return {}
    return {"reasoning_effort": OPENAI_REASONING_EFFORT_MAP[thinking]}


def _is_thinking(settings: Mapping[str, Any], parameters: ModelRequestParameters, profile: Mapping[str, Any]) -> bool:
    """Whether the model will think, as far as is known."""
    if (effort := settings.get("openai_reasoning_effort")) is not None:
        return effort != "none"
    if parameters.thinking is not None:
        return parameters.thinking is not False or bool(profile.get("thinking_always_enabled"))
    return bool(profile.get("thinking_enabled_by_default"))


def _response_format(parameters: ModelRequestParameters, profile: Mapping[str, Any]) -> Json | None:
    answer = parameters.output_object
    if parameters.output_mode == "prompted" and profile.get("supports_json_object_output"):
        return {"type": "json_object"}
    if parameters.output_mode != "native" or answer is None:
        return None
    form: Json = {"name": answer.name or "final_result", "schema": answer.json_schema}
    if answer.description:
        form["description"] = answer.description
    if profile.get("openai_supports_strict_tool_definition", True):
        form["strict"] = answer.strict
    return {"type": "json_schema", "json_schema": form}


def _grammar(schema: Json) -> str | None:
    """Return the grammar of a JSON schema for llguidance; `None` if it may not know a regular expression in it.

    The server would ignore a grammar that it can't compile, and say nothing.
    """
    written = json.dumps({**schema, "x-guidance": GUIDANCE})
    return None if '"pattern' in written else f"%llguidance {{}}\nstart: %json {written}"


def _tools(settings: Mapping[str, Any], parameters: ModelRequestParameters, profile: Mapping[str, Any]) -> Json:
    """Return the tools and which of them the model may or must call; nothing if there are none."""
    offered = parameters.declared_tool_defs
    mode, names = _tool_choice(settings.get("tool_choice"), parameters)
    if mode == "required" and not _can_force(settings, parameters, profile):
        mode = "auto"
    choice: str | Json = mode
    if names is not None and len(names) == 1 and mode == "required":
        choice = {"type": "function", "function": {"name": next(iter(names))}}
    elif names is not None:
        offered = {name: one for name, one in offered.items() if name in names}
    if not offered:
        return {}
    tools: Json = {"tools": [_tool(one, profile) for one in offered.values()], "tool_choice": choice}
    if "parallel_tool_calls" in settings:
        tools["parallel_tool_calls"] = settings["parallel_tool_calls"]
    return tools


def _can_force(settings: Mapping[str, Any], parameters: ModelRequestParameters, profile: Mapping[str, Any]) -> bool:
    """Whether to force a call: some models can't be forced, and some would not think then."""
    is_asked_for = settings.get("tool_choice") not in (None, "auto", "none", [])
    if profile.get("supports_forced_tool_choice", True):
        disables = profile.get("forced_tool_choice_disables_thinking")
        return is_asked_for or not disables or not _is_thinking(settings, parameters, profile)
    if is_asked_for:
        raise UserError("the setting tool_choice requires a tool, but this model can't be made to call one")
    return False


def _tool_choice(
    asked: object, parameters: ModelRequestParameters
) -> tuple[Literal["none", "auto", "required"], set[str] | None]:
    """Return whether a tool has to be called, and the names of those that may be, unless it is all.

    The tool for the answer stays whatever the settings say of other tools.
    """
    must = not parameters.allow_text_output
    answer = {one.name for one in parameters.output_tools}
    if asked in (None, "auto"):
        return ("required" if must else "auto"), None
    if asked in ("none", []):
        return (("required" if must else "auto"), answer) if answer else ("none", None)
    if asked == "required":
        if not parameters.function_tools:
            raise UserError("the setting tool_choice is 'required', but the agent has no tools")
        return "required", None
    names, known = set(cast("list[str]", asked)), set(parameters.tool_defs)
    if not names & known:
        raise UserError(f"the setting tool_choice names no tool of the agent: {', '.join(sorted(names))}")
    return "required", None if names == known else names


def _tool(one: ToolDefinition, profile: Mapping[str, Any]) -> Json:
    function: Json = {
        "name": one.name,
        "description": one.description or "",
        "parameters": one.parameters_json_schema,
    }
    if one.strict and profile.get("openai_supports_strict_tool_definition", True):
        function["strict"] = True
    return {"type": "function", "function": function}


def _messages(
    messages: Sequence[ModelMessage], parameters: ModelRequestParameters, profile: Mapping[str, Any]
) -> list[Json]:
    sent: list[Json] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            if (reply := _reply(message, profile)) is not None:
                sent.append(reply)
        else:
            sent += _request(message)
    _complete_reasoning(sent)
    leading = next((place for place, one in enumerate(sent) if one["role"] != "system"), len(sent))
    sent[leading:leading] = [{"role": "system", "content": one.content} for one in parameters.instruction_parts or ()]
    return sent


def _request(message: ModelRequest) -> Iterator[Json]:
    """Yield what the user, the system and tools say; files that tools returned follow their results."""
    files: list[UserContent] = []
    for part in message.parts:
        match part:
            case UserPromptPart(content=str() as text):
                yield {"role": "user", "content": text}
            case UserPromptPart():
                yield {"role": "user", "content": _contents(part.content)}
            case ToolReturnPart():
                text, more = part.model_response_str_and_user_content()
                files += more
                yield {"role": "tool", "tool_call_id": part.tool_call_id, "content": text}
            case SystemPromptPart():
                yield {"role": "system", "content": part.content}
            case _:
                raise UserError(f"a message of the kind {_kind_of(part)!r} can't be sent to this server")
    if files:
        yield {"role": "user", "content": _contents(files)}


def _kind_of(part: ModelRequestPart) -> str:
    return getattr(part, "part_kind", type(part).__name__)


def _contents(content: Sequence[UserContent]) -> list[Json]:
    return [_content(one) for one in content if not isinstance(one, CachePoint)]


def _content(one: UserContent) -> Json:
    match one:
        case str() as text:
            return {"type": "text", "text": text}
        case TextContent(content=text):
            return {"type": "text", "text": text}
        case ImageUrl(force_download=False):
            return {"type": "image_url", "image_url": {"url": one.url, **_detail(one.vendor_metadata)}}
        case BinaryContent() if one.is_image:
            return {"type": "image_url", "image_url": {"url": one.data_uri, **_detail(one.vendor_metadata)}}
        case BinaryContent() if one.is_audio:
            return {"type": "input_audio", "input_audio": {"data": one.base64, "format": one.format}}
        case BinaryContent() if one.is_document:
            return {"type": "file", "file": {"file_data": one.data_uri, "filename": f"filename.{one.format}"}}
        case _:
            raise UserError(f"content of the type {getattr(one, 'media_type', type(one).__name__)} can't be sent")


def _detail(metadata: Mapping[str, Any] | None) -> Json:
    return {"detail": metadata.get("detail", "auto")} if metadata else {}


def _reply(message: ModelResponse, profile: Mapping[str, Any]) -> Json | None:
    """Return an earlier response; `None` if nothing of it can be sent: servers refuse an empty one."""
    texts: list[str] = []
    calls: list[Json] = []
    thoughts: dict[str, list[str]] = {}
    for part in message.parts:
        if isinstance(part, TextPart):
            texts.append(part.content)
        elif isinstance(part, ToolCallPart):
            calls.append(_call(part))
        elif isinstance(part, ThinkingPart):
            if part.provider_name == SYSTEM and part.id in REASONING_FIELDS:  # a server wrote it in this field
                thoughts.setdefault(part.id, []).append(part.content)
            elif not profile.get("mimics_assistant_message_formatting"):
                texts.append(f"<think>\n{part.content}\n</think>")
    if not texts and not calls:
        return None
    reply: Json = {"role": "assistant", **{field: "\n\n".join(one) for field, one in thoughts.items()}}
    reply["content"] = "\n\n".join(texts) if texts else None
    if calls:
        reply["tool_calls"] = calls
    return reply


def _call(part: ToolCallPart) -> Json:
    call: Json = {
        "id": part.tool_call_id,
        "type": "function",
        "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
    }
    if part.provider_name == SYSTEM and part.provider_details and (extra := part.provider_details.get("extra_content")):
        call["extra_content"] = extra
    return call


def _complete_reasoning(sent: list[Json]) -> None:
    """Add an empty reasoning field to calls of this turn that lack it: some servers refuse them beside others."""
    replies = [one for one in sent if one["role"] == "assistant"]
    fields = {field for one in replies for field in REASONING_FIELDS if field in one}
    if len(fields) != 1:
        return
    (field,) = fields
    last_user = max((place for place, one in enumerate(sent) if one["role"] == "user"), default=-1)
    for one in sent[last_user + 1 :]:
        if one["role"] == "assistant" and one.get("tool_calls"):
            one.setdefault(field, "")
