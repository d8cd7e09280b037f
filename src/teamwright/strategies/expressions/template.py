"""Templates: texts with values in them, written in Jinja. They read JSON values and nothing else.

ARK writes some of them in Go's form: the fields that are named for it are translated, any other Go action is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from teamwright.errors import ExpressionFailed

_FIELD = re.compile(r"\{\{(-?)\s*+\.(\w++)\s*+(-?)\}\}")
_ACTION = re.compile(r"\{\{([^{}]*+)(\}\})?")
"""What stands in braces, up to the next brace. Nothing here is tried in more than one way, so it takes linear time."""
_GO_WORD = re.compile(r"-?\s*+(?:\$|/\*|(?:if|else|end|range|with|define|template|block)\b)")
_GO_DOT = re.compile(r"(?:\A-?|[\s(|])\.(?:\w|\s|-?\Z)")
"""What looks like Go: a dot that follows nothing, a `$`, a comment, or one of its words."""


@dataclass(frozen=True, slots=True)
class Template:
    """A template as it was written; `fields` are the Go fields that stand for names, `{{.History}}` for `history`."""

    text: str
    fields: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def uses(self) -> frozenset[str]:
        """The names it takes; none when it can't be read."""
        from teamwright.strategies.expressions.parser import names_in, read_template

        try:
            return names_in(read_template(self._translated()))
        except ExpressionFailed:
            return frozenset()

    def keys(self, names: Collection[str]) -> Iterator[tuple[str, str]]:
        """The literal keys by which it looks into these names, as (name, key); it must be readable."""
        from teamwright.strategies.expressions.parser import keys_in, read_template

        return keys_in(read_template(self._translated()), names)

    def problem(self, known: Collection[str]) -> str | None:
        """What is wrong with it where only these names are known; asked before anything runs."""
        from teamwright.strategies.expressions.parser import read_template, unknown_name

        try:
            found = unknown_name(read_template(self._translated()), known)
        except ExpressionFailed as error:
            found = str(error)
        if found is None:
            return None
        return f"the template can't be used: {self._go_problem() or found}"

    def render(self, names: Mapping[str, JsonValue]) -> str:
        """The text with these values; raises `ExpressionFailed` where one is missing or does not fit."""
        from teamwright.strategies.expressions.evaluator import ExpressionEvaluation
        from teamwright.strategies.expressions.parser import read_template

        try:
            return ExpressionEvaluation(names).text(read_template(self._translated()))
        except (ExpressionFailed, ArithmeticError, RecursionError) as error:
            raise ExpressionFailed(f"the template can't be filled in: {error}") from error

    def _translated(self) -> str:
        def translate(found: re.Match[str]) -> str:
            before, name, after = found.groups()
            return f"{{{{{before} {self.fields[name]} {after}}}}}" if name in self.fields else found[0]

        return _FIELD.sub(translate, self.text)

    def _go_problem(self) -> str | None:
        text = self._translated()
        found = next((one for one in _ACTION.finditer(text) if _is_go(one)), None)
        if found is None:
            return None
        shown = text[found.start() :].partition("}}")[0][:60] + "}}"
        known = ", ".join(f"{{{{.{name}}}}}" for name in self.fields)
        allowed = f"of its actions only {known} are read, and all else" if known else "here everything"
        return f"{shown!r} is written in Go's form; {allowed} is written in Jinja, as {{{{ name }}}}"


def _is_go(action: re.Match[str]) -> bool:
    inside, closed = action.groups()
    if _GO_WORD.match(inside):
        return True
    dot = _GO_DOT.search(inside)
    return dot is not None and (closed is not None or not inside.rstrip("-").endswith("."))
