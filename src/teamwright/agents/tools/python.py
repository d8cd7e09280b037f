"""Python functions and methods as tools: derives the schema of their arguments, validates calls and makes them.

The identity of an action is JSON that is the same for the same arguments, in every process and however they are spelt.
"""

from __future__ import annotations

import inspect
import json
from abc import abstractmethod
from collections.abc import Awaitable, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, cached_property, partial
from types import MethodType
from typing import Any, TypeVar, cast

from pydantic import (
    BaseModel,
    JsonValue,
    PydanticSchemaGenerationError,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticSerializationError, to_jsonable_python

from teamwright.agents.agent import Context
from teamwright.agents.attachments import FileResult, ToolValue, find_files
from teamwright.agents.constructor_arguments import Mistakes, checked_call, listed
from teamwright.agents.functions.imports import UnloadedFunction, can_load_code, import_path, load_function
from teamwright.agents.functions.threads import await_steps, blocked_text, run_in_thread, run_to_completion
from teamwright.agents.tools.protocol import (
    DEFAULT_POLICY,
    Arguments,
    BuildOptions,
    CallPolicy,
    OutcomeCheck,
    ToolContext,
    ToolDefinition,
    ToolKind,
    ToolSource,
)
from teamwright.agents.tools.signature import (
    Function,
    ToolSignature,
    annotated_function,
    arguments_adapter,
    parse_docstring,
    read_signature,
)
from teamwright.documents.nodes import Fields, Items, ProblemReport, Scalar, shown
from teamwright.documents.schema_check import check_import_path, import_path_in
from teamwright.errors import InvalidValue, NotResumable, ToolError, UsageError, nearest
from teamwright.values.call_limits import MAX_BYTES
from teamwright.values.names import check_name
from teamwright.values.specs.tools import NOT_IMPORTABLE, SAFE_RETRIES, UNSAFE_RETRIES, FunctionTool, ToolSpec
from teamwright.values.text.validation_messages import found_text, misfits_of
from teamwright.values.typed_data import unusable_type_hint


def canonical_json(value: object) -> str:
    """Return a value as JSON: equal numbers and equal times alike, and sets in order."""
    return json.dumps(_canonical(value), sort_keys=True, ensure_ascii=False)


def _canonical(value: object) -> JsonValue:  # noqa: PLR0911 - one for each kind of value
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return int(value) if value.is_integer() else repr(value)
        case Decimal():
            return int(value) if value == value.to_integral_value() else f"{value.normalize():f}"
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat()
        case BaseModel():
            return _canonical(dict(value))
        case Mapping():
            return {str(name): _canonical(one) for name, one in cast("Mapping[Any, object]", value).items()}
        case AbstractSet():
            return sorted(map(_canonical, cast("AbstractSet[object]", value)), key=canonical_json)
        case list() | tuple():
            return [_canonical(one) for one in cast("Sequence[object]", value)]
        case _ if is_dataclass(value):
            return _canonical(vars(value))
        case _:
            return _as_json(value)


def _as_json(value: object) -> JsonValue:
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError as error:
        raise ToolError(f"A value of the type {type(value).__name__!r} can't identify an action (once)") from error


T = TypeVar("T")

NO_PARAMETERS = "'once' names no parameter, so it identifies no action"
SOME_PARAMETERS = "name the parameters that identify the action, or leave 'once' out"


class PythonTool(ToolSource):
    """A Python function as a tool.

    Its docstring and annotations describe it to a model. A parameter with the annotation `ToolContext` receives the
    context of the call; it, and the parameters `idempotency_key` and `owned`, are hidden from models.
    """

    kind = "function"

    def __init__(
        self,
        function: Function,
        *,
        name: str | None = None,
        description: str | None = None,
        max_bytes: int = MAX_BYTES,
        settings: FunctionTool | None = None,
        check: Function | None = None,
        spec: str | ToolSpec | None = None,
    ) -> None:
        self.name = check_name("tool", name or _given_name(function))
        self.tool_names = (self.name,)
        self.spec = spec if spec is not None else self._spec(function, name)
        self._function, self._max_bytes = function, max_bytes
        self._signature = read_signature(function, self.name)
        self.needs = self._signature.needs
        self._docstring = parse_docstring(inspect.getdoc(function) or "", self._signature.all_names)
        self._description = description
        self.policy = self._call_policy(settings, check) if settings is not None else DEFAULT_POLICY
        self._check_types()

    def _spec(self, function: Function, name: str | None) -> str | FunctionTool:
        """Return the declaration from which the tool can be rebuilt under its name, or that says that it can't."""
        path = import_path(function)
        if path is not None and name in (None, path.rpartition(":")[2].rpartition(".")[2]):
            return path
        return FunctionTool(function=path or NOT_IMPORTABLE, name=self.name)

    def _call_policy(self, settings: FunctionTool, check: Function | None) -> CallPolicy:
        mistakes = Mistakes()
        for one in settings.once:
            mistakes.collect(self._check_once, one)
        outcome_check = mistakes.collect(self._outcome_check, check) if check is not None else None
        mistakes.raise_all()
        return CallPolicy(
            timeout=settings.timeout,
            retries=settings.retry,
            idempotent=settings.idempotent,
            once=partial(self._action, settings.once) if settings.once else None,
            check=outcome_check,
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that a model gives."""
        return self._signature.names

    def _check_once(self, parameter: str) -> None:
        if parameter not in self.parameters:
            hint = nearest(parameter, self.parameters)
            raise UsageError(f"The tool {self.name!r} has no parameter {parameter!r} for `once`; {hint}")

    def _outcome_check(self, check: Function) -> OutcomeCheck:
        """Return the check of this tool; raises `UsageError` if it takes parameters that the tool does not have."""
        signature = read_signature(check, self.name, "check of the tool")
        for one in signature.names:
            if one not in self.parameters:
                raise UsageError(
                    f"The check of the tool {self.name!r} takes {one!r}, which is no parameter of the tool;"
                    f" {nearest(one, self.parameters)}"
                )

        async def find_outcome(arguments: Arguments, context: ToolContext) -> ToolValue:
            given = self._validated_arguments(arguments)
            return await self._result_of(check, signature, {one: given[one] for one in signature.names}, context)

        return find_outcome

    def _action(self, names: Sequence[str], arguments: Arguments) -> str:
        """Return the identity of the action that a call makes: the function, and the values of these parameters.

        Other tools may have its name. Values are compared as validated, however a model spells them.
        """
        given = self._validated_arguments(arguments)
        function = getattr(self._function, "__qualname__", self.name)
        return canonical_json([function, *(given.get(one) for one in names)])

    def _check_types(self) -> None:
        """Raise `UsageError` for a parameter whose type no model could fill, here and not at the first turn."""
        try:
            self.definition  # noqa: B018 - built once, and kept
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise UsageError(
                f"The tool {self.name!r} has a parameter of a type that can't be used: {unusable_type_hint(error)}."
            ) from error

    @cached_property
    def _arguments(self) -> TypeAdapter[Any]:
        """Validates arguments against the function's signature, and returns them instead of calling it."""
        return arguments_adapter(self._signature.described(self._docstring.parameters))

    @cached_property
    def definition(self) -> ToolDefinition:
        """The tool as a model sees it."""
        schema = cast("dict[str, JsonValue]", self._arguments.json_schema())
        description = self._docstring.description if self._description is None else self._description
        return ToolDefinition(self.name, description, schema, self.policy)

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return (self.definition,)

    def validate(self, name: str, arguments: Arguments) -> None:
        self._validated_arguments(arguments)

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> ToolValue:
        """Call the function; a synchronous one runs in a thread."""
        return await self._result_of(self._function, self._signature, self._validated_arguments(arguments), context)

    async def _result_of(
        self, function: Function, signature: ToolSignature, arguments: dict[str, object], context: ToolContext
    ) -> ToolValue:
        call = partial(function, **arguments, **signature.injected(context))
        if inspect.iscoroutinefunction(annotated_function(function)):
            result = call()
        else:
            result = await run_in_thread(call, f"tool {self.name}")
        if inspect.isawaitable(result):
            result = await await_steps(
                cast("Awaitable[object]", result),
                lambda seconds: context.log(blocked_text("tool", self.name, seconds), "warning"),
            )
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
            wrong = "; ".join(map(str, misfits_of(error, arguments)))
            raise ToolError(f"The arguments do not fit the tool {self.name!r}: {wrong}.") from error


class PythonKind(ToolKind[FunctionTool]):
    """`{function: module:function, description: …}`, or the path alone."""

    name = "function"
    model = FunctionTool

    def build(self, settings: FunctionTool, options: BuildOptions) -> ToolSource:
        """Import the function and create its source; raises `NotResumable` for one that was created in Python."""
        name = options.name or settings.name
        if settings.function == NOT_IMPORTABLE and can_load_code():
            raise NotResumable(
                f"The tool {name!r} can't be rebuilt from the record: it is no function that can be imported by name,"
                " but a lambda, a closure or an object; pass the team that has it."
            )
        loaded = settings.function != NOT_IMPORTABLE and can_load_code()
        return PythonTool(
            load_function(settings.function, "the tool") if loaded else UnloadedFunction(settings.function),
            name=name,
            description=settings.description,
            max_bytes=options.max_bytes,
            settings=settings if loaded and isinstance(options.spec, FunctionTool) else None,
            check=load_function(settings.check, "the check") if loaded and settings.check is not None else None,
            spec=options.spec,
        )

    def tool_names(self, fields: Fields | None, name: str) -> Sequence[str] | None:
        """Return its one name: the declared one, else that of the function."""
        if not name and fields and (given := fields.text("name")):
            name = str(given.value)
        if name:
            return [name]
        path = fields.text("function") if fields else None
        return [str(path.value).rpartition(":")[2].rpartition(".")[2]] if path else []

    def check(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Report invalid import paths, and retries of a call that must not be made twice."""
        for field in ("function", "check"):
            if path := fields.text(field):
                check_import_path(path, owner, report)
        given = fields.get("idempotent")
        idempotent = given.value if isinstance(given, Scalar) else None
        retries = fields.get("retry")
        repeats = isinstance(retries, Scalar) and bool(retries.value)
        risky = idempotent is False or (idempotent is None and fields.has("once"))
        if isinstance(once := fields.get("once"), Items) and not once.items:
            report.problem(once.place, f"{owner}: {NO_PARAMETERS}", SOME_PARAMETERS)
        if repeats and risky and not fields.has("check"):
            report.problem(fields.key_place("retry"), f"{owner}: {UNSAFE_RETRIES}", SAFE_RETRIES)

    def check_imports(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Report functions that can't be imported, and a signature that can't be a tool or does not fit `once`."""
        path, check = import_path_in(fields), import_path_in(fields, "check")
        find = check and report.collect(check.place, owner, load_function, str(check.value), "the check")
        function = path and report.collect(path.place, owner, load_function, str(path.value), "the tool")
        if path is None or function is None:
            return
        name = next(iter(self.tool_names(fields, "") or ()), None)
        tool = report.collect(path.place, owner, PythonTool, function, name=name)
        if tool is None:
            return
        for one, place in fields.texts("once"):
            if one not in tool.parameters:
                message = f"{owner}: {path.value!r} has no parameter {shown(one)} for 'once'"
                report.problem(place, message, report.near(one, tool.parameters))
        if check is not None and find is not None:
            signature = report.collect(check.place, owner, read_signature, find, tool.name, "check of the tool")
            for one in signature.names if signature else ():
                if one not in tool.parameters:
                    message = f"{owner}: the check {check.value!r} takes {one!r}, which {path.value!r} does not"
                    report.problem(check.place, message, report.near(one, tool.parameters))

    def code(self, settings: FunctionTool) -> Iterable[tuple[str, str]]:
        yield "function", settings.function
        if settings.check is not None:
            yield "function", settings.check


@checked_call("tool")
def tool(
    function: Function,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    retry: int = 0,
    idempotent: bool | None = None,
    once: Sequence[str] | None = None,
    check: Function | None = None,
) -> ToolSource:
    """Make a tool of a function, with a name and settings of its own; a function without them is a tool by itself.

    `timeout` bounds each call in seconds, `retry` is how often a failed call is repeated, and `idempotent` says
    whether a call may be made again if a crash left it in doubt. `once` names the parameters that identify an action:
    the same action is not made twice in a run or its forks. `check` takes parameters of the tool and asks the outside
    world whether the call was made: it returns the result of the call, or `None`.
    """
    own_name = name or _given_name(function)
    names = None if once is None else tuple(listed(f"The tool {own_name!r}", "once", once))
    if names == ():
        raise UsageError(f"The tool {own_name!r}: {NO_PARAMETERS}; {SOME_PARAMETERS}.")
    paths = [import_path(one) or NOT_IMPORTABLE for one in (function, *([check] if check is not None else []))]
    given: dict[str, Any] = {
        "function": NOT_IMPORTABLE if NOT_IMPORTABLE in paths else paths[0],
        "name": own_name if name or NOT_IMPORTABLE in paths else None,
        "description": description,
        "timeout": timeout,
        "retry": retry or None,
        "idempotent": idempotent,
        "once": names,
        "check": None if check is None else paths[1],
    }
    try:
        settings = FunctionTool(**{field: value for field, value in given.items() if value is not None})
    except InvalidValue as error:
        raise InvalidValue(f"The tool {own_name!r}", error.reasons) from None
    return PythonTool(function, name=name, description=description, settings=settings, check=check, spec=settings)


def function_name(function: Function) -> str:
    """Return the name that a tool of this function has by default."""
    return getattr(function, "__name__", type(function).__name__)


def _given_name(function: Function) -> str:
    """Return the name of a function; raises `UsageError` for what has none."""
    if not callable(function):
        raise UsageError(f"A tool must be a function, not {found_text(function)}.")
    if (name := function_name(function)) == "<lambda>":
        raise UsageError("A lambda has no name; give the tool one:  tool(lambda …, name='…').")
    return name


class MethodSource(ToolSource):
    """A source whose tools are the methods `tool_names` of the class `methods`.

    A synchronous method runs in a thread and to completion even if the turn is cancelled: no write outlives its step.
    """

    methods: type[object]

    @abstractmethod
    def bind(self, context: ToolContext) -> object:
        """Create the object whose method one call is."""
        ...

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        """Return the definitions of the methods, from their signatures and docstrings."""
        return [_method_tool(self.methods, name).definition for name in self.tool_names or ()]

    def validate(self, name: str, arguments: Arguments) -> None:
        _method_tool(self.methods, name).validate(name, arguments)

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> ToolValue:
        method = getattr(self.methods, name)

        def work() -> Any:
            return method(self.bind(context), **arguments)

        return await (work() if inspect.iscoroutinefunction(method) else run_to_completion(work))


@cache
def _method_tool(owner: type, name: str) -> PythonTool:
    return PythonTool(MethodType(getattr(owner, name), owner))
