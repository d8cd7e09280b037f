"""The texts of an event have plain names, and every hash of an event is among its bodies."""

from __future__ import annotations

from pydantic import JsonValue
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.scripted import Rule, ScriptedAgent, ToolRule
from teamwright.history.recorded_asks import bodies_of
from teamwright.journal.codec import body_references
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team


def weather(city: str) -> str:
    """Tell the weather."""
    return f"12 degrees in {city}"


def _answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if any(isinstance(message, ModelResponse) for message in messages):
        return ModelResponse([TextPart("Mild.")])
    right = ToolCallPart("weather", '{"city": "Oslo"}', "1")
    return ModelResponse([ThinkingPart("Ask first."), right, ToolCallPart("wether", "{'city'", "2")])


async def texts_by_kind(member: ModelAgent | ScriptedAgent) -> dict[str, list[dict[str, JsonValue]]]:
    """Run a team of one, and return the texts of its events by kind; those of calls by kind and place."""
    found: dict[str, list[dict[str, JsonValue]]] = {}
    async with Engine(MemoryJournal()) as engine:
        await engine.run(Team("t", members=[member]), "How warm is it?", run_id="r")
        for event in await engine.journal.read("r"):
            texts = await engine.texts(event)
            assert set(bodies_of(event)) <= body_references(event)
            place = event.place.partition("-")[0] if event.kind in ("agent.called", "agent.returned") else ""
            found.setdefault(f"{event.kind} {place}".strip(), []).append(texts)
    return found


async def test_every_text_of_a_model_turn_is_there_under_a_plain_name() -> None:
    texts = await texts_by_kind(ModelAgent("ada", model=FunctionModel(_answer), tools=[weather]))
    assert texts["agent.asked"][-1] == {"task": "How warm is it?"}
    assert texts["agent.called request"] == [{}, {}]
    assert texts["agent.returned request"] == [
        {
            "response": "",
            "thinking": "Ask first.",
            "calls": [
                {"tool": "weather", "arguments": {"city": "Oslo"}},
                {"tool": "wether", "arguments": "{'city'"},
            ],
        },
        {"response": "Mild."},
    ]
    assert texts["agent.called tool"] == [{"arguments": {"city": "Oslo"}}]
    assert texts["agent.returned tool"] == [{"result": "12 degrees in Oslo"}]
    assert texts["agent.call_rejected"] == [{"arguments": "{'city'"}]
    assert texts["agent.replied"][0] == {"messages": [{"name": "ada", "role": "assistant", "content": "Mild."}]}
    assert texts["run.ended"] == [{"output": "Mild."}]
    assert set(texts["run.started"][0]) == {"task", "manifest", "history"}


async def test_the_calls_of_a_scripted_agent_have_texts_too() -> None:
    rules = [
        Rule(match="failed", reply="Never mind."),
        Rule(tool=ToolRule(name="weather", args={"town": "Oslo"})),
    ]
    texts = await texts_by_kind(ScriptedAgent("ada", rules, tools=[weather]))
    assert texts["agent.call_rejected"] == [{"arguments": {"town": "Oslo"}}]
    assert texts["agent.returned request"][-1] == {"response": "Never mind."}
