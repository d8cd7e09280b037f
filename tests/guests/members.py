"""A guest of each framework that is installed, with a tool and a model on loopback, and one member of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from teamwright import ModelAgent, Team
from teamwright.agents import ServerModel
from teamwright.agents.contract.agent import Agent
from teamwright.guests import Guest, recorded
from teamwright.testing import CallTools, ChatRequest, ModelServer, Say, ToolCall
from teamwright.values.limits import Limits, Price

PRICE = Price(input=1.0, output=2.0)
LOOKED_UP: Counter[str] = Counter()
"""How often the tool was called for each city."""


@recorded
def weather(city: str) -> str:
    """Return the weather of a city."""
    LOOKED_UP[city] += 1
    return f"The weather of {city}: rain"


async def plain_weather(city: str) -> str:
    """Return the weather of a city."""
    LOOKED_UP[city] += 1
    return f"The weather of {city}: rain"


def results(request: ChatRequest) -> list[str]:
    return [message.content for message in request.messages if message.role == "tool"]


def call(*cities: str) -> CallTools:
    calls = [ToolCall(name="weather", args={"city": one}, id=f"call-{one}") for one in cities]
    return CallTools(calls=tuple(calls))


def ask_for_rome(request: ChatRequest) -> Say | CallTools:
    """Call the tool, and answer with what it says."""
    if found := results(request):
        return Say(text=f"{found[-1]}.")
    return call("Rome") if request.tools else Say(text="I have no tools.")


def server_model(server: ModelServer) -> ServerModel:
    return ServerModel(url=server.url, name="m", price=PRICE)


def pydantic_ai_guest(name: str, model: ServerModel | None, **settings: Any) -> Guest:
    from pydantic_ai import Agent as Clerk

    from teamwright.guests import PydanticAIGuest

    return PydanticAIGuest(name, Clerk(instructions="Be brief.", tools=[weather]), model=model, **settings)


def langgraph_guest(name: str, model: ServerModel | None, **settings: Any) -> Guest:
    from langchain.agents import create_agent  # pyright: ignore[reportMissingImports]

    from teamwright.guests import LangGraphGuest, chat_model

    return LangGraphGuest(name, create_agent(chat_model(), tools=[weather]), model=model, **settings)


def openai_agents_guest(name: str, model: ServerModel | None, **settings: Any) -> Guest:
    from agents import Agent as Clerk, function_tool  # pyright: ignore[reportAttributeAccessIssue]

    from teamwright.guests import OpenAIAgentsGuest

    clerk = Clerk(name="clerk", instructions="Be brief.", tools=[function_tool(weather)])
    return OpenAIAgentsGuest(name, clerk, model=model, **settings)


def agent_framework_guest(name: str, model: ServerModel | None, **settings: Any) -> Guest:
    from agent_framework import Agent as Clerk  # pyright: ignore[reportMissingImports]

    from teamwright.guests import AgentFrameworkGuest, chat_client

    return AgentFrameworkGuest(name, Clerk(chat_client(), "Be brief.", tools=[weather]), model=model, **settings)


def crewai_guest(name: str, model: ServerModel | None, **settings: Any) -> Guest:
    from crewai import Agent as Clerk, Crew, Task  # pyright: ignore[reportMissingImports]
    from crewai.tools import tool  # pyright: ignore[reportMissingImports]

    from teamwright.guests import CrewAIGuest

    clerk = Clerk(
        role="clerk", goal="Answer", backstory="You are brief.", tools=[tool("weather")(weather)], llm="gpt-5-mini"
    )
    task = Task(description="{task}", expected_output="A sentence", agent=clerk)
    return CrewAIGuest(name, Crew(agents=[clerk], tasks=[task]), model=model, **settings)


MAKERS: dict[str, Callable[..., Guest]] = {
    "pydantic_ai": pydantic_ai_guest,
    "langgraph": langgraph_guest,
    "agents": openai_agents_guest,
    "agent_framework": agent_framework_guest,
    "crewai": crewai_guest,
}
"""A guest of each framework, by the module that it needs."""


def maker(framework: str) -> Callable[..., Guest]:
    """Return what makes a guest of a framework; skip the test where it is not installed."""
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed; set it up with  make peers")
    import_module(framework)
    return MAKERS[framework]


def mixed_team(model: ServerModel, limits: Limits | None = None) -> Team:
    """A team of a guest of each framework that is installed, and one member of ours, one after the other."""
    members: list[Agent] = [make(f"of-{name}", model) for name, make in MAKERS.items() if find_spec(name)]
    ours = ModelAgent("ours", model=model, tools=[plain_weather])
    return Team("mixed", members=[*members, ours], limits=limits)
