"""Settings of requests: those of the agent take precedence over those of its model."""

from __future__ import annotations

import asyncio
import json

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import Engine, ModelAgent, Team
from teamwright.agents import NamedModel
from teamwright.errors import UsageError


def show(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer with the settings that arrive."""
    sent = {name: value for name, value in (info.model_settings or {}).items() if name != "max_retries"}
    return ModelResponse(parts=[TextPart(json.dumps(sent, sort_keys=True))])


async def main() -> None:
    """Print the settings of a request, of an agent with a declared model, and a mistake."""
    agent = ModelAgent(
        "a", model=FunctionModel(show), settings={"temperature": 0.2, "seed": 7, "stop_sequences": ["END"]}
    )
    async with Engine() as engine:
        print((await engine.run(Team("t", members=[agent]), "What did you get?")).output)
    model = NamedModel(model="openai:gpt-5-mini", settings={"openai_reasoning_effort": "low", "top_p": 0.9})
    print(ModelAgent("b", model=model, settings={"top_p": 0.5}).settings_for(model))
    try:
        ModelAgent("c", model=model, settings={"openai_reasoning_efort": "low"})  # pyright: ignore[reportArgumentType]
    except UsageError as error:
        print(error)


asyncio.run(main())
