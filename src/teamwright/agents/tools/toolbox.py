"""Tools: Python functions, MCP servers and what is built in, offered under one roof and called as effects.

Nothing heavy may be imported here: scripted agents use tools without a model library.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from pydantic import JsonValue

from teamwright.agents.approval import decided
from teamwright.agents.context import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import import_path
from teamwright.agents.tools.files import NAMES as FILE_TOOLS
from teamwright.agents.tools.files import file_tool
from teamwright.agents.tools.python import Arguments, Function, Offer, PythonTool, load_function
from teamwright.agents.tools.workspace import NAMES as WORKSPACE_TOOLS
from teamwright.agents.tools.workspace import OPEN, workspace_tool
from teamwright.errors import AgentError, DuplicateName, MissingExtra, TeamwrightError, ToolError, UsageError, nearest
from teamwright.values.approvals import Approve, approval
from teamwright.values.limits import RetryPolicy
from teamwright.values.manifest import FILES, TERMINATE, WORKSPACE, FilesSpec, FilesTool, FunctionTool, McpSpec
from teamwright.values.messages import digest
from teamwright.values.people import Answer, Question
from teamwright.values.reply_limits import MAX_BYTES, cut_warning
from teamwright.values.usage import NOTHING, Usage

if TYPE_CHECKING:
    from teamwright.agents.tools.mcp import McpServer

LONGEST_ERROR = 500
NEVER_AGAIN = RetryPolicy(attempts=0)

ToolSpec = str | FunctionTool | McpSpec | FilesSpec
ToolLike = ToolSpec | Function | tuple[str, "FunctionTool | McpSpec | FilesSpec | Function"]
"""`terminate`, `workspace`, `files`, `module:function`, a declared tool, a callable, or one under a name of its own."""


class Tool(Protocol):
    """One tool that can be offered and called."""

    @property
    def offer(self) -> Offer:
        """The tool as a model sees it."""
        ...

    def fit(self, arguments: Arguments) -> Arguments:
        """Give the arguments as the tool takes them, or raise `ToolError`."""
        ...

    async def call(self, arguments: Arguments, *, idempotency_key: str, place: str) -> JsonValue:
        """Do it; the key is the same whenever this very call is made again, and so is its place within the turn."""
        ...


TERMINATE_OFFER = Offer(
    TERMINATE,
    "End the conversation when the task is done. Give the final answer as `response`.",
    {
        "type": "object",
        "properties": {"response": {"type": "string", "description": "The final answer."}},
        "required": ["response"],
    },
)


def final_response(arguments: object) -> str | None:
    """Read the `response` of a call of `terminate`; anything malformed is no response and still terminates."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return None
    if not isinstance(arguments, Mapping):
        return None
    response = cast("Mapping[str, object]", arguments).get("response")
    return response if isinstance(response, str) and response.strip() else None


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
        self._functions: dict[str, PythonTool] = {}
        self._servers: dict[str, McpSpec] = {}
        self._approve, self._owner, self._max_bytes = approve or Approve(), owner, max_bytes
        self.can_terminate = self._shares = False
        self._files: FilesTool | None = None
        self.specs: list[ToolSpec] = []
        for tool in tools:
            self._add(tool)
            self.specs.extend(_declared(tool))
        if self._files is not None and (taken := self._functions.keys() & {*FILE_TOOLS}):
            raise DuplicateName("tool", min(taken))
        self._check_approvals()

    def _check_approvals(self) -> None:
        """Refuse names that are no tools, as far as they are known before a server is asked."""
        wanted = self._approve.tools
        known = [*self._functions, *self._servers, *((WORKSPACE, *WORKSPACE_TOOLS) if self._shares else ())]
        known += (FILES, *FILE_TOOLS) if self._files is not None else ()
        for name in () if isinstance(wanted, bool) else wanted:
            if name == TERMINATE:
                raise UsageError(f"{self._owner!r}: nobody approves {name!r}; approve its reply, with  after: true")
            if name not in known and not self._servers:
                raise UsageError(f"{self._owner!r} has no tool {name!r} to approve; {nearest(name, known)}")

    @property
    def lacks(self) -> list[str]:
        """What has to be installed before its tools can be used."""
        if not self._servers or find_spec("mcp") is not None:
            return []
        return [str(MissingExtra("mcp", f"The MCP server {label!r}")) for label in self._servers]

    def _add(self, tool: ToolLike, name: str | None = None) -> None:
        match tool:
            case (str() as own_name, spec):
                self._add(spec, own_name)
            case str() if tool == TERMINATE:
                self.can_terminate = True
            case str() if tool == WORKSPACE:
                self._shares = True
            case str() if tool == FILES:
                self._add(FilesSpec(files=FilesTool()))
            case FilesSpec():
                if self._files is not None:
                    raise DuplicateName("tool", FILES)
                self._files = tool.files
            case str():
                self._add(FunctionTool(function=tool), name)
            case FunctionTool():
                function = load_function(tool.function, "the tool")
                self._add_function(
                    PythonTool(function, name=name, description=tool.description, max_bytes=self._max_bytes)
                )
            case McpSpec():
                label = name or f"mcp-{len(self._servers) + 1}"
                if label in self._servers:
                    raise DuplicateName("MCP server", label)
                self._servers[label] = tool
            case _:
                self._add_function(PythonTool(tool, name=name, max_bytes=self._max_bytes))

    def _add_function(self, tool: PythonTool) -> None:
        if tool.name in self._functions or tool.name in (TERMINATE, WORKSPACE):
            raise DuplicateName("tool", tool.name)
        self._functions[tool.name] = tool

    @asynccontextmanager
    async def open(
        self, ctx: Context, *, allow: Sequence[str] | None = None, seconds: float | None = None, points: bool = False
    ) -> AsyncGenerator[Tools]:
        """The tools for one turn: those that `allow` names, by tool or by MCP server; `seconds` bounds each call.

        Where the turn `points` at something that is kept, the tool that opens it is one of them.
        """
        tools = Tools(ctx, self._approve, self._owner, seconds, self._max_bytes)
        tools.may_terminate = self.can_terminate and (allow is None or TERMINATE in allow)
        for name, tool in self._functions.items():
            if allow is None or name in allow:
                tools.add(name, tool.within(ctx.owned))
        for name in WORKSPACE_TOOLS if self._shares else (OPEN,) if points and OPEN not in self._functions else ():
            if allow is None or name in allow or WORKSPACE in allow:
                tools.add(name, workspace_tool(name, ctx.workspace), WORKSPACE)
        for name in FILE_TOOLS if self._files is not None else ():
            if allow is None or name in allow or FILES in allow:
                root = Path(self._files.root) if self._files and self._files.root else None
                tools.add(name, file_tool(name, root, ctx.owned), FILES)
        if not self._servers:
            yield tools
            return
        from teamwright.agents.tools.mcp import McpServer, running

        servers = [McpServer(label, spec.mcp, self._max_bytes) for label, spec in self._servers.items()]
        async with running(servers):
            for server in servers:
                for tool in await self._listed(ctx, server, allow):
                    tools.add(tool.offer.name, tool, server.label)
            yield tools

    async def _listed(self, ctx: Context, server: McpServer, allow: Sequence[str] | None) -> list[Tool]:
        """What a server offers is recorded, so that a replay needs no server."""

        async def listing(_: Attempt) -> Returned:
            return Returned(await server.offers())

        effect = Effect(
            kind="tool", name=server.label, request=server.identity, call=listing, max_bytes=self._max_bytes
        )
        recorded = await ctx.effect(f"tools-{server.label}", effect)
        tools = server.tools(recorded.value)
        return [one for one in tools if allow is None or one.offer.name in allow or server.label in allow]


def _declared(tool: ToolLike) -> list[ToolSpec]:
    """The tool as a declaration, if it has one: a function that can't be imported by name has none."""
    match tool:
        case (str(), spec):
            return _declared(spec)
        case str() | FunctionTool() | McpSpec() | FilesSpec():
            return [tool]
        case _:
            path = import_path(tool)
            return [path] if path is not None else []


class Tools:
    """The tools that one turn may use."""

    def __init__(
        self, ctx: Context, approve: Approve, owner: str, seconds: float | None, max_bytes: int = MAX_BYTES
    ) -> None:
        self._ctx, self._approve, self._owner = ctx, approve, owner
        self._seconds, self._max_bytes = seconds, max_bytes
        self._tools: dict[str, Tool] = {}
        self._groups: dict[str, str] = {}
        self.may_terminate = False
        self.spent: Usage = NOTHING
        self.warnings: list[str] = []

    def add(self, name: str, tool: Tool, group: str = "") -> None:
        """Add a tool; `group` is what it came with."""
        if name in self._tools:
            raise DuplicateName("tool", name)
        self._tools[name], self._groups[name] = tool, group

    @property
    def offers(self) -> list[Offer]:
        """All that a model may call, `terminate` last."""
        offers = [tool.offer for tool in self._tools.values()]
        return [*offers, TERMINATE_OFFER] if self.may_terminate else offers

    def fit(self, name: str, arguments: Arguments) -> Arguments:
        """Check a call before it is made; an unknown tool or arguments that do not fit are a `ToolError`."""
        return self._tool(name).fit(arguments)

    async def call(self, name: str, arguments: Arguments, *, idempotency_key: str, place: str = "") -> JsonValue:
        """Call a tool, outside any record; whatever it raises is a `ToolError`."""
        tool = self._tool(name)
        try:
            return await tool.call(arguments, idempotency_key=idempotency_key, place=place)
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
        if self._approve.needed_for(name, self._groups[name]):
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
        question = approval(f"May {self._owner!r} call the tool {name!r} with these arguments?", draft, form="json")
        decision = await decided(ask, question, f"{key}/approve", fit)
        if not decision.agreed:
            raise ToolError(f"The call of the tool {name!r} was refused: {decision.reason}")
        return arguments if decision.edited is None else decision.edited

    def _tool(self, name: str) -> Tool:
        if name not in self._tools:
            raise ToolError(f"There is no tool {name!r} here; {nearest(name, self._tools)}")
        return self._tools[name]


def _failed(name: str, error: Exception) -> ToolError:
    said = str(error)
    if len(said) > LONGEST_ERROR:
        said = said[: LONGEST_ERROR - 1] + "…"
    return ToolError(f"The tool {name!r} failed: {type(error).__name__}{': ' if said else ''}{said}")
