"""Shapes of tool calls that pydantic-ai tests for its loop, against ours. See docs/start/from-others.md."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import pytest
from pydantic import BaseModel
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ThinkingPart, ToolReturnPart
from typing_extensions import TypedDict

from teamwright.agents.model.agent import ModelAgent
from teamwright.errors import InvalidOutput, ToolError, UsageError
from tests.agents.model.shapes import call, reply_to


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def locate(city: str) -> str:
    """Find a city."""
    if city != "London":
        raise ToolError("Wrong city, please try again")
    return json.dumps({"lat": 51, "lng": 0})


async def test_one_call_and_an_answer() -> None:
    reply, replies = await reply_to([[call("add", {"a": 1, "b": 2})], ["3"]], tools=[add])
    assert reply.text == "3"
    assert replies.results() == [("add", 3, "success")]


@pytest.mark.parametrize("args", ['{"a": 1}', {"a": 1}, ' {"a":1} '])
async def test_arguments_come_as_text_or_as_data(args: str | dict[str, object]) -> None:
    _, replies = await reply_to([[call("add", args)], ["ok"]], tools=[add])
    assert replies.results() == [("add", 2, "success")]


@pytest.mark.parametrize("args", [None, "", "{}", {}])
async def test_a_tool_without_parameters_is_called_with_nothing(args: str | dict[str, object] | None) -> None:
    def now() -> str:
        """Tell the time."""
        return "noon"

    _, replies = await reply_to([[call("now", args)], ["ok"]], tools=[now])
    assert replies.results() == [("now", "noon", "success")]


async def test_calls_in_one_response_run_side_by_side_and_their_results_keep_the_order() -> None:
    running: list[str] = []
    most = 0

    async def wait(name: str, seconds: float) -> str:
        """Wait."""
        nonlocal most
        running.append(name)
        most = max(most, len(running))
        await asyncio.sleep(seconds)
        running.remove(name)
        return name

    calls = [call("wait", {"name": name, "seconds": s}) for name, s in (("x", 0.03), ("y", 0.0), ("z", 0.01))]
    _, replies = await reply_to([calls, ["ok"]], tools=[wait])
    assert [content for _, content, _ in replies.results()] == ["x", "y", "z"]
    assert most == 3


async def test_the_same_call_twice_in_one_response_is_made_twice() -> None:
    made: list[int] = []

    def note(n: int) -> int:
        """Note a number."""
        made.append(n)
        return len(made)

    _, replies = await reply_to([[call("note", {"n": 7}), call("note", {"n": 7})], ["ok"]], tools=[note], whole=True)
    assert made == [7, 7]
    assert sorted(str(content) for _, content, _ in replies.results()) == ["1", "2"]


@pytest.mark.parametrize("id", ["same", ""])
async def test_calls_with_the_same_id_or_none_keep_apart(id: str) -> None:
    calls = [call("add", {"a": 1}, id), call("add", {"a": 2}, id)]
    _, replies = await reply_to([calls, ["ok"]], tools=[add])
    assert [content for _, content, _ in replies.results()] == [2, 3]
    last = replies.requests[-1][-1]
    assert len({part.tool_call_id for part in last.parts if isinstance(part, ToolReturnPart)}) == 2


async def test_text_beside_calls_is_kept_in_the_conversation_and_is_no_answer() -> None:
    reply, replies = await reply_to([["Let me see.", call("locate", {"city": "London"})], ["found"]], tools=[locate])
    assert reply.text == "found"
    before = replies.requests[-1][-2]
    assert isinstance(before, ModelResponse)
    assert [type(part).__name__ for part in before.parts] == ["TextPart", "ToolCallPart"]


async def test_an_empty_text_beside_a_call_changes_nothing() -> None:
    reply, _ = await reply_to([["", call("add", {"a": 1})], ["2"]], tools=[add])
    assert reply.text == "2"


async def test_thinking_beside_calls_goes_back_to_its_provider_and_not_into_the_answer() -> None:
    reply, replies = await reply_to(
        [[ThinkingPart("hm", signature="s"), call("add", {"a": 1})], [ThinkingPart("so"), "2"]], tools=[add]
    )
    assert reply.text == "2"
    before = replies.requests[-1][-2]
    assert any(isinstance(part, ThinkingPart) for part in before.parts)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"a": "one"}, "a: expects a whole number"),
        ({}, "a: is missing"),
        ({"a": 1, "c": 3}, "c: is not a field here"),
        ('{"a": 1', "are no JSON"),
        ("[1]", "must be a JSON object"),
        ('"text"', "must be a JSON object"),
    ],
)
async def test_wrong_arguments_are_a_correction_and_the_next_call_may_be_right(
    args: str | dict[str, object], why: str
) -> None:
    reply, replies = await reply_to([[call("add", args)], [call("add", {"a": 1})], ["2"]], tools=[add])
    assert reply.text == "2"
    ((tool, content, outcome),) = replies.results(1)
    assert (tool, outcome) == ("add", "retried")
    assert why in str(content)
    assert replies.results(2) == [("add", 2, "success")]


async def test_a_model_that_does_not_correct_its_calls_fails_the_turn() -> None:
    with pytest.raises(InvalidOutput, match="did not correct its mistake"):
        await reply_to([[call("add", {"a": "one"})]] * 9, tools=[add])


async def test_right_calls_beside_a_wrong_one_are_made() -> None:
    _, replies = await reply_to([[call("add", {"a": "x"}), call("add", {"a": 2})], ["3"]], tools=[add])
    assert [outcome for _, _, outcome in replies.results()] == ["retried", "success"]


async def test_an_unknown_tool_is_a_correction_that_names_the_known_ones() -> None:
    reply, replies = await reply_to([[call("ad", {"a": 1})], [call("add", {"a": 1})], ["2"]], tools=[add])
    assert reply.text == "2"
    ((_, content, outcome),) = replies.results(1)
    assert outcome == "retried"
    assert "'ad'" in str(content)
    assert "add" in str(content)


async def test_an_unknown_tool_where_there_are_none_is_a_correction_too() -> None:
    reply, replies = await reply_to([[call("search", {})], ["I know it anyway"]])
    assert reply.text == "I know it anyway"
    assert replies.results()[0][2] == "retried"


async def test_different_unknown_tools_in_turn_end_at_the_most_requests() -> None:
    with pytest.raises(InvalidOutput, match="5 requests"):
        await reply_to([[call(f"tool-{number}", {})] for number in range(9)], max_requests=5)


async def test_a_tool_that_asks_for_other_arguments_is_a_failure_that_the_model_sees() -> None:
    reply, replies = await reply_to(
        [[call("locate", {"city": "Londn"})], [call("locate", {"city": "London"})], ["51, 0"]], tools=[locate]
    )
    assert reply.text == "51, 0"
    ((_, content, outcome),) = replies.results(1)
    assert (outcome, "Wrong city, please try again" in str(content)) == ("failed", True)


async def test_a_tool_that_raises_is_a_failure_that_the_model_sees() -> None:
    def broken() -> str:
        """Break."""
        raise RuntimeError("no luck")

    reply, replies = await reply_to([[call("broken")], ["It is broken."]], tools=[broken])
    assert reply.text == "It is broken."
    ((_, content, outcome),) = replies.results()
    assert (outcome, "no luck" in str(content)) == ("failed", True)


class Point(BaseModel):
    x: int
    y: int = 0


class Colour(Enum):
    RED = "red"


class Box(TypedDict):
    width: int


class Handle:
    """Something that is no data."""

    name = "handle"


@dataclass
class Line:
    start: Point
    end: Point


async def test_arguments_become_the_types_of_the_parameters() -> None:
    seen: list[object] = []

    def draw(point: Point, line: Line, box: Box, colour: Colour, mode: Literal["fast", "slow"], tags: list[str]) -> str:
        """Draw."""
        seen.extend([point, line, box, colour, mode, tags])
        return "drawn"

    arguments: dict[str, object] = {
        "point": {"x": 1}, "line": {"start": {"x": 1}, "end": {"x": 2}}, "box": {"width": 3}, "colour": "red",
        "mode": "fast", "tags": ["a"],
    }  # fmt: skip
    await reply_to([[call("draw", arguments)], ["ok"]], tools=[draw], whole=True)
    assert seen == [Point(x=1), Line(Point(x=1), Point(x=2)), {"width": 3}, Colour.RED, "fast", ["a"]]


def test_a_parameter_that_no_model_could_fill_is_refused_at_construction() -> None:
    def send(to: Handle) -> str:
        """Send."""
        return to.name

    with pytest.raises(UsageError, match="tool 'send' has a parameter of a type that can't be used: use a pydantic"):
        ModelAgent("a", model="openai:gpt-5", tools=[send])


@pytest.mark.parametrize(
    ("returned", "sent"),
    [
        ("text", "text"), (3, 3), (None, None), (True, True), ([1, "a"], [1, "a"]), ({"a": {"b": 1}}, {"a": {"b": 1}}),
        (Point(x=1), {"x": 1, "y": 0}), ([Point(x=1)], [{"x": 1, "y": 0}]), (Line(Point(x=1), Point(x=2)), None),
        ("", ""),
    ],
)  # fmt: skip
async def test_any_json_is_a_result(returned: object, sent: object) -> None:
    def give() -> object:
        """Give."""
        return returned

    _, replies = await reply_to([[call("give")], ["ok"]], tools=[give])
    ((_, content, outcome),) = replies.results()
    assert outcome == "success"
    if not isinstance(returned, Line):
        assert content == sent


async def test_a_result_that_is_no_json_is_a_failure() -> None:
    def give() -> object:
        """Give."""
        return object()

    _, replies = await reply_to([[call("give")], ["ok"]], tools=[give])
    ((_, content, outcome),) = replies.results()
    assert (outcome, "not JSON" in str(content)) == ("failed", True)


async def test_several_rounds_of_calls_add_up_and_are_charged() -> None:
    rounds = [[call("add", {"a": number})] for number in range(4)]
    reply, replies = await reply_to([*rounds, ["done"]], tools=[add])
    assert len(replies.requests) == 5
    assert reply.usage.requests == 5
    assert sum(isinstance(one, ModelRequest) for one in replies.requests[-1]) == 5


async def test_a_model_that_only_calls_tools_ends_at_the_most_requests() -> None:
    with pytest.raises(InvalidOutput, match="3 requests"):
        await reply_to([[call("add", {"a": 1})]] * 4, tools=[add], max_requests=3)


async def test_an_empty_answer_after_tool_calls_is_asked_for_again() -> None:
    reply, replies = await reply_to([["The answer is 2.", call("add", {"a": 1})], [], ["It is 2."]], tools=[add])
    assert reply.text == "It is 2."
    assert "empty" in replies.correction()


async def test_the_parts_of_a_text_are_one_answer() -> None:
    reply, _ = await reply_to([[TextPart("for"), TextPart("ty-two")]])
    assert reply.text == "forty-two"


async def test_a_call_that_was_cut_is_not_made() -> None:
    made: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        made.append(amount)
        return "paid"

    cut = ModelResponse(parts=[call("pay", '{"amount": 10')], finish_reason="length")
    reply, replies = await reply_to([cut, ["sorry"]], tools=[pay])
    assert (made, reply.text) == ([], "sorry")
    assert replies.results()[0][2] == "retried"


async def test_a_whole_call_in_a_reply_that_was_cut_is_made() -> None:
    cut = ModelResponse(parts=[call("add", '{"a": 10}')], finish_reason="length")
    reply, replies = await reply_to([cut, ["11"]], tools=[add])
    assert (reply.text, replies.results()) == ("11", [("add", 11, "success")])


async def test_the_model_is_offered_the_tools_with_their_schemas() -> None:
    _, replies = await reply_to([["ok"]], tools=[add])
    (tool,) = replies.infos[0].function_tools
    assert (tool.name, tool.description) == ("add", "Add two numbers.")
    assert set(tool.parameters_json_schema["properties"]) == {"a", "b"}
    assert tool.parameters_json_schema["required"] == ["a"]
