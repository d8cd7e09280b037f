"""The context of one call of a tool: what the engine tells the tool, and what the tool may ask of the engine.

Among that are the objects that the caller gave the engine for its tools, such as a database, found by their type.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, cast, get_args, runtime_checkable

from typing_extensions import TypeVar

from teamwright.agents.contract.agent import Agent
from teamwright.agents.contract.context import Workspace
from teamwright.errors import MissingDependency, ToolError, UsageError
from teamwright.values.owned_paths import Owned
from teamwright.values.people import Answer, Question, check_question

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
    def needs(self) -> tuple[type, ...]: ...


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

    @contextmanager
    def shared(self) -> Generator[None]:
        """Within this block, tools find these objects."""
        token = _SHARED.set(self)
        try:
            yield
        finally:
            _SHARED.reset(token)


_SHARED: ContextVar[Dependencies | None] = ContextVar("dependencies", default=None)
NO_DEPENDENCIES = Dependencies()


def shared_dependencies() -> Dependencies:
    """The dependencies of the engine that runs the current task."""
    return _SHARED.get() or NO_DEPENDENCIES
