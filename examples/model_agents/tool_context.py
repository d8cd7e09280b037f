"""A tool with a context: a dependency of the engine, a log line, progress, and a question to a person."""

import asyncio
from typing import Annotated

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import Answer, Engine, ModelAgent
from teamwright.agents import ToolContext


class Stock:
    """The stock of a shop; the caller gives it to the engine."""

    articles = {"lamp": 3}


async def reserve(ctx: ToolContext[Stock], article: str, count: Annotated[int, "how many pieces"] = 1) -> str:
    """Reserve an article.

    Args:
        article: The name of the article.
    """
    stock = ctx.dep(Stock)
    ctx.progress("looking", 0.5)
    if count > stock.articles[article]:
        answer = await ctx.ask_person(f"Only {stock.articles[article]} left. Reserve these?", choices=["yes", "no"])
        count = stock.articles[article] if answer.text == "yes" else 0
    ctx.log(f"{ctx.member} reserves {count}")
    return f"{count} reserved"


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stand in for a model: call the tool, then say what came back."""
    results = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if results:
        return ModelResponse(parts=[TextPart(f"Done: {results[-1].content}.")])
    properties = info.function_tools[0].parameters_json_schema["properties"]
    print("The model reads", {name: one["description"] for name, one in properties.items()})
    return ModelResponse(parts=[ToolCallPart("reserve", {"article": "lamp", "count": 5})])


async def main() -> None:
    clerk = ModelAgent("clerk", model=FunctionModel(answer), tools=[reserve])
    async with Engine("memory", deps=[Stock()]) as engine:
        paused = await engine.run(clerk, "Reserve five lamps.", run_id="lamps")
        for key, question in (await engine.runs.history("lamps")).questions().items():
            print(f"{paused.status}: {question.text}")
            await engine.runs.answer("lamps", key, Answer(text="yes"))
        result = await engine.resume("lamps", team=clerk)
        print(result.output)
        for event in await engine.journal.read("lamps"):
            if event.kind in ("run.logged", "agent.progressed"):
                print(event.kind, event.fact.to_json()["text"])


asyncio.run(main())
