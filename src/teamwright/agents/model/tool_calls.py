"""The tool calls of one response: made side by side, each one effect; a mistake of the model becomes a correction."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from pydantic import JsonValue
from pydantic_ai.messages import ToolCallPart
from pydantic_core import from_json

from teamwright.agents.contract.context import Context
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
