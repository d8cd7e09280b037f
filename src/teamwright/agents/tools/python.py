"""Python functions as tools: derives the schema of their arguments, validates calls and makes them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, partial
from types import MethodType
from typing import Any, TypeVar, cast

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from teamwright.agents.contract.context import Context
from teamwright.agents.functions.agent import import_path
from teamwright.agents.functions.import_guard import UnloadedFunction, can_load_code
from teamwright.agents.functions.own_modules import import_own
from teamwright.agents.functions.threads import run_in_thread, run_to_completion
from teamwright.agents.tools.file_result import FileResult, ToolValue, find_files
from teamwright.agents.tools.kind import BuildOptions, ToolKind
from teamwright.agents.tools.protocol import Arguments, ToolContext, ToolDefinition, ToolSource
from teamwright.documents.field_checks import check_import_path, import_path_in
from teamwright.documents.nodes import Fields
from teamwright.documents.problems import ProblemReport
from teamwright.errors import ToolError, UsageError, nearest
from teamwright.values.limits.reply import MAX_BYTES
from teamwright.values.names import check_name
from teamwright.values.specs.manifest import FunctionTool, ToolSpec

KEY_PARAMETER, OWNED_PARAMETER = "idempotency_key", "owned"
HIDDEN_PARAMETERS = (KEY_PARAMETER, OWNED_PARAMETER)

T = TypeVar("T")
Function = Callable[..., object]


class PythonTool(ToolSource):
    """A Python function as a tool; its parameters `idempotency_key` and `owned` are injected and hidden from models."""

    kind = "function"

    def __init__(
        self,
        function: Function,
        *,
        name: str | None = None,
        description: str | None = None,
        max_bytes: int = MAX_BYTES,
        spec: str | ToolSpec | None = None,
    ) -> None:
        self.name = check_name("tool", name or getattr(function, "__name__", type(function).__name__))
        self.tool_names = (self.name,)
        self.spec = spec if spec is not None else import_path(function)
        self._function, self._max_bytes = function, max_bytes
        self._description = description if description is not None else inspect.getdoc(function) or ""
        self._parameters = _parameters(function, self.name)
        self._hidden = [one for one in HIDDEN_PARAMETERS if one in inspect.signature(function).parameters]

    @cached_property
    def _arguments(self) -> TypeAdapter[Any]:
        """Validates arguments against the function's signature, and returns them instead of calling it."""

        def collect(**arguments: object) -> dict[str, object]:
            return arguments

        collect.__signature__ = inspect.Signature(self._parameters)  # pyright: ignore[reportFunctionMemberAccess]
        collect.__annotations__ = {one.name: one.annotation for one in self._parameters}
        return TypeAdapter(cast("Any", collect))

    @cached_property
    def definition(self) -> ToolDefinition:
        """The tool as a model sees it."""
        schema = cast("dict[str, JsonValue]", self._arguments.json_schema())
        return ToolDefinition(self.name, self._description, schema)

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        """Return its one definition."""
        return (self.definition,)

    def validate(self, name: str, arguments: Arguments) -> None:
        """Validate the arguments against the signature."""
        self._validated_arguments(arguments)

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> ToolValue:
        """Call the function; a synchronous one runs in a thread."""
        converted = self._validated_arguments(arguments)
        for hidden in self._hidden:
            converted[hidden] = context.idempotency_key if hidden == KEY_PARAMETER else context.owned
        call = partial(self._function, **converted)
        if inspect.iscoroutinefunction(_annotated_function(self._function)):
            result = call()
        else:
            result = await run_in_thread(call, f"tool {self.name}")
        if inspect.isawaitable(result):
            result = cast("object", await result)
        result, files = find_files(result)
        if isinstance(result, bytes | bytearray) and len(result) > self._max_bytes:
            most = self._max_bytes
            raise ToolError(
                f"The result of {self.name!r} is too large: {len(result)} bytes, of at most {most} (max_bytes)"
            )
        try:
            value = cast("JsonValue", to_jsonable_python(result, inf_nan_mode="strings"))
        except PydanticSerializationError as error:
            raise ToolError(f"The tool {self.name!r} returned something that is not JSON: {error}") from error
        return FileResult(files, value) if files else value

    def _validated_arguments(self, arguments: Arguments) -> dict[str, object]:
        try:
            return cast("dict[str, object]", self._arguments.validate_python(dict(arguments)))
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}"
                for one in error.errors(include_url=False, include_context=False, include_input=False)
            )
            raise ToolError(f"The arguments do not fit the tool {self.name!r}: {wrong}.") from error


class PythonKind(ToolKind[FunctionTool]):
    """`{function: module:function, description: …}`, or the path alone."""

    name = "function"
    model = FunctionTool

    def build(self, settings: FunctionTool, options: BuildOptions) -> ToolSource:
        """Import the function and create its source."""
        return PythonTool(
            load_function(settings.function, "the tool"),
            name=options.name,
            description=settings.description,
            max_bytes=options.max_bytes,
            spec=options.spec,
        )

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return its one name: the declared one, else that of the function."""
        if name:
            return [name]
        path = fields.text("function") if fields else None
        return [str(path.value).rpartition(":")[2].rpartition(".")[2]] if path else []

    def check(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Report an invalid import path."""
        if function := fields.text("function"):
            check_import_path(function, owner, report)

    def check_imports(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Report a function that can't be imported, or whose signature can't be a tool."""
        path = import_path_in(fields)
        if path is None:
            return
        try:
            PythonTool(load_function(str(path.value), "the tool"), name="tool")
        except UsageError as error:
            report.problem(path.place, f"{owner}: {error}")

    def code(self, settings: FunctionTool) -> Iterable[tuple[str, str]]:
        """Return the function."""
        yield "function", settings.function


class MethodTools:
    """Methods of a class as tools: each call creates an object from its context and calls one of its methods.

    A synchronous method runs in a thread and to completion even if the turn is cancelled: no write outlives its step.
    """

    def __init__(self, owner: type[T], make: Callable[[ToolContext], T]) -> None:
        self._owner, self._make = owner, make

    def definitions(self, names: Iterable[str]) -> Sequence[ToolDefinition]:
        """Return the definitions of these methods."""
        return [_method_tool(self._owner, name).definition for name in names]

    def validate(self, name: str, arguments: Arguments) -> None:
        """Validate the arguments against the signature."""
        _method_tool(self._owner, name).validate(name, arguments)

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> ToolValue:
        """Call the method."""
        method = getattr(self._owner, name)

        def work() -> Any:
            return method(self._make(context), **arguments)

        return await (work() if inspect.iscoroutinefunction(method) else run_to_completion(work))


@cache
def _method_tool(owner: type, name: str) -> PythonTool:
    return PythonTool(MethodType(getattr(owner, name), owner))


def _annotated_function(function: Function) -> Function:
    """Unwrap partials and callable objects to the function that has the annotations."""
    while isinstance(function, partial):
        function = cast("partial[object]", function).func
    return function if hasattr(function, "__annotations__") else cast("Function", type(function).__call__)


def _parameters(function: Function, name: str) -> list[inspect.Parameter]:
    """The parameters that a model has to supply, as keyword parameters."""
    try:
        hints = typing.get_type_hints(_annotated_function(function), include_extras=True)
        declared = inspect.signature(function).parameters.values()
    except (NameError, TypeError, ValueError) as error:
        raise UsageError(f"The tool {name!r} has a signature that can't be read: {error}.") from error
    found: list[inspect.Parameter] = []
    for one in declared:
        if one.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            raise UsageError(f"The tool {name!r} has the positional parameter {one.name!r}; make it a named one.")
        if one.name not in HIDDEN_PARAMETERS:
            kind = one.kind if one.kind is inspect.Parameter.VAR_KEYWORD else inspect.Parameter.KEYWORD_ONLY
            annotation = hints.get(one.name, typing.Any)
            found.append(one.replace(kind=kind, annotation=annotation))
    return found


def load_function(path: str, what: str, form: str = "module:function") -> Function:
    """Import `module:function`; raises `UsageError` if that fails. Returns a placeholder if code must not be loaded."""
    module_name, colon, names = path.partition(":")
    if not colon or not module_name or not names:
        raise UsageError(f"{path!r} is no path of {what}; write it as {form}.")
    if not can_load_code():
        return UnloadedFunction(path)
    try:
        found: object = import_own(module_name)
    except Exception as error:  # a module may raise anything while it is imported
        kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
        raise UsageError(f"The module of {what} {path!r} can't be imported: {kind}{error}.") from error
    for name in names.split("."):
        known = [one for one in dir(found) if not one.startswith("_")]
        if (found := getattr(found, name, None)) is None:
            raise UsageError(f"There is no {name!r} in {path!r}; {nearest(name, known)}")
    if not callable(found):
        raise UsageError(f"{path!r} is not a function.")
    return found
