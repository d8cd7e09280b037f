"""The contracts of tools: a source defines tools, a policy says how each is called, and a kind builds sources.

A tool gets a context: what the engine tells it, and what it may ask of the engine. Dependencies and MCP servers are
shared by the tools of an engine or a run. A source must reach the outside world only in `call` or through the context
that it is opened with: everything else is repeated whenever a turn is replayed. A kind is a field in a manifest, with
its settings and checks; importing this may not import what a kind needs to run, since manifests are read without it.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, Protocol, cast, get_args, runtime_checkable

import anyio
from pydantic import BaseModel, JsonValue
from typing_extensions import TypeVar

from teamwright.agents.agent import Agent, Context, Workspace
from teamwright.agents.attachments import ToolValue
from teamwright.errors import MissingDependency, ToolError, UsageError
from teamwright.values.owned_paths import Owned
from teamwright.values.people import Answer, Question, check_question
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.tools import McpTool, SandboxSettings, ToolSpec
from teamwright.values.turns.turn import Signal
from teamwright.values.value import Value

if TYPE_CHECKING:
    from teamwright.agents.tools.mcp_connection import McpConnection
    from teamwright.documents.nodes import Fields, ProblemReport


D_co = TypeVar("D_co", default=object, covariant=True)
T = TypeVar("T")

LogLevel = Literal["debug", "info", "warning", "error"]
LEVELS = get_args(LogLevel)


class CallLink(Protocol):
    """What connects a context to its run."""

    @property
    def workspace(self) -> Workspace: ...

    def log(self, text: str, level: LogLevel) -> None: ...

    def progress(self, text: str, done: float | None) -> None: ...

    def ask_person(self, question: Question) -> Answer: ...

    def dep(self, kind: type[T]) -> T: ...


@dataclass(frozen=True, slots=True)
class ToolContext(Generic[D_co]):
    """The context of one call of a tool. A function tool receives it as the parameter with this annotation.

    `idempotency_key` and `key` are the same whenever this call is repeated, even after a crash: the first is unique
    among all runs, the second identifies the call within its turn. `owned` says which paths the call may write.
    `member` is the agent that calls the tool. The annotation `ToolContext[Db]` says that the tool uses `dep(Db)`: a run
    then starts only if the engine was given one.
    """

    idempotency_key: str
    key: str
    owned: Owned = field(default_factory=Owned)
    run_id: str = ""
    member: str = ""
    _link: CallLink | None = field(default=None, repr=False, compare=False)
    folder: Path | None = None
    """The member's own tree, for a tool that `uses_tree`, where the team has a workspace of files."""

    @property
    def workspace(self) -> Workspace:
        """The data that the run shares. Writes of a call that is repeated are made once."""
        return self._run.workspace

    def log(self, text: str, level: LogLevel = "info") -> None:
        """Record a line for `runs logs`; any thread may call it."""
        if level not in LEVELS:
            raise UsageError(f"A log line has the level {', '.join(LEVELS)}, not {level!r:.100}.")
        if self._link is not None:
            self._link.log(str(text), level)

    def progress(self, text: str, done: float | None = None) -> None:
        """Show how far the call is; `done` is the finished share, from 0 to 1. Any thread may call it."""
        is_number = isinstance(done, int | float)  # pyright: ignore[reportUnnecessaryIsInstance] - from code without types
        if done is not None and not (is_number and 0 <= done <= 1):
            raise UsageError(f"Progress is a share from 0 to 1, not {done!r:.100}.")
        if self._link is not None:
            self._link.progress(str(text), None if done is None else float(done))

    def ask_person(
        self, question: str | Question, *, choices: Sequence[str] = (), to: str = ""
    ) -> Coroutine[object, object, Answer]:
        """Ask a person and return the answer, however long it takes and across processes.

        While the answer is missing, the call ends here. Once it is recorded, the tool is executed again from its start
        and gets the answer, so ask before doing anything that must not be done twice. Await it, in a tool that is
        `async def`.
        """
        from asyncio import get_running_loop

        try:
            get_running_loop()
        except RuntimeError:
            raise ToolError("Only a tool that is `async def` can ask a person: await ctx.ask_person(…)") from None
        if isinstance(question, str):
            question = Question(text=question, choices=tuple(choices), to=to)
        check_question(question)
        return self._ask_person(question)

    async def _ask_person(self, question: Question) -> Answer:
        return self._run.ask_person(question)

    def dep(self, kind: type[T]) -> T:
        """Return the dependency of this type that the engine was given: `Engine(deps=[…])`."""
        return self._run.dep(kind)

    @property
    def _run(self) -> CallLink:
        if self._link is None:
            raise ToolError("This call belongs to no run: it has no workspace, no people and no dependencies.")
        return self._link


WITH_TOOLS = ("model", "scripted")
"""The kinds of agents that have tools."""


class DeclaredNeeds(Protocol):
    """The tools of an agent."""

    @property
    def uses_tree(self) -> bool: ...

    @property
    def needs(self) -> tuple[type, ...]: ...

    @property
    def sandboxes(self) -> tuple[SandboxSettings, ...]: ...


@runtime_checkable
class ToolUser(Protocol):
    """An agent with tools."""

    @property
    def toolbox(self) -> DeclaredNeeds: ...


class Dependencies:
    """One object of each type."""

    def __init__(self, objects: Sequence[object] = ()) -> None:
        self._by_type: dict[type, object] = {}
        for one in objects:
            if isinstance(one, type):
                raise UsageError(f"Dependencies are objects, and {one.__name__!r} is a class; pass {one.__name__}(…).")
            if type(one) in self._by_type:
                raise UsageError(f"There are two dependencies of the type {type(one).__name__!r}; pass one of them.")
            self._by_type[type(one)] = one

    def get(self, kind: type[T]) -> T:
        """Return the object of this type, or of the one subtype; raises `MissingDependency`."""
        found = [self._by_type[kind]] if kind in self._by_type else self._of_subtype(kind)
        if len(found) != 1:
            raise MissingDependency(kind.__name__, [one.__name__ for one in self._by_type], ambiguous=len(found) > 1)
        return cast("T", found[0])

    def _of_subtype(self, kind: type) -> list[object]:
        return [one for one in self._by_type.values() if isinstance(one, kind)]

    def require(self, agents: Iterable[Agent]) -> None:
        """Raise `UsageError` if the tools of these agents declare a type that is missing."""
        for agent in agents:
            if agent.kind in WITH_TOOLS and isinstance(agent, ToolUser):
                for kind in agent.toolbox.needs:
                    try:
                        self.get(kind)
                    except MissingDependency as error:
                        raise UsageError(f"{agent.name!r}: {error}") from error


SHARED_DEPENDENCIES: ContextVar[Dependencies] = ContextVar("dependencies", default=Dependencies())  # noqa: B039
"""The dependencies of the engine that runs the current task, where tools find them."""


NOT_THE_SERVER = {"tools"}
"""The setting that says what an agent uses of a server: agents that differ only in it share it."""

SHARED_POOL: ContextVar[McpPool | None] = ContextVar("mcp_pool", default=None)
"""The servers of the run that the current task belongs to."""


class McpPool:
    """MCP servers by declaration: each starts once, whichever members and concurrent turns use it.

    Servers with `share: engine` are those of `engine`, if it is given.
    """

    def __init__(self, engine: McpPool | None = None) -> None:
        self._engine = engine
        self._connections: dict[str, McpConnection] = {}

    def connection(self, settings: McpTool, max_bytes: int) -> McpConnection:
        from teamwright.agents.tools.mcp_connection import McpConnection

        if self._engine is not None and settings.share == "engine":
            return self._engine.connection(settings, max_bytes)
        key = f"{max_bytes} {settings.model_dump_json(exclude=NOT_THE_SERVER)}"
        if key not in self._connections:
            self._connections[key] = McpConnection(settings, max_bytes)
        return self._connections[key]

    async def close(self) -> None:
        """Stop all servers at once and wait for their end; a later use starts them again."""
        if not self._connections:
            return
        connections, self._connections = self._connections, {}
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for connection in connections.values():
                    group.start_soon(connection.close)


NO_RETRY = RetryPolicy.model_construct(times=0)

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
        return RetryPolicy(times=self.retries) if self.retries else NO_RETRY

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
    ends the turn with that signal, and the call is never made. The tools of a source that `talks` reach other
    members, so its agent has to be in a team whose members talk. A source that `has_context` adds texts to the
    instructions of a model agent. `sandbox` is the one that its programs run in, if any. One that `uses_tree` works in
    `ToolContext.folder`, where its changes are recorded. The `warnings` of an opened source, once its definitions are
    known, are those of the turn too.
    """

    name: str
    kind: str = "custom"
    tool_names: Sequence[str] | None = None
    spec: str | ToolSpec | None = None
    signal: Signal | None = None
    talks: bool = False
    has_context: bool = False
    sandbox: SandboxSettings | None = None
    warnings: Sequence[str] = ()
    uses_tree: bool = False

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


class InputNeeded(ToolError):
    """A call can't go on before people have answered questions. `state` is all that it needs then."""

    def __init__(self, questions: Sequence[Question], state: JsonValue) -> None:
        super().__init__(f"The call needs an answer first: {' '.join(one.text for one in questions)}")
        self.questions, self.state = tuple(questions), state


@runtime_checkable
class PausingSource(ToolSource, Protocol):
    """A source whose `call` may raise `InputNeeded`, and which goes on with such a call instead of making it again."""

    @abstractmethod
    async def resume(
        self, name: str, arguments: Arguments, state: JsonValue, answers: Sequence[Answer], context: ToolContext
    ) -> ToolValue:
        """Go on with a call that raised `InputNeeded`, with its state and an answer to each of its questions."""
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
    has no effect. The sources of a kind that `talks` do so, too. `noun` is the word for a source of this kind in
    messages.
    """

    name: str
    model: type[S]
    noun: str = "tool"
    built_in: bool = False
    reserved: bool = False
    talks: bool = False

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
