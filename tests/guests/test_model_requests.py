from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from teamwright.errors import UsageError
from teamwright.guests.model_requests import chat_message_of, messages_of, parameters_of, settings_of

CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
TOOL = {"type": "function", "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}}}


def test_a_conversation_keeps_its_roles_its_calls_and_the_tools_of_their_results() -> None:
    chat: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "and one?"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "2"}]},
        {"role": "assistant", "content": "Two."},
    ]
    first, called, result, last = messages_of(chat)
    assert isinstance(first, ModelRequest)
    assert [type(part) for part in first.parts] == [SystemPromptPart, UserPromptPart]
    assert isinstance(first.parts[1], UserPromptPart)
    assert first.parts[1].content == ["One", "and one?"]
    assert called.parts == [ToolCallPart("add", '{"a": 1}', "1")]
    (returned,) = result.parts
    assert isinstance(returned, ToolReturnPart)
    assert (returned.tool_name, returned.content, returned.tool_call_id) == ("add", "2", "1")
    assert last.parts == [TextPart("Two.")]


def test_images_are_sent_by_their_address_or_as_they_are() -> None:
    blocks = [
        {"type": "image_url", "image_url": {"url": url}} for url in ("https://a.b/c.png", "data:image/png;base64,YQ==")
    ]
    (message,) = messages_of([{"role": "user", "content": blocks}])
    (part,) = message.parts
    assert isinstance(part, UserPromptPart)
    address, image = part.content
    assert isinstance(address, ImageUrl)
    assert isinstance(image, BinaryContent)
    assert (address.url, image.data) == ("https://a.b/c.png", b"a")


@pytest.mark.parametrize(
    ("chat", "said"),
    [
        ({"role": "robot", "content": "Hi"}, "the role 'robot'"),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "of the type 'input_audio'"),
    ],
)
def test_what_no_model_of_ours_takes_is_refused(chat: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        messages_of([chat])


def test_tools_and_the_form_of_an_answer_are_offered() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}}
    parameters = parameters_of([TOOL], form)
    (tool,) = parameters.function_tools
    assert (tool.name, tool.description, tool.parameters_json_schema) == ("add", "Add.", {"type": "object"})
    assert parameters.output_mode == "native"
    assert parameters.output_object is not None
    assert (parameters.output_object.name, parameters.output_object.strict) == ("n", True)
    with pytest.raises(UsageError, match="of the type 'web_search', which the provider would run"):
        parameters_of([{"type": "web_search"}])


def test_settings_have_the_names_of_ours() -> None:
    choice = {"type": "function", "function": {"name": "add"}}
    settings = settings_of(
        {"temperature": 0.5, "stop": "x", "max_completion_tokens": 9, "tool_choice": choice, "n": None}
    )
    assert settings == {"temperature": 0.5, "stop_sequences": ["x"], "max_tokens": 9, "tool_choice": ["add"]}
    assert settings_of({"tool_choice": "any"}) == {"tool_choice": "required"}
    with pytest.raises(UsageError, match="sets 'n' of its model"):
        settings_of({"n": 2})


def test_a_response_is_a_message_again() -> None:
    response = ModelResponse([TextPart("Well"), ToolCallPart("add", {"a": 1}, "1")])
    assert chat_message_of(response) == {
        "role": "assistant",
        "content": "Well",
        "tool_calls": [{**CALL, "function": {"name": "add", "arguments": '{"a":1}'}}],
    }
    assert chat_message_of(ModelResponse([])) == {"role": "assistant", "content": None}
