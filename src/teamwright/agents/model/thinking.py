"""Keeps what an open model thought apart from its answer: `<think>…</think>` at the beginning of its text."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from pydantic_ai.messages import ModelResponse, ModelResponsePart, TextPart, ThinkingPart

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


def _common_end(text: str) -> int:
    """The length of the end of a text that may begin the closing tag."""
    return next((size for size in range(min(len(text), len(CLOSE) - 1), 0, -1) if CLOSE.startswith(text[-size:])), 0)
