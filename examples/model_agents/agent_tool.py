"""A writer asks two agents at once, as tools, and writes with what they found."""

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import FunctionAgent, ModelAgent, Team, Turn, run_sync
from teamwright.agents import as_tool


def write(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stand in for a model: ask both tools, then answer with their results."""
    found = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if found:
        return ModelResponse(parts=[TextPart(" ".join(map(str, found)))])
    offered = [(tool.name, tool.description) for tool in info.function_tools]
    print(offered)
    return ModelResponse(parts=[ToolCallPart(name, {"task": "Tea"}) for name, _ in offered])


def remember(turn: Turn) -> str:
    """Say what a historian knows."""
    return f"{turn.task} is old."


def taste(turn: Turn) -> str:
    """Say how it tastes."""
    return f"{turn.task} is bitter."


historian = FunctionAgent("historian", remember, description="Knows history.")
tasters = Team("tasters", members=[FunctionAgent("taster", taste)])
writer = ModelAgent(
    "writer",
    model=FunctionModel(write),
    tools=[historian, as_tool(tasters, name="ask_tasters", description="Tastes it.")],
)
result = run_sync(writer, "Write about tea.", journal="memory")
print(result.output)
print(result.usage.requests, "model requests")
