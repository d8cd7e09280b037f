"""Works expressions and templates out over JSON values alone.

There are no attributes, methods or calls in here, so there is nothing to escape to; each step is counted, so nothing
runs for ever. What is missing or of the wrong kind is an error and never quietly false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from jinja2 import nodes
from pydantic import JsonValue

from teamwright.errors import ExpressionFailed
from teamwright.strategies.expressions.filters import (
    DEFAULT,
    DEFINED,
    FILTERS,
    TESTS,
    FilterSpec,
    Number,
    described,
    is_number,
    number,
    printed,
    weight,
)
from teamwright.strategies.expressions.parser import LOOP

MOST_OUTPUT = 1_000_000
MOST_WORK = 20_000_000
"""Characters that one evaluation may handle; each node counts as so many."""
NODE = 100

ARITHMETIC: dict[type[nodes.Node], Callable[[Number, Number], Number]] = {
    nodes.Add: lambda left, right: left + right,
    nodes.Sub: lambda left, right: left - right,
    nodes.Mul: lambda left, right: left * right,
    nodes.Div: lambda left, right: left / right,
    nodes.FloorDiv: lambda left, right: left // right,
    nodes.Mod: lambda left, right: left % right,
}


class Missing(NamedTuple):
    """Stands for what is not there; it may be asked about and replaced, but not used."""

    path: str


class ExpressionEvaluation:
    """One working out of an expression or a template with these names."""

    def __init__(self, names: Mapping[str, JsonValue]) -> None:
        self._names = dict(names)
        self._left = MOST_WORK
        self._output: list[str] = []
        self._written = 0

    def truth(self, node: nodes.Node) -> bool:
        """Whether an expression is true; it must be true or false, and nothing like it."""
        value = self.value(node)
        if not isinstance(value, bool):
            raise ExpressionFailed(f"{_spelt(node)} is {described(value)}, neither true nor false; compare it")
        return value

    def value(self, node: nodes.Node) -> JsonValue:
        """What an expression comes to."""
        found = self._found(node)
        if isinstance(found, Missing):
            raise ExpressionFailed(f"{found.path} is missing")
        return found

    def text(self, tree: nodes.Template) -> str:
        """What a template comes to."""
        self._play(tree.body)
        return "".join(self._output)

    def _found(self, node: nodes.Node) -> JsonValue | Missing:
        self._spend(NODE)
        match node:
            case nodes.Name():
                return self._names.get(node.name, Missing(node.name))
            case nodes.Getattr():
                return self._inside(node, node.attr)
            case nodes.Getitem(arg=nodes.Slice() as bounds):
                return self._slice(node.node, bounds)
            case nodes.Getitem():
                return self._inside(node, self.value(node.arg))
            case nodes.Filter(node=nodes.Expr() as inner):
                return self._filtered(node, inner)
            case nodes.CondExpr():
                return self._either(node)
            case nodes.Const() | nodes.List() | nodes.Dict():
                return self._written_out(node)
            case _:
                return self._worked_out(node)

    def _written_out(self, node: nodes.Const | nodes.List | nodes.Dict) -> JsonValue:
        match node:
            case nodes.Const():
                return node.value
            case nodes.List():
                return [self.value(item) for item in node.items]
            case nodes.Dict():
                return {_key(self.value(pair.key)): self.value(pair.value) for pair in node.items}

    def _worked_out(self, node: nodes.Node) -> JsonValue:
        match node:
            case nodes.And():
                return self.truth(node.left) and self.truth(node.right)
            case nodes.Or():
                return self.truth(node.left) or self.truth(node.right)
            case nodes.Not():
                return not self.truth(node.node)
            case nodes.Compare():
                return self._compared(node)
            case nodes.Test():
                return self._tested(node)
            case nodes.Neg():
                return -number(self.value(node.node))
            case nodes.Pos():
                return number(self.value(node.node))
            case nodes.BinExpr() if type(node) in ARITHMETIC:
                left, right = number(self.value(node.left)), number(self.value(node.right))
                return number(ARITHMETIC[type(node)](left, right))
            case _:
                raise AssertionError(f"{type(node).__name__} is refused when it is read")

    def _inside(self, node: nodes.Getattr | nodes.Getitem, key: JsonValue) -> JsonValue | Missing:
        """A field of an object or an item of a list; never an attribute of anything."""
        held = self._found(node.node)
        match held, key:
            case dict(), str() if key in held:
                return held[key]
            case ((list() | str()), int()) if not isinstance(key, bool) and -len(held) <= key < len(held):
                return held[key]
            case _:
                return Missing(_spelt(node))

    def _slice(self, node: nodes.Node, bounds: nodes.Slice) -> JsonValue:
        held = self.value(node)
        if not isinstance(held, str | list):
            raise ExpressionFailed(f"{_spelt(node)} is {described(held)}, of which there are no parts")
        self._spend(len(held))
        return held[self._bound(bounds.start) : self._bound(bounds.stop)]

    def _bound(self, node: nodes.Node | None) -> int | None:
        value = None if node is None else self.value(node)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise ExpressionFailed(f"a place in a text or a list is a whole number, not {described(value)}")

    def _either(self, node: nodes.CondExpr) -> JsonValue | Missing:
        if self.truth(node.test):
            return self._found(node.expr1)
        if node.expr2 is None:
            raise ExpressionFailed("an 'if' in an expression needs an 'else'")
        return self._found(node.expr2)

    def _filtered(self, node: nodes.Filter, inner: nodes.Node) -> JsonValue:
        found = self._found(inner)
        if node.name == DEFAULT and isinstance(found, Missing):
            return self.value(node.args[0])
        return self._applied(FILTERS[node.name], inner, found, node.args)

    def _tested(self, node: nodes.Test) -> JsonValue:
        found = self._found(node.node)
        if node.name == DEFINED:
            return not isinstance(found, Missing)
        return self._applied(TESTS[node.name], node.node, found, node.args)

    def _applied(
        self, spec: FilterSpec, node: nodes.Node, found: JsonValue | Missing, arguments: Sequence[nodes.Expr]
    ) -> JsonValue:
        if isinstance(found, Missing):
            raise ExpressionFailed(f"{found.path} is missing")
        given = [self.value(one) for one in arguments]
        if not spec.glance:
            self._weigh(found)
            self._weigh(given)
        try:
            return spec.function(found, given)
        except ExpressionFailed as error:
            raise ExpressionFailed(f"{_spelt(node)}: {error}") from error

    def _compared(self, node: nodes.Compare) -> bool:
        """A chain like `1 < a <= 9` holds when each of its links does."""
        left_node, left = node.expr, self.value(node.expr)
        for link in node.ops:
            right = self.value(link.expr)
            self._weigh_comparison(link.op, left, right)
            if not _holds(link.op, left, right, f"{_spelt(left_node)} is {described(left)}"):
                return False
            left_node, left = link.expr, right
        return True

    def _play(self, body: Sequence[nodes.Node]) -> None:
        for node in body:
            self._spend(NODE)
            match node:
                case nodes.Output():
                    for piece in node.nodes:
                        self._write(piece.data if isinstance(piece, nodes.TemplateData) else self._printed(piece))
                case nodes.If():
                    self._play(self._branch(node))
                case nodes.For():
                    self._loop(node)
                case _:
                    raise AssertionError(f"{type(node).__name__} is refused when it is read")

    def _branch(self, node: nodes.If) -> Sequence[nodes.Node]:
        for one in (node, *node.elif_):
            if self.truth(one.test):
                return one.body
        return node.else_

    def _loop(self, node: nodes.For) -> None:
        assert isinstance(node.target, nodes.Name)
        held = self.value(node.iter)
        if not isinstance(held, list | dict):
            raise ExpressionFailed(f"{_spelt(node.iter)} is {described(held)}, and a loop goes over a list")
        outside = self._names
        chosen: list[JsonValue] = []
        for item in held:
            self._spend(NODE)
            self._names = {**outside, node.target.name: item}
            if node.test is None or self.truth(node.test):
                chosen.append(item)
        for index, item in enumerate(chosen, start=1):
            last = len(chosen)
            place: JsonValue = {"index": index, "first": index == 1, "last": index == last, "length": last}
            self._names = {**outside, node.target.name: item, LOOP: place}
            self._play(node.body)
        self._names = outside
        if not chosen:
            self._play(node.else_)

    def _printed(self, node: nodes.Node) -> str:
        value = self.value(node)
        self._weigh(value)
        try:
            return printed(value)
        except ExpressionFailed as error:
            raise ExpressionFailed(f"{_spelt(node)}: {error}") from error

    def _write(self, text: str) -> None:
        self._spend(len(text))
        self._written += len(text)
        if self._written > MOST_OUTPUT:
            raise ExpressionFailed(f"it came to more than {MOST_OUTPUT} characters")
        self._output.append(text)

    def _weigh(self, value: JsonValue) -> None:
        """Count the work of going through a value before it is done."""
        self._spend(weight(value, self._left))

    def _weigh_comparison(self, how: str, left: JsonValue, right: JsonValue) -> None:
        """Count what a comparison takes: two values are gone through only as far as both of them go."""
        match left, right:
            case str(), str():
                self._spend(len(left) + len(right) if how in ("in", "notin") else min(len(left), len(right)))
            case ((str() | list() | dict()), list()):
                self._weigh(right)
            case _, list() if how in ("in", "notin"):
                self._spend(len(right))
            case dict(), dict():
                self._weigh(right)
            case _:
                pass

    def _spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
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
            return _in_order(how, left, right, what)


def _in_order(how: str, left: JsonValue, right: JsonValue, what: str) -> bool:
    if is_number(left) and is_number(right):
        sign = -1 if left < right else int(left != right)
    elif isinstance(left, str) and isinstance(right, str):
        sign = (left > right) - (left < right)
    else:
        raise ExpressionFailed(f"{what}, which can't be more or less than {described(right)}")
    return {"lt": sign < 0, "lteq": sign <= 0, "gt": sign > 0, "gteq": sign >= 0}[how]


def _contains(left: JsonValue, right: JsonValue, what: str) -> bool:
    match right:
        case list():
            return left in right
        case dict() | str() if isinstance(left, str):
            return left in right
        case _:
            raise ExpressionFailed(f"{what}, which can't be looked for in {described(right)}")


def _key(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise ExpressionFailed(f"the keys of an object are texts, not {described(value)}")
    return value


def _spelt(node: nodes.Node) -> str:
    """A path as it was written, as far as it can be told."""
    match node:
        case nodes.Name():
            return node.name
        case nodes.Getattr():
            return f"{_spelt(node.node)}.{node.attr}"
        case nodes.Getitem(arg=nodes.Const(value=key)):
            return f"{_spelt(node.node)}[{key!r}]"
        case nodes.Getitem():
            return f"{_spelt(node.node)}[…]"
        case nodes.Filter(node=nodes.Expr() as inner):
            return f"{_spelt(inner)} | {node.name}"
        case _:
            return "what stands there"
