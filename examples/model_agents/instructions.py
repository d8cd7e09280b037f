"""Dynamic instructions: a template over the state of the run, and a function."""

from pydantic import JsonValue
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import FunctionAgent, Message, ModelAgent, Reply, Team, Turn, run_sync
from teamwright.agents import TurnContext
from teamwright.strategies import Template


def find_customer(turn: Turn) -> Reply:
    """Look up the customer, and put what is known into the workspace."""
    known: JsonValue = {"name": "Ada", "language": "Danish"}
    return Reply(messages=(Message(name="crm", content="Ada, since 2019"),), context_updates={"customer": known})


def review(ctx: TurnContext) -> str:
    """Instruct the reviewer by what was said before."""
    return f"Review the answer in turn {ctx.turn}; {len(ctx.history)} messages were said before."


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Show the instructions in place of a real model."""
    print(info.instructions)
    return ModelResponse(parts=[TextPart("Fine.")])


model = FunctionModel(answer)
clerk = ModelAgent(
    "clerk",
    model=model,
    instructions=Template("Answer {{ state.customer.name }} in {{ state.customer.language }}."),
)
reviewer = ModelAgent("reviewer", model=model, instructions=review)
team = Team("desk", members=[FunctionAgent("crm", find_customer), clerk, reviewer])
print(run_sync(team, "Where is my order?").status)
