"""A model agent with a model object of your own: any `Model` of pydantic-ai, with whatever client it has."""

from __future__ import annotations

import asyncio

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import Engine, ModelAgent, Team
from teamwright.errors import NotResumable


def greet(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stand in for a model; with a real one, write  OpenAIChatModel("…", provider=OpenAIProvider(openai_client=…))."""
    return ModelResponse(parts=[TextPart("Good morning.")])


async def main() -> None:
    """Run the team, and fork its run with the team and without."""
    greeter = ModelAgent("greeter", model=FunctionModel(greet))
    team = Team("desk", members=[greeter])
    print(greeter)
    async with Engine() as engine:
        result = await engine.run(team, "Greet me.", run_id="morning")
        print(result.output)
        try:
            await engine.fork("morning", at="step-1")
        except NotResumable as error:
            print(error)
        print((await engine.fork("morning", at="step-1", team=team)).output)


asyncio.run(main())
