"""The tools of one agent: combines sources of any kind, with unique names, approvals and size caps, called as effects.

Nothing here may import a heavy library: scripted agents use tools without models. Messages
of `ToolError` go to models: they are part of prompts and must not change.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from pydantic import JsonValue

from teamwright.agents.agent import Agent, Context, Policy
from teamwright.agents.attachments import with_pointers
from teamwright.agents.constructor_arguments import Mistakes, listed
from teamwright.agents.effect import Returned
from teamwright.agents.review import ask_for_decision
from teamwright.agents.tools.built_in import OPEN_ARTIFACT, AgentSource, WorkspaceSource, transfer_definition
from teamwright.agents.tools.call import RecordedToolCall
from teamwright.agents.tools.protocol import Arguments, CallPolicy, ToolDefinition, ToolSource
from teamwright.agents.tools.python import PythonTool
from teamwright.agents.tools.registry import ToolLike, make_source, order_of, own_kinds, reserved_names
from teamwright.errors import DuplicateName, InvalidRequest, ToolError, UsageError, nearest
from teamwright.values.call_limits import MAX_BYTES, cut_warning
from teamwright.values.events.agent import AgentCallRejected
from teamwright.values.people import CONFIRM, Answer, Confirm, Question, approval_question
from teamwright.values.run_keys import join_key
from teamwright.values.specs.tools import NOT_IMPORTABLE, TERMINATE, FunctionTool, SandboxSettings, ToolSpec
from teamwright.values.turns.turn import Failure, HandoffTarget, Purpose
from teamwright.values.usage_and_prices import NOTHING, Usage


class Toolbox:
    """The declared tools of one agent. `open` makes them usable for one turn.

    `confirm` says which calls by `owner` a person has to approve. Results are limited to `max_bytes`: a longer text is
    cut, with a warning, and any other larger result fails the call.
    """

    def __init__(
        self,
        tools: Sequence[ToolLike] = (),
        confirm: Confirm | None = None,
        owner: str = "",
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._confirm, self._owner, self._max_bytes = confirm or Confirm(), owner, max_bytes
        self._sources: list[ToolSource] = []
        self.specs: list[str | ToolSpec] = []
        mistakes = Mistakes()
        for tool in listed(f"The agent {owner!r}", "tools", tools):
            mistakes.collect(self._add_tool, tool)
        mistakes.raise_all()
        self._sources.sort(key=order_of)
        self._check_approvals()

    @property
    def sources(self) -> tuple[ToolSource, ...]:
        """The sources of the tools, in the order in which a model sees them."""
        return tuple(self._sources)

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The agents and teams among the tools."""
        return tuple(source.agent for source in self._sources if isinstance(source, AgentSource))

    def extend(self, policy: Policy) -> Policy:
        """Return the policy of the agent with what its tools can do: terminate the team, or reach its members."""
        can_terminate = any(source.signal == "terminate" for source in self._sources)
        talks = any(source.talks for source in self._sources)
        return policy.changed(can_terminate=can_terminate, talks=talks) if can_terminate or talks else policy

    def _add_tool(self, tool: ToolLike) -> None:
        source = make_source(tool, self._sources, self._max_bytes)
        self._add(source)
        self.specs.append(source.spec if source.spec is not None else _not_rebuilt(source))

    def _add(self, source: ToolSource) -> None:
        """Add a source; raises `DuplicateName` if its name or the name of one of its tools exists already."""
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
        """Reject approvals that name no tool, as far as the names are known before a turn."""
        approved = self._confirm.tools
        callable_ = [source for source in self._sources if source.signal is None]
        known = list(dict.fromkeys(name for one in callable_ for name in (one.name, *(one.tool_names or ()))))
        for name in () if isinstance(approved, bool) else approved:
            if name == TERMINATE:
                raise UsageError(
                    f"{self._owner!r}: {name!r} can't be approved; approve the reply instead, with  after: true"
                )
            if name not in known and all(one.tool_names is not None for one in callable_):
                raise UsageError(f"{self._owner!r} has no tool {name!r} to approve; {nearest(name, known)}")

    @property
    def uses_tree(self) -> bool:
        """Whether a tool works on the files of its team."""
        return any(one.uses_tree for one in self._sources)

    @property
    def needs(self) -> tuple[type, ...]:
        """The types of the dependencies that the tools declare."""
        return tuple(kind for one in self._sources if isinstance(one, PythonTool) for kind in one.needs)

    @property
    def sandboxes(self) -> tuple[SandboxSettings, ...]:
        """The sandboxes in which programs of the tools run."""
        return tuple(one.sandbox for one in self._sources if one.sandbox is not None)

    def problems(self) -> list[str]:
        """Return configuration problems of the tools, such as a missing package."""
        return [problem for source in self._sources for problem in source.problems()]

    @asynccontextmanager
    async def open(
        self,
        ctx: Context,
        *,
        allow: Sequence[str] | None = None,
        seconds: float | None = None,
        points: bool = False,
        purpose: Purpose = "work",
        handoffs: Sequence[HandoffTarget] = (),
    ) -> AsyncGenerator[Tools]:
        """Open the tools for one turn: those that `allow` names, by tool or by source, with a timeout for each call.

        If the prompt has pointers to artifacts (`points`), the tool that opens them is added. `purpose` is that of the
        turn: an agent among the tools is asked for the same. A tool for each of the `handoffs` comes last.
        """
        sources = self._sources
        if points and not any(OPEN_ARTIFACT in (source.tool_names or ()) for source in sources):
            sources = sorted([*sources, WorkspaceSource([OPEN_ARTIFACT])], key=order_of)
        tools = Tools(ctx, self._confirm, self._owner, seconds, self._max_bytes, purpose)
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(source.open(ctx)) for source in sources]
            for source in opened:
                for definition in await source.definitions(ctx):
                    if allow is None or definition.name in allow or source.name in allow:
                        tools.add(definition, source)
                tools.warnings += [f"{self._owner}: {text}" for text in source.warnings]
                if source.has_context:
                    tools.context += await source.context(ctx)
            for target in handoffs:
                tools.add_transfer(target)
            yield tools


class Tools:
    """The open tools of one turn."""

    def __init__(
        self,
        ctx: Context,
        confirm: Confirm,
        owner: str,
        seconds: float | None,
        max_bytes: int = MAX_BYTES,
        purpose: Purpose = "work",
    ) -> None:
        self.ctx, self._confirm, self._owner = ctx, confirm, owner
        self._purpose: Purpose = purpose
        self._seconds, self._max_bytes = seconds, max_bytes
        self._owned = ctx.owned
        self._sources: dict[str, ToolSource] = {}
        self._policies: dict[str, CallPolicy] = {}
        self.definitions: list[ToolDefinition] = []
        self.may_terminate = False
        self.transfers: dict[str, str] = {}
        """The members that the turn may be handed to, by the name of the tool."""
        self.spent: Usage = NOTHING
        self.warnings: list[str] = []
        self.context: list[str] = []
        """Texts of the sources for the agent's instructions."""

    def add(self, definition: ToolDefinition, source: ToolSource) -> None:
        """Add a tool; one that ends the turn is offered to the model but can't be called."""
        name = definition.name
        if name in self._sources:
            raise DuplicateName("tool", name)
        self.definitions.append(definition)
        if source.signal is None:
            self._sources[name], self._policies[name] = source, definition.policy
        else:
            self.may_terminate = True

    def add_transfer(self, target: HandoffTarget) -> None:
        """Add the tool that hands the turn to another member: it ends the turn, and can't be called."""
        definition = transfer_definition(target)
        if definition.name in self._sources:
            raise DuplicateName("tool", definition.name)
        self.definitions.append(definition)
        self.transfers[definition.name] = target.name

    def validate(self, name: str, arguments: Arguments) -> Arguments:
        """Validate a call and return its arguments; raises `ToolError` for an unknown tool or wrong arguments."""
        self._source(name).validate(name, arguments)
        return arguments

    async def reject(self, name: str, written: str, error: ToolError, *, key: str) -> None:
        """Record that a call is not made: the tool is unknown, or does not accept the arguments as written."""
        reason = "arguments" if name in self._sources else "unknown_tool"
        rejected = AgentCallRejected(name=name, reason=reason, message=str(error), arguments=written)
        await self.ctx.emit(rejected, key=key)

    def is_agent(self, name: str) -> bool:
        """Whether a tool is an agent, which is asked."""
        return isinstance(self._sources.get(name), AgentSource)

    async def call_recorded(self, name: str, arguments: Arguments, *, key: str) -> JsonValue:
        """Validate a call, have it approved and make it; return its result with files only named."""
        approved = await self.approved_arguments(name, arguments, key=key)
        returned = await self.call_with_files(name, approved, key=key)
        return with_pointers(returned.value, returned.artifacts) if returned.artifacts else returned.value

    async def approved_arguments(
        self, name: str, arguments: Arguments, *, key: str, ctx: Context | None = None
    ) -> Arguments:
        """Validate a call and, if it needs approval, ask a person; return its arguments, which they may have edited.

        Raises `ToolError` with the reason if they reject it. `key` is the place of the call in `ctx`, the context of
        the turn by default.
        """
        try:
            self.validate(name, arguments)
        except ToolError as error:
            await self.reject(name, json.dumps(arguments, ensure_ascii=False), error, key=key)
            raise
        if not self._confirm.needed_for(name, self._source(name).name):
            return arguments
        return await self._ask_for_approval(name, arguments, ctx or self.ctx, join_key(key, CONFIRM))

    async def call_with_files(
        self, name: str, arguments: Arguments, *, key: str, ctx: Context | None = None
    ) -> Returned:
        """Make a call with approved arguments as one effect: recorded, counted, and not repeated on a replay.

        An agent is asked instead. `key` is the place of the call in `ctx`, the context of the turn by default.
        """
        ctx, source = ctx or self.ctx, self._source(name)
        if isinstance(source, AgentSource):
            return Returned(await self._ask(source, arguments, ctx, key))
        call = RecordedToolCall(ctx, source, name, arguments, key, policy=self._policies[name])
        returned = await call.make(
            member=self._owner, owned=self._owned, seconds=self._seconds, max_bytes=self._max_bytes
        )
        self.spent += returned.usage
        if returned.capped is not None:
            self.warnings.append(cut_warning(f"{self._owner}: the result of the tool {name!r}", returned.capped))
        return returned

    async def _ask(self, source: AgentSource, arguments: Arguments, ctx: Context, key: str) -> JsonValue:
        """Ask an agent, and return its data or its text; its warnings are also those of this turn.

        Raises `ToolError` with the kind of its failure; that its settings are wrong is a warning.
        """
        reply = await source.ask(arguments, ctx, key, self._purpose)
        if isinstance(reply, Failure):
            text = f"{reply.member!r} failed ({reply.error}: {reply.message})"
            if reply.error == InvalidRequest.kind and text not in self.warnings:
                self.warnings.append(text)
            # The kind alone: the text of a failure never becomes the input of another agent.
            raise ToolError(f"{source.agent.name!r} gave no answer ({reply.error}).")
        self.spent += reply.usage
        self.warnings += reply.lasting_warnings
        return reply.text if reply.data is None else reply.data

    async def _ask_for_approval(self, name: str, arguments: Arguments, ctx: Context, key: str) -> Arguments:
        """Ask a person to approve the call; return the same arguments, or others if the person changed them."""

        async def ask(question: Question, place: str) -> Answer:
            return await ctx.ask_person(question, key=place)

        def parse_edit(data: JsonValue) -> Arguments:
            if not isinstance(data, dict):
                raise ToolError("an edit must be a JSON object of arguments")
            return self.validate(name, data)

        draft = json.dumps(arguments, indent=2, ensure_ascii=False)
        question = approval_question(
            f"May {self._owner!r} call the tool {name!r} with these arguments?", draft, form="json"
        )
        decision = await ask_for_decision(ask, question, key, parse_edit)
        if not decision.approved:
            raise ToolError(f"The call of the tool {name!r} was refused: {decision.reason}")
        edited = decision.edited
        is_changed = edited is not None and _canonical(edited) != _canonical(arguments)
        return edited if edited is not None and is_changed else arguments

    def _source(self, name: str) -> ToolSource:
        if name not in self._sources:
            raise ToolError(f"There is no tool {name!r} here; {nearest(name, self._sources)}")
        return self._sources[name]


def _canonical(arguments: Arguments) -> str:
    return json.dumps(arguments, sort_keys=True)


def _not_rebuilt(source: ToolSource) -> FunctionTool:
    """Return the declaration of a source that has none: with it, a resume fails with the name of the tool."""
    return FunctionTool.model_construct({"function", "name"}, function=NOT_IMPORTABLE, name=source.name)
