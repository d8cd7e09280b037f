"""Guardrails: one check replaces a card number in the task, another refuses an answer with a promise."""

import re

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import ModelAgent, run_sync
from teamwright.agents import Mend, Refuse, TurnContext


def hide_cards(text: str, ctx: TurnContext) -> Mend | None:
    """Replace card numbers."""
    hidden = re.sub(r"\b\d{16}\b", "[card]", text)
    return Mend(hidden) if hidden != text else None


def no_promises(text: str, ctx: TurnContext) -> Refuse | None:
    """Refuse promises."""
    return Refuse("do not promise anything") if "promise" in text else None


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer in place of a real model: promise at first."""
    last = messages[-1]
    assert isinstance(last, ModelRequest)
    part = last.parts[-1]
    assert isinstance(part, UserPromptPart)
    prompt = str(part.content)
    print(f"> {prompt}")
    return ModelResponse(parts=[TextPart("We look into it." if "refused" in prompt else "I promise a refund.")])


clerk = ModelAgent("clerk", model=FunctionModel(answer), check={"input": hide_cards, "output": no_promises})
print(run_sync(clerk, "Refund 4111111111111111, please.").output)
