"""The structured output of a run while it is written: in each mode of output, ending with what is recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pydantic import BaseModel
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model import response_stream as delta_pace
from teamwright.agents.model.agent import ModelAgent
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.runtime.followers import PartialOutput, _Written
from teamwright.teams.team import Team
from tests.growth import assert_linear


@pytest.fixture(autouse=True)
def every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pass every piece on by itself, however fast the pieces arrive."""
    monkeypatch.setattr(delta_pace, "MOMENT", 0.0)


class Report(BaseModel):
    title: str
    words: list[str] = []


TEXT = '{"title": "The sea", "words": ["salt", "wave"]}'


async def _pieces(text: str, info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    """Stream a text in the mode that was asked for."""
    if info.output_tools:
        yield {0: DeltaToolCall(name=info.output_tools[0].name, json_args="", tool_call_id="a")}
    for start in range(0, len(text), 6):
        piece = text[start : start + 6]
        yield {0: DeltaToolCall(json_args=piece)} if info.output_tools else piece


async def _report(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    async for piece in _pieces(TEXT, info):
        yield piece


async def _first_wrong(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    again = any(isinstance(message, ModelResponse) for message in messages)
    async for piece in _pieces(TEXT if again else '{"title": 5}', info):
        yield piece


async def _numbers(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    async for piece in _pieces('{"value": [1, 20, 300]}', info):
        yield piece


async def outputs(agent: ModelAgent, member: str | None = None) -> list[PartialOutput[Report]]:
    """Follow the output of a run in which a function answers before the agent."""
    before = FunctionAgent("before", lambda turn: {"n": 1})
    async with Engine(MemoryJournal()) as engine:
        handle = await engine.start(Team("t", members=[before, agent]), "Go.")
        return [part async for part in engine.runs.follow_output(handle.run_id, Report, member=member)]


@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
async def test_the_output_grows_and_ends_with_the_recorded_data(mode: str) -> None:
    model = FunctionModel(stream_function=_report, profile={"supports_json_schema_output": True})
    agent = ModelAgent("ada", model=model, output_schema=Report, output_mode=mode)  # pyright: ignore[reportArgumentType]
    parts = await outputs(agent, "ada")
    values = [part.value for part in parts if part.value is not None]
    assert {part.member for part in parts} == {"ada"}
    assert [part.is_final for part in parts] == [False] * (len(parts) - 1) + [True]
    assert values[0] == Report(title="T")
    assert Report(title="The sea", words=["salt"]) in values
    assert values[-1] == Report(title="The sea", words=["salt", "wave"])
    assert parts[-1].data == {"title": "The sea", "words": ["salt", "wave"]}


async def test_a_corrected_answer_begins_again() -> None:
    parts = await outputs(ModelAgent("ada", model=FunctionModel(stream_function=_first_wrong), output_schema=Report))
    titles = [part.data.get("title") for part in parts if isinstance(part.data, dict) and part.member == "ada"]
    assert 5 in titles
    assert titles[-1] == "The sea"
    assert parts[-1].is_final


async def test_an_output_that_is_no_object_is_unwrapped() -> None:
    agent = ModelAgent("ada", model=FunctionModel(stream_function=_numbers), output_schema=list[int])
    parts = await outputs(agent, "ada")
    assert [part.data for part in parts] == [[], [1, 20], [1, 20, 300], [1, 20, 300]]


async def test_members_that_do_not_stream_have_a_final_output_only() -> None:
    agent = ModelAgent("ada", model=FunctionModel(stream_function=_report), output_schema=Report)
    async with Engine(MemoryJournal()) as engine:
        handle = await engine.start(
            Team("t", members=[FunctionAgent("before", lambda turn: {"n": 1}), agent]), "Go.", run_id="r"
        )
        await handle.result()
        later = [part async for part in engine.runs.follow_output("r", Report)]
    assert [(part.member, part.is_final) for part in later] == [("before", True), ("ada", True)]
    assert [part.value for part in later] == [None, Report(title="The sea", words=["salt", "wave"])]


def test_all_parses_of_a_long_output_take_linear_time() -> None:
    def grow(text: str) -> None:
        written = _Written(wrapped=False)
        for start in range(0, len(text), 8):
            written.grow(text[start : start + 8])

    assert_linear(grow, prepare=lambda size: '{"words": [' + '"some word", ' * size)
