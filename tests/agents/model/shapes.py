"""A model that replies with given responses in order, and what an agent makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright.agents.model.agent import ModelAgent
from teamwright.values.turns.turn import Reply, Turn
from tests.agents.recording import Recording

Parts = Sequence[ModelResponsePart | str]
ANSWER = "final_result"


def call(tool: str, args: str | dict[str, object] | None = None, id: str | None = None) -> ToolCallPart:
    """A tool call as a model makes it."""
    return ToolCallPart(tool, args) if id is None else ToolCallPart(tool, args, id)


def answer(args: str | dict[str, object] | None) -> ToolCallPart:
    """A call of the tool that takes the answer."""
    return ToolCallPart(ANSWER, args)


@dataclass
class Replies:
    """Replies with these responses, each a list of parts or a whole response, and keeps the requests."""

    responses: Sequence[Parts | ModelResponse]
    requests: list[list[ModelMessage]] = field(default_factory=list[list[ModelMessage]])
    infos: list[AgentInfo] = field(default_factory=list[AgentInfo])

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self._reply)

    def _reply(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests.append(list(messages))
        self.infos.append(info)
        response = self.responses[len(self.requests) - 1]
        if isinstance(response, ModelResponse):
            return response
        return ModelResponse(parts=[TextPart(one) if isinstance(one, str) else one for one in response])

    def results(self, request: int = -1) -> list[tuple[str, object, str]]:
        """The tool results that a request ends with: tool, content and outcome."""
        last = self.requests[request][-1]
        assert isinstance(last, ModelRequest)
        return [(one.tool_name, one.content, one.outcome) for one in last.parts if isinstance(one, ToolReturnPart)]

    def correction(self, request: int = -1) -> str:
        """The text of the user that a request ends with."""
        last = self.requests[request][-1].parts[-1]
        assert isinstance(last, UserPromptPart)
        return str(last.content)


async def reply_to(responses: Sequence[Parts | ModelResponse], **settings: object) -> tuple[Reply, Replies]:
    """Run one turn against these responses, and once more from its record, which must give the same reply."""
    replies, record = Replies(responses), Recording()
    agent = ModelAgent("a", model=replies.model, **settings)  # pyright: ignore[reportArgumentType]
    reply = await agent.respond(Turn("Go."), record.ctx)
    asked = len(replies.requests)
    assert await agent.respond(Turn("Go."), record.again().ctx) == reply
    assert len(replies.requests) == asked, "a replay asked the model again"
    return reply, replies
