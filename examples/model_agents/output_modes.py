"""Output modes: how a model is asked for an answer that has a schema."""

from __future__ import annotations

import asyncio
from typing import Literal, get_args

from pydantic import BaseModel
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import Engine, ModelAgent, Team

Mode = Literal["auto", "native", "tool", "prompt"]


class City(BaseModel):
    """The answer."""

    name: str
    people: int


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer in the way that the request asks for."""
    if info.output_tools:
        print("  the model is offered the tool", info.output_tools[0].name)
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"name": "Bern", "people": 146000})])
    asked = "its schema mode" if info.model_request_parameters.output_object else "a prompt"
    print("  the model is asked by", asked)
    return ModelResponse(parts=[TextPart('{"name": "Bern", "people": 146000}')])


async def main() -> None:
    """Ask in each mode."""
    async with Engine() as engine:
        for mode in get_args(Mode):
            model = FunctionModel(answer, profile={"supports_json_schema_output": True})
            agent = ModelAgent("guide", model=model, output_schema=City, output_mode=mode)
            print(f"{mode}:")
            print(" ", (await engine.run(Team("t", members=[agent]), "The capital of Switzerland?")).data)


asyncio.run(main())
