"""The members of the teams that are the suite's tasks: each is a plain function, which a run of ours drives."""

from __future__ import annotations

import json

import anyio

from teamwright import Context, Turn
from teamwright.people import Question

TEAMS = {
    "slow_compute": "sequential",
    "failing_job": "sequential",
    "protocol_error_job": "sequential",
    "confirm_delete": "sequential",
    "multi_input": "fan_out",
    "test_tool_with_task": "sequential",
}
MANIFEST = """\
agents:
  worker: {{function: "tests.server.mcp.conformance.members:{name}"}}
teams:
  {name}: {{members: [worker]}}
"""
FAN_OUT = """\
agents:
  worker: {{function: "tests.server.mcp.conformance.members:{name}"}}
teams:
  {name}:
    strategy: fan_out
    members: [worker]
    fan_out: {{chunks: [one, two], task: "{{{{ chunk }}}}", max_parallel: 2}}
"""


def manifest(name: str) -> str:
    """Return the manifest of a team."""
    return (FAN_OUT if TEAMS[name] == "fan_out" else MANIFEST).format(name=name)


async def slow_compute(turn: Turn, ctx: Context) -> str:
    await anyio.sleep(float(json.loads(turn.task).get("seconds", 0)))
    return "computed"


async def failing_job(turn: Turn, ctx: Context) -> str:
    from teamwright.errors import AgentError

    await anyio.sleep(0.2)
    raise AgentError("the job failed on purpose")


async def protocol_error_job(turn: Turn, ctx: Context) -> str:
    raise RuntimeError("the job broke on purpose")


async def confirm_delete(turn: Turn, ctx: Context) -> str:
    answer = await ctx.ask_person(Question(text=f"Really? {turn.task}"), key="confirm")
    return f"deleted: {answer.text}"


async def multi_input(turn: Turn, ctx: Context) -> str:
    answer = await ctx.ask_person(Question(text=f"What is {turn.task}?"), key="input")
    return f"{turn.task}: {answer.text}"


async def test_tool_with_task(turn: Turn, ctx: Context) -> str:
    return f"Hello, {json.loads(turn.task)['name']}!"
