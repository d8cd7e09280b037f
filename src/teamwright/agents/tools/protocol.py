"""The tool source protocol: a `ToolSource` defines tools, and the engine calls them through it.

A source must reach the outside world only in `call` or through the context that it is opened with: everything else is
repeated whenever a turn is replayed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from pydantic import JsonValue

from teamwright.agents.contract.context import Context
from teamwright.agents.tools.file_result import ToolValue
from teamwright.values.owned_paths import Owned
from teamwright.values.specs.manifest import ToolSpec
from teamwright.values.turns.turn import Signal

Arguments = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as a model sees it: its name, its description, and the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The engine's input to one call of a tool.

    `idempotency_key` and `key` are the same whenever this call is repeated, even after a crash: the first is unique
    among all runs, the second identifies the call within its turn. `owned` says which paths the call may write.
    """

    idempotency_key: str
    key: str
    owned: Owned = field(default_factory=Owned)


@runtime_checkable
class ToolSource(Protocol):
    """A source of tools of one agent. Subclass it for the defaults, and pass an instance in `tools=[…]`.

    `name` stands for all of its tools in approvals and allowlists; `kind` is the sort of source, and no two sources of
    an agent share both. `tool_names` are the names of its tools if they are known before a turn: then a mistake in an
    approval is reported when the agent is created. `spec` is the declaration from which a resume rebuilds the source;
    to resume a run with a source that has none, pass the team. If a source has a `signal`, calling one of its tools
    ends the turn with that signal, and the call is never made. A source that `has_context` adds texts to the
    instructions of a model agent.
    """

    name: str
    kind: str = "custom"
    tool_names: Sequence[str] | None = None
    spec: str | ToolSpec | None = None
    signal: Signal | None = None
    has_context: bool = False

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
