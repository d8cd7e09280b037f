"""Prompt caching: how much of each prompt of a round robin a provider has read before."""

from os.path import commonprefix

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import ModelAgent, Team, run_sync

earlier: dict[str, str] = {}


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer in place of a real model, and report how many characters of the prompt it has seen before."""
    name = str(info.instructions)
    prompt = "\n".join(
        str(part.content)
        for message in messages
        for part in message.parts
        if isinstance(part, UserPromptPart | TextPart)
    )
    seen = len(commonprefix([prompt, earlier.get(name, "")]))  # noqa: RUF071 - of texts, not of paths
    print(f"{name}: {len(prompt):4} characters, {seen / len(prompt):4.0%} read before")
    earlier[name] = prompt
    return ModelResponse(parts=[TextPart(f"{name} thinks that sourdough needs {len(messages)} hours. " * 3)])


model = FunctionModel(answer)
members = [ModelAgent(name, model=model, instructions=name) for name in ("baker", "critic")]
team = Team("bread", members=members, strategy="round_robin", max_turns=4)
print(run_sync(team, "How long does sourdough need?").stop_reason)
