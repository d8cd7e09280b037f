"""Our MCP client, as agents use it, against the mock servers of the suite: `python -m … URL`, with the scenario in the
environment.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import anyio

from teamwright import Answer, Context, Engine, FunctionAgent, Turn
from teamwright.agents.tools.toolbox import Toolbox
from teamwright.errors import ToolError
from teamwright.journal import MemoryJournal
from teamwright.values.specs.tools import McpSpec, McpTool

Json = dict[str, Any]
STUBS: Mapping[str, object] = {"string": "x", "integer": 0, "number": 0, "boolean": False, "object": {}, "array": []}
CALLS: Mapping[str, list[tuple[str, Json]]] = {
    "tools_call": [("add_numbers", {"a": 5, "b": 3})],
    "request-metadata": [("add_numbers", {"a": 5, "b": 3})],
    "http-standard-headers": [("add_numbers", {"a": 5, "b": 3})],
    "sep-2322-client-request-state": [
        ("test_mrtr_echo_state", {}),
        ("test_mrtr_unrelated", {}),
        ("test_mrtr_no_state", {}),
        ("test_mrtr_no_result_type", {}),
    ],
}


def calls_of(scenario: str, tools: Mapping[str, Json]) -> list[tuple[str, Json]]:
    """Return the calls that a scenario expects: those that it names, or one of each tool that is listed."""
    if scenario in CALLS:
        return CALLS[scenario]
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}").get("toolCalls")
    if given is not None:
        return [(one["name"], one.get("arguments") or {}) for one in given]
    if scenario == "json-schema-ref-no-deref":
        return []
    return [(name, _stubs(parameters)) for name, parameters in tools.items()]


def _stubs(schema: Json) -> Json:
    fields = schema.get("properties", {})
    return {name: STUBS.get(fields.get(name, {}).get("type"), "x") for name in schema.get("required", [])}


def caller(url: str, scenario: str) -> FunctionAgent:
    """An agent that lists the tools of the server, and makes the calls of a scenario."""
    toolbox = Toolbox([("suite", McpSpec(mcp=McpTool(url=url)))], owner="caller")

    async def work(turn: Turn, ctx: Context) -> str:
        async with toolbox.open(ctx) as tools:
            listed = {one.name: cast("Json", one.parameters) for one in tools.definitions}
            for number, (name, arguments) in enumerate(calls_of(scenario, listed)):
                if name in listed:
                    with suppress(ToolError):  # the scenario says whether it may be refused
                        await tools.call_recorded(name, arguments, key=f"tool-{number}")
        return "done"

    return FunctionAgent("caller", work)


async def main() -> None:
    """Run the agent, and answer what the server asks as a person would, later and in a process that starts again."""
    agent = caller(sys.argv[-1], os.environ["MCP_CONFORMANCE_SCENARIO"])
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(agent, "Call the tools.", run_id="suite")
    while result.status == "paused":
        async with Engine(journal) as engine:
            for key, question in (await engine.runs.history("suite")).questions().items():
                await engine.runs.answer("suite", key, Answer(text=question.choices[0]))
            result = await engine.resume("suite", team=agent)


if __name__ == "__main__":
    anyio.run(main)
