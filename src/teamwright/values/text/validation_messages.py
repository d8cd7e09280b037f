"""Words validation errors for users, so that no message of a library reaches them.

The alternatives of a field (text or a mapping) are one message, and paths contain only fields of the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from teamwright.errors import nearest
from teamwright.values.names import NAME, FieldPath, suggest_name
from teamwright.values.text.display import cut

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

MOST_SHOWN = 60
LARGEST_SHOWN = 10**50
KINDS = {
    "string": "text", "bytes": "text", "int": "a whole number", "float": "a number", "decimal": "a number",
    "bool": "true or false", "list": "a list", "tuple": "a list", "set": "a list", "frozen_set": "a list",
    "iterable": "a list", "iteration": "a list", "dict": "a mapping", "mapping": "a mapping", "model": "a mapping",
    "model_attributes": "a mapping", "dataclass": "a mapping", "arguments": "a mapping", "json": "JSON",
}  # fmt: skip
ENDINGS = ("_type", "_parsing", "_parsing_size", "_from_float", "_sub_type", "_unicode", "_error")
BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
    "multiple_of": ("a multiple of", "multiple_of"),
}
SAYINGS = {
    "missing": "is missing",
    "missing_argument": "is missing",
    "missing_keyword_only_argument": "is missing",
    "missing_positional_only_argument": "is missing",
    "extra_forbidden": "is not a field here",
    "unexpected_keyword_argument": "is not a field here",
    "json_invalid": "is not JSON",
    "invalid_key": "has a key that is not text",
    "recursion_loop": "holds itself",
}
NAME_FORM = "use letters, digits, '.', '_' and '-', at most 64, starting with a letter or digit"


class Misfit(NamedTuple):
    """One validation error and its place."""

    text: str
    at: FieldPath = ()

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.at))}: {self.text}" if self.at else self.text


def misfits_of(error: ValidationError, value: object) -> list[Misfit]:
    """Return the validation errors of a value, one per place, in order."""
    return misfits_among(error.errors(include_url=False), value)


def misfits_among(errors: Iterable[ErrorDetails], value: object) -> list[Misfit]:
    """Return the errors of a value, which were found elsewhere, one per place, in order."""
    found: dict[FieldPath, list[ErrorDetails]] = {}
    for one in errors:
        found.setdefault(_path(one, value), []).append(one)
    inner = {path[:length] for path in found for length in range(len(path))}
    return [
        Misfit(_together(errors), path)
        for path, errors in found.items()
        if path not in inner or not all(_is_consequence(one) for one in errors)
    ]


def reasons_of(error: ValidationError, value: object, model: type[BaseModel]) -> list[str]:
    """Return the validation errors of a value as texts; an unknown field of the model gets the nearest known one."""
    return [f"{one}{hint_for(one, model)}" for one in misfits_of(error, value)]


def hint_for(misfit: Misfit, model: type[BaseModel]) -> str:
    """Return what to write for an unknown field: what its model says, or the nearest known one; else nothing."""
    if misfit.text != SAYINGS["extra_forbidden"] or not misfit.at:
        return ""
    name, models = str(misfit.at[-1]), _models_beside(misfit.at, model)
    for one in models:
        more = cast("object", one.model_config.get("json_schema_extra"))
        instead = cast("dict[str, object]", more).get("instead") if isinstance(more, dict) else None
        if isinstance(instead, dict) and name in instead:
            return f" ({instead[name]})"
    known = {field for one in models for field in one.model_fields}
    return f" ({nearest(name, known).rstrip('.')})" if known else ""


def _models_beside(path: FieldPath, model: type[BaseModel]) -> list[type[BaseModel]]:
    """The models that may stand where the path ends."""
    models = [model]
    for step in path[:-1]:
        if isinstance(step, str):
            fields = [one.model_fields[step] for one in models if step in one.model_fields]
            models = [inner for field in fields for inner in _models_in(field.annotation)]
    return models


def _models_in(annotation: object) -> list[type[BaseModel]]:
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [inner for one in get_args(annotation) for inner in _models_in(one)]


def _is_consequence(error: ErrorDetails) -> bool:
    """Whether an error follows from a deeper one: of an item, or of an alternative that was not meant."""
    return error["type"] == "too_short" or _kind(error["type"]) is not None


def _path(error: ErrorDetails, value: object) -> FieldPath:
    """The path of an error, without the class names that pydantic inserts."""
    path: list[str | int] = []
    places = error["loc"]
    for number, step in enumerate(places):
        if isinstance(value, Mapping) and step in value:
            value = cast("Mapping[object, object]", value)[step]
        elif isinstance(value, Sequence) and not isinstance(value, str) and isinstance(step, int):
            items = cast("Sequence[object]", value)
            value = items[step] if step < len(items) else None
        elif not (error["type"].startswith("missing") and number == len(places) - 1):
            continue
        path.append(step)
    return tuple(path)


def _together(errors: Sequence[ErrorDetails]) -> str:
    """Word the errors at one place: the kinds of values that are expected, or else the first error."""
    kinds = [_kind(one["type"]) for one in errors]
    if all(kind is not None for kind in kinds):
        wanted = " or ".join(dict.fromkeys(cast("list[str]", kinds)))
        return f"expects {wanted}, found {found_text(errors[0]['input'])}"
    return misfit_text(next(one for one, kind in zip(errors, kinds, strict=True) if kind is None))


def misfit_text(error: ErrorDetails) -> str:
    """Word one error."""
    kind, given = error["type"], cast("object", error.get("input"))
    context = error.get("ctx", {})
    if kind in ("value_error", "assertion_error"):
        return str(context.get("error", "")) or "does not fit here"
    if kind in BOUNDS:
        words, bound = BOUNDS[kind]
        limit = context.get(bound)
        limit = f"{limit:g}" if isinstance(limit, float) else limit
        return f"must be {words} {limit}, and {found_text(given, plain=True)} is not"
    if (wanted := _kind(kind)) is not None:
        return f"expects {wanted}, found {found_text(given)}"
    if kind.startswith("union_tag_"):
        return _wrong_tag(context)
    return _other(kind, given, context)


def _other(kind: str, given: object, context: Mapping[str, Any]) -> str:
    if kind in SAYINGS:
        return SAYINGS[kind]
    match kind:
        case "string_pattern_mismatch" if context.get("pattern") != f"^{NAME.pattern}$":
            return "has characters that are not possible here" if str(given).strip() else "is blank"
        case "string_pattern_mismatch":
            text = cut(str(given), MOST_SHOWN)
            return f"{text!r} is no name: {NAME_FORM}; for example {suggest_name(text)!r}"
        case "literal_error" | "enum":
            return _wrong_choice(given, str(context.get("expected", "something else")))
        case "too_short" | "string_too_short" | "bytes_too_short":
            return "is empty" if not given else f"is too short: at least {context.get('min_length')} are needed"
        case "too_long" | "string_too_long" | "bytes_too_long":
            return f"is too long: at most {context.get('max_length')} are possible"
        case "finite_number" | "none_required":
            wanted = "expects a finite number, found" if kind == "finite_number" else "must be left out, and this is"
            return f"{wanted} {found_text(given)}"
        case _:
            return f"{found_text(given)} does not fit here"


def _wrong_tag(context: Mapping[str, Any]) -> str:
    """Word which alternative of a union is meant that is none, or that none is named."""
    named, tag = (str(context.get(name, "")).strip("'") for name in ("discriminator", "tag"))
    if not tag:
        return f"has no {named}"
    return f"has the {named} {cut(tag, MOST_SHOWN)!r}, which is none of {context.get('expected_tags')}"


def _wrong_choice(given: object, expected: str) -> str:
    from difflib import get_close_matches  # for mistakes alone

    near = get_close_matches(str(given), re.findall("'([^']*)'", expected), n=1) if isinstance(given, str) else ()
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"is {expected}, and this is {found_text(given)}{hint}"


def _kind(error: str) -> str | None:
    """The kind of value that an error of this type expects; None for other errors."""
    for ending in ENDINGS:
        if error.endswith(ending) and (kind := KINDS.get(error.removesuffix(ending))):
            return kind
    return None


def found_text(value: object, *, plain: bool = False) -> str:
    """Describe a value for a message; with `plain`, a number is only its digits."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {cut(value, MOST_SHOWN)!r}"
        case int() if abs(value) >= LARGEST_SHOWN:
            return "a number of more than 50 digits"
        case int() | float():
            return str(value) if plain else f"the number {value}"
        case Mapping():
            return "a mapping"
        case list() | tuple() | set() | frozenset():
            return "a list"
        case _:
            return f"a value of type {type(value).__name__!r}"


def misfits_text(misfits: Iterable[Misfit], most: int = 3) -> str:
    """Join the first errors to one text."""
    listed = list(misfits)
    text = "; ".join(str(one) for one in listed[:most])
    return text if len(listed) <= most else f"{text}; and {len(listed) - most} more"
