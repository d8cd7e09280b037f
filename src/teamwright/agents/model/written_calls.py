"""Tool calls that a model wrote as text, as small open models do: recognised, so that no call passes for an answer.

Only a text that is a call as a whole counts, in a form that models are trained on: between tags, in a code fence, or as
bare JSON. A call without tags must name a tool of the agent, since an answer may be JSON too, and so must calls between
tags that end a text. The work is linear.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import NamedTuple, cast

from pydantic import JsonValue
from pydantic_ai.messages import ModelResponse, ModelResponsePart, TextPart, ToolCallPart

from teamwright.agents.model.messages import response_text
from teamwright.agents.model.output import AnswerSchema
from teamwright.errors import InvalidOutput

MOST_CALLS = 64
FIRST = frozenset("<[{`")
"""What a written call may begin with."""
TAG = re.compile(r"<\|?(tool_calls?|tools|tool_use|function_calls?)\|?>\s*")
FUNCTION_TAG = re.compile(r"<function=([\w.-]{1,64})>\s*")
MARKS = ("[TOOL_CALLS]", "<|python_tag|>")
"""What some models write before calls, with nothing after them."""
MARKED = re.compile(
    r"^[ \t]*(?:(?:<\|?(?:tool_calls?|tools|tool_use|function_calls?)\|?>|\[TOOL_CALLS\]|<\|python_tag\|>)"
    r"\s*(?:[\[{]|<function=)|<function=[\w.-]{1,64}>\s*(?:\{|<parameter=))",
    re.MULTILINE,
)
"""The beginning of a line that is meant as a call, readable or not."""
FENCE = re.compile(r"```[\w-]{0,20}[ \t]*\n")
ARGUMENTS = ("arguments", "parameters", "args", "input")
KEYS = frozenset(("name", "id", "type", "function", *ARGUMENTS))
CORRECTION = (
    "You wrote a tool call as text, and it can't be read: {reason}. Call the tool again, with its name and its"
    " arguments as JSON, or answer without a call."
)


class WrittenCall(NamedTuple):
    """A call as it is written; `arguments` are an object, or JSON text."""

    name: str
    arguments: JsonValue


class Malformed(ValueError):
    """A text that is meant as a call and can't be read as one."""


class Beside(Malformed):
    """A call with text behind it."""

    def __init__(self) -> None:
        super().__init__("there is text beside it")


def _refuse_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is no JSON")


DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)  # models write line breaks inside strings


def with_written_calls(
    response: ModelResponse, tools: Collection[str], answer: AnswerSchema | None = None
) -> ModelResponse:
    """Return the response with the calls that its text consists of as parts, unless the text fits the answer."""
    if any(isinstance(part, ToolCallPart) for part in response.parts):
        return response
    text = response_text(response)
    if response.finish_reason == "length":
        return response
    try:
        before, calls = _divided(text, tools)
    except Malformed:
        return response
    if not calls or (answer is not None and _fits(answer, text)):
        return response
    kept: list[ModelResponsePart] = [part for part in response.parts if not isinstance(part, TextPart)]
    said = [TextPart(before)] if before else []
    made = [ToolCallPart(one.name, cast("str | dict[str, object]", one.arguments)) for one in calls]
    return replace(response, parts=[*kept, *said, *made], finish_reason="tool_call")


def correction_of(text: str, tools: Collection[str]) -> str | None:
    """Return the correction of a text that is meant as a call and can't be read; `None` for any other text."""
    try:
        _divided(text, tools)
    except Malformed as error:
        return CORRECTION.format(reason=error)
    return None


def written_calls(text: str, tools: Collection[str]) -> list[WrittenCall]:
    """Return the calls that a text consists of or ends with, in order; none if it is anything else.

    Raises `Malformed` if the text is marked as a call by its tags, and can't be read.
    """
    return _divided(text, tools)[1]


def _divided(text: str, tools: Collection[str]) -> tuple[str, list[WrittenCall]]:
    """Divide a text into what is said and the calls after it. A text that shows what a call looks like has none."""
    text = _without_fence(text.strip())
    marked = MARKED.search(text) if "<" in text or MARKS[0] in text else None
    if marked is None:
        return "", _unmarked(text, tools)
    before, rest = text[: marked.start()].rstrip(), text[marked.start() :].lstrip()
    try:
        calls = _bounded(_tagged(rest))
    except (ValueError, RecursionError) as error:
        problem = error if isinstance(error, Malformed) else Malformed("it is no JSON")
        if before and (isinstance(problem, Beside) or not any(f'"{name}"' in rest for name in tools)):
            return "", []
        raise problem from error
    return before, calls if not before or all(one.name in tools for one in calls) else []


def _unmarked(text: str, tools: Collection[str]) -> list[WrittenCall]:
    """Return the calls of a text without tags."""
    if text[:1] not in FIRST:
        return []
    try:
        return _bounded(_bare(text, tools))
    except (ValueError, RecursionError):
        return []


def _bounded(calls: Iterator[WrittenCall]) -> list[WrittenCall]:
    found: list[WrittenCall] = []
    for one in calls:
        found.append(one)
        if len(found) > MOST_CALLS:
            raise Malformed(f"it has more than {MOST_CALLS} calls")
    return found


def _tagged(text: str) -> Iterator[WrittenCall]:
    """Yield the calls of a text that begins with a tag; text beside them makes it something else than a call."""
    at = 0
    while at < len(text):
        if function := FUNCTION_TAG.match(text, at):
            value, at = _decoded(text, function.end())
            yield WrittenCall(function[1], value)
            at = _after_closing(text, at, "function")
        elif tag := TAG.match(text, at):
            at = tag.end()
            values = 0
            while at < len(text) and not text.startswith("<", at):
                value, at = _decoded(text, at)
                values += 1
                yield from _calls_in(value)
            if not values:
                raise Malformed("it is no JSON")
            at = _after_closing(text, at, tag[1])
        elif mark := next((one for one in MARKS if text.startswith(one, at)), None):
            value, at = _decoded(text, _skip_blank(text, at + len(mark)))
            yield from _calls_in(value)
        else:
            raise Beside
        at = _skip_blank(text, at)


def _bare(text: str, tools: Collection[str]) -> Iterator[WrittenCall]:
    """Yield the calls of a text of JSON alone; raises `ValueError` if it is not all calls of known tools."""
    at = 0
    while at < len(text):
        value, at = _decoded(text, at)
        if text[at : at + 1] in (",", ";"):
            at = _skip_blank(text, at + 1)
        for one in _calls_in(value):
            if one.name not in tools:
                raise ValueError
            yield one


def _calls_in(value: JsonValue) -> Iterator[WrittenCall]:
    """Yield the calls in a JSON value: one call, a list of them, or an object with such a list."""
    match value:
        case list():
            for one in value:
                yield from _call_in(one)
        case {"tool_calls": list() as listed} if len(value) == 1:
            for one in listed:
                yield from _call_in(one)
        case _:
            yield from _call_in(value)


def _call_in(value: JsonValue) -> Iterator[WrittenCall]:
    if isinstance(value, dict) and isinstance(inner := value.get("function"), dict) and value.keys() <= KEYS:
        value = inner
    if not isinstance(value, dict) or not value.keys() <= KEYS:
        raise Malformed("it is no object with a name and arguments")
    name, given = value.get("name"), [key for key in ARGUMENTS if key in value]
    if name is None and isinstance(value.get("function"), str):
        name = value["function"]
    arguments: JsonValue = value[given[0]] if given else {}
    if not isinstance(name, str) or len(given) > 1 or not isinstance(arguments, dict | str):
        raise Malformed("it is no object with a name and arguments")
    yield WrittenCall(name, arguments)


def _decoded(text: str, at: int) -> tuple[JsonValue, int]:
    """Read the JSON value at a position; return it and the position of what follows."""
    value, end = DECODER.raw_decode(text, at)
    return cast("JsonValue", value), _skip_blank(text, end)


def _after_closing(text: str, at: int, name: str) -> int:
    """Return the position after a closing tag, which some models leave out at the end."""
    for closing in (f"</{name}>", f"<|/{name}|>", f"</|{name}|>"):
        if text.startswith(closing, at):
            return at + len(closing)
    if at < len(text) and not TAG.match(text, at) and not FUNCTION_TAG.match(text, at):
        raise Beside
    return at


def _skip_blank(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _without_fence(text: str) -> str:
    fence = FENCE.match(text)
    return text[fence.end() : -3].strip() if fence and text.endswith("```") and len(text) > fence.end() + 3 else text


def _fits(answer: AnswerSchema, text: str) -> bool:
    """Whether a text is an answer that fits its schema."""
    try:
        answer.parse_json(text)
    except InvalidOutput:
        return False
    return True
