"""Teams of the crash matrix in which a model asks other agents as tools, or hands its turn to another member."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.tools.built_in import as_tool
from teamwright.teams.team import Team
from teamwright.testing.model_server import CallTools, ChatAnswer, ChatRequest, Say, ToolCall
from teamwright.values.specs.models import ServerModel
from tests.laws.crash.http_members import http_member, http_members, post

ASKS, HANDS_OFF = "asks", "hands-off"
"""The model that asks agents, and the one that hands its turn over."""


def agent_tools(url: str) -> Team:
    """A model agent that asks an agent and a team at once, beside a function, then the agent again."""
    inner = Team("inner", members=http_members(url, "c d"), share="output")
    tools = [_look_up(url), http_member(url, "b", calls=2), as_tool(inner, name="inner-team")]
    agent = ModelAgent("modeller", model=_model(url, ASKS), tools=tools)
    return Team("with-tools", members=[http_member(url, "a"), agent, http_member(url, "z")])


def call_agents(request: ChatRequest) -> ChatAnswer:
    """Call three tools at once, then one, then answer."""
    match sum(bool(one.tool_calls) for one in request.messages):
        case 0:
            look_up = ToolCall(name="look_up", args={"word": "one"})
            return CallTools(calls=(_ask("b", "first"), look_up, _ask("inner-team", "second")))
        case 1:
            return CallTools(calls=(_ask("b", "third"),))
        case _:
            return Say(text=f"the model says {request.digest}")


def handoffs(url: str) -> Team:
    """Four turns, each but the last handed on: by plain members, and by a model that calls a function beside it."""
    model = ModelAgent("modeller", model=_model(url, HANDS_OFF), tools=[_look_up(url)], handoffs=["b", "z"])
    members = [http_member(url, "a", to="modeller"), http_member(url, "b", to="z"), model, http_member(url, "z")]
    return Team("with-tools", members=members, max_turns=9)


def hand_off(request: ChatRequest) -> ChatAnswer:
    """Look a word up, then hand off and look up another."""
    look_up = ToolCall(name="look_up", args={"word": "one"})
    if not any(one.tool_calls for one in request.messages):
        return CallTools(calls=(look_up,))
    transfer = ToolCall(name="transfer_to_b", args={"message": f"the model says {request.digest}"})
    return CallTools(calls=(transfer, ToolCall(name="look_up", args={"word": "two"})))


def _look_up(url: str) -> Callable[..., Awaitable[str]]:
    async def look_up(word: str, *, idempotency_key: str) -> str:
        """Look a word up."""
        return await post(url, f"tool-{word}", word, idempotency_key)

    return look_up


def _ask(name: str, task: str) -> ToolCall:
    return ToolCall(name=name, args={"task": task})


def _model(url: str, name: str) -> ServerModel:
    return ServerModel(url=f"{url.removesuffix('/call')}/v1", name=name)
