"""Calls that a model wrote as text are made, or sent back; an answer that quotes JSON stays an answer."""

from __future__ import annotations

import json

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ThinkingPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.model.request_template import AnswerSchema
from teamwright.agents.model.tool_calls import (
    MOST_CALLS,
    Malformed,
    WrittenCall,
    correction_of,
    split_written_calls,
    unknown_call,
    with_written_calls,
)
from teamwright.errors import InvalidOutput
from teamwright.journal.codec import decode_body
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.agent import AgentCalled
from teamwright.values.specs.manifest import JsonSchema
from tests.agents.model.shapes import Replies
from tests.kit.records import cut_and_resume

TOOLS = ("disk_cost", "search")
CALL = WrittenCall("disk_cost", {"gb": 5})
BODY = '{"name": "disk_cost", "arguments": {"gb": 5}}'


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        f"  {BODY}\n",
        f"[{BODY}]",
        f"```json\n{BODY}\n```",
        f"```\n{BODY}\n```",
        f"<tools>{BODY}</tools>",
        f"```xml\n<tool_call>\n{BODY}\n</tool_call>\n```",
        f"<tool_call>\n{BODY}\n</tool_call>",
        f"<tool_call>{BODY}",
        f"<|tool_call|>{BODY}",
        f"<function_call>{BODY}</function_call>",
        f"[TOOL_CALLS] [{BODY}]",
        f"<|python_tag|>{BODY}",
        '<function=disk_cost>{"gb": 5}</function>',
        '{"name": "disk_cost", "parameters": {"gb": 5}}',
        '{"type": "function", "function": {"name": "disk_cost", "arguments": {"gb": 5}}}',
        f'{{"tool_calls": [{BODY}]}}',
    ],
)
def test_a_text_that_is_a_call_as_a_whole_is_read_in_each_form(text: str) -> None:
    assert split_written_calls(text, TOOLS)[1] == [CALL]


@pytest.mark.parametrize("text", [f"{BODY}\n{BODY}", f"{BODY}, {BODY}", f"<tools>{BODY}\n{BODY}</tools>"])
def test_several_calls_are_read_in_order(text: str) -> None:
    assert split_written_calls(text, TOOLS)[1] == [CALL, CALL]


@pytest.mark.parametrize(
    "text",
    [
        "The disk costs 5.",
        f"I call {BODY}",
        f"{BODY} is how to call it.",
        f"Use this:\n```json\n{BODY}\n```",
        '{"name": "Ada", "arguments": {"gb": 5}}',
        '{"name": "disk_cost", "price": 5}',
        '{"name": "disk_cost", "arguments": [5]}',
        f'[{BODY}, {{"name": "other"}}]',
        '{"total": 5}',
        "[]",
        "5",
        "<tools>hammer, saw</tools>",
        "<p>text</p>",
        "```python\nprint(5)\n```",
        "```\n```",
        "`",
        '{"name": "disk_cost", "arguments": {"gb": NaN}}',
        '{"name": "disk_cost", "arguments": ' + "[" * 100_000,
    ],
)
def test_an_answer_stays_an_answer_whatever_it_quotes(text: str) -> None:
    assert split_written_calls(text, TOOLS)[1] == []
    assert correction_of(text, TOOLS) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('<tools>{"name": "disk_cost", "argum', "it is no JSON"),
        ('<tool_call>{"disk_cost": {"gb": 5}}</tool_call>', "no object with a name and arguments"),
        (f"<tool_call>{BODY}</tool_call> It costs 5.", "there is text beside it"),
        (f"<tools>{BODY * (MOST_CALLS + 1)}</tools>", "more than 64 calls"),
        ("<function=disk_cost>\n<parameter=gb>\n5\n</parameter>\n</function>", "it is no JSON"),
        ("<tool_call>\n<function=disk_cost><parameter=gb>5</parameter></function></tool_call>", "it is no JSON"),
        ('I look it up.\n<tool_call>\n{"name": "disk_cost", "arguments": {gb: 5}}\n</tool_call>', "it is no JSON"),
    ],
)
def test_what_is_marked_as_a_call_and_can_not_be_read_is_sent_back(text: str, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        split_written_calls(text, TOOLS)
    assert reason in str(correction_of(text, TOOLS))


@pytest.mark.parametrize(
    "text",
    [
        f"I look it up.\n<tool_call>\n{BODY}\n</tool_call>",
        f"I look it up.\n\n  <tools>{BODY}</tools>\n",
        f"I look it up.\n[TOOL_CALLS] [{BODY}]",
        f"I look it up.\n<function=disk_cost>{json.dumps(CALL.arguments)}</function>",
    ],
)
def test_marked_calls_at_the_end_of_a_text_are_calls_and_the_text_before_them_stays(text: str) -> None:
    made = with_written_calls(ModelResponse(parts=[TextPart(text)]), TOOLS)
    before, call = made.parts
    assert isinstance(before, TextPart)
    assert before.content == "I look it up."
    assert isinstance(call, ToolCallPart)
    assert (call.tool_name, call.args) == CALL


@pytest.mark.parametrize(
    "text",
    [
        f"Write <tool_call>{BODY}</tool_call>",
        f"Write this:\n<tool_call>{BODY}</tool_call>\nand wait.",
        f"Write this:\n```\n<tool_call>{BODY}</tool_call>\n```",
        'Write this:\n<tool_call>{"name": "other", "arguments": {}}</tool_call>',
        "Write this:\n<tool_call>{name, arguments}</tool_call>",
    ],
)
def test_a_text_that_shows_what_a_call_looks_like_is_an_answer(text: str) -> None:
    said = ModelResponse(parts=[TextPart(text)])
    assert with_written_calls(said, TOOLS) is said
    assert correction_of(text, TOOLS) is None


def test_what_was_thought_stays_and_a_text_that_was_cut_is_no_call() -> None:
    thought = ThinkingPart("I need the cost.")
    made = with_written_calls(ModelResponse(parts=[thought, TextPart(BODY)]), TOOLS)
    assert [type(part) for part in made.parts] == [ThinkingPart, ToolCallPart]
    assert made.finish_reason == "tool_call"
    cut = ModelResponse(parts=[TextPart(BODY)], finish_reason="length")
    assert with_written_calls(cut, TOOLS) is cut


def test_data_that_fits_the_schema_of_the_answer_is_the_answer() -> None:
    schema: JsonSchema = {"type": "object", "required": ["name", "arguments"]}
    said = ModelResponse(parts=[TextPart(BODY)])
    assert with_written_calls(said, TOOLS, AnswerSchema("a", schema)) is said
    assert with_written_calls(said, TOOLS, AnswerSchema("a", {"type": "object", "required": ["total"]})) is not said


def disk_cost(gb: int) -> str:
    """Return what a disk costs."""
    return f"{gb * 2} dollars"


def _writes_a_call(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    results = [part.content for one in messages for part in one.parts if isinstance(part, ToolReturnPart)]
    said = f"It costs {results[0]}." if results else f"<tools>{BODY}</tools>"
    return ModelResponse(parts=[TextPart(said)])


async def test_a_written_call_is_made_and_recorded_as_a_call() -> None:
    journal = MemoryJournal()
    team = Team("t", members=[ModelAgent("ada", model=FunctionModel(_writes_a_call), tools=[disk_cost])])
    async with Engine(journal) as engine:
        result = await engine.run(team, "What does it cost?", run_id="r")
        events = (await engine.runs.history("r")).events
    assert (result.output, result.usage.tool_calls) == ("It costs 10 dollars.", 1)
    calls = [event.fact for event in events if isinstance(event.fact, AgentCalled) and event.fact.effect == "tool"]
    texts = await journal.bodies({str(call.arguments) for call in calls})
    assert [(call.name, decode_body(texts[str(call.arguments)])) for call in calls] == [("disk_cost", {"gb": 5})]
    for at in range(1, len(await journal.read("r"))):
        resumed, _ = await cut_and_resume(team, at, journal)
        assert resumed.output == result.output, f"killed after event {at}"


async def test_a_call_that_can_not_be_read_never_becomes_the_answer() -> None:
    replies = Replies([['<tools>{"name": "disk_cost"'], [f"<tools>{BODY}</tools>"], ["10 dollars."]])
    async with Engine("memory") as engine:
        result = await engine.run(ModelAgent("ada", model=replies.model, tools=[disk_cost]), "Cost?")
    assert result.output == "10 dollars."
    assert "can't be read: it is no JSON" in repr(replies.requests[1])
    stubborn = Replies([['<tools>{"name": "disk_cost"']] * 3)
    async with Engine("memory") as engine:
        failed = await engine.run(ModelAgent("ada", model=stubborn.model, tools=[disk_cost]), "Cost?")
    assert failed.status == "failed"
    assert failed.failure is not None
    assert failed.failure.error == InvalidOutput.kind


WRAPPED = '```json\n{"name": "draft", "arguments": {"text": "Tests pay."}}\n```'
"""An answer in the form of a call, as small models write it who have tools."""


async def test_a_text_that_calls_a_tool_which_is_not_there_is_asked_about_once() -> None:
    for second in ("Tests pay.", WRAPPED):
        replies = Replies([[WRAPPED], [second]])
        async with Engine("memory") as engine:
            result = await engine.run(ModelAgent("ada", model=replies.model, tools=[disk_cost]), "Write.")
        assert (result.status, result.output) == ("completed", second)
        assert "no such tool: you have disk_cost" in repr(replies.requests[1])


@pytest.mark.parametrize(
    "text",
    [
        "Tests pay.",
        BODY,
        '{"name": "Ada", "age": 36}',
        f"{WRAPPED}\nThat is a call.",
        '{"arguments": [1, 2]}',
        '{"name": "draft", "arguments": ' + "[" * 100_000,
    ],
)
def test_other_texts_are_no_calls_of_unknown_tools(text: str) -> None:
    assert unknown_call(text, TOOLS) is None


async def test_without_tools_a_call_is_text_like_any_other() -> None:
    replies = Replies([[BODY]])
    async with Engine("memory") as engine:
        result = await engine.run(ModelAgent("ada", model=replies.model), "Show a call.")
    assert result.output == BODY
