"""Tools: Python functions, MCP servers and the built-in `terminate`, offered under one roof and called as effects.

Nothing heavy may be imported here: scripted agents use tools without a model library.
"""

from __future__ import annotations

import importlib
import inspect
import json
import typing
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from teamwright.agents.function import import_path
from teamwright.agents.protocol import Attempt, Context, Effect, Returned
from teamwright.agents.threads import in_thread
from teamwright.errors import AgentError, DuplicateName, TeamwrightError, ToolError, UsageError, nearest
from teamwright.values.limits import RetryPolicy
from teamwright.values.messages import digest
from teamwright.values.names import check_name
from teamwright.values.specs import TERMINATE, FunctionTool, McpSpec
from teamwright.values.usage import NOTHING, Usage

if TYPE_CHECKING:
    from teamwright.agents.mcp import McpServer

KEY_PARAMETER = "idempotency_key"
LONGEST_ERROR = 500
NEVER_AGAIN = RetryPolicy(attempts=0)

Function = Callable[..., object]
ToolLike = str | FunctionTool | McpSpec | Function | tuple[str, "FunctionTool | McpSpec | Function"]
"""`terminate`, `module:function`, a declared tool, a callable, or one of these under a name of its own."""

Arguments = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, JsonValue]


class Tool(Protocol):
    """One tool that can be offered and called."""

    @property
    def offer(self) -> Offer:
        """The tool as a model sees it."""
        ...

    def fit(self, arguments: Arguments) -> Arguments:
        """Give the arguments as the tool takes them, or raise `ToolError`."""
        ...

    async def call(self, arguments: Arguments, *, idempotency_key: str) -> JsonValue:
        """Do it; the key is the same whenever this very call is made again."""
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


class PythonTool:
    """A Python function; a keyword parameter `idempotency_key` is filled in and hidden from the model."""

    def __init__(self, function: Function, *, name: str | None = None, description: str | None = None) -> None:
        self.name = check_name("tool", name or getattr(function, "__name__", type(function).__name__))
        self._function = function
        self._description = description if description is not None else inspect.getdoc(function) or ""
        self._parameters = _parameters(function, self.name)
        self._takes_key = KEY_PARAMETER in inspect.signature(function).parameters

    @cached_property
    def _arguments(self) -> TypeAdapter[Any]:
        """Validates arguments by the function's own signature, and gives them back instead of calling it."""

        def give_back(**arguments: object) -> dict[str, object]:
            return arguments

        give_back.__signature__ = inspect.Signature(self._parameters)  # pyright: ignore[reportFunctionMemberAccess]
        give_back.__annotations__ = {one.name: one.annotation for one in self._parameters}
        return TypeAdapter(cast("Any", give_back))

    @property
    def offer(self) -> Offer:
        """The tool as a model sees it."""
        return self._offer

    @cached_property
    def _offer(self) -> Offer:
        schema = cast("dict[str, JsonValue]", self._arguments.json_schema())
        return Offer(self.name, self._description, schema)

    def fit(self, arguments: Arguments) -> Arguments:
        """Check the arguments against the signature; they stay JSON, so that they can be recorded."""
        self._converted(arguments)
        return arguments

    async def call(self, arguments: Arguments, *, idempotency_key: str) -> JsonValue:
        """Call the function, a synchronous one in a thread."""
        converted = self._converted(arguments)
        if self._takes_key:
            converted[KEY_PARAMETER] = idempotency_key
        call = partial(self._function, **converted)
        if inspect.iscoroutinefunction(_inner(self._function)):
            result = call()
        else:
            result = await in_thread(call, f"tool {self.name}")
        if inspect.isawaitable(result):
            result = cast("object", await result)
        try:
            return cast("JsonValue", to_jsonable_python(result, inf_nan_mode="strings"))
        except PydanticSerializationError as error:
            raise ToolError(f"The tool {self.name!r} returned something that is not JSON: {error}") from error

    def _converted(self, arguments: Arguments) -> dict[str, object]:
        try:
            return cast("dict[str, object]", self._arguments.validate_python(dict(arguments)))
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}"
                for one in error.errors(include_url=False, include_context=False, include_input=False)
            )
            raise ToolError(f"The arguments do not fit the tool {self.name!r}: {wrong}.") from error


def _inner(function: Function) -> Function:
    """The function that has the annotations: behind partials, and inside a callable object."""
    while isinstance(function, partial):
        function = cast("partial[object]", function).func
    return function if hasattr(function, "__annotations__") else cast("Function", type(function).__call__)


def _parameters(function: Function, name: str) -> list[inspect.Parameter]:
    """The parameters that a model fills in, each by keyword."""
    try:
        hints = typing.get_type_hints(_inner(function), include_extras=True)
        declared = inspect.signature(function).parameters.values()
    except (NameError, TypeError, ValueError) as error:
        raise UsageError(f"The tool {name!r} has a signature that can't be read: {error}.") from error
    found: list[inspect.Parameter] = []
    for one in declared:
        if one.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            raise UsageError(f"The tool {name!r} has the positional parameter {one.name!r}; make it a named one.")
        if one.name != KEY_PARAMETER:
            kind = one.kind if one.kind is inspect.Parameter.VAR_KEYWORD else inspect.Parameter.KEYWORD_ONLY
            annotation = hints.get(one.name, typing.Any)
            found.append(one.replace(kind=kind, annotation=annotation))
    return found


def load_function(path: str, what: str) -> Function:
    """Import `module:function`, or raise in words."""
    module_name, colon, names = path.partition(":")
    if not colon or not module_name or not names:
        raise UsageError(f"{path!r} is no path of {what}; write it as module:function.")
    try:
        found: object = importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(f"The module of {what} {path!r} can't be imported: {error}.") from error
    for name in names.split("."):
        known = [one for one in dir(found) if not one.startswith("_")]
        if (found := getattr(found, name, None)) is None:
            raise UsageError(f"There is no {name!r} in {path!r}; {nearest(name, known)}")
    if not callable(found):
        raise UsageError(f"{path!r} is not a function.")
    return found


class Toolbox:
    """The tools of one agent, as declared. `open` makes them usable for one turn."""

    def __init__(self, tools: Sequence[ToolLike] = ()) -> None:
        self._functions: dict[str, PythonTool] = {}
        self._servers: dict[str, McpSpec] = {}
        self.can_terminate = False
        self.specs: list[str | FunctionTool | McpSpec] = []
        for tool in tools:
            self._add(tool)
            self.specs.extend(_declared(tool))

    def _add(self, tool: ToolLike, name: str | None = None) -> None:
        match tool:
            case (str() as own_name, spec):
                self._add(spec, own_name)
            case str() if tool == TERMINATE:
                self.can_terminate = True
            case str():
                self._add(FunctionTool(function=tool), name)
            case FunctionTool():
                function = load_function(tool.function, "the tool")
                self._add_function(PythonTool(function, name=name, description=tool.description))
            case McpSpec():
                label = name or f"mcp-{len(self._servers) + 1}"
                if label in self._servers:
                    raise DuplicateName("MCP server", label)
                self._servers[label] = tool
            case _:
                self._add_function(PythonTool(tool, name=name))

    def _add_function(self, tool: PythonTool) -> None:
        if tool.name in self._functions or tool.name == TERMINATE:
            raise DuplicateName("tool", tool.name)
        self._functions[tool.name] = tool

    @asynccontextmanager
    async def open(
        self, ctx: Context, *, allow: Sequence[str] | None = None, seconds: float | None = None
    ) -> AsyncGenerator[Tools]:
        """The tools for one turn: those that `allow` names, by tool or by MCP server; `seconds` bounds each call."""
        functions: dict[str, Tool] = {
            name: tool for name, tool in self._functions.items() if allow is None or name in allow
        }
        may_terminate = self.can_terminate and (allow is None or TERMINATE in allow)
        if not self._servers:
            yield Tools(ctx, functions, may_terminate, seconds)
            return
        from teamwright.agents.mcp import McpServer, running

        servers = [McpServer(label, spec.mcp) for label, spec in self._servers.items()]
        async with running(servers):
            for server in servers:
                for tool in await self._listed(ctx, server, allow):
                    if tool.offer.name in functions:
                        raise DuplicateName("tool", tool.offer.name)
                    functions[tool.offer.name] = tool
            yield Tools(ctx, functions, may_terminate, seconds)

    @staticmethod
    async def _listed(ctx: Context, server: McpServer, allow: Sequence[str] | None) -> list[Tool]:
        """What a server offers is recorded, so that a replay needs no server."""

        async def listing(_: Attempt) -> Returned:
            return Returned(await server.offers())

        effect = Effect(kind="tool", name=server.label, request=server.identity, call=listing)
        recorded = await ctx.effect(f"tools-{server.label}", effect)
        tools = server.tools(recorded.value)
        return [one for one in tools if allow is None or one.offer.name in allow or server.label in allow]


def _declared(tool: ToolLike) -> list[str | FunctionTool | McpSpec]:
    """The tool as a declaration, if it has one: a function that can't be imported by name has none."""
    match tool:
        case (str(), spec):
            return _declared(spec)
        case str() | FunctionTool() | McpSpec():
            return [tool]
        case _:
            path = import_path(tool)
            return [path] if path is not None else []


class Tools:
    """The tools that one turn may use."""

    def __init__(self, ctx: Context, tools: Mapping[str, Tool], may_terminate: bool, seconds: float | None) -> None:
        self._ctx, self._tools, self._seconds = ctx, tools, seconds
        self.may_terminate = may_terminate
        self.spent: Usage = NOTHING

    @property
    def offers(self) -> list[Offer]:
        """All that a model may call, `terminate` last."""
        offers = [tool.offer for tool in self._tools.values()]
        return [*offers, TERMINATE_OFFER] if self.may_terminate else offers

    def fit(self, name: str, arguments: Arguments) -> Arguments:
        """Check a call before it is made; an unknown tool or arguments that do not fit are a `ToolError`."""
        return self._tool(name).fit(arguments)

    async def call(self, name: str, arguments: Arguments, *, idempotency_key: str) -> JsonValue:
        """Call a tool, outside any record; whatever it raises is a `ToolError`."""
        tool = self._tool(name)
        try:
            return await tool.call(arguments, idempotency_key=idempotency_key)
        except TeamwrightError as error:
            # Limits, fencing and the like are no fault of the tool and stop the run as they are.
            if not isinstance(error, AgentError) or isinstance(error, ToolError):
                raise
            raise _failed(name, error) from error
        except Exception as error:
            raise _failed(name, error) from error

    async def use(self, name: str, arguments: Arguments, *, key: str) -> JsonValue:
        """Call a tool as one effect: recorded, counted, and never repeated once it has returned."""
        arguments = self.fit(name, arguments)

        async def call(attempt: Attempt) -> Returned:
            value = await self.call(name, arguments, idempotency_key=attempt.idempotency_key)
            return Returned(value, usage=Usage(tool_calls=1))

        request = digest(name, json.dumps(arguments, sort_keys=True, ensure_ascii=False))
        effect = Effect(
            kind="tool", name=name, request=request, call=call, retry=NEVER_AGAIN, timeout=self._seconds
        )  # fmt: skip
        returned = await self._ctx.effect(key, effect)
        self.spent += returned.usage
        return returned.value

    def _tool(self, name: str) -> Tool:
        if name not in self._tools:
            raise ToolError(f"There is no tool {name!r} here; {nearest(name, self._tools)}")
        return self._tools[name]


def _failed(name: str, error: Exception) -> ToolError:
    said = str(error)
    if len(said) > LONGEST_ERROR:
        said = said[: LONGEST_ERROR - 1] + "…"
    return ToolError(f"The tool {name!r} failed: {type(error).__name__}{': ' if said else ''}{said}")
