"""Parses Jinja expressions and templates, and reports errors before they are evaluated.

Jinja only parses here: nothing is compiled. Syntax that is not on the lists below is rejected, calls above all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from jinja2 import Environment, TemplateSyntaxError, nodes

from teamwright.errors import ExpressionFailed, nearest
from teamwright.strategies.expressions.filters import FILTERS, TESTS, FilterSpec

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
