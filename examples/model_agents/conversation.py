"""A conversation over several runs: older messages become a summary, and a note is found again in another one."""

import anyio
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import Engine, ModelAgent, Team
from teamwright.agents import Compact


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stand in for a model: note what the guest likes, and look it up when asked."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return say(f"{last.tool_name}: {last.model_response_str()}")
    task = str(getattr(last, "content", ""))
    if task.startswith("Summarise"):
        return say("The guest is Ada; she asked about the house and its garden.")
    if "What do I like" in task:
        return call("recall", query="tea coffee")
    if "I like" in task:
        return call("remember", text="Ada likes green tea")
    first = str(getattr(messages[0].parts[0], "content", ""))
    return say(f"I see {len(messages)} messages; the first is {first!r}.")


def say(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def call(tool: str, **arguments: str) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart(tool, arguments, tool_call_id="call")])


async def main() -> None:
    host = ModelAgent("host", model=FunctionModel(answer), memory="own", compact=Compact(context=500, keep=2))
    house = Team("house", members=[host])
    async with Engine("memory") as engine:
        for task in ("I am Ada.", "Tell me about the house. " + "Please! " * 60, "And the garden?", "Thank you."):
            result = await engine.run(house, task, conversation="visit")
            print(f"> {task[:24].strip()}\n{result.output}")
        await engine.run(house, "By the way, I like green tea.", conversation="visit")
        print("> What do I like?")
        print((await engine.run(house, "What do I like?", conversation="next-visit")).output)
        for one in await engine.conversations.list():
            print(f"{one.name}: {one.turns} turns")


anyio.run(main)
