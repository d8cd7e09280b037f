"""Parses Jinja expressions and templates, and reports errors before they are evaluated.

Jinja only parses here: nothing is compiled. Syntax that is not on the lists below is rejected, calls above all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import NamedTuple, TypeGuard

from jinja2 import Environment, TemplateSyntaxError, nodes
from pydantic import JsonValue
from pydantic_core import to_json

from teamwright.errors import ExpressionFailed, nearest
from teamwright.values.text.display import cut

MOST_SHOWN = 60
MOST_DIGITS = 12
MOST_JOINED = 1_000_000
ITEM = 20
"""The cost of an item of a list or a field of an object, besides its content."""
LARGEST = 10**18

Number = int | float


@dataclass(frozen=True, slots=True)
class FilterSpec:
    """A filter or a test, and how many arguments it takes besides its value."""

    function: Callable[[JsonValue, Sequence[JsonValue]], JsonValue]
    least: int = 0
    most: int = 0
    constant_time: bool = False
    """Whether it takes constant time for every value."""


def describe(value: JsonValue) -> str:
    """Return a description of a value for error messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {cut(value, MOST_SHOWN)!r}"
        case int() | float():
            return f"the number {value:.6g}" if isinstance(value, float) else _whole(value)
        case list():
            return "a list"
        case _:
            return "an object"


def _whole(value: int) -> str:
    return f"the number {value}" if abs(value) <= LARGEST else "a huge number"


def format_value(value: JsonValue) -> str:
    """Return a value as a template prints it: texts unchanged, other values as JSON. Null is an error."""
    if isinstance(value, str):
        return value
    if value is None:
        raise ExpressionFailed("null can't be printed; give another value with  | default('…')")
    return tojson(value)


def is_number(value: JsonValue) -> TypeGuard[Number]:
    """Return whether a value is a number; booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def require_number(value: JsonValue) -> Number:
    """Return the value if it is a number of reasonable size."""
    if not is_number(value):
        raise ExpressionFailed(f"a number is needed, not {describe(value)}")
    if not isfinite(value) or abs(value) > LARGEST:
        raise ExpressionFailed(f"numbers go up to {LARGEST:.0e} here")
    return value


def require_text(value: JsonValue) -> str:
    """Return the value if it is a text."""
    if not isinstance(value, str):
        raise ExpressionFailed(f"a text is needed, not {describe(value)}")
    return value


def require_list(value: JsonValue) -> list[JsonValue]:
    """Return the value if it is a list."""
    if not isinstance(value, list):
        raise ExpressionFailed(f"a list is needed, not {describe(value)}")
    return value


def tojson(value: JsonValue) -> str:
    """Return the value as JSON."""
    try:
        return to_json(value).decode()
    except ValueError as error:
        raise ExpressionFailed(f"it can't be written as JSON: {error}") from error


def _round(value: JsonValue, digits: JsonValue = 0) -> Number:
    places = require_number(digits)
    if not isinstance(places, int) or not 0 <= places <= MOST_DIGITS:
        raise ExpressionFailed(f"round takes 0 to {MOST_DIGITS} digits, not {describe(digits)}")
    return round(require_number(value), places)


def _parse_number(value: JsonValue) -> Number:
    """Return a number, or the number that a text spells; any other value is an error, never 0."""
    if not isinstance(value, str):
        return require_number(value)
    if len(value) <= MOST_SHOWN:
        for read in (int, float):
            try:
                return require_number(read(value))
            except ValueError:
                continue
    raise ExpressionFailed(f"{describe(value)} is not a number")


def _length(value: JsonValue) -> int:
    if isinstance(value, str | list | dict):
        return len(value)
    raise ExpressionFailed(f"{describe(value)} has no length")


def _end(value: JsonValue, index: int) -> JsonValue:
    values = value if isinstance(value, str) else require_list(value)
    if not values:
        raise ExpressionFailed(
            f"{'an empty text' if isinstance(values, str) else 'an empty list'} has no first or last"
        )
    return values[index]


def _numbers(value: JsonValue) -> list[Number]:
    found = [require_number(item) for item in require_list(value)]
    if not found:
        raise ExpressionFailed("an empty list has no numbers")
    return found


def _join(value: JsonValue, separator: JsonValue = "", field: JsonValue = None) -> str:
    """Join the items of a list; with the name of a field, that field of each item."""
    values, between = require_list(value), require_text(separator)
    if len(between) * len(values) > MOST_JOINED:
        raise ExpressionFailed(f"a list of {len(values)} can't be joined by a text of {len(between)} characters")
    if field is not None:
        values = [_field(item, require_text(field)) for item in values]
    return between.join([format_value(item) for item in values])


def _field(item: JsonValue, name: str) -> JsonValue:
    if not isinstance(item, dict) or name not in item:
        raise ExpressionFailed(f"{describe(item)} has no field {name!r}")
    return item[name]


def _truncate(value: JsonValue, length: JsonValue) -> str:
    most = require_number(length)
    if not isinstance(most, int) or most < 1:
        raise ExpressionFailed(f"truncate takes a whole number of characters, not {describe(length)}")
    return cut(require_text(value), most)


DEFAULT = "default"
"""The only filter that accepts a missing value; the evaluator implements it."""

FILTERS: Mapping[str, FilterSpec] = {
    "abs": FilterSpec(lambda value, _: abs(require_number(value))),
    DEFAULT: FilterSpec(lambda value, given: given[0] if value is None else value, 1, 1, constant_time=True),
    "first": FilterSpec(lambda value, _: _end(value, 0), constant_time=True),
    "float": FilterSpec(lambda value, _: float(_parse_number(value))),
    "int": FilterSpec(lambda value, _: int(_parse_number(value))),
    "join": FilterSpec(lambda value, given: _join(value, *given), 0, 2),
    "last": FilterSpec(lambda value, _: _end(value, -1), constant_time=True),
    "length": FilterSpec(lambda value, _: _length(value), constant_time=True),
    "lower": FilterSpec(lambda value, _: require_text(value).lower()),
    "max": FilterSpec(lambda value, _: max(_numbers(value))),
    "min": FilterSpec(lambda value, _: min(_numbers(value))),
    "round": FilterSpec(lambda value, given: _round(value, *given), 0, 1),
    "sum": FilterSpec(lambda value, _: require_number(sum(_numbers(value)))),
    "tojson": FilterSpec(lambda value, _: tojson(value)),
    "trim": FilterSpec(lambda value, _: require_text(value).strip()),
    "truncate": FilterSpec(lambda value, given: _truncate(value, *given), 1, 1),
    "upper": FilterSpec(lambda value, _: require_text(value).upper()),
}

DEFINED = "defined"
"""The only test that accepts a missing value; the evaluator implements it."""

TESTS: Mapping[str, FilterSpec] = {
    "boolean": FilterSpec(lambda value, _: isinstance(value, bool), constant_time=True),
    DEFINED: FilterSpec(lambda _value, _: True),
    "endingwith": FilterSpec(lambda value, given: require_text(value).endswith(require_text(given[0])), 1, 1),
    "list": FilterSpec(lambda value, _: isinstance(value, list), constant_time=True),
    "mapping": FilterSpec(lambda value, _: isinstance(value, dict), constant_time=True),
    "none": FilterSpec(lambda value, _: value is None, constant_time=True),
    "number": FilterSpec(lambda value, _: is_number(value), constant_time=True),
    "startingwith": FilterSpec(lambda value, given: require_text(value).startswith(require_text(given[0])), 1, 1),
    "string": FilterSpec(lambda value, _: isinstance(value, str), constant_time=True),
}


def work_of(value: JsonValue, most: int) -> int:
    """Return the approximate work of traversing a value once, in characters.

    A value that repeats others by reference may be larger than memory when written out, so counting stops above `most`.
    """
    if isinstance(value, str):
        return len(value)
    total = 1
    pending: list[JsonValue] = [value]
    while pending and total <= most:
        one = pending.pop()
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, list | dict):
            total += ITEM * len(one)
            if total <= most:
                pending.extend(one if isinstance(one, list) else one.values())
    return total


MOST_EXPRESSION = 2_000
MOST_TEMPLATE = 50_000
MOST_DEPTH = 64
TOO_DEEP = "it is nested too deeply"

LIBRARY = "jinja"
SYNTAX = tuple(
    (re.compile(theirs, re.DOTALL), ours)
    for theirs, ours in (
        (r"unexpected char ('.+?'|\".+?\") at \d+", r"unexpected character \1"),
        (r"expected token '(.+?)', got '(.+?)'", r"expected token '\1', got '\2'"),
        (r"Unexpected end of template", "a tag has no end: write {% endif %} or {% endfor %}"),
        (r"nesting mistake", "a closing tag has no opening tag"),
        (r"Encountered unknown tag '(.+?)'", r"there is no tag '\1'"),
        (r"Missing end of (comment|raw)", r"a \1 has no end"),
        (r"tag name expected", "a tag has no name"),
    )
)
"""Messages of the parser, and their replacements."""

LOOP = "loop"
"""The variable of the position in a loop: `loop.index`, `loop.first`, `loop.last` and `loop.length`."""

EXPRESSIONS = (
    nodes.And, nodes.Compare, nodes.CondExpr, nodes.Const, nodes.Dict, nodes.Filter, nodes.Getattr, nodes.Getitem,
    nodes.List, nodes.Name, nodes.Neg, nodes.Not, nodes.Operand, nodes.Or, nodes.Pair, nodes.Pos, nodes.Slice,
    nodes.Test, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod,
)  # fmt: skip
STATEMENTS = (nodes.For, nodes.If, nodes.Output, nodes.Template, nodes.TemplateData)
REFUSED: dict[type[nodes.Node], str] = {
    nodes.Call: "calls are not supported; use a filter, for example  text | length",
    nodes.Concat: "'~' is not supported",
    nodes.Pow: "'**' is not supported",
    nodes.Tuple: "write a list in [ ]",
}


class VisitedNode(NamedTuple):
    """A node, its depth, and the names that its loops bind."""

    node: nodes.Node
    depth: int
    bound: frozenset[str]


@lru_cache(maxsize=1024)
def parse_expression(text: str) -> nodes.Expr:
    """Return the syntax tree of an expression; raise `ExpressionFailed` on unsupported syntax."""
    if text.lstrip().startswith(("{{", "{%")):
        raise ExpressionFailed("it is an expression already: write it without {{ }} and {% %}")
    body = _parsed(f"{{{{ {text} }}}}", len(text), MOST_EXPRESSION).body
    match body:
        case [nodes.Output(nodes=[nodes.Expr() as expression])] if not isinstance(expression, nodes.TemplateData):
            return expression
        case _:
            raise ExpressionFailed("it is not one expression")


@lru_cache(maxsize=1024)
def parse_template(text: str) -> nodes.Template:
    """Return the syntax tree of a template; raise `ExpressionFailed` on unsupported syntax."""
    return _parsed(text, len(text), MOST_TEMPLATE)


def _parsed(source: str, length: int, most: int) -> nodes.Template:
    if length > most:
        raise ExpressionFailed(f"it has {length} characters, and at most {most} are read")
    try:
        tree = Environment(trim_blocks=True, lstrip_blocks=True).parse(source)
    except TemplateSyntaxError as error:
        raise ExpressionFailed(f"it can't be parsed: {_syntax_text(error.message or '')}") from error
    except RecursionError as error:
        raise ExpressionFailed(TOO_DEEP) from error
    except ValueError as error:
        raise ExpressionFailed("it can't be parsed: a number in it is too long") from error
    for one in _walk(tree):
        if problem := TOO_DEEP if one.depth > MOST_DEPTH else _problem(one.node):
            raise ExpressionFailed(problem)
    return tree


def _syntax_text(message: str) -> str:
    """Return the message of the parser in our wording."""
    plain = message.replace("end of print statement", "the end").replace("end of statement block", "the end of the tag")
    for theirs, ours in SYNTAX:
        if found := theirs.search(plain):
            return found.expand(ours)
    return plain if LIBRARY not in plain.casefold() else "it is not a template"


def free_names(tree: nodes.Node) -> frozenset[str]:
    """Return the free variables of an expression or a template."""
    found = ((one.node, one.bound) for one in _walk(tree))
    return frozenset(node.name for node, bound in found if isinstance(node, nodes.Name) and node.name not in bound)


def literal_keys(tree: nodes.Node, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the literal keys that are looked up in these variables, as (name, key).

    They are written `name.key`, `name['key']` and `'key' in name`.
    """
    for node, _, bound in _walk(tree):
        match node:
            case nodes.Getattr(node=nodes.Name(name=name), attr=str(key)):
                pass
            case nodes.Getitem(node=nodes.Name(name=name), arg=nodes.Const(value=str(key))):
                pass
            case nodes.Compare(
                expr=nodes.Const(value=str(key)),
                ops=[nodes.Operand(op="in" | "notin", expr=nodes.Name(name=name))],
            ):
                pass
            case _:
                continue
        if name in names and name not in bound:
            yield name, key


def unknown_name(tree: nodes.Node, known: Collection[str]) -> str | None:
    """Return what is wrong with its variables, given the known ones."""
    unknown = sorted(free_names(tree) - set(known))
    return f"{unknown[0]!r} is not known here; {nearest(unknown[0], known).rstrip('.')}" if unknown else None


def _walk(tree: nodes.Node) -> Iterator[VisitedNode]:
    """Yield every node, without recursion: a tree may be deeper than the Python stack."""
    pending = [VisitedNode(tree, 0, frozenset[str]())]
    while pending:
        one = pending.pop()
        yield one
        node, deeper = one.node, one.depth + 1
        if not isinstance(node, nodes.For):
            pending += [VisitedNode(child, deeper, one.bound) for child in node.iter_child_nodes()]
            continue
        target = {node.target.name} if isinstance(node.target, nodes.Name) else set[str]()
        inside = one.bound | target | {LOOP}
        pending += [VisitedNode(child, deeper, one.bound) for child in node.iter_child_nodes(only=("iter", "else_"))]
        pending += [VisitedNode(child, deeper, inside) for child in node.iter_child_nodes(exclude=("iter", "else_"))]


def _problem(node: nodes.Node) -> str | None:
    match node:
        case nodes.Getattr(attr=attr) if attr.startswith("_"):
            return f"a field whose name begins with '_' is written in brackets: ['{attr}']"
        case nodes.Filter():
            return _filter_problem(node, "filter", FILTERS)
        case nodes.Test():
            return _filter_problem(node, "test", TESTS)
        case nodes.Slice(step=nodes.Expr()):
            return "a part of a text or a list is written [from:to]"
        case nodes.For() if not isinstance(node.target, nodes.Name) or node.recursive:
            return "a loop is written  {% for item in list %}"
        case _ if isinstance(node, (*EXPRESSIONS, *STATEMENTS)):
            return None
        case nodes.Stmt():
            return "of Jinja's tags only {% if %} and {% for %} are supported"
        case _:
            return REFUSED.get(type(node), f"{type(node).__name__.lower()!r} is not supported")


def _filter_problem(node: nodes.Filter | nodes.Test, kind: str, known: Mapping[str, FilterSpec]) -> str | None:
    spec = known.get(node.name)
    if spec is None or node.node is None:
        return f"there is no {kind} {node.name!r}; {nearest(node.name, known).rstrip('.')}"
    if node.kwargs or node.dyn_args or node.dyn_kwargs:
        return f"the {kind} {node.name!r} takes its values in order, without names"
    if not spec.least <= len(node.args) <= spec.most:
        wanted = spec.least if spec.least == spec.most else f"{spec.least} to {spec.most}"
        return f"the {kind} {node.name!r} takes {wanted} values in brackets, and has {len(node.args)}"
    return None
