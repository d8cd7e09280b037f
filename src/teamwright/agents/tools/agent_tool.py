"""An agent or a team as a tool: a model asks it with a task, and its answer is the result of the call.

Such a call is an ask of the same run and no effect of its own: what the inner agent does is recorded in a scope of its
own, under the budget of its caller. The definitions are part of prompts, and must not change.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import cast

from pydantic import JsonValue

from teamwright.agents.contract.agent import Agent, Context, agent_spec_of, require_agent
from teamwright.agents.contract.constructor_arguments import checked_call
from teamwright.agents.schema_validation import check
from teamwright.agents.tools.protocol import Arguments, BuildOptions, ToolContext, ToolDefinition, ToolKind, ToolSource
from teamwright.documents.nodes import Fields
from teamwright.errors import InvalidOutput, ToolError, UsageError
from teamwright.values.key import join_key
from teamwright.values.names import as_tool_name, check_name
from teamwright.values.specs.tools import AgentTool
from teamwright.values.turns.turn import Failure, Purpose, Reply, Turn

AGENT, TASK = "agent", "task"
TASK_SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        TASK: {
            "type": "string",
            "description": "What to do, with everything that is needed for it.",
        }
    },
    "required": [TASK],
}


class AgentSource(ToolSource):
    """The tool that asks `agent`. Its arguments are one text, `task`, or the agent's input schema if that is an object.

    Toolboxes ask the agent with `ask` and never call the tool.
    """

    kind = AGENT

    def __init__(self, agent: Agent, *, name: str | None = None, description: str | None = None) -> None:
        self.agent = require_agent(agent)
        if agent.policy.handoffs:
            raise UsageError(f"{agent.name!r} has handoffs, so it can't be a tool; make its team the tool.")
        self.name = check_name("tool", name or as_tool_name(agent.name))
        self.tool_names = (self.name,)
        given = {"agent": agent.name, "name": name, "description": description}
        self.spec = AgentTool(**{field: value for field, value in given.items() if value is not None})
        self._description = description

    @cached_property
    def _input_schema(self) -> dict[str, JsonValue] | None:
        """The agent's input schema, if a call can have it as its arguments."""
        schema = agent_spec_of(self.agent).input_schema
        return schema if schema is not None and schema.get("type") == "object" else None

    @cached_property
    def definition(self) -> ToolDefinition:
        """The tool as a model sees it."""
        text = self._description or self.agent.description or f"Ask {self.agent.name!r} to do a part of the work."
        return ToolDefinition(self.name, text, self._input_schema or TASK_SCHEMA)

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return (self.definition,)

    def validate(self, name: str, arguments: Arguments) -> None:
        """Check the arguments against the input schema, or that they are one text."""
        if self._input_schema is not None:
            try:
                check(self._input_schema, cast("JsonValue", dict(arguments)), f"The arguments of the tool {name!r}")
            except InvalidOutput as error:
                raise ToolError(str(error)) from error
            return
        task = arguments.get(TASK)
        if len(arguments) != 1 or not isinstance(task, str) or not task.strip():
            raise ToolError(f"The tool {name!r} takes one argument, {TASK!r}, a text that is not empty.")

    async def ask(self, arguments: Arguments, ctx: Context, place: str, purpose: Purpose) -> Reply | Failure:
        """Ask the agent below `place` of the context."""
        task = arguments[TASK] if self._input_schema is None else json.dumps(dict(arguments), ensure_ascii=False)
        turn = Turn(str(task), purpose=purpose, aside=True)
        return await ctx.ask(self.agent, turn, key=join_key(place, self.agent.name))

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        """Raise `ToolError`: the agent is asked instead."""
        raise ToolError(f"{name!r} is an agent, which is asked and not called.")


class AgentKind(ToolKind[AgentTool]):
    """`{agent: NAME, name: …, description: …}`: an agent or a team of the same manifest."""

    name = AGENT
    model = AgentTool
    noun = "agent"

    def build(self, settings: AgentTool, options: BuildOptions) -> ToolSource:
        """Raise `UsageError`: only a manifest knows agents by name, and its builder creates the source."""
        raise UsageError(
            f"The tool {{agent: {settings.agent}}} names an agent of a manifest; in Python pass the agent itself:"
            "  tools=[agent]  or  tools=[as_tool(agent, name=…)]."
        )

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return its one name: the declared one, else that of the agent."""
        if name or fields is None:
            return [name]
        own, agent = fields.text("name"), fields.text(AGENT)
        return [str(own.value)] if own else [as_tool_name(str(agent.value))] if agent else []


@checked_call("tool")
def as_tool(agent: Agent, *, name: str | None = None, description: str | None = None) -> ToolSource:
    """Return an agent or a team as a tool, under another name or description than its own."""
    return AgentSource(agent, name=name, description=description)
