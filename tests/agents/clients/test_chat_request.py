from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ImageUrl,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from teamwright.agents.clients.chat_request import GUIDANCE, request_body
from tests.agents.clients.both_chat_clients import HELLO, PLAIN, answer, body, both, ours

HI = answer(body({"content": "Hi."}))
CLOSED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
OPEN: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}}


def tool(name: str, schema: dict[str, Any] = CLOSED, **more: Any) -> ToolDefinition:
    return ToolDefinition(name=name, description=f"Does {name}.", parameters_json_schema=schema, **more)


TOOLS = ModelRequestParameters(
    function_tools=[tool("add"), tool("look", OPEN)], instruction_parts=[InstructionPart(content="Be short.")]
)
FORM = OutputObjectDefinition(json_schema={**CLOSED, "title": "answer"}, name="answer", description="A number.")
BY_TOOL = ModelRequestParameters(
    function_tools=[tool("add")],
    output_mode="tool",
    output_tools=[tool("final_result", kind="output")],
    allow_text_output=False,
)
PARAMETERS = {
    "nothing else": PLAIN,
    "instructions and tools": TOOLS,
    "two instructions": ModelRequestParameters(
        instruction_parts=[InstructionPart(content="One."), InstructionPart(content="Two.")]
    ),
    "a tool without a description": ModelRequestParameters(
        function_tools=[ToolDefinition(name="bare", parameters_json_schema=CLOSED)]
    ),
    "a schema of the answer": ModelRequestParameters(output_mode="native", output_object=FORM),
    "a tool for the answer": BY_TOOL,
    "any JSON": ModelRequestParameters(output_mode="prompted", output_object=FORM),
}

PNG = BinaryContent(b"\x89PNG", media_type="image/png")
CALL = ToolCallPart("add", {"n": 1}, tool_call_id="c1")
MESSAGES: dict[str, list[ModelMessage]] = {
    "a reply": [*HELLO, ModelResponse(parts=[TextPart("Hi.")]), *HELLO],
    "an empty reply": [*HELLO, ModelResponse(parts=[]), *HELLO],
    "calls and results": [
        *HELLO,
        ModelResponse(parts=[TextPart("I add."), CALL, ToolCallPart("look", "{}", tool_call_id="c2")]),
        ModelRequest(
            parts=[
                ToolReturnPart("add", {"sum": 2}, tool_call_id="c1"),
                ToolReturnPart("look", "nothing", tool_call_id="c2", outcome="failed"),
            ]
        ),
    ],
    "what was thought, in a field": [
        *HELLO,
        ModelResponse(
            parts=[ThinkingPart("Hm.", id="reasoning_content", provider_name="server"), CALL], provider_name="server"
        ),
        ModelRequest(parts=[ToolReturnPart("add", "2", tool_call_id="c1")]),
        ModelResponse(parts=[ToolCallPart("add", "{}", tool_call_id="c3")], provider_name="server"),
        ModelRequest(parts=[ToolReturnPart("add", "0", tool_call_id="c3")]),
    ],
    "what was thought, in the text": [*HELLO, ModelResponse(parts=[ThinkingPart("Hm."), TextPart("Hi.")]), *HELLO],
    "a system prompt": [ModelRequest(parts=[SystemPromptPart("Be kind."), UserPromptPart("Hello.")])],
    "files": [
        ModelRequest(
            parts=[
                UserPromptPart(
                    [
                        "Look:", PNG, CachePoint(), ImageUrl("http://pictures.example/a.png"),
                        BinaryContent(b"%PDF", media_type="application/pdf"),
                        BinaryContent(b"RIFF", media_type="audio/wav"),
                    ]
                )
            ]
        )
    ],
    "a file from a tool": [
        *HELLO,
        ModelResponse(parts=[CALL]),
        ModelRequest(parts=[ToolReturnPart("add", ["drawn", PNG], tool_call_id="c1")]),
    ],
    "a signature of a call": [
        *HELLO,
        ModelResponse(
            parts=[
                ToolCallPart(
                    "add", "{}", tool_call_id="c1", provider_name="server",
                    provider_details={"extra_content": {"signature": "s"}},
                )
            ],
            provider_name="server",
        ),
        ModelRequest(parts=[ToolReturnPart("add", "2", tool_call_id="c1")]),
    ],
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "sampling": {"temperature": 0.2, "top_p": 0.9, "seed": 7, "presence_penalty": 0.1, "frequency_penalty": 0.2},
    "bounds": {"max_tokens": 50, "stop_sequences": ["END"], "logit_bias": {"5": -100}},
    "of OpenAI": {
        "openai_reasoning_effort": "low", "openai_user": "u", "openai_store": False, "openai_logprobs": True,
        "openai_top_logprobs": 2, "openai_text_verbosity": "low", "openai_prompt_cache_key": "k",
        "openai_service_tier": "flex",
    },
    "a tier": {"service_tier": "priority"},
    "one call at a time": {"parallel_tool_calls": False},
    "no tools": {"tool_choice": "none"},
    "a tool is required": {"tool_choice": "required"},
    "one tool": {"tool_choice": ["add"]},
    "a body of its own": {"extra_body": {"min_p": 0.1, "temperature": 1.0}, "temperature": 0.3},
}  # fmt: skip


@pytest.mark.parametrize("parameters", PARAMETERS.values(), ids=PARAMETERS)
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
async def test_an_offer_is_sent_as_openais_client_sends_it(parameters: ModelRequestParameters, streams: bool) -> None:
    mine, theirs = await both(HI, parameters=parameters, streams=streams)
    assert mine.sent == theirs.sent


@pytest.mark.parametrize("messages", MESSAGES.values(), ids=MESSAGES)
async def test_messages_are_sent_as_openais_client_sends_them(messages: list[ModelMessage]) -> None:
    mine, theirs = await both(HI, messages, parameters=TOOLS)
    assert mine.sent == theirs.sent


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
async def test_settings_are_sent_as_openais_client_sends_them(settings: dict[str, Any]) -> None:
    mine, theirs = await both(HI, settings=settings, parameters=TOOLS)
    assert mine.sent == theirs.sent


async def test_top_k_is_sent_since_the_servers_of_users_take_it() -> None:
    assert (await ours(HI, settings={"top_k": 40})).sent["top_k"] == 40


async def test_settings_of_other_providers_are_not_sent() -> None:
    assert set((await ours(HI, settings={"anthropic_effort": "low"})).sent) == {"model", "messages"}


@pytest.mark.parametrize("choice", ["none", "required", ["nothing"]])
async def test_the_tool_for_the_answer_stays_whatever_the_choice_of_tools(choice: Any) -> None:
    mine, theirs = await both(HI, settings={"tool_choice": choice}, parameters=BY_TOOL)
    assert (mine.sent, type(mine.error)) == (theirs.sent, type(theirs.error))


async def test_a_tool_that_is_required_has_to_exist() -> None:
    sent = await ours(HI, settings={"tool_choice": "required"})
    assert isinstance(sent.error, UserError)
    assert "the agent has no tools" in str(sent.error)


async def test_content_that_no_field_can_carry_is_refused() -> None:
    film: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart([BinaryContent(b"", media_type="video/mp4")])])]
    sent = await ours(HI, film)
    assert isinstance(sent.error, UserError)
    assert "video/mp4" in str(sent.error)


@pytest.mark.parametrize("thinking", [True, False, "high"], ids=str)
@pytest.mark.parametrize("name", ["qwen/qwen3-32b", "deepseek/deepseek-r1", "moonshotai/kimi-k2", "tiny"])
async def test_a_model_is_told_how_much_to_think_in_the_way_of_its_family(name: str, thinking: bool | str) -> None:
    mine, theirs = await both(HI, settings={"thinking": thinking}, name=name)
    assert mine.sent == theirs.sent


FAMILIES = [
    "tiny", "qwen/qwen3-32b", "deepseek/deepseek-r1", "moonshotai/kimi-k2", "mistralai/mistral-small",
    "google/gemini-2.5-pro", "meta-llama/llama-4", "x-ai/grok-4", "cohere/command-a-reasoning", "openai/gpt-oss-20b",
    "anthropic/claude-sonnet-4-5",
]  # fmt: skip
TEXT = st.sampled_from(["", "Hi.", "two\nlines", "é😀"])
PROVIDER = st.sampled_from([None, "server", "openai"])
SIGNED = {"provider_name": "server", "provider_details": {"extra_content": {"s": 1}}}
FOREIGN = {"provider_name": "openai", "provider_details": {"extra_content": {"s": 1}}}
CALLED = st.builds(
    lambda name, args, origin: ToolCallPart(name, args, tool_call_id="c1", **origin),
    st.sampled_from(["add", "look"]),
    st.sampled_from([None, "", "{}", '{"n": 1}', {"n": 1}, "no JSON"]),
    st.sampled_from([{}, SIGNED, FOREIGN]),
)
THOUGHT = st.builds(
    ThinkingPart, TEXT, id=st.sampled_from([None, "reasoning", "reasoning_content", "content"]), provider_name=PROVIDER
)
RESPONSE = st.builds(ModelResponse, parts=st.lists(st.one_of(st.builds(TextPart, TEXT), THOUGHT, CALLED), max_size=4))
FILES = st.lists(st.sampled_from(["see", PNG, BinaryContent(b"m", media_type="audio/mpeg"), CachePoint()]), max_size=3)
RESULT = st.builds(
    ToolReturnPart,
    st.just("add"),
    st.sampled_from(["x", {"a": 1}, [1, "b"], None, ["drawn", PNG]]),
    tool_call_id=st.just("c1"),
    outcome=st.sampled_from(["success", "failed", "retried"]),
)
ASKED = st.one_of(st.builds(UserPromptPart, st.one_of(TEXT, FILES)), st.builds(SystemPromptPart, TEXT), RESULT)
REQUEST = st.builds(ModelRequest, parts=st.lists(ASKED, min_size=1, max_size=3))
SETTING = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.just(0.5),
        "max_tokens": st.just(20),
        "parallel_tool_calls": st.booleans(),
        "thinking": st.sampled_from([True, False, "minimal", "low", "high", "xhigh", "max"]),
        "tool_choice": st.sampled_from(["auto", "none", "required", ["add"], ["look", "add"], [], ["nothing"]]),
        "extra_body": st.sampled_from([{"a": 1}, {"temperature": 2}, {"reasoning_effort": "none"}]),
        "service_tier": st.sampled_from(["auto", "flex"]),
        "openai_service_tier": st.sampled_from(["default", "priority"]),
        "openai_reasoning_effort": st.sampled_from(["low", "none", ""]),
    },
)


@given(
    st.lists(st.one_of(REQUEST, RESPONSE), min_size=1, max_size=5),
    SETTING,
    st.sampled_from(sorted(PARAMETERS)),
    st.sampled_from(FAMILIES),
)
async def test_any_request_is_sent_as_openais_client_sends_it(
    messages: list[ModelMessage], settings: dict[str, Any], offer: str, name: str
) -> None:
    if name.startswith("anthropic"):  # what others thought is left out: pydantic-ai lets the user say it
        messages = [
            replace(one, parts=[part for part in one.parts if not isinstance(part, ThinkingPart)])
            if isinstance(one, ModelResponse)
            else one
            for one in messages
        ]
    mine, theirs = await both(HI, messages, settings, PARAMETERS[offer], name=name)
    assert (mine.sent, type(mine.error)) == (theirs.sent, type(theirs.error))


def sent(schema: dict[str, Any], *, guided: bool = True, tools: bool = False) -> dict[str, Any]:
    asked = OutputObjectDefinition(json_schema=schema, name="answer")
    offered = [tool("add")] if tools else []
    parameters = ModelRequestParameters(function_tools=offered, output_mode="native", output_object=asked)
    return request_body("m", HELLO, {}, parameters, {}, stream=False, guided=guided)


def test_a_guided_answer_is_held_to_its_schema_by_a_grammar_without_white_space() -> None:
    made = sent(CLOSED)
    assert "response_format" not in made
    head, _, written = made["grammar"].partition("%json ")
    assert head == "%llguidance {}\nstart: "
    assert json.loads(written) == {**CLOSED, "x-guidance": GUIDANCE}
    assert GUIDANCE["whitespace_flexible"] is False


def test_an_answer_beside_tools_or_with_a_pattern_is_held_to_its_schema_by_the_server() -> None:
    pattern = {"type": "object", "properties": {"n": {"type": "string", "pattern": "^(?=x)x$"}}}
    for made in (sent(CLOSED, guided=False), sent(CLOSED, tools=True), sent(pattern)):
        assert made["response_format"]["type"] == "json_schema"
        assert "grammar" not in made
