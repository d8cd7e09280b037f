"""A model that replies with given responses in order, and what an agent makes of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)

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

    async def _stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls | DeltaThinkingCalls]:
        yield ""  # a stream can't be empty
        for index, part in enumerate(self._reply(messages, info).parts):
            match part:
                case TextPart():
                    for piece in _pieces(part.content):
                        yield piece
                case ThinkingPart():
                    yield {index: DeltaThinkingPart(content=part.content, signature=part.signature)}
                case ToolCallPart():
                    sent = part.args if isinstance(part.args, str | None) else json.dumps(part.args)
                    yield {index: DeltaToolCall(part.tool_name, "", tool_call_id=part.tool_call_id)}
                    for piece in _pieces(sent or ""):
                        yield {index: DeltaToolCall(json_args=piece)}
                case _:
                    raise AssertionError(part)

    @property
    def streaming_model(self) -> FunctionModel:
        """The same model, which sends its replies in pieces of a few characters."""
        return FunctionModel(stream_function=self._stream)

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


async def reply_to(
    responses: Sequence[Parts | ModelResponse], *, whole: bool = False, **settings: object
) -> tuple[Reply, Replies]:
    """Run one turn against these responses, once more from its record, and once streamed: the replies must be the same.

    With `whole`, nothing is streamed, so that each tool is called once.
    """
    replies, record = Replies(responses), Recording()
    agent = ModelAgent("a", model=replies.model, **settings)  # pyright: ignore[reportArgumentType]
    reply = await agent.respond(Turn("Go."), record.ctx)
    asked = len(replies.requests)
    assert await agent.respond(Turn("Go."), record.again().ctx) == reply
    assert len(replies.requests) == asked, "a replay asked the model again"
    if not whole and not any(isinstance(one, ModelResponse) for one in responses):
        streamed = ModelAgent("a", model=Replies(responses).streaming_model, **settings)  # pyright: ignore[reportArgumentType]
        again = await streamed.respond(Turn("Go."), Recording().ctx)
        assert (again.text, again.data, again.signal) == (reply.text, reply.data, reply.signal), again
    return reply, replies


def _pieces(text: str, size: int = 3) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
