"""The tool calls of one response: made side by side, each one effect; a mistake of the model becomes a correction."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import JsonValue
from pydantic_ai.messages import ToolCallPart
from pydantic_core import from_json

from teamwright.agents.model.conversation import ToolResult
from teamwright.agents.model.messages import arguments_text
from teamwright.agents.tools.protocol import Arguments
from teamwright.agents.tools.toolbox import Tools
from teamwright.errors import AgentError, ToolError


async def call_tools(tools: Tools, calls: Sequence[ToolCallPart], keys: Mapping[str, str]) -> list[ToolResult]:
    """Make the calls at once and return their results in order; `keys` has the key of each by the id of the call.

    A call that fails is a result too. If the run is stopped, the other calls are cancelled.
    """
    if len(calls) == 1:
        return [await _call(tools, calls[0], keys[calls[0].tool_call_id])]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_call(tools, call, keys[call.tool_call_id])) for call in calls]
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return [task.result() for task in tasks]


async def _call(tools: Tools, call: ToolCallPart, key: str) -> ToolResult:
    try:
        arguments = tools.validate(call.tool_name, _arguments(call))
    except ToolError as error:
        await tools.reject(call.tool_name, arguments_text(call.args), error, key=key)
        return ToolResult(call, str(error), "retried")
    try:
        return ToolResult(call, await tools.call_recorded(call.tool_name, arguments, key=key))
    except AgentError as error:
        return ToolResult(call, str(error), "failed")


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
