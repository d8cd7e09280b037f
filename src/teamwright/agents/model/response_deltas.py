"""Passes a response on while it is streamed: reply, thinking, and the arguments of each tool call, told apart."""

from __future__ import annotations

from pydantic_ai.messages import (
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

from teamwright.agents.contract.effect import THINKING, Attempt, ReplyPart
from teamwright.agents.model.messages import arguments_text
from teamwright.agents.model.offer import ANSWER_TOOL, OutputMode
from teamwright.agents.model.thinking import Piece, ThinkingFilter
from teamwright.values.events.event import OutputForm


class ResponseDeltas:
    """The pieces of one response, for the observers of an attempt.

    If the response may be structured output, `output` is its form; in the mode `tool` a call of the answer tool gives
    it, else the reply does.
    """

    __slots__ = ("_attempt", "_calls", "_divided", "_output", "_reply")

    def __init__(self, attempt: Attempt, output: OutputForm | None = None, mode: OutputMode = "text") -> None:
        self._attempt = attempt
        self._output: OutputForm | None = output if mode == "tool" else None
        self._reply = ReplyPart(output=None if mode == "tool" else output)
        self._divided = ThinkingFilter()
        self._calls: dict[int, ReplyPart] = {}

    def add(self, event: ModelResponseStreamEvent) -> None:
        """Pass on what an event of the stream adds."""
        match event:
            case (
                PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
            ) if text:
                self._pass_on(self._divided.feed(text))
            case (
                PartStartEvent(part=ThinkingPart(content=text))
                | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text))
            ) if text:
                self._attempt.part_delta(text, THINKING)
            case PartStartEvent(index=index, part=ToolCallPart(tool_name=tool, args=args)):
                output = self._output if tool == ANSWER_TOOL else None
                self._calls[index] = ReplyPart("arguments", tool, len(self._calls) + 1, output)
                self._add_arguments(index, args)
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=args)):
                self._add_arguments(index, args)
            case _:
                pass

    def finish(self) -> None:
        """Pass on what was held back, at the end of the stream."""
        self._pass_on(self._divided.finish())

    def _pass_on(self, piece: Piece) -> None:
        if piece.thought:
            self._attempt.part_delta(piece.thought, THINKING)
        if piece.answer:
            self._attempt.part_delta(piece.answer, self._reply)

    def _add_arguments(self, index: int, args: object) -> None:
        if index in self._calls and (text := arguments_text(args)):
            self._attempt.part_delta(text, self._calls[index])
