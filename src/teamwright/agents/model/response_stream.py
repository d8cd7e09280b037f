"""A response while it streams: its parts told apart, its pieces paced, and its output measured until it is enough.

Open models write what they think as text: `<think>…</think>` at its beginning. Each piece wakes all followers of the
run, which costs more than reading it, so pieces that arrive within a moment are joined; the usual pace of a model is
slower. A server may ignore the output cap, or never stop: the meter underestimates tokens (at least one for each word
and for about every sixteen bytes), so that a server that respects its cap is never cut here.
"""

from __future__ import annotations

from asyncio import TimerHandle, get_running_loop
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
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

from teamwright.agents.effect import THINKING, Attempt, ReplyPart
from teamwright.agents.model.messages import arguments_text
from teamwright.agents.model.request_template import ANSWER_TOOL, OutputMode
from teamwright.values.call_limits import text_size
from teamwright.values.events.event import OutputForm

MOMENT = 0.02
"""Seconds within which pieces are joined; the first piece is passed on at once."""


class PacedDeltas:
    """Passes pieces of a response on to `publish`."""

    __slots__ = ("_held", "_loop", "_next", "_part", "_publish", "_timer")

    def __init__(self, publish: Callable[[str, ReplyPart], None]) -> None:
        self._publish, self._loop = publish, get_running_loop()
        self._held: list[str] = []
        self._part = ReplyPart()
        self._next = 0.0
        self._timer: TimerHandle | None = None

    def add(self, text: str, part: ReplyPart) -> None:
        """Pass a piece of this part on, now or within a moment."""
        if self._held:
            if part is self._part or part == self._part:
                self._held.append(text)
                return
            self.flush()
        now = self._loop.time()
        if now >= self._next:
            self._next = now + MOMENT
            self._publish(text, part)
        else:
            self._held, self._part = [text], part
            self._timer = self._loop.call_at(self._next, self.flush)

    def flush(self) -> None:
        """Pass on what is held."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held:
            held, self._held = self._held, []
            self._next = self._loop.time() + MOMENT
            self._publish("".join(held), self._part)


MOST_BYTES_PER_TOKEN = 16
FEW_BYTES = 1024
"""Bytes that are not counted: a short output may consist of long tokens only, such as rules and spaces."""


MOST_BLANK = 2000
"""The characters of white space in a row, or little more, after which a reply in JSON is taken to have ended."""


class Stop(Enum):
    """Why reading a stream stopped."""

    SIZE = "its size cap"
    TOKENS = "its output cap"
    BLANK = "white space without end"


class OutputMeter:
    """Counts the output of one reply against `max_bytes`, and against `max_tokens` if the request has an output cap.

    A reply in JSON (`is_json`) is also stopped by white space without end, which some grammars of servers allow.
    """

    def __init__(self, max_bytes: int, max_tokens: int | None = None, *, is_json: bool = False) -> None:
        self._max_bytes, self._max_tokens, self._is_json = max_bytes, max_tokens, is_json
        self._bytes = self._words = self._blank = 0
        self._in_word = False

    def add(self, text: str) -> Stop | None:
        """Count a piece of output; return the reason to stop, if there is one."""
        if not text:
            return None
        self._bytes += text_size(text)
        words = len(text.split())
        self._words += words - (self._in_word and words > 0 and not text[0].isspace())
        self._in_word = not text[-1].isspace()
        if self._bytes > self._max_bytes:
            return Stop.SIZE
        if self._max_tokens is not None and self.least_tokens > self._max_tokens:
            return Stop.TOKENS
        if self._is_json:
            self._blank = len(text) - len(text.rstrip()) + (0 if words else self._blank)
            if self._blank > MOST_BLANK:
                return Stop.BLANK
        return None

    @property
    def least_tokens(self) -> int:
        """A lower bound on the tokens of the output so far."""
        return max(self._words, (self._bytes - FEW_BYTES) // MOST_BYTES_PER_TOKEN)


OPEN, CLOSE = "<think>", "</think>"
BLANK = " "
"""Awaited after the closing tag: space before the answer does not belong to it."""


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
