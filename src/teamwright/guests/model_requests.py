"""Requests of guests as those of pydantic-ai: of frameworks that write chat completions, and of pydantic-ai itself."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition
from typing_extensions import override

from teamwright.agents.model.conversation import ModelConversation
from teamwright.agents.model.messages import response_text, sent_arguments
from teamwright.agents.model.request_template import given_template
from teamwright.agents.model.requests import ModelRequests
from teamwright.errors import UsageError
from teamwright.guests.turn import GuestTurn
from teamwright.values.run_keys import REQUEST
from teamwright.values.specs.models import model_key
from teamwright.values.turns.messages import digest

if TYPE_CHECKING:
    from teamwright.agents.model.agent import ModelAgent


Json = Mapping[str, Any]
SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "stop": "stop_sequences",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "parallel_tool_calls": "parallel_tool_calls",
    "logit_bias": "logit_bias",
    "reasoning_effort": "openai_reasoning_effort",
    "verbosity": "openai_text_verbosity",
    "extra_body": "extra_body",
    "extra_headers": "extra_headers",
}
"""The setting of pydantic-ai for each field of a request."""
CHOICES = {"any": "required", "required": "required", "auto": "auto", "none": "none", True: "required"}


def messages_of(chat: Iterable[Json]) -> list[ModelMessage]:
    """Return the messages of a request; raises `UsageError` for one that is not in the form of chat completions."""
    found: list[ModelMessage] = []
    tools: dict[str, str] = {}
    for message in chat:
        role, content = message.get("role"), message.get("content")
        if role == "assistant":
            parts = list(_response_parts(message))
            tools |= {part.tool_call_id: part.tool_name for part in parts if isinstance(part, ToolCallPart)}
            found.append(ModelResponse(parts))
            continue
        part: ModelRequestPart
        if role in {"system", "developer"}:
            part = SystemPromptPart(_text(content))
        elif role == "tool":
            call = str(message.get("tool_call_id", ""))
            part = ToolReturnPart(tools.get(call, str(message.get("name", ""))), _text(content), call)
        elif role == "user":
            part = UserPromptPart(content if isinstance(content, str) else list(_user_contents(content)))
        else:
            raise UsageError(f"A message of a guest has the role {role!r}, which no model knows.")
        if found and isinstance(last := found[-1], ModelRequest):
            found[-1] = ModelRequest([*last.parts, part])
        else:
            found.append(ModelRequest([part]))
    return found


def parameters_of(tools: Iterable[Json], response_format: Json | None = None) -> ModelRequestParameters:
    """Return what a request offers, and the form of its answer."""
    functions = [_tool(one) for one in tools]
    schema = (response_format or {}).get("json_schema")
    if schema is None:
        return ModelRequestParameters(function_tools=functions)
    answer = OutputObjectDefinition(
        json_schema=schema.get("schema") or {},
        name=schema.get("name"),
        description=schema.get("description"),
        strict=schema.get("strict"),
    )
    return ModelRequestParameters(function_tools=functions, output_mode="native", output_object=answer)


def settings_of(fields: Json) -> ModelSettings:
    """Return the settings of a request; raises `UsageError` for a field that has no counterpart."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if value is None:
            continue
        if name == "tool_choice":
            found[name] = _tool_choice(value)
        elif name in SETTINGS:
            found[SETTINGS[name]] = [value] if name == "stop" and isinstance(value, str) else value
        else:
            raise UsageError(f"A guest sets {name!r} of its model, which no model of ours has; leave it out.")
    return cast("ModelSettings", found)


def chat_message_of(response: ModelResponse) -> dict[str, Any]:
    """Return a response as a message of chat completions."""
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": part.tool_name, "arguments": sent_arguments(part)},
        }
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    text = response_text(response)
    return {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})


def _response_parts(message: Json) -> Iterator[ModelResponsePart]:
    if text := _text(message.get("content")):
        yield TextPart(text)
    for call in message.get("tool_calls") or ():
        function = call["function"]
        arguments = function.get("arguments")
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield ToolCallPart(function["name"], written, str(call.get("id", "")))


def _text(content: object) -> str:
    """Return the text of a content, which may come in blocks."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Mapping):
        return str(cast("Json", content).get("text", ""))
    return "\n".join(filter(None, map(_text, cast("Sequence[object]", content))))


def _user_contents(content: object) -> Iterator[UserContent]:
    for block in cast("Sequence[Json | str]", content or ()):
        if isinstance(block, str):
            yield block
        elif "text" in block:
            yield str(block["text"])
        elif block.get("type") == "image_url":
            image = block["image_url"]
            url = str(image["url"] if isinstance(image, Mapping) else image)
            yield BinaryContent.from_data_uri(url) if url.startswith("data:") else ImageUrl(url)
        else:
            raise UsageError(f"A guest sends content of the type {block.get('type')!r}: texts and images can be sent.")


def _tool(tool: Json) -> ToolDefinition:
    if "function" not in tool:
        raise UsageError(
            f"A guest offers its model a tool of the type {tool.get('type')!r}, which the provider would run. A model"
            " of ours runs none: let the guest call its own model, with a  ceiling"
        )
    function = tool["function"]
    return ToolDefinition(
        name=function["name"],
        description=function.get("description"),
        parameters_json_schema=function.get("parameters") or {"type": "object", "properties": {}},
        strict=function.get("strict"),
    )


def _tool_choice(value: Any) -> Any:
    if isinstance(value, Mapping):
        return [cast("Json", value)["function"]["name"]]
    return CHOICES.get(value, [value])


class TurnModel(WrapperModel):
    """The model of the turn, as an agent of pydantic-ai sees it."""

    def __init__(self, turn: GuestTurn, model: Model) -> None:
        super().__init__(model)
        self._turn = turn

    @override
    async def __aenter__(self) -> TurnModel:
        return self  # the engine opens and closes the client

    @override
    async def __aexit__(self, *exception: object) -> None:
        return None

    @override
    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        return await self._turn.request(messages, model_settings, model_request_parameters)

    @override
    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Make the request and replay its response; observers of the run have seen it arrive."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)


async def send_request(
    turn: GuestTurn,
    agent: ModelAgent,
    messages: list[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> ModelResponse:
    """Make a request as an effect of the turn; while others of the turn are in flight, observers see none of it."""
    client = await turn.client(agent.model)
    given = {**agent.settings_for(agent.model), **(settings or {})}
    most = cast("int | None", given.pop("max_tokens", None))
    if client.retries:
        given["max_retries"] = 0
    conversation = ModelConversation.of_messages(messages)
    template = given_template(cast("ModelSettings", given), parameters)
    requests = ModelRequests(agent, agent.model, turn.ctx, client, most)
    requests.is_quiet = turn.in_flight > 1
    content = digest(model_key(agent.model), conversation.digest, template.digest)
    return await requests.send(conversation, template, turn.place(REQUEST, content))
