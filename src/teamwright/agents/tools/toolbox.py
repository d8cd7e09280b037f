"""The tools of one agent: sources of any kind combined, with unique names, approvals and size caps, called as effects.

Nothing here may know a kind of tool. Nothing heavy may be imported: scripted agents use tools without a model library.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from pydantic import JsonValue

from teamwright.agents.approval import decided
from teamwright.agents.context import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.tools.protocol import Arguments, ToolContext, ToolDefinition, ToolSource
from teamwright.agents.tools.registry import ToolLike, make_source, order_of, own_kinds, reserved_names
from teamwright.agents.tools.workspace import OPEN, WorkspaceSource
from teamwright.errors import AgentError, DuplicateName, TeamwrightError, ToolError, UsageError, nearest
from teamwright.values.limits.reply import MAX_BYTES, cut_warning
from teamwright.values.limits.retry import RetryPolicy
from teamwright.values.limits.usage import NOTHING, Usage
from teamwright.values.people.approvals import Approve, approval_question
from teamwright.values.people.questions import Answer, Question
from teamwright.values.specs.manifest import TERMINATE, ToolSpec
from teamwright.values.turns.messages import digest

LONGEST_ERROR = 500
NEVER_AGAIN = RetryPolicy.model_construct(attempts=0)


class Toolbox:
    """The tools of one agent, as declared. `open` makes them usable for one turn.

    `approve` says for which of them a person has to agree, to a call by `owner`. What a tool returns is bounded by
    `max_bytes`: a longer text is cut, with a warning, and anything else that is larger fails the call.
    """

    def __init__(
        self,
        tools: Sequence[ToolLike] = (),
        approve: Approve | None = None,
        owner: str = "",
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._approve, self._owner, self._max_bytes = approve or Approve(), owner, max_bytes
        self._sources: list[ToolSource] = []
        self.specs: list[str | ToolSpec] = []
        for tool in tools:
            source = make_source(tool, self._sources, max_bytes)
            self._add(source)
            self.specs += [source.spec] if source.spec is not None else []
        self._sources.sort(key=order_of)
        self._check_approvals()

    @property
    def sources(self) -> tuple[ToolSource, ...]:
        """Where the tools come from, in the order in which a model is offered them."""
        return tuple(self._sources)

    @property
    def can_terminate(self) -> bool:
        """Whether one of the tools ends the team."""
        return any(source.signal == "terminate" for source in self._sources)

    def _add(self, source: ToolSource) -> None:
        """Add a source, or refuse one that has a name that is taken."""
        kind = own_kinds().get(source.kind)
        if any((one.kind, one.name) == (source.kind, source.name) for one in self._sources):
            if kind is None or not kind.reserved:
                raise DuplicateName(kind.noun if kind else "tool", source.name)
            return
        taken = {*reserved_names(), *(name for one in self._sources for name in one.tool_names or ())}
        if source.signal is None and (twice := taken.intersection(source.tool_names or ())):
            raise DuplicateName("tool", min(twice))
        self._sources.append(source)

    def _check_approvals(self) -> None:
        """Refuse names that are no tools, as far as they are known before a turn."""
        wanted = self._approve.tools
        callable_ = [source for source in self._sources if source.signal is None]
        known = list(dict.fromkeys(name for one in callable_ for name in (one.name, *(one.tool_names or ()))))
        for name in () if isinstance(wanted, bool) else wanted:
            if name == TERMINATE:
                raise UsageError(f"{self._owner!r}: nobody approves {name!r}; approve its reply, with  after: true")
            if name not in known and all(one.tool_names is not None for one in callable_):
                raise UsageError(f"{self._owner!r} has no tool {name!r} to approve; {nearest(name, known)}")

    def problems(self) -> list[str]:
        """Return what keeps the tools from being called, such as a missing package."""
        return [problem for source in self._sources for problem in source.problems()]

    @asynccontextmanager
    async def open(
        self, ctx: Context, *, allow: Sequence[str] | None = None, seconds: float | None = None, points: bool = False
    ) -> AsyncGenerator[Tools]:
        """Open the tools for one turn: those that `allow` names, by tool or by source; `seconds` bounds each call.

        Where the turn `points` at something that is kept, the tool that opens it is one of them.
        """
        sources = self._sources
        if points and not any(OPEN in (source.tool_names or ()) for source in sources):
            sources = sorted([*sources, WorkspaceSource([OPEN])], key=order_of)
        tools = Tools(ctx, self._approve, self._owner, seconds, self._max_bytes)
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(source.open(ctx)) for source in sources]
            for source in opened:
                for definition in await source.definitions(ctx):
                    if allow is None or definition.name in allow or source.name in allow:
                        tools.add(definition, source)
            yield tools


class Tools:
    """The tools that one turn may use."""

    def __init__(
        self, ctx: Context, approve: Approve, owner: str, seconds: float | None, max_bytes: int = MAX_BYTES
    ) -> None:
        self._ctx, self._approve, self._owner = ctx, approve, owner
        self._seconds, self._max_bytes = seconds, max_bytes
        self._owned = ctx.owned
        self._sources: dict[str, ToolSource] = {}
        self.definitions: list[ToolDefinition] = []
        self.may_terminate = False
        self.spent: Usage = NOTHING
        self.warnings: list[str] = []

    def add(self, definition: ToolDefinition, source: ToolSource) -> None:
        """Add a tool; one that ends the turn is offered, and can't be called."""
        name = definition.name
        if name in self._sources:
            raise DuplicateName("tool", name)
        self.definitions.append(definition)
        if source.signal is None:
            self._sources[name] = source
        else:
            self.may_terminate = True

    def fit(self, name: str, arguments: Arguments) -> Arguments:
        """Check a call before it is made; an unknown tool or arguments that do not fit are a `ToolError`."""
        self._source(name).validate(name, arguments)
        return arguments

    async def call(self, name: str, arguments: Arguments, *, idempotency_key: str, place: str = "") -> JsonValue:
        """Call a tool, outside any record; whatever it raises is a `ToolError`."""
        source = self._source(name)
        try:
            return await source.call(name, arguments, ToolContext(idempotency_key, place, self._owned))
        except TeamwrightError as error:
            # Limits, fencing and the like are no fault of the tool and stop the run as they are.
            if not isinstance(error, AgentError) or isinstance(error, ToolError):
                raise
            raise _failed(name, error) from error
        except Exception as error:
            raise _failed(name, error) from error

    async def use(self, name: str, arguments: Arguments, *, key: str) -> JsonValue:
        """Call a tool as one effect: recorded, counted, and never repeated once it has returned.

        Where a person has to agree, they are asked first; a no is a `ToolError` that says why.
        """
        arguments = self.fit(name, arguments)
        if self._approve.needed_for(name, self._sources[name].name):
            arguments = await self._agreed(name, arguments, key)

        async def call(attempt: Attempt) -> Returned:
            value = await self.call(name, arguments, idempotency_key=attempt.idempotency_key, place=key)
            return Returned(value, usage=Usage(tool_calls=1))

        request = digest(name, json.dumps(arguments, sort_keys=True, ensure_ascii=False))
        effect = Effect(
            kind="tool",
            name=name,
            request=request,
            call=call,
            retry=NEVER_AGAIN,
            timeout=self._seconds,
            max_bytes=self._max_bytes,
        )
        returned = await self._ctx.effect(key, effect)
        self.spent += returned.usage
        if returned.capped is not None:
            self.warnings.append(cut_warning(f"{self._owner}: the result of the tool {name!r}", returned.capped))
        return returned.value

    async def _agreed(self, name: str, arguments: Arguments, key: str) -> Arguments:
        """The arguments that a person lets pass."""

        async def ask(question: Question, place: str) -> Answer:
            return await self._ctx.ask_person(question, key=place)

        def fit(data: JsonValue) -> Arguments:
            if not isinstance(data, dict):
                raise ToolError("an edit must be a JSON object of arguments")
            return self.fit(name, data)

        draft = json.dumps(arguments, indent=2, ensure_ascii=False)
        question = approval_question(
            f"May {self._owner!r} call the tool {name!r} with these arguments?", draft, form="json"
        )
        decision = await decided(ask, question, f"{key}/approve", fit)
        if not decision.agreed:
            raise ToolError(f"The call of the tool {name!r} was refused: {decision.reason}")
        return arguments if decision.edited is None else decision.edited

    def _source(self, name: str) -> ToolSource:
        if name not in self._sources:
            raise ToolError(f"There is no tool {name!r} here; {nearest(name, self._sources)}")
        return self._sources[name]


def _failed(name: str, error: Exception) -> ToolError:
    said = str(error)
    if len(said) > LONGEST_ERROR:
        said = said[: LONGEST_ERROR - 1] + "…"
    return ToolError(f"The tool {name!r} failed: {type(error).__name__}{': ' if said else ''}{said}")
