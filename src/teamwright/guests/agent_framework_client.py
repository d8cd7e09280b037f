"""A chat client of Microsoft Agent Framework whose requests are effects of a guest's turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
)
from pydantic import BaseModel
from pydantic_ai.messages import ModelResponse, ToolCallPart

from teamwright.agents.model.messages import response_text, sent_arguments
from teamwright.errors import UsageError
from teamwright.guests.model_requests import messages_of, parameters_of, settings_of
from teamwright.guests.turn import current_turn

Json = dict[str, Any]
FIELDS = ("temperature", "top_p", "max_tokens", "stop", "seed", "logit_bias", "frequency_penalty", "presence_penalty")


class TurnChatClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """The model of the turn in which it is called, or another model of ours by its name."""

    OTEL_PROVIDER_NAME = "teamwright"

    def __init__(self, turn_model: Any = None) -> None:
        super().__init__()
        self.turn_model = turn_model

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Any:
        if stream:
            raise UsageError("A guest gets whole responses: call  run, without  stream=True")
        return self._respond(messages, options)

    async def _respond(self, messages: Sequence[Message], options: Mapping[str, Any]) -> ChatResponse:
        turn = current_turn("A chat_client()")
        given = await self._validate_options(options)
        if given.get("conversation_id") or given.get("store"):
            raise UsageError("A model of ours keeps no conversation at its provider; leave  store  out.")
        tools = [_tool(one) for one in given.get("tools") or ()]
        fields = {name: given.get(name) for name in FIELDS}
        if tools:
            fields["tool_choice"] = _tool_choice(given.get("tool_choice"))
            fields["parallel_tool_calls"] = given.get("allow_multiple_tool_calls")
        chat = [one for message in messages for one in _chat_messages(message)]
        if instructions := given.get("instructions"):
            chat.insert(0, {"role": "system", "content": instructions})
        form = given.get("response_format")
        response = await turn.request(
            messages_of(chat), settings_of(fields), parameters_of(tools, _response_format(form)), self.turn_model
        )
        return _response(response, form)


def _chat_messages(message: Message) -> Iterator[Json]:
    """Yield a message in the form of chat completions: each result of a tool is one of its own."""
    texts, calls = list[Json](), list[Json]()
    for content in message.contents:
        if content.type == "text":
            texts.append({"type": "text", "text": content.text})
        elif content.type in {"data", "uri"}:
            texts.append({"type": "image_url", "image_url": {"url": content.uri}})
        elif content.type == "function_call":
            function = {"name": content.name, "arguments": content.arguments or "{}"}
            calls.append({"id": content.call_id, "type": "function", "function": function})
        elif content.type == "function_result":
            result = content.result if content.exception is None else content.exception
            yield {"role": "tool", "tool_call_id": content.call_id, "content": str(result)}
        elif content.type != "text_reasoning":
            raise UsageError(f"A guest sends content of the type {content.type!r}: texts and images can be sent.")
    if texts or calls:
        role = "assistant" if message.role == "assistant" else message.role
        yield {"role": role, "content": texts} | ({"tool_calls": calls} if calls else {})


def _tool(tool: Any) -> Json:
    if isinstance(tool, FunctionTool):
        return cast("Json", tool.to_json_schema_spec())
    return dict(tool) if isinstance(tool, Mapping) else {"type": type(tool).__name__}


def _tool_choice(choice: Any) -> Any:
    if not isinstance(choice, Mapping):
        return choice
    name = choice.get("required_function_name")
    return {"type": "function", "function": {"name": name}} if name else choice.get("mode")


def _response_format(form: Any) -> Json | None:
    if isinstance(form, type) and issubclass(form, BaseModel):
        return {"json_schema": {"name": form.__name__, "schema": form.model_json_schema()}}
    if isinstance(form, Mapping):
        return dict(form) if "json_schema" in form else {"json_schema": {"name": "answer", "schema": dict(form)}}
    return None


def _response(response: ModelResponse, form: Any) -> ChatResponse:
    contents = [Content.from_text(text)] if (text := response_text(response)) else []
    contents += [
        Content.from_function_call(part.tool_call_id, part.tool_name, arguments=sent_arguments(part))
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    used = response.usage
    return ChatResponse(
        messages=[Message("assistant", contents)],
        model=response.model_name,
        usage_details={
            "input_token_count": used.input_tokens,
            "output_token_count": used.output_tokens,
            "total_token_count": used.input_tokens + used.output_tokens,
        },
        response_format=form,
    )
