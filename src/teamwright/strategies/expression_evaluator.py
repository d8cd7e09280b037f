"""Evaluates expressions and templates over JSON values alone.

It supports no attributes, methods or calls, so an expression cannot escape the sandbox; each step is counted, so none
runs forever. A missing value or a wrong type is an error, never silently false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from jinja2 import nodes
from pydantic import JsonValue

from teamwright.errors import ExpressionFailed
from teamwright.strategies.expression_parser import (
    DEFAULT,
    DEFINED,
    FILTERS,
    LOOP,
    TESTS,
    FilterSpec,
    Number,
    describe,
    format_value,
    is_number,
    require_number,
    work_of,
)

MOST_OUTPUT = 1_000_000
MOST_WORK = 20_000_000
"""How many characters one evaluation may process; each node counts as `NODE`."""
NODE = 100

ARITHMETIC: dict[type[nodes.Node], Callable[[Number, Number], Number]] = {
    nodes.Add: lambda left, right: left + right,
    nodes.Sub: lambda left, right: left - right,
    nodes.Mul: lambda left, right: left * right,
    nodes.Div: lambda left, right: left / right,
    nodes.FloorDiv: lambda left, right: left // right,
    nodes.Mod: lambda left, right: left % right,
}


class MissingValue(NamedTuple):
    """A value that does not exist; it can be tested and replaced, but not used."""

    path: str


class ExpressionEvaluation:
    """One evaluation of an expression or a template with these variables."""

    def __init__(self, names: Mapping[str, JsonValue]) -> None:
        self._names = dict(names)
        self._remaining = MOST_WORK
        self._output: list[str] = []
        self._written = 0

    def truth(self, node: nodes.Node) -> bool:
        """Return whether an expression is true; it must evaluate to a boolean."""
        value = self.value(node)
        if not isinstance(value, bool):
            raise ExpressionFailed(f"{_path_text(node)} is {describe(value)}, neither true nor false; compare it")
        return value

    def value(self, node: nodes.Node) -> JsonValue:
        found = self._evaluate(node)
        if isinstance(found, MissingValue):
            raise ExpressionFailed(f"{found.path} is missing")
        return found

    def render(self, tree: nodes.Template) -> str:
        self._render(tree.body)
        return "".join(self._output)

    def _evaluate(self, node: nodes.Node) -> JsonValue | MissingValue:
        self._consume(NODE)
        match node:
            case nodes.Name():
                return self._names.get(node.name, MissingValue(node.name))
            case nodes.Getattr():
                return self._lookup(node, node.attr)
            case nodes.Getitem(arg=nodes.Slice() as bounds):
                return self._slice(node.node, bounds)
            case nodes.Getitem():
                return self._lookup(node, self.value(node.arg))
            case nodes.Filter(node=nodes.Expr() as inner):
                return self._apply_filter(node, inner)
            case nodes.CondExpr():
                return self._conditional(node)
            case nodes.Const() | nodes.List() | nodes.Dict():
                return self._literal(node)
            case _:
                return self._operation(node)

    def _literal(self, node: nodes.Const | nodes.List | nodes.Dict) -> JsonValue:
        match node:
            case nodes.Const():
                return node.value
            case nodes.List():
                return [self.value(item) for item in node.items]
            case nodes.Dict():
                return {_key(self.value(pair.key)): self.value(pair.value) for pair in node.items}

    def _operation(self, node: nodes.Node) -> JsonValue:
        match node:
            case nodes.And():
                return self.truth(node.left) and self.truth(node.right)
            case nodes.Or():
                return self.truth(node.left) or self.truth(node.right)
            case nodes.Not():
                return not self.truth(node.node)
            case nodes.Compare():
                return self._compare(node)
            case nodes.Test():
                return self._apply_test(node)
            case nodes.Neg():
                return -require_number(self.value(node.node))
            case nodes.Pos():
                return require_number(self.value(node.node))
            case nodes.BinExpr() if type(node) in ARITHMETIC:
                left, right = require_number(self.value(node.left)), require_number(self.value(node.right))
                return require_number(ARITHMETIC[type(node)](left, right))
            case _:
                raise AssertionError(f"{type(node).__name__} is rejected by the parser")

    def _lookup(self, node: nodes.Getattr | nodes.Getitem, key: JsonValue) -> JsonValue | MissingValue:
        """Return a field of an object or an item of a list; never an attribute."""
        container = self._evaluate(node.node)
        match container, key:
            case dict(), str() if key in container:
                return container[key]
            case ((list() | str()), int()) if not isinstance(key, bool) and -len(container) <= key < len(container):
                return container[key]
            case _:
                return MissingValue(_path_text(node))

    def _slice(self, node: nodes.Node, bounds: nodes.Slice) -> JsonValue:
        container = self.value(node)
        if not isinstance(container, str | list):
            raise ExpressionFailed(f"{_path_text(node)} is {describe(container)}, which can't be sliced")
        self._consume(len(container))
        return container[self._bound(bounds.start) : self._bound(bounds.stop)]

    def _bound(self, node: nodes.Node | None) -> int | None:
        value = None if node is None else self.value(node)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise ExpressionFailed(f"an index is a whole number, not {describe(value)}")

    def _conditional(self, node: nodes.CondExpr) -> JsonValue | MissingValue:
        if self.truth(node.test):
            return self._evaluate(node.expr1)
        if node.expr2 is None:
            raise ExpressionFailed("an 'if' in an expression needs an 'else'")
        return self._evaluate(node.expr2)

    def _apply_filter(self, node: nodes.Filter, inner: nodes.Node) -> JsonValue:
        found = self._evaluate(inner)
        if node.name == DEFAULT and isinstance(found, MissingValue):
            return self.value(node.args[0])
        return self._apply(FILTERS[node.name], inner, found, node.args)

    def _apply_test(self, node: nodes.Test) -> JsonValue:
        found = self._evaluate(node.node)
        if node.name == DEFINED:
            return not isinstance(found, MissingValue)
        return self._apply(TESTS[node.name], node.node, found, node.args)

    def _apply(
        self, spec: FilterSpec, node: nodes.Node, found: JsonValue | MissingValue, arguments: Sequence[nodes.Expr]
    ) -> JsonValue:
        if isinstance(found, MissingValue):
            raise ExpressionFailed(f"{found.path} is missing")
        given = [self.value(one) for one in arguments]
        if not spec.constant_time:
            self._charge(found)
            self._charge(given)
        try:
            return spec.function(found, given)
        except ExpressionFailed as error:
            raise ExpressionFailed(f"{_path_text(node)}: {error}") from error

    def _compare(self, node: nodes.Compare) -> bool:
        """Evaluate a comparison; a chain like `1 < a <= 9` holds if each of its links does."""
        left_node, left = node.expr, self.value(node.expr)
        for link in node.ops:
            right = self.value(link.expr)
            self._charge_comparison(link.op, left, right)
            if not _holds(link.op, left, right, f"{_path_text(left_node)} is {describe(left)}"):
                return False
            left_node, left = link.expr, right
        return True

    def _render(self, body: Sequence[nodes.Node]) -> None:
        for node in body:
            self._consume(NODE)
            match node:
                case nodes.Output():
                    for piece in node.nodes:
                        self._write(piece.data if isinstance(piece, nodes.TemplateData) else self._formatted(piece))
                case nodes.If():
                    self._render(self._branch(node))
                case nodes.For():
                    self._loop(node)
                case _:
                    raise AssertionError(f"{type(node).__name__} is rejected by the parser")

    def _branch(self, node: nodes.If) -> Sequence[nodes.Node]:
        for one in (node, *node.elif_):
            if self.truth(one.test):
                return one.body
        return node.else_

    def _loop(self, node: nodes.For) -> None:
        assert isinstance(node.target, nodes.Name)
        container = self.value(node.iter)
        if not isinstance(container, list | dict):
            raise ExpressionFailed(f"{_path_text(node.iter)} is {describe(container)}, but a loop needs a list")
        outside = self._names
        chosen: list[JsonValue] = []
        for item in container:
            self._consume(NODE)
            self._names = {**outside, node.target.name: item}
            if node.test is None or self.truth(node.test):
                chosen.append(item)
        for index, item in enumerate(chosen, start=1):
            last = len(chosen)
            place: JsonValue = {"index": index, "first": index == 1, "last": index == last, "length": last}
            self._names = {**outside, node.target.name: item, LOOP: place}
            self._render(node.body)
        self._names = outside
        if not chosen:
            self._render(node.else_)

    def _formatted(self, node: nodes.Node) -> str:
        value = self.value(node)
        self._charge(value)
        try:
            return format_value(value)
        except ExpressionFailed as error:
            raise ExpressionFailed(f"{_path_text(node)}: {error}") from error

    def _write(self, text: str) -> None:
        self._consume(len(text))
        self._written += len(text)
        if self._written > MOST_OUTPUT:
            raise ExpressionFailed(f"the result has more than {MOST_OUTPUT} characters")
        self._output.append(text)

    def _charge(self, value: JsonValue) -> None:
        """Charge for processing a value, before that is done."""
        self._consume(work_of(value, self._remaining))

    def _charge_comparison(self, how: str, left: JsonValue, right: JsonValue) -> None:
        """Charge for a comparison: two values are compared only up to the length of the shorter."""
        match left, right:
            case str(), str():
                self._consume(len(left) + len(right) if how in ("in", "notin") else min(len(left), len(right)))
            case ((str() | list() | dict()), list()):
                self._charge(right)
            case _, list() if how in ("in", "notin"):
                self._consume(len(right))
            case dict(), dict():
                self._charge(right)
            case _:
                pass

    def _consume(self, work: int) -> None:
        self._remaining -= work
        if self._remaining < 0:
            raise ExpressionFailed("it takes too much work")


def _holds(how: str, left: JsonValue, right: JsonValue, what: str) -> bool:
    match how:
        case "eq":
            return left == right
        case "ne":
            return left != right
        case "in" | "notin":
            return _contains(left, right, what) == (how == "in")
        case _:
            return _is_ordered(how, left, right, what)


def _is_ordered(how: str, left: JsonValue, right: JsonValue, what: str) -> bool:
    if is_number(left) and is_number(right):
        sign = -1 if left < right else int(left != right)
    elif isinstance(left, str) and isinstance(right, str):
        sign = (left > right) - (left < right)
    else:
        raise ExpressionFailed(f"{what}, which can't be compared with {describe(right)}")
    return {"lt": sign < 0, "lteq": sign <= 0, "gt": sign > 0, "gteq": sign >= 0}[how]


def _contains(left: JsonValue, right: JsonValue, what: str) -> bool:
    match right:
        case list():
            return left in right
        case dict() | str() if isinstance(left, str):
            return left in right
        case _:
            raise ExpressionFailed(f"{what}, which can't be searched for in {describe(right)}")


def _key(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise ExpressionFailed(f"the keys of an object are texts, not {describe(value)}")
    return value


def _path_text(node: nodes.Node) -> str:
    """Return a path as written, as far as that is known."""
    match node:
        case nodes.Name():
            return node.name
        case nodes.Getattr():
            return f"{_path_text(node.node)}.{node.attr}"
        case nodes.Getitem(arg=nodes.Const(value=key)):
            return f"{_path_text(node.node)}[{key!r}]"
        case nodes.Getitem():
            return f"{_path_text(node.node)}[…]"
        case nodes.Filter(node=nodes.Expr() as inner):
            return f"{_path_text(inner)} | {node.name}"
        case _:
            return "the expression"
