"""A response is passed on while it is streamed, and only then: reply, thinking and arguments, each as its own part.

What a model thought is no part of its answer, wherever its tags are split.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ThinkingPart
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)

from teamwright.agents.model import response_stream as delta_pace
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.model.response_stream import CLOSE, OPEN, ThinkingFilter, with_thinking_apart
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Event


@pytest.fixture
def every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pass every piece on by itself, however fast the pieces arrive."""
    monkeypatch.setattr(delta_pace, "MOMENT", 0.0)


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


async def _stream(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls | DeltaThinkingCalls]:
    if any(isinstance(message, ModelResponse) for message in messages):
        for text in ("<thi", "nk>Easy.</think>It is", " 8."):
            yield text
        return
    yield {0: DeltaThinkingPart(content="I need")}
    yield {0: DeltaThinkingPart(content=" a tool.")}
    yield {1: DeltaToolCall(name="double", json_args='{"num', tool_call_id="a")}
    yield {2: DeltaToolCall(name="double", json_args='{"number": 5}', tool_call_id="b")}
    yield {1: DeltaToolCall(json_args='ber": 4}')}


def _whole(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse([TextPart("Eight.")])


def _said(deltas: list[AnyDelta]) -> list[tuple[str, int, str]]:
    return [(one.kind.removeprefix("delta."), one.offset, one.text) for one in deltas]


@pytest.mark.usefixtures("every_piece")
async def test_the_parts_of_a_response_are_told_apart_while_they_stream() -> None:
    model = FunctionModel(_whole, stream_function=_stream)
    async with Engine(MemoryJournal()) as engine:
        team = Team("t", members=[ModelAgent("ada", model=model, tools=[double])])
        handle = await engine.start(team, "Go.")
        followed = engine.runs.follow(handle.run_id, parts=True)
        deltas = [one async for one in followed if not isinstance(one, Event)]
    assert _said(deltas) == [
        ("thinking", 0, "I need"),
        ("thinking", 6, " a tool."),
        ("arguments", 0, '{"num'),
        ("arguments", 0, '{"number": 5}'),
        ("arguments", 5, 'ber": 4}'),
        ("thinking", 0, "Easy."),
        ("text", 0, "It is"),
        ("text", 5, " 8."),
    ]
    calls = [(one.tool, one.call) for one in deltas if isinstance(one, ArgumentsDelta)]
    assert calls == [("double", 1), ("double", 2), ("double", 1)]


async def test_nothing_is_streamed_when_nobody_follows() -> None:
    model = FunctionModel(_whole, stream_function=_stream)
    async with Engine(MemoryJournal()) as engine:
        result = await engine.run(Team("t", members=[ModelAgent("ada", model=model, tools=[double])]), "Go.")
    assert result.output == "Eight."


def divided(pieces: list[str]) -> tuple[str, str]:
    each = ThinkingFilter()
    found = [*(each.feed(piece) for piece in pieces), each.finish()]
    return "".join(one.thought for one in found), "".join(one.answer for one in found)


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("Three.", "", "Three."),
        ("<think>Hm.</think>Three.", "Hm.", "Three."),
        ("\n<think>\nHm.\n</think>\n\nThree.", "\nHm.\n", "Three."),
        ("<think>cut", "cut", ""),
        ("<think>", "", ""),
        ("<thin air", "", "<thin air"),
        ("I say <think>no</think>", "", "I say <think>no</think>"),
        ("", "", ""),
    ],
)
def test_thinking_at_the_beginning_is_apart_from_the_answer(text: str, thought: str, answer: str) -> None:
    assert divided([text]) == (thought, answer)
    assert divided(list(text)) == (thought, answer)


texts = st.lists(st.sampled_from([OPEN, CLOSE, "<", "think>", "</", " ", "\n", "a", "Three."]), max_size=8).map("".join)


@given(texts, st.lists(st.integers(0, 60), max_size=6))
def test_it_does_not_matter_where_a_text_is_split(text: str, cuts: list[int]) -> None:
    at = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    assert divided([text[start:end] for start, end in pairwise(at)]) == divided([text])


def test_a_response_has_its_thinking_as_a_part() -> None:
    response = with_thinking_apart(ModelResponse([TextPart("<think>Hm.</think>Three.")]))
    assert response.parts == [ThinkingPart("Hm."), TextPart("Three.")]
    plain = ModelResponse([TextPart("Three.")])
    assert with_thinking_apart(plain) is plain
