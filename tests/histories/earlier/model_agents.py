"""Model agents of an earlier version, whose prompts have the task last: `model_agents.json` is their record."""

from __future__ import annotations

from teamwright.agents.model.agent import ModelAgent
from teamwright.teams.team import Team
from teamwright.testing.chat import CallTools, ChatAnswer, ChatRequest, Say, SayJson, ToolCall
from teamwright.testing.model_server import ModelServer
from teamwright.values.specs.manifest import ServerModel

SCORE = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} is a word"


def answer(request: ChatRequest) -> ChatAnswer:
    """Answer from the request alone, so that the same answers come whatever was recorded already."""
    first, last = request.messages[0].content, request.messages[-1]
    if first == "Score it.":
        return SayJson(data={"score": 7 if "is not of type" in last.content else "seven"})
    if last.role != "tool":
        return CallTools(calls=(ToolCall(name="look_up", args={"word": "tree"}), ToolCall(name="look_up", args={})))
    return Say(text="I have looked it up.")


def model_agents(server: ModelServer) -> Team:
    """A team of an agent with tools and one with structured output, twice each."""
    model = ServerModel(url=server.url, name="tiny")
    reader = ModelAgent("reader", model=model, instructions="Look it up.", tools=[look_up])
    scorer = ModelAgent("scorer", model=model, instructions="Score it.", output_schema=SCORE)
    return Team("readers", members=[reader, scorer], strategy="round_robin", max_turns=2)
