"""Tells the parts of a response apart, whole and while it streams: the reply, thinking, and arguments of tool calls.

Open models write what they think as text: `<think>…</think>` at its beginning.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
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
from teamwright.agents.model.delta_pace import PacedDeltas
from teamwright.agents.model.messages import arguments_text
from teamwright.agents.model.request_template import ANSWER_TOOL, OutputMode
from teamwright.values.events.event import OutputForm

OPEN, CLOSE = "<think>", "</think>"
BLANK = " "
"""Awaited after the closing tag: space before the answer is no part of it."""


class Piece(NamedTuple):
    """A piece of output, divided into what was thought and what was answered."""

    thought: str = ""
    answer: str = ""


class ThinkingFilter:
    """Divides a text that arrives in pieces, wherever the tags are split."""

    def __init__(self) -> None:
        self._held, self._tag = "", OPEN

    def feed(self, text: str) -> Piece:
        """Take the next piece; what may be the beginning of a tag is held back."""
        if not self._tag:
            return Piece("", text)
        self._held += text
        thought = ""
        if self._tag == OPEN:
            begun = self._held.lstrip()
            if begun.startswith(OPEN):
                self._held, self._tag = begun[len(OPEN) :], CLOSE
            elif OPEN.startswith(begun):
                return Piece()
            else:
                self._tag = ""
        if self._tag == CLOSE:
            thought, closed, rest = self._held.partition(CLOSE)
            if not closed:
                kept = _common_end(self._held)
                thought, self._held = self._held[: len(self._held) - kept], self._held[len(self._held) - kept :]
                return Piece(thought)
            self._held, self._tag = rest, BLANK
        if self._tag == BLANK:
            self._held = self._held.lstrip()
            self._tag = "" if self._held else BLANK
        answer, self._held = self._held, ""
        return Piece(thought, answer)

    def finish(self) -> Piece:
        """Return what was held back, at the end of the text."""
        held, self._held = self._held, ""
        return Piece(held) if self._tag == CLOSE else Piece(answer=held)


def with_thinking_apart(response: ModelResponse) -> ModelResponse:
    """Return the response with the thinking at the beginning of its text as a part of its own."""
    parts: list[ModelResponsePart] = list(response.parts)
    at = next((place for place, part in enumerate(parts) if isinstance(part, TextPart)), None)
    first = None if at is None else parts[at]
    if at is None or not isinstance(first, TextPart) or not first.content.lstrip().startswith(OPEN):
        return response
    divided = ThinkingFilter()
    fed, held = divided.feed(first.content), divided.finish()
    answer = fed.answer + held.answer
    parts[at : at + 1] = [
        ThinkingPart(fed.thought + held.thought),
        *([replace(first, content=answer)] if answer else []),
    ]
    return replace(response, parts=parts)


class ResponseDeltas:
    """The pieces of one response, for the observers of an attempt.

    If the response may be structured output, `output` is its form; in the mode `tool` a call of the answer tool gives
    it, else the reply does.
    """

    __slots__ = ("_answer_tool", "_calls", "_divided", "_output", "_paced", "_reply")

    def __init__(
        self,
        attempt: Attempt,
        output: OutputForm | None = None,
        mode: OutputMode = "text",
        answer_tool: str = ANSWER_TOOL,
    ) -> None:
        self._answer_tool = answer_tool
        self._paced = PacedDeltas(attempt.delta)
        self._output: OutputForm | None = output if mode == "tool" else None
        self._reply = ReplyPart(output=None if mode == "tool" else output)
        self._divided = ThinkingFilter()
        self._calls: dict[int, ReplyPart] = {}

    def add(self, event: ModelResponseStreamEvent) -> str:
        """Pass on what an event of the stream adds, and return it."""
        # Called for every chunk, so the usual case comes first and without a `match`, which takes several microseconds.
        if type(event) is PartDeltaEvent:
            delta = event.delta
            if type(delta) is TextPartDelta:
                return self._add_text(delta.content_delta)
            if isinstance(delta, ThinkingPartDelta):
                return self._add_thinking(delta.content_delta)
            return self._add_arguments(event.index, delta.args_delta) if isinstance(delta, ToolCallPartDelta) else ""
        if not isinstance(event, PartStartEvent):
            return ""
        part = event.part
        if isinstance(part, TextPart):
            return self._add_text(part.content)
        if isinstance(part, ThinkingPart):
            return self._add_thinking(part.content)
        if isinstance(part, ToolCallPart):
            output = self._output if part.tool_name == self._answer_tool else None
            self._calls[event.index] = ReplyPart("arguments", part.tool_name, len(self._calls) + 1, output)
            return self._add_arguments(event.index, part.args)
        return ""

    def finish(self) -> None:
        """Pass on what was held back, at the end of the stream."""
        self._pass_on(self._divided.finish())
        self._paced.flush()

    def stop(self) -> None:
        """Pass on what has arrived, where the stream ends early."""
        self._paced.flush()

    def _pass_on(self, piece: Piece) -> None:
        if piece.thought:
            self._paced.add(piece.thought, THINKING)
        if piece.answer:
            self._paced.add(piece.answer, self._reply)

    def _add_text(self, text: str) -> str:
        if text:
            self._pass_on(self._divided.feed(text))
        return text

    def _add_thinking(self, text: str | None) -> str:
        if text:
            self._paced.add(text, THINKING)
        return text or ""

    def _add_arguments(self, index: int, args: object) -> str:
        text = arguments_text(args)
        if text and index in self._calls:
            self._paced.add(text, self._calls[index])
        return text


def _common_end(text: str) -> int:
    """The length of the end of a text that may begin the closing tag."""
    return next((size for size in range(min(len(text), len(CLOSE) - 1), 0, -1) if CLOSE.startswith(text[-size:])), 0)
