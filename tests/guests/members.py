"""A guest of each framework that is installed, with a tool and a model on loopback, and one member of ours."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import pytest

from teamwright import ModelAgent, Team
from teamwright.agents import ServerModel
from teamwright.agents.agent import Agent
from teamwright.guests import Guest, recorded
from teamwright.testing import CallTools, ChatRequest, ModelServer, Say, ToolCall
from teamwright.values.limits import Limits
from teamwright.values.usage_and_prices import Price

PRICE = Price(input=1.0, output=2.0)
LOOKED_UP: Counter[str] = Counter()
"""How often the tool was called for each city."""
LOOKED_UP_FILE = "LOOKED_UP"
"""The variable that names a file for the calls of the tool, which outlives the process that makes them."""


@recorded
def weather(city: str) -> str:
    """Return the weather of a city."""
    LOOKED_UP[city] += 1
    if path := os.environ.get(LOOKED_UP_FILE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{city}\n")
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
    return named_model(server.url, "m")


def named_model(url: str, name: str) -> ServerModel:
    return ServerModel(url=url, name=name, price=PRICE)


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
INSTALLED = [name for name in MAKERS if find_spec(name)]
with catch_warnings(action="ignore"):  # here, since an import may take longer than a test
    for module in INSTALLED:
        import_module(module)


def maker(framework: str) -> Callable[..., Guest]:
    """Return what makes a guest of a framework; skip the test where it is not installed."""
    if framework not in INSTALLED:
        pytest.skip(f"{framework} is not installed; set it up with  make peers")
    return MAKERS[framework]


def mixed_team(model: ServerModel, limits: Limits | None = None) -> Team:
    """A team of a guest of each framework that is installed, and one member of ours, one after the other."""
    members: list[Agent] = [make(f"of-{name}", model) for name, make in MAKERS.items() if name in INSTALLED]
    ours = ModelAgent("ours", model=model, tools=[plain_weather])
    return Team("mixed", members=[*members, ours], limits=limits)
