"""An engine outside of a block: one task opens it, others use and close it, as fixtures and notebook cells do."""

import asyncio

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import Engine, ModelAgent, run_sync


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer in place of a real model."""
    return ModelResponse(parts=[TextPart("Forty-two.")])


oracle = ModelAgent("oracle", model=FunctionModel(answer))
engine = Engine("memory")


async def ask(task: str) -> None:
    """Run the agent, as the second cell of a notebook does."""
    print((await engine.run(oracle, task)).output)


async def notebook() -> None:
    """Run each cell in a task of its own, as IPython does."""
    await asyncio.create_task(engine.open())
    await asyncio.create_task(ask("What is the answer?"))
    await asyncio.create_task(engine.close())
    print(run_sync(oracle, "And without an engine?", journal="memory").output)  # in a loop of its own


asyncio.run(notebook())
