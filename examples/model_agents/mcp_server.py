"""An MCP server: two members share one process, which lives as long as the run."""

import sys
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import ModelAgent, Team, run_sync
from teamwright.agents import McpSpec, McpTool


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer in place of a real model: count the lamps, then report the number."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(f"There are {last.content} lamps.")])
    return ModelResponse(parts=[ToolCallPart("count", {"item": "lamp"})])


stock = McpSpec(
    mcp=McpTool(
        command=(sys.executable, "_stock_server.py"),
        folder=str(Path(__file__).parent),
    )
)
model = FunctionModel(answer)
members = [ModelAgent(name, model=model, instructions=f"You are {name}.", tools=[stock]) for name in ("Ada", "Bob")]
result = run_sync(Team("shop", members=members), "How many lamps do we have?")
for message in result.messages:
    print(f"{message.name}: {message.content}")
