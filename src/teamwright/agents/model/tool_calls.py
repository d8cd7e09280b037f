"""The tool calls of one response: made side by side, each one effect; a mistake of the model becomes a correction.

Small open models write calls as text; these are recognised, so that no call passes for an answer. Only a text that is a
call as a whole counts, in a form that models are trained on: between tags, in a code fence, or as bare JSON. A call
without tags must name a tool of the agent, since an answer may be JSON too, and so must calls between tags that end a
text. The work is linear.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast

from pydantic import JsonValue
from pydantic_ai.messages import ModelResponse, ModelResponsePart, TextPart, ToolCallPart
from pydantic_core import from_json

from teamwright.agents.agent import Context
from teamwright.agents.model.conversation import ToolResult
from teamwright.agents.model.messages import arguments_text, response_text
from teamwright.agents.model.request_template import AnswerSchema
from teamwright.agents.tools.protocol import Arguments
from teamwright.agents.tools.toolbox import Tools
from teamwright.errors import AgentError, InvalidOutput, ToolError
from teamwright.values.text.display import LONGEST_NAME, cut


async def call_tools(tools: Tools, calls: Sequence[ToolCallPart], keys: Mapping[str, str]) -> list[ToolResult]:
    """Make the calls at once and return their results in order; `keys` has the key of each by the id of the call.

    A call that fails is a result too. If the run is stopped, the other calls are cancelled.
    """
    if len(calls) == 1:
        return [await _call(tools, calls[0], keys[calls[0].tool_call_id])]
    asks = [call for call in calls if tools.is_agent(call.tool_name)]
    others = [call for call in calls if not tools.is_agent(call.tool_name)] if asks else calls
    try:
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(_ask_agents(tools, asks, keys)) if asks else None
            tasks = [group.create_task(_call(tools, call, keys[call.tool_call_id])) for call in others]
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    results = [task.result() for task in tasks]
    return results if asked is None else in_order([*results, *asked.result()], calls)


def in_order(results: Sequence[ToolResult], calls: Sequence[ToolCallPart]) -> list[ToolResult]:
    """Return the results in the order of their calls."""
    by_id = {one.call.tool_call_id: one for one in results}
    return [by_id[call.tool_call_id] for call in calls]


async def _ask_agents(tools: Tools, calls: Sequence[ToolCallPart], keys: Mapping[str, str]) -> list[ToolResult]:
    """Ask the agents among the tools side by side, each in a branch of its own: only branches wait and stop apart."""
    checked = [(call, await _validated(tools, call, keys[call.tool_call_id])) for call in calls]
    async with tools.ctx.branches(len(calls)) as branches:
        started = [
            branches.start(keys[call.tool_call_id], partial(_make, tools, call, arguments, ""))
            for call, arguments in checked
            if not isinstance(arguments, ToolResult)
        ]
    return [*(one.result() for one in started), *(one for _, one in checked if isinstance(one, ToolResult))]


async def _call(tools: Tools, call: ToolCallPart, key: str) -> ToolResult:
    arguments = await _validated(tools, call, key)
    return arguments if isinstance(arguments, ToolResult) else await _make(tools, call, arguments, key)


async def _validated(tools: Tools, call: ToolCallPart, key: str) -> Arguments | ToolResult:
    """Return the arguments of a call, or the correction of a mistake in them."""
    try:
        return tools.validate(call.tool_name, _arguments(call))
    except ToolError as error:
        await tools.reject(call.tool_name, arguments_text(call.args), error, key=key)
        return ToolResult(call, str(error), "retried")


async def _make(
    tools: Tools, call: ToolCallPart, arguments: Arguments, key: str, ctx: Context | None = None
) -> ToolResult:
    """Make a call, once it is approved; its result has the call as it was made, which a person may have edited."""
    made = call
    try:
        approved = await tools.approved_arguments(call.tool_name, arguments, key=key, ctx=ctx)
        if approved is not arguments:
            made = replace(call, args=dict(approved))
        returned = await tools.call_with_files(call.tool_name, approved, key=key, ctx=ctx)
        return ToolResult(made, returned.value, files=returned.artifacts, edited=made is not call)
    except AgentError as error:
        return ToolResult(made, str(error), "failed", edited=made is not call)


def _arguments(call: ToolCallPart) -> Arguments:
    """Return the arguments of a call; raises `ToolError` if they are no JSON object."""
    given: object = call.args
    if isinstance(given, str):
        try:
            given = from_json(given) if given.strip() else {}
        except ValueError as error:
            raise ToolError(f"The arguments of the tool {call.tool_name!r} are no JSON: {error}") from error
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ToolError(f"The arguments of the tool {call.tool_name!r} must be a JSON object")
    return cast("dict[str, JsonValue]", given)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error that stopped the calls."""
    first = errors.exceptions[0]
    while isinstance(first, BaseExceptionGroup):
        first = cast("BaseExceptionGroup[BaseException]", first).exceptions[0]
    return first


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


UNKNOWN = (
    "You wrote a call of the tool {name!r} as text, and there is no such tool: you have {tools}. Call one of them, or"
    " write your answer itself, without a call around it."
)
"""What a model reads once whose text is a call of a tool that it does not have."""


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
        before, calls = split_written_calls(text, tools)
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
        split_written_calls(text, tools)
    except Malformed as error:
        return CORRECTION.format(reason=error)
    return None


def unknown_call(text: str, tools: Collection[str]) -> str | None:
    """Return the tool that a text calls which is nothing but a call, if the agent has no such tool; `None` otherwise.

    An answer may look like that, so a caller asks once what is meant.
    """
    text = _without_fence(text.strip())
    if text[:1] not in ("{", "[") or not any(f'"{key}"' in text for key in ARGUMENTS):
        return None
    try:
        value, at = _decoded(text, 0)
        calls = [] if at < len(text) else list(_calls_in(value))
    except (ValueError, RecursionError):
        return None
    return next((one.name for one in calls if one.name not in tools), None)


def unknown_text(name: str, tools: Collection[str]) -> str:
    """Return what a model reads whose text calls a tool that it does not have."""
    return UNKNOWN.format(name=cut(name, LONGEST_NAME), tools=", ".join(sorted(tools)))


def split_written_calls(text: str, tools: Collection[str]) -> tuple[str, list[WrittenCall]]:
    """Split a text into what is said and the calls after it. A text that shows what a call looks like has none.

    Raises `Malformed` if the text is marked as a call by its tags, and can't be read.
    """
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
    try:
        answer.parse_json(text)
    except InvalidOutput:
        return False
    return True
