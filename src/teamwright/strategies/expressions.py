"""Conditions and templates as they are written: Jinja over JSON values, which only reads.

A condition that can't be evaluated is an error with a reason, never silently true or false. ARK writes some templates
in Go syntax: known Go fields are translated, other Go actions are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from teamwright.errors import ExpressionFailed
from teamwright.values.text.display import cut

MOST_SHOWN = 80

_FIELD = re.compile(r"\{\{(-?)\s*+\.(\w++)\s*+(-?)\}\}")
_ACTION = re.compile(r"\{\{([^{}]*+)(\}\})?")
"""The content of braces, up to the next brace. The patterns never backtrack, so matching is linear."""
_GO_WORD = re.compile(r"-?\s*+(?:\$|/\*|(?:if|else|end|range|with|define|template|block)\b)")
_GO_DOT = re.compile(r"(?:\A-?|[\s(|])\.(?:\w|\s|-?\Z)")
"""Go syntax: a dot that follows nothing, a `$`, a comment, or a keyword."""
_OPENING = re.compile(r"\{[{%#]")
"""What begins an expression, a statement or a comment."""
_LITERAL = re.compile(r'\{\{ "(\{[{%#])" \}\}')


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as written, for example  data.score >= 8 and 'LGTM' in text."""

    text: str

    @property
    def uses(self) -> frozenset[str]:
        """The variables it reads; empty if it is invalid."""
        from teamwright.strategies.expression_parser import free_names, parse_expression

        try:
            return free_names(parse_expression(self.text))
        except ExpressionFailed:
            return frozenset()

    def keys(self, names: Collection[str]) -> Iterator[tuple[str, str]]:
        """Return the literal keys that it looks up in these variables, as (name, key). It must be valid."""
        from teamwright.strategies.expression_parser import literal_keys, parse_expression

        return literal_keys(parse_expression(self.text), names)

    def problem(self, known: Collection[str]) -> str | None:
        """Return what is wrong with it, given the known variables. Called before a run."""
        from teamwright.strategies.expression_parser import parse_expression, unknown_name

        if not self.text.strip():
            return "the condition is empty"
        try:
            found = unknown_name(parse_expression(self.text), known)
        except ExpressionFailed as error:
            found = str(error)
        return None if found is None else f"the condition {cut(self.text, MOST_SHOWN)!r}: {found}"

    def holds(self, names: Mapping[str, JsonValue]) -> bool:
        """Return whether it is true for these values; raise `ExpressionFailed` if it cannot be evaluated."""
        from teamwright.strategies.expression_evaluator import ExpressionEvaluation
        from teamwright.strategies.expression_parser import parse_expression

        try:
            return ExpressionEvaluation(names).truth(parse_expression(self.text))
        except (ExpressionFailed, ArithmeticError, RecursionError) as error:
            raise ExpressionFailed(
                f"the condition {cut(self.text, MOST_SHOWN)!r} can't be evaluated: {error}"
            ) from error


def literal_template(text: str) -> str:
    """Return a template that renders to this text, whatever it contains."""
    return _OPENING.sub(lambda found: f'{{{{ "{found[0]}" }}}}', text)


def without_literals(template: str) -> str:
    """Return a template as people read it: what `literal_template` has escaped stands for itself."""
    return _LITERAL.sub(r"\1", template)


@dataclass(frozen=True, slots=True)
class Template:
    """A template as written; `fields` maps Go fields to names, such as `{{.History}}` to `history`."""

    text: str
    fields: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def uses(self) -> frozenset[str]:
        """The variables it reads; empty if it is invalid."""
        from teamwright.strategies.expression_parser import free_names, parse_template

        try:
            return free_names(parse_template(self._translated()))
        except ExpressionFailed:
            return frozenset()

    def keys(self, names: Collection[str]) -> Iterator[tuple[str, str]]:
        """Return the literal keys that it looks up in these variables, as (name, key). It must be valid."""
        from teamwright.strategies.expression_parser import literal_keys, parse_template

        return literal_keys(parse_template(self._translated()), names)

    def problem(self, known: Collection[str]) -> str | None:
        """Return what is wrong with it, given the known variables. Called before a run."""
        from teamwright.strategies.expression_parser import parse_template, unknown_name

        try:
            found = unknown_name(parse_template(self._translated()), known)
        except ExpressionFailed as error:
            found = str(error)
        if found is None:
            return None
        return f"the template can't be used: {self._go_problem() or found}"

    def render(self, names: Mapping[str, JsonValue]) -> str:
        """Return the text with these values; raise `ExpressionFailed` if one is missing or of the wrong type."""
        from teamwright.strategies.expression_evaluator import ExpressionEvaluation
        from teamwright.strategies.expression_parser import parse_template

        try:
            return ExpressionEvaluation(names).render(parse_template(self._translated()))
        except (ExpressionFailed, ArithmeticError, RecursionError) as error:
            raise ExpressionFailed(f"the template can't be rendered: {error}") from error

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
        allowed = f"only {known} are accepted, and everything else" if known else "a template"
        return f"{shown!r} is Go syntax; {allowed} is written in Jinja, as {{{{ name }}}}"


def _is_go(action: re.Match[str]) -> bool:
    inside, closed = action.groups()
    if _GO_WORD.match(inside):
        return True
    dot = _GO_DOT.search(inside)
    return dot is not None and (closed is not None or not inside.rstrip("-").endswith("."))
