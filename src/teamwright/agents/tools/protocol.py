"""The contracts of tools: a source defines tools, a policy says how each is called, and a kind builds sources.

A source must reach the outside world only in `call` or through the context that it is opened with: everything else is
repeated whenever a turn is replayed. A kind is a field in a manifest, with its settings and checks; nothing here may
import what a kind needs to run, since manifests are read without it.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, cast, runtime_checkable

from pydantic import BaseModel, JsonValue

from teamwright.agents.attachments import ToolValue
from teamwright.agents.contract.context import Context
from teamwright.agents.tools.context import ToolContext
from teamwright.values.call_limits import RetryPolicy
from teamwright.values.models import Value
from teamwright.values.specs.manifest import ToolSpec
from teamwright.values.turns.turn import Signal

if TYPE_CHECKING:
    from teamwright.documents.nodes import Fields, ProblemReport


NO_RETRY = RetryPolicy.model_construct(attempts=0)

OutcomeCheck = Callable[[Mapping[str, JsonValue], "ToolContext"], Awaitable[ToolValue]]
"""Asks the outside world for the result of a call; `None` says that the call did not happen."""


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """The settings of one tool.

    A call is in doubt if the record says that it began and not how it ended: the process may have died before, during
    or after it. `check` finds out. Without it, a call in doubt is made again if the tool is `idempotent`, and fails if
    the tool is not; a tool that does not say is called again, with the same idempotency key, unless it has `once`.
    `once` returns the identity of the action that a call with these arguments makes: no action is made twice.
    """

    timeout: float | None = None
    retries: int = 0
    idempotent: bool | None = None
    once: Callable[[Mapping[str, JsonValue]], str] | None = None
    check: OutcomeCheck | None = None

    @property
    def retry(self) -> RetryPolicy:
        """The retry policy of the effect."""
        return RetryPolicy(attempts=self.retries) if self.retries else NO_RETRY

    @property
    def repeats_in_doubt(self) -> bool:
        """Whether a call in doubt is made again without a check."""
        return self.once is None if self.idempotent is None else self.idempotent

    @property
    def just_repeats(self) -> bool:
        """Whether a call in doubt is simply made again."""
        return self.once is None and self.check is None and self.repeats_in_doubt


DEFAULT_POLICY = CallPolicy()


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


S = TypeVar("S", bound=BaseModel)


class NoSettings(Value):
    """The settings of a kind that has none."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The input of `ToolKind.build` besides the settings.

    `spec` is the declaration as written, `name` its name, `earlier` the sources that the agent already has, and
    `max_bytes` the size cap of a result.
    """

    spec: str | ToolSpec
    name: str | None
    earlier: Sequence[ToolSource]
    max_bytes: int


class ToolKind(Protocol[S]):
    """One kind of tool: in a manifest `{name: settings}`, where `model` is the model of the settings.

    A `built_in` kind may be written as its name alone. No other tool may have a `reserved` name, and listing it twice
    has no effect. `noun` is the word for a source of this kind in messages.
    """

    name: str
    model: type[S]
    noun: str = "tool"
    built_in: bool = False
    reserved: bool = False

    @abstractmethod
    def build(self, settings: S, options: BuildOptions) -> ToolSource:
        """Create the source. Nothing is started before it is opened."""
        ...

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return the names that approvals may use for a tool declared under `name`; `None` if known only in a turn."""
        return None

    def check(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Report mistakes that the schema of the settings does not find; nothing may be imported or started."""

    def check_imports(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Report code that can't be imported and packages that are not installed."""

    def relocate(self, settings: JsonValue, move: Callable[[str], str]) -> JsonValue:
        """Return the settings with their relative paths moved to another folder."""
        return settings

    def pin(self, settings: JsonValue, folder: Callable[[str], Path]) -> JsonValue:
        """Return the settings with what a record keeps of the files that they name; `folder` resolves a path.

        Called once, when a manifest is loaded: a run that resumes later notices that a file has changed.
        """
        return settings

    def resolve(self, spec: ToolSpec, folder: Callable[[str], Path]) -> ToolSpec:
        """Return the declaration with absolute folders; `folder` resolves one, or raises if it is not allowed."""
        return spec

    def code(self, settings: S) -> Iterable[tuple[str, str]]:
        """Return the code that these settings run, as pairs of its kind and its name."""
        return ()
