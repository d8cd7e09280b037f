"""Conditions and templates: texts drawn from a grammar of expressions and mutated, worked out over odd values."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import ClassVar, cast

from pydantic import JsonValue

from teamwright.errors import ExpressionFailed
from teamwright.strategies.expression_evaluator import MOST_OUTPUT
from teamwright.strategies.expression_parser import FILTERS, TESTS
from teamwright.strategies.expressions import Condition, Template
from tests.fuzz.case import Outcome, Violation
from tests.fuzz.mutation import mutated_text
from tests.fuzz.odd_values import odd_number, odd_text, odd_value
from tests.fuzz.targets.protocol import CORPUS, check_words

KNOWN = ("text", "data", "task", "state", "outputs", "items")
OPERATORS = ("+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or")
TOKENS = (
    *KNOWN, *OPERATORS, *FILTERS, *TESTS, " | ", " is ", " is not ", "(", ")", "[0]", "[-1]", "[1:]", "[:2]", ".a",
    ".b", "['_x']", " if ", " else ", "not ", "true", "none", "'x'", "1", "1.5", "{{ ", " }}", "{% if ", "{% for x in ",
    " %}", "{% else %}", "{% endif %}", "{% endfor %}", "{#", "#}", "{{-", "-}}", "loop.index", "{{.History}}",
    "{{.Input}}",
)  # fmt: skip
FIELDS = {"History": "text", "Input": "task"}


def expression(random: Random, depth: int = 4) -> str:
    """An expression of the grammar; its values may not fit each other."""
    roll = random.random()
    if depth <= 0 or roll < 0.25:
        return _atom(random)
    inner = expression(random, depth - 1)
    if roll < 0.5:
        return f"({inner} {random.choice(OPERATORS)} {expression(random, depth - 1)})"
    if roll < 0.65:
        return f"{inner} | {random.choice(list(FILTERS))}{_arguments(random, depth)}"
    if roll < 0.75:
        return f"{inner} is {random.choice(('', 'not '))}{random.choice(list(TESTS))}{_arguments(random, depth)}"
    if roll < 0.85:
        return f"{inner}{random.choice(('.a', '.b', '[0]', '[-1]', '[1:]', '[:9]', '.missing'))}"
    if roll < 0.92:
        return f"({inner} if {expression(random, depth - 1)} else {expression(random, depth - 1)})"
    if roll < 0.96:
        return f"[{inner}, {expression(random, depth - 1)}]"
    return f"{random.choice(('not', '-', '+'))} {inner}"


def _atom(random: Random) -> str:
    roll = random.random()
    if roll < 0.55:
        return random.choice(KNOWN)
    if roll < 0.75:
        return repr(odd_number(random)) if random.random() < 0.3 else str(random.randint(-3, 99))
    if roll < 0.95:
        return repr(odd_text(random)[:40]) if random.random() < 0.3 else random.choice(("'x'", "'LGTM'", "''"))
    return random.choice(("true", "false", "none", "[]", "{}", "{'a': 1}"))


def _arguments(random: Random, depth: int) -> str:
    count = random.choice((0, 0, 0, 1, 1, 2))
    return f"({', '.join(expression(random, depth - 2) for _ in range(count))})" if count else ""


def template(random: Random, depth: int = 3) -> str:
    """A template with outputs, branches and loops."""
    pieces: list[str] = []
    for _ in range(random.randint(1, 4)):
        match random.randrange(5):
            case 0:
                pieces.append(odd_text(random)[:60])
            case 1 | 2:
                pieces.append(f"{{{{ {expression(random, 3)} }}}}")
            case 3 if depth > 0:
                inner, other = template(random, depth - 1), template(random, depth - 1)
                pieces.append(f"{{% if {expression(random, 2)} %}}{inner}{{% else %}}{other}{{% endif %}}")
            case _ if depth > 0:
                over = random.choice(("items", "outputs", "data", "[1, 2, 3]"))
                pieces.append(f"{{% for x in {over} %}}{template(random, depth - 1)}{{{{ x }}}}{{% endfor %}}")
            case _:
                pieces.append("{{.History}}")
    return "".join(pieces)


def names(random: Random) -> dict[str, JsonValue]:
    """Values of the names that are known; odd, or of the usual shape."""
    usual: dict[str, JsonValue] = {
        "text": "LGTM, score 9",
        "data": {"a": 1, "b": [1, 2, "x"], "score": 8},
        "task": "Do it",
        "state": {"a": {"b": True}},
        "outputs": {"a": "x", "b": "y"},
        "items": list(range(random.choice((0, 3, 50, 3000)))),
    }
    odd = {name: odd_value(random) for name in KNOWN if random.random() < 0.3}
    return {name: _finite(value) for name, value in (usual | odd).items()}


def _finite(value: JsonValue) -> JsonValue:
    """Replies and data are JSON, in which there is neither NaN nor infinity."""
    match value:
        case float() if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - not a number
            return 0.5
        case list():
            return [_finite(one) for one in value]
        case dict():
            return {key: _finite(one) for key, one in value.items()}
        case _:
            return value


class Conditions:
    """Conditions over values that a reply brought."""

    name: ClassVar[str] = "conditions"
    weight: ClassVar[float] = 1.0
    seconds: ClassVar[float] = 20.0
    load: ClassVar[float] = 1.0
    heavy: ClassVar[str] = ""

    def __init__(self, folder: Path) -> None:
        self._texts = _lines(CORPUS / "conditions.txt")

    def corpus(self) -> list[JsonValue]:
        return [{"text": text, "names": names(Random(1))} for text in self._texts]

    def draw(self, random: Random) -> JsonValue:
        text = random.choice(self._texts) if random.random() < 0.3 else expression(random)
        if random.random() < 0.4:
            text = mutated_text(random, text, TOKENS, self._texts)
        return {"text": text, "names": names(random)}

    def run(self, payload: JsonValue) -> Outcome:
        given = cast("dict[str, JsonValue]", payload)
        condition = Condition(cast("str", given["text"]))
        values = cast("dict[str, JsonValue]", given["names"])
        problem = condition.problem(KNOWN)
        if problem is not None:
            check_words(problem, condition.text)
        elif not condition.uses <= set(KNOWN):
            raise Violation("names", "nothing is wrong, and it uses unknown names", condition.uses)
        first = self._answer(condition, values)
        if first != (second := self._answer(condition, values)):
            raise Violation("unstable", "two answers to one question", f"{first} and then {second}")
        if problem is not None and isinstance(first, bool) and condition.uses <= set(KNOWN):
            raise Violation("disagree", "it has a problem and still an answer", problem)
        return "accepted" if isinstance(first, bool) else "refused"

    def _answer(self, condition: Condition, values: dict[str, JsonValue]) -> bool | str:
        try:
            return condition.holds(values)
        except ExpressionFailed as error:
            check_words(str(error), condition.text + repr(values))
            return str(error)

    def close(self) -> None:
        pass


class Templates:
    """Templates over values that a reply brought, native and in ARK's Go form."""

    name: ClassVar[str] = "templates"
    weight: ClassVar[float] = 1.0
    seconds: ClassVar[float] = 20.0
    load: ClassVar[float] = 1.0
    heavy: ClassVar[str] = ""

    def __init__(self, folder: Path) -> None:
        self._texts = _lines(CORPUS / "templates.txt")

    def corpus(self) -> list[JsonValue]:
        return [{"text": text, "names": names(Random(1))} for text in self._texts]

    def draw(self, random: Random) -> JsonValue:
        text = random.choice(self._texts) if random.random() < 0.3 else template(random)
        if random.random() < 0.4:
            text = mutated_text(random, text, TOKENS, self._texts)
        return {"text": text, "names": names(random)}

    def run(self, payload: JsonValue) -> Outcome:
        given = cast("dict[str, JsonValue]", payload)
        made = Template(cast("str", given["text"]), FIELDS)
        values = cast("dict[str, JsonValue]", given["names"])
        problem = made.problem(KNOWN)
        if problem is not None:
            check_words(problem, made.text)
        first, second = self._rendered(made, values), self._rendered(made, values)
        if first != second:
            raise Violation("unstable", "two texts of one template", f"{first[1][:500]!r} and then {second[1][:500]!r}")
        if first[0] and len(first[1]) > MOST_OUTPUT:
            raise Violation("output", "a text is longer than it may be", len(first[1]))
        return "accepted" if first[0] else "refused"

    def _rendered(self, made: Template, values: dict[str, JsonValue]) -> tuple[bool, str]:
        try:
            return True, made.render(values)
        except ExpressionFailed as error:
            check_words(str(error), made.text + repr(values))
            return False, str(error)

    def close(self) -> None:
        pass


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text().split("\n") if line]
