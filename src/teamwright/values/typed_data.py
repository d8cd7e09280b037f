"""Structured data: found in untrusted text, read as the caller's type, and read while it is still being written: as a
whole, or each step of a plan as soon as its JSON is complete.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from json import JSONDecodeError, JSONDecoder
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, cast, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from teamwright.errors import InvalidOutput, UsageError
from teamwright.values.text.display import cut
from teamwright.values.text.validation_messages import misfits_of, misfits_text
from teamwright.values.value import JsonValue

if TYPE_CHECKING:
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter


READ_PER_CHARACTER = 4
"""The most times that a character may be read, on average."""
LEAST_READ = 10_000
NESTED = 1_000
"""The cost of an attempt that is nested too deeply."""

_DECODER = JSONDecoder()


class Found(NamedTuple):
    """A JSON value in a text, and the position of its end."""

    value: object
    end: int


class JsonScan:
    """Decodes JSON at positions of one text.

    Attempts may read the same characters again. A shared bound on the characters read keeps the work linear: a text
    that consists of openings alone is given up.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = LEAST_READ + READ_PER_CHARACTER * len(text)

    def at(self, start: int) -> Found | None:
        """Decode the value that begins here; None where there is none, or where the bound is used up."""
        if self._left <= 0:
            return None
        try:
            value, end = cast("tuple[object, int]", _DECODER.raw_decode(self._text, start))
        except JSONDecodeError as error:
            # An unterminated string is reported at its beginning, but was read to the end.
            reached = len(self._text) if error.msg.startswith(("Unterminated", "Invalid control")) else error.pos
            self._left -= max(1, reached - start)
            return None
        except (ValueError, RecursionError):
            self._left -= NESTED
            return None
        self._left -= end - start
        return Found(value, end)


T = TypeVar("T")
MOST_MISFITS = 5


def read_as(data: JsonValue, form: type[T], what: str) -> T:
    """Validate JSON data as a value of this type, or raise `InvalidOutput` that names each field which does not fit.

    `what` names the data at the beginning of the message.
    """
    try:
        with _worded(form):
            return type_adapter(form).validate_json(to_json(data))
    except ValidationError as error:
        text = misfits_text(misfits_of(error, data), most=MOST_MISFITS)
        raise InvalidOutput(f"{what} does not fit {_name(form)!r}: {text}.") from None


def type_adapter(form: type[T]) -> TypeAdapter[T]:
    """Return pydantic's adapter of a type, or raise a `UsageError` if it is not a type of data."""
    from pydantic import TypeAdapter

    with _worded(form):
        return TypeAdapter(form)


def schema_of(form: type[object]) -> dict[str, JsonValue]:
    """Return the JSON Schema of a type."""
    from pydantic import TypeAdapter

    with _worded(form):
        if get_origin(form) is None and issubclass(form, BaseModel):
            return cast("dict[str, JsonValue]", form.model_json_schema())
        return cast("dict[str, JsonValue]", TypeAdapter(form).json_schema())


def is_data_type(form: object) -> bool:
    """Whether this is a type to read data as: a class, or one with parameters such as `list[Verdict]`."""
    return isinstance(form, type) or get_origin(form) is not None


@contextmanager
def _worded(form: type[object]) -> Generator[None]:
    """Turn pydantic's errors about a type, at once or when it is first used, into a `UsageError`."""
    from pydantic import PydanticSchemaGenerationError, PydanticUserError

    try:
        yield
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise UsageError(
            f"{_name(form)!r} can't be used as a type of structured data: {unusable_type_hint(error)}."
        ) from error


def unusable_type_hint(error: PydanticSchemaGenerationError | PydanticUserError) -> str:
    """Return the user's next step for a type that pydantic can't use."""
    match error.code:
        case "typed-dict-version":
            return "import TypedDict from typing_extensions, since Python before 3.12 does not keep what it needs"
        case "class-not-fully-defined":
            return "one of its fields has a type that is not known where the class is defined"
        case _:
            return "use a pydantic model, a dataclass or a TypedDict whose fields are such types or plain JSON"


def _name(form: type[object]) -> str:
    return getattr(form, "__name__", None) or str(form)


Path = tuple[str | int, ...]

FENCE = "```"
NUMBER_ENDS = "0123456789+-.eE"


def parse_partial(text: str) -> JsonValue:
    """Parse the beginning of a JSON text; a text inside it may be cut. `None` if there is no value yet."""
    body = text.strip()
    if body.startswith(FENCE):
        body = body.partition("\n")[2].removesuffix(FENCE).rstrip("`")
    try:
        data = cast("JsonValue", from_json(body, allow_partial="trailing-strings"))
    except ValueError:
        return None
    end = _growing_end(data)
    if end and body[-1] in NUMBER_ENDS and type(_at(data, end)) in (int, float):
        return _without(data, end)
    return data


class PartialReader(Generic[T]):
    """Reads partial data as a type: what fits is a valid value of the type."""

    def __init__(self, form: type[T]) -> None:
        self._adapter: TypeAdapter[T] = type_adapter(form)

    def read(self, data: JsonValue, *, is_final: bool = False) -> T | None:
        """Return the data as the type, or `None` if it does not fit (yet).

        Unless it is final, items at its growing end that do not fit yet are left out, innermost first.
        """
        while data is not None:
            try:
                return self._adapter.validate_json(to_json(data))
            except ValidationError as error:
                unfit = None if is_final else _unfinished(data, error)
                if not unfit:
                    return None
                data = _without(data, unfit)
        return None


def _unfinished(data: JsonValue, error: ValidationError) -> Path:
    """The path of an item at the growing end that explains the first error; empty if none does."""
    found: Path = ()
    inner: object = data
    for name in error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"]:
        if (isinstance(inner, dict) and name in inner) or (isinstance(inner, list) and isinstance(name, int)):
            found += (name,)
            inner = _at(data, found)  # what is neither key nor index names a member of a union, or a missing field
    return found if found == _growing_end(data)[: len(found)] else ()


def _growing_end(data: JsonValue) -> Path:
    """The path to the last item, which is still being written."""
    path: Path = ()
    while isinstance(data, dict | list) and data:
        last: str | int = (
            next(reversed(cast("dict[str, JsonValue]", data))) if isinstance(data, dict) else len(data) - 1
        )
        path += (last,)
        data = _item(data, last)
    return path


def _at(data: JsonValue, path: Path) -> JsonValue:
    for name in path:
        data = _item(data, name)
    return data


def _item(data: JsonValue, name: str | int) -> JsonValue:
    return cast("dict[str | int, JsonValue]", data)[name]


def _without(data: JsonValue, path: Path) -> JsonValue:
    """The data without the item at a path."""
    name, *rest = path
    if isinstance(data, list):
        index = cast("int", name)
        return [*data[:index], _without(data[index], tuple(rest))] if rest else data[:index]
    assert isinstance(data, dict)
    kept = dict(data)
    last = kept.pop(cast("str", name))
    return {**kept, cast("str", name): _without(last, tuple(rest))} if rest else kept


MOST_CHARACTERS, MOST_STEPS = 200_000, 200
"""How much of a text is looked at, and how many steps are shown of it."""
LONGEST_LINE = 160
NAMES, TASKS, MEMBERS = ("id", "name"), ("task", "description"), ("role", "agent", "agents")


class WrittenSteps:
    """Finds the steps in a text that grows: the objects in its outermost list."""

    __slots__ = ("_around", "_depth", "_escaped", "_in_text", "_length", "_pieces", "lines")

    def __init__(self) -> None:
        self.lines: list[str] = []
        """A line for each step so far: `step 1: look – Look it up. (archive)`."""
        self._around: list[str] = []
        self._pieces: list[str] = []
        self._depth = self._length = 0
        self._in_text = self._escaped = False

    def feed(self, text: str) -> tuple[str, ...]:
        """Add a piece of the text; return the lines of the steps that it completes."""
        before, start = len(self.lines), 0
        if self._length >= MOST_CHARACTERS or before >= MOST_STEPS:
            return ()
        self._length += len(text)
        for place, character in enumerate(text):
            if self._in_text:
                self._read_text(character)
            elif character == '"':
                self._in_text = bool(self._around)
            elif character in "{[":
                if not self._depth and character == "{" and self._around[-1:] == ["["]:
                    self._depth, start = len(self._around) + 1, place
                self._around.append(character)
            elif character in "}]" and self._around:
                self._around.pop()
                if self._depth and len(self._around) < self._depth:
                    self._depth = 0
                    self._add("".join((*self._pieces, text[start : place + 1])))
                    self._pieces.clear()
        if self._depth:
            self._pieces.append(text[start:])
        return tuple(self.lines[before:])

    def _read_text(self, character: str) -> None:
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = True
        elif character == '"':
            self._in_text = False

    def _add(self, text: str) -> None:
        try:
            step = cast("JsonValue", from_json(text))
        except ValueError:
            return
        if isinstance(step, dict) and (line := _line(step)) and len(self.lines) < MOST_STEPS:
            self.lines.append(f"step {len(self.lines) + 1}: {line}")


def _line(step: dict[str, JsonValue]) -> str:
    """Return a step in one line; empty for any other object."""
    name, task, who = (_first(step, names) for names in (NAMES, TASKS, MEMBERS))
    if not name or not (task or who):
        return ""
    said = cut(" – ".join(filter(None, (name, task))), LONGEST_LINE)
    return f"{said} ({cut(who, LONGEST_LINE)})" if who else said


def _first(step: dict[str, JsonValue], names: tuple[str, ...]) -> str:
    found = next((step[name] for name in names if step.get(name)), "")
    listed = found if isinstance(found, list) else [found]
    return " ".join(", ".join(one for one in listed if isinstance(one, str)).split())
