"""Bounds the work of validating a value against a JSON Schema, and makes its quadratic checks linear.

A schema that refers to itself twice doubles the work with each level of the value. Here, the number of checks is at
most linear in the size of the value, whatever the schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from teamwright.values.text.display import cut
from teamwright.values.text.timed_regex import PatternSearch

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

LEAST_CHECKS = 100_000
CHECKS_PER_VALUE = 100
MOST_CHECKS = 2_000_000
COSTS = {"$ref": 10, "$dynamicRef": 10, "$recursiveRef": 10}
"""The cost of following a reference, which takes longer than any other check; a list costs its length."""

MOST_SHOWN = 80
SHOWN_EXTRAS = 5

Keyword = Callable[..., "Iterator[ValidationError] | None"]

_CHECKS_LEFT: ContextVar[list[int] | None] = ContextVar("teamwright_schema_checks_left", default=None)

_PATTERN_SEARCH: ContextVar[PatternSearch | None] = ContextVar("teamwright_schema_patterns", default=None)


class TooMuchWork(Exception):
    """Validating a value takes more checks than its size allows."""


@contextmanager
def bounded_checks(value: object) -> Generator[None]:
    """Within this block, limit the number of checks to what a value of this size allows."""
    before = _CHECKS_LEFT.set([min(MOST_CHECKS, LEAST_CHECKS + CHECKS_PER_VALUE * _count_values(value))])
    searches = _PATTERN_SEARCH.set(PatternSearch())
    try:
        yield
    finally:
        _CHECKS_LEFT.reset(before)
        _PATTERN_SEARCH.reset(searches)


@cache
def counting_validator(kind: type[Validator]) -> type[Validator]:
    """Return a subclass of this validator that counts its checks."""
    from jsonschema import validators

    keywords = cast("Mapping[str, Keyword]", kind.VALIDATORS)
    own = {name: _counted(keyword, COSTS.get(name, 1)) for name, keyword in keywords.items()}
    own["pattern"] = _counted(_pattern, 1)
    for name, keyword in {
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }.items():
        if name in own:
            own[name] = _counted(keyword, 1)
    if "uniqueItems" in own:
        own["uniqueItems"] = _unique_items
    return cast("type[Validator]", cast("Any", validators).extend(kind, own))


def _counted(keyword: Keyword, cost: int) -> Keyword:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError] | None:
        _count_checks(len(cast("list[Any]", value)) if isinstance(value, list) else cost)
        return keyword(validator, value, instance, schema)

    return check


def _pattern(validator: Any, value: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    """Search within the time limit of the whole validation."""
    from jsonschema.exceptions import ValidationError

    if validator.is_type(instance, "string") and not _matches(value, instance):
        yield ValidationError(f"{cut(instance, MOST_SHOWN)!r} does not match {cut(value, MOST_SHOWN)!r}")


def _pattern_properties(validator: Any, value: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in value.items():
        for key, item in instance.items():
            _count_checks(1)
            if _matches(pattern, key):
                yield from validator.descend(item, subschema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    if not validator.is_type(instance, "object"):
        return
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extras: list[str] = []
    for key in instance:
        _count_checks(1 + len(patterns))
        if key not in properties and not any(_matches(pattern, key) for pattern in patterns):
            extras.append(key)
    if validator.is_type(value, "object"):
        for extra in extras:
            yield from validator.descend(instance[extra], value, path=extra)
    elif not value and extras:
        shown = ", ".join(repr(cut(key, MOST_SHOWN)) for key in sorted(extras)[:SHOWN_EXTRAS])
        more = f" and {len(extras) - SHOWN_EXTRAS} more" if len(extras) > SHOWN_EXTRAS else ""
        verb = "was" if len(extras) == 1 else "were"
        yield ValidationError(f"Additional properties are not allowed ({shown}{more} {verb} unexpected)")


def _matches(pattern: str, text: str) -> bool:
    search = _PATTERN_SEARCH.get()
    return (PatternSearch() if search is None else search).found(pattern, text)


def _count_checks(checks: int) -> None:
    left = _CHECKS_LEFT.get()
    if left is None:
        return
    left[0] -= checks
    if left[0] < 0:
        raise TooMuchWork


def _unique_items(validator: Any, value: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    """Compare items by their JSON text: jsonschema compares each pair if they can't be sorted."""
    from jsonschema.exceptions import ValidationError

    if not value or not validator.is_type(instance, "array"):
        return
    seen: set[str] = set()
    for item in instance:
        _count_checks(1)
        text = json.dumps(_normalized(item), sort_keys=True)
        if text in seen:
            yield ValidationError("the items of this list are not all different")
            return
        seen.add(text)


def _normalized(value: object) -> object:
    """Normalize numbers so that equal ones, such as 1 and 1.0, have the same text."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_normalized(item) for item in cast("list[object]", value)]
        case dict():
            return {key: _normalized(item) for key, item in cast("dict[str, object]", value).items()}
        case _:
            return value


def _count_values(value: object) -> int:
    """Count the values within a value, itself included."""
    count = 0
    waiting: list[object] = [value]
    while waiting:
        one = waiting.pop()
        count += 1
        if isinstance(one, Mapping):
            waiting.extend(cast("Mapping[str, object]", one).values())
        elif isinstance(one, list | tuple):
            waiting.extend(cast("list[object]", one))
    return count
