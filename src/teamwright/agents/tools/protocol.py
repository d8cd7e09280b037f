"""The contract of every kind of tool: a `ToolSource` defines tools, and the engine calls them through it.

A source must reach the world in `call` alone, or through the context that it is opened with: everything else is done
again whenever a turn is replayed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from pydantic import JsonValue

from teamwright.agents.context import Context
from teamwright.values.owned_paths import Owned
from teamwright.values.specs.manifest import ToolSpec
from teamwright.values.turns.turn import Signal

Arguments = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as a model sees it: its name, what it does, and the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What the engine says about one call of a tool.

    `idempotency_key` and `key` are the same whenever this call is made again, also after a crash: the first is unique
    among all runs, the second is the place of the call within its turn. `owned` says which paths the call may write.
    """

    idempotency_key: str
    key: str
    owned: Owned = field(default_factory=Owned)


@runtime_checkable
class ToolSource(Protocol):
    """One kind of tool, as one agent has it. Subclass it for the defaults, and pass an object in `tools=[…]`.

    `name` stands for all of its tools in approvals and allowlists; `kind` says what sort of source it is, and no two
    sources of an agent share both. `tool_names` are the names of its tools where they are known before a turn: then
    a mistake in an approval is told when the agent is made. `spec` is the declaration that a resume makes it from
    again; a run with a source that has none is resumed by passing the team. A call of a source that has a `signal`
    ends the turn with it and is never made.
    """

    name: str
    kind: str = "custom"
    tool_names: Sequence[str] | None = None
    spec: str | ToolSpec | None = None
    signal: Signal | None = None

    def problems(self) -> Sequence[str]:
        """Return what keeps its tools from being called, such as a missing package, without reaching the world."""
        return ()

    def open(self, ctx: Context) -> AbstractAsyncContextManager[ToolSource]:
        """Open the source for one turn and close it afterwards: by default there is nothing to open."""
        return nullcontext(self)

    @abstractmethod
    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        """Return the tools that a model is offered, the same on every replay: what must be asked is an effect."""
        ...

    def validate(self, name: str, arguments: Arguments) -> None:
        """Raise `ToolError` if the arguments do not fit the tool; by default the call itself has to find out."""

    @abstractmethod
    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        """Call a tool and return JSON. Whatever it raises fails the call and is told to the model."""
        ...
