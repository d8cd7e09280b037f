"""The tool source protocol: a `ToolSource` defines tools, and the engine calls them through it.

A source must reach the outside world only in `call` or through the context that it is opened with: everything else is
repeated whenever a turn is replayed.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

from pydantic import JsonValue

from teamwright.agents.contract.context import Context
from teamwright.agents.tools.call_policy import DEFAULT_POLICY, CallPolicy
from teamwright.agents.tools.context import ToolContext
from teamwright.agents.tools.file_result import ToolValue
from teamwright.values.specs.manifest import ToolSpec
from teamwright.values.turns.turn import Signal

Arguments = Mapping[str, JsonValue]


def text_argument(arguments: object, name: str) -> str | None:
    """Return a text among the arguments of a call as a model wrote it; `None` if it is missing, blank or no text."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return None
    found = cast("Mapping[str, object]", arguments).get(name) if isinstance(arguments, Mapping) else None
    return found if isinstance(found, str) and found.strip() else None


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as a model sees it: its name, its description, and the JSON Schema of its arguments.

    The model does not see `policy`, which says how the tool is called.
    """

    name: str
    description: str
    parameters: dict[str, JsonValue]
    policy: CallPolicy = DEFAULT_POLICY


@runtime_checkable
class ToolSource(Protocol):
    """A source of tools of one agent. Subclass it for the defaults, and pass an instance in `tools=[…]`.

    `name` stands for all of its tools in approvals and allowlists; `kind` is the sort of source, and no two sources of
    an agent share both. `tool_names` are the names of its tools if they are known before a turn: then a mistake in an
    approval is reported when the agent is created. `spec` is the declaration from which a resume rebuilds the source;
    to resume a run with a source that has none, pass the team. If a source has a `signal`, calling one of its tools
    ends the turn with that signal, and the call is never made. A source that `has_context` adds texts to the
    instructions of a model agent. The `warnings` of an opened source, once its definitions are known, are those of the
    turn too.
    """

    name: str
    kind: str = "custom"
    tool_names: Sequence[str] | None = None
    spec: str | ToolSpec | None = None
    signal: Signal | None = None
    has_context: bool = False
    warnings: Sequence[str] = ()

    def problems(self) -> Sequence[str]:
        """Return configuration problems, such as a missing package, without reaching the outside world."""
        return ()

    def open(self, ctx: Context) -> AbstractAsyncContextManager[ToolSource]:
        """Open the source for one turn and close it afterwards; by default there is nothing to open."""
        return nullcontext(self)

    @abstractmethod
    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        """Return the tools for the model, the same on every replay: fetch them with `ctx.effect` if necessary."""
        ...

    async def context(self, ctx: Context) -> Sequence[str]:
        """Return texts for the agent's instructions, the same on every replay; called only if `has_context`."""
        return ()

    def validate(self, name: str, arguments: Arguments) -> None:
        """Raise `ToolError` if the arguments do not fit the tool; by default `call` has to validate them."""

    @abstractmethod
    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> ToolValue:
        """Call a tool and return JSON, or a `FileResult`. If it raises, the call fails, and the model sees why."""
        ...
