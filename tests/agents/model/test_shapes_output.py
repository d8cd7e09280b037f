"""Shapes of answers that pydantic-ai tests for its loop, against ours. Differences: docs/start/from-others.md."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import pytest
from pydantic import BaseModel, Field, field_validator
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart
from typing_extensions import TypedDict

from teamwright.errors import InvalidOutput, Refused
from tests.agents.model.shapes import ANSWER, answer, call, reply_to


class Foo(BaseModel):
    a: int
    b: str


class NotFoo(BaseModel):
    b: str

    @field_validator("b")
    @classmethod
    def _not_foo(cls, b: str) -> str:
        if b == "foo":
            raise ValueError("must not be foo")
        return b


@dataclass
class Pair:
    a: int
    b: str = "x"


class Mapped(TypedDict):
    a: int


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Dog(BaseModel):
    kind: Literal["dog"]
    barks: bool


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Node(BaseModel):
    name: str
    children: list[Node] = Field(default_factory=list["Node"])


def add(a: int) -> int:
    """Add one."""
    return a + 1


@pytest.mark.parametrize(
    ("form", "sent", "data"),
    [
        (Foo, {"a": 1, "b": "foo"}, {"a": 1, "b": "foo"}),
        (Pair, {"a": 1, "b": "foo"}, {"a": 1, "b": "foo"}),
        (Mapped, {"a": 1}, {"a": 1}),
        (Node, {"value": {"name": "x", "children": [{"name": "y"}]}}, {"name": "x", "children": [{"name": "y"}]}),
        (dict[str, int], {"x": 1}, {"x": 1}),
        (int, {"value": 3}, 3),
        (bool, {"value": False}, False),
        (float, {"value": 1.5}, 1.5),
        (str, {"value": "hi"}, "hi"),
        (Colour, {"value": "red"}, "red"),
        (Literal["yes", "no"], {"value": "yes"}, "yes"),
        (list[str], {"value": ["foo", "bar"]}, ["foo", "bar"]),
        (tuple[str, str], {"value": ["foo", "bar"]}, ["foo", "bar"]),
        (list[Foo], {"value": [{"a": 1, "b": "x"}]}, [{"a": 1, "b": "x"}]),
        (int | str, {"value": 3}, 3),
        (Dog | Cat, {"value": {"kind": "cat", "lives": 9}}, {"kind": "cat", "lives": 9}),
        (Foo | None, {"value": None}, None),
    ],
)
async def test_any_type_is_an_output(form: type[object], sent: dict[str, object], data: object) -> None:
    reply, replies = await reply_to([[answer(sent)]], output_schema=form)
    assert reply.data == data
    assert len(replies.requests) == 1
    (tool,) = replies.infos[0].output_tools
    assert tool.parameters_json_schema["type"] == "object"
    assert json.loads(reply.text) == data


@pytest.mark.parametrize("args", ['{"a": 1, "b": "foo"}', {"a": 1, "b": "foo"}])
async def test_an_answer_comes_as_text_or_as_data(args: str | dict[str, object]) -> None:
    reply, _ = await reply_to([[answer(args)]], output_schema=Foo)
    assert reply.data == {"a": 1, "b": "foo"}


async def test_a_list_that_a_model_sends_as_a_text_of_json_is_read() -> None:
    sent: dict[str, object] = {"value": json.dumps([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])}
    reply, replies = await reply_to([[answer(sent)]], output_schema=list[Foo])
    assert reply.data == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert len(replies.requests) == 1


async def test_a_text_that_looks_like_json_stays_text_where_text_is_asked_for() -> None:
    reply, _ = await reply_to([[answer({"value": "[1, 2]"})]], output_schema=str)
    assert reply.data == "[1, 2]"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"a": "wrong", "b": "foo"}, "a"),
        ({"a": 1}, "b"),
        ({}, "a"),
        (None, "a"),
        ('{"a": 1, "b": "fo', "no JSON"),
        ("nonsense", "no JSON"),
    ],
)
async def test_an_answer_that_does_not_fit_is_corrected(wrong: str | dict[str, object] | None, why: str) -> None:
    reply, replies = await reply_to([[answer(wrong)], [answer({"a": 42, "b": "foo"})]], output_schema=Foo)
    assert reply.data == {"a": 42, "b": "foo"}
    ((tool, content, outcome),) = replies.results()
    assert (tool, outcome) == (ANSWER, "retried")
    assert why in str(content)


async def test_a_validator_of_the_type_is_asked_too_and_its_words_are_the_correction() -> None:
    reply, replies = await reply_to([[answer({"b": "foo"})], [answer({"b": "bar"})]], output_schema=NotFoo)
    assert reply.data == {"b": "bar"}
    assert "must not be foo" in str(replies.results()[0][1])


async def test_an_answer_that_never_fits_fails_the_turn() -> None:
    with pytest.raises(InvalidOutput, match="did not correct its mistake"):
        await reply_to([[answer({"a": "x"})]] * 5, output_schema=Foo)


async def test_text_in_place_of_the_answer_tool_is_corrected() -> None:
    reply, replies = await reply_to([["I think it is 42."], [answer({"a": 42, "b": "x"})]], output_schema=Foo)
    assert reply.data == {"a": 42, "b": "x"}
    assert "JSON" in replies.correction()


async def test_text_that_is_the_answer_in_json_is_taken() -> None:
    reply, replies = await reply_to([['```json\n{"a": 42, "b": "x"}\n```']], output_schema=Foo)
    assert (reply.data, len(replies.requests)) == ({"a": 42, "b": "x"}, 1)


async def test_text_beside_the_answer_is_dropped() -> None:
    reply, _ = await reply_to([["Here you are:", answer({"a": 1, "b": "x"})]], output_schema=Foo)
    assert json.loads(reply.text) == {"a": 1, "b": "x"}


async def test_the_first_of_several_answers_counts() -> None:
    reply, _ = await reply_to([[answer({"a": 1, "b": "x"}), answer({"a": 2, "b": "y"})]], output_schema=Foo)
    assert reply.data == {"a": 1, "b": "x"}


async def test_the_first_answer_that_fits_counts() -> None:
    reply, replies = await reply_to([[answer({"a": "no"}), answer({"a": 2, "b": "y"})]], output_schema=Foo)
    assert (reply.data, len(replies.requests)) == ({"a": 2, "b": "y"}, 1)


async def test_several_answers_that_do_not_fit_are_one_correction_with_a_result_each() -> None:
    responses = [[answer({"a": "no"}), answer({})], [answer({"a": 2, "b": "y"})]]
    reply, replies = await reply_to(responses, output_schema=Foo)
    assert reply.data == {"a": 2, "b": "y"}
    assert [outcome for _, _, outcome in replies.results()] == ["retried", "retried"]


@pytest.mark.parametrize("first", [True, False])
async def test_tools_beside_the_answer_are_called_wherever_they_stand(first: bool) -> None:
    made: list[str] = []

    def note(text: str) -> str:
        """Note."""
        made.append(text)
        return "noted"

    parts = [call("note", {"text": "x"}), answer({"a": 1, "b": "x"})]
    reply, replies = await reply_to([parts if first else parts[::-1]], output_schema=Foo, tools=[note], whole=True)
    assert (reply.data, made, len(replies.requests)) == ({"a": 1, "b": "x"}, ["x"], 1)


async def test_an_unknown_tool_beside_the_answer_does_not_keep_it_from_counting() -> None:
    reply, replies = await reply_to([[call("nothing", {}), answer({"a": 1, "b": "x"})]], output_schema=Foo)
    assert (reply.data, len(replies.requests)) == ({"a": 1, "b": "x"}, 1)


async def test_tools_beside_an_answer_that_does_not_fit_have_their_results_in_order() -> None:
    responses = [[answer({"a": "no"}), call("add", {"a": 1})], [answer({"a": 2, "b": "y"})]]
    reply, replies = await reply_to(responses, output_schema=Foo, tools=[add])
    assert reply.data == {"a": 2, "b": "y"}
    assert [(tool, outcome) for tool, _, outcome in replies.results()] == [(ANSWER, "retried"), ("add", "success")]


async def test_calls_then_the_answer() -> None:
    reply, replies = await reply_to(
        [[call("add", {"a": 1})], [answer({"a": 2, "b": "x"})]], output_schema=Foo, tools=[add]
    )
    assert (reply.data, len(replies.requests)) == ({"a": 2, "b": "x"}, 2)


async def test_terminate_ends_the_turn_after_the_tools_beside_it() -> None:
    made: list[int] = []

    def note(n: int) -> int:
        """Note."""
        made.append(n)
        return n

    parts = [call("terminate", {"response": "bye"}), call("note", {"n": 1})]
    reply, _ = await reply_to([parts], tools=[note, "terminate"], whole=True)
    assert (reply.text, reply.signal, made) == ("bye", "terminate", [1])


async def test_an_answer_beside_terminate_counts_and_ends_the_team() -> None:
    parts = [call("terminate", {"response": "bye"}), answer({"a": 1, "b": "x"})]
    reply, _ = await reply_to([parts], tools=["terminate"], output_schema=Foo)
    assert (reply.data, reply.signal) == ({"a": 1, "b": "x"}, "terminate")


@pytest.mark.parametrize(
    "parts",
    [[], [""], ["   "], [ThinkingPart("hm")], [ThinkingPart("hm"), ""], [TextPart("<think>only</think>")]],
)
async def test_an_empty_reply_is_asked_for_again(parts: list[object]) -> None:
    reply, replies = await reply_to([parts, ["forty-two"]])  # pyright: ignore[reportArgumentType]
    assert reply.text == "forty-two"
    assert "empty" in replies.correction()


async def test_an_empty_reply_with_an_output_asks_for_the_answer_tool() -> None:
    reply, replies = await reply_to([[], [answer({"a": 1, "b": "x"})]], output_schema=Foo)
    assert reply.data == {"a": 1, "b": "x"}
    assert ANSWER in replies.correction()


async def test_replies_that_stay_empty_fail_the_turn() -> None:
    with pytest.raises(InvalidOutput, match="empty"):
        await reply_to([[]] * 5)


async def test_an_empty_reply_that_was_cut_says_which_limit() -> None:
    with pytest.raises(InvalidOutput, match="output limit"):
        await reply_to([ModelResponse(parts=[ThinkingPart("hm")], finish_reason="length")])


async def test_a_reply_that_a_content_filter_stopped_is_a_refusal() -> None:
    with pytest.raises(Refused, match="content filter"):
        await reply_to([ModelResponse(parts=[], finish_reason="content_filter")])


async def test_a_text_that_was_cut_is_the_answer_and_is_marked() -> None:
    reply, _ = await reply_to([ModelResponse(parts=[TextPart("forty-")], finish_reason="length")])
    assert (reply.text, reply.truncated) == ("forty-", True)


async def test_json_that_was_cut_is_corrected() -> None:
    cut = ModelResponse(parts=[answer('{"a": 1, "b": "f')], finish_reason="length")
    reply, _ = await reply_to([cut, [answer({"a": 1, "b": "f"})]], output_schema=Foo)
    assert (reply.data, reply.truncated) == ({"a": 1, "b": "f"}, False)


async def test_thinking_beside_the_answer_is_no_part_of_it() -> None:
    reply, _ = await reply_to([[ThinkingPart("hm"), answer({"a": 1, "b": "x"})]], output_schema=Foo)
    assert reply.data == {"a": 1, "b": "x"}
    reply, _ = await reply_to([[ThinkingPart("hm"), "forty-two"]])
    assert reply.text == "forty-two"


@pytest.mark.parametrize("mode", ["native", "prompt"])
async def test_an_answer_in_text_is_read_and_corrected(mode: str) -> None:
    responses = [['{"a": "x"}'], ['{"a": 1, "b": "x"}']]
    reply, replies = await reply_to(responses, output_schema=Foo, output_mode=mode)
    assert reply.data == {"a": 1, "b": "x"}
    assert "'a'" in replies.correction() or "a:" in replies.correction()
    assert replies.infos[0].output_tools == []


async def test_the_answer_tool_is_described_by_the_type() -> None:
    class Verdict(BaseModel):
        """The verdict of the court."""

        guilty: bool

    _, replies = await reply_to([[answer({"guilty": True})]], output_schema=Verdict)
    (tool,) = replies.infos[0].output_tools
    assert tool.description == "The verdict of the court."


async def test_a_field_that_the_schema_forbids_is_corrected() -> None:
    class Strict(BaseModel):
        model_config = {"extra": "forbid"}
        a: int

    reply, _ = await reply_to([[answer({"a": 1, "b": 2})], [answer({"a": 1})]], output_schema=Strict)
    assert reply.data == {"a": 1}


async def test_corrections_are_counted_over_the_turn_and_calls_in_between_do_not_reset_them() -> None:
    wrong, between = [answer({"a": "x"})], [call("add", {"a": 1})]
    with pytest.raises(InvalidOutput, match="did not correct"):
        await reply_to([wrong, between, wrong, between, wrong, between], output_schema=Foo, tools=[add])


@pytest.mark.parametrize(("response", "data"), [('{"a": 1, "b": "x"}', {"a": 1, "b": "x"}), ("bye", None), ("", None)])
async def test_terminating_with_a_text_that_does_not_fit_the_schema_is_a_warning(response: str, data: object) -> None:
    parts = [call("terminate", {"response": response})]
    reply, _ = await reply_to([parts], tools=["terminate"], output_schema=Foo)
    assert (reply.data, reply.signal) == (data, "terminate")
    warning = "The reply of 'a' has no data: it called terminate with a text that does not fit its output_schema"
    assert reply.warnings == (() if data else (warning,))


async def test_a_tool_that_is_named_like_the_answer_tool_is_called() -> None:
    made: list[int] = []

    def final_result(n: int) -> str:
        """Note."""
        made.append(n)
        return "noted"

    parts = [[call("final_result", {"n": 1})], [call("final_result_2", {"a": 1, "b": "x"})]]
    reply, replies = await reply_to(parts, tools=[final_result], output_schema=Foo, output_mode="tool", whole=True)
    assert (reply.data, made) == ({"a": 1, "b": "x"}, [1])
    assert [one.name for one in replies.infos[0].output_tools] == ["final_result_2"]
