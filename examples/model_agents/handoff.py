"""A desk of three agents: the first hands each question to the one that can answer it."""

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import ModelAgent, Team, run_sync


def triage(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stand in for a model: hand the question over."""
    to = "transfer_to_refunds" if "money back" in str(messages) else "transfer_to_billing"
    print([tool.name for tool in info.function_tools])
    return ModelResponse(parts=[ToolCallPart(to, {"message": "One moment, please."})])


def answer(text: str) -> FunctionModel:
    """Stand in for a model that says this."""
    return FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart(text)]))


desk = Team(
    "desk",
    strategy="graph",
    max_turns=6,
    members=[
        ModelAgent("triage", model=FunctionModel(triage), handoffs=["billing", "refunds"]),
        ModelAgent("billing", model=answer("The bill is right."), description="Explains bills."),
        ModelAgent("refunds", model=answer("You will get it back."), description="Returns money."),
    ],
)
for message in run_sync(desk, "I want my money back.", journal="memory").messages:
    print(f"{message.name}: {message.content}")
