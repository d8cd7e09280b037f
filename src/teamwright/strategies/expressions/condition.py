"""Conditions: Jinja expressions over JSON values that are true or false.

They only read. An expression that cannot be evaluated is an error with a reason, never silently true or false.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from teamwright.errors import ExpressionFailed
from teamwright.values.text.display import cut

MOST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as written, for example  data.score >= 8 and 'LGTM' in text."""

    text: str

    @property
    def uses(self) -> frozenset[str]:
        """The variables it reads; empty if it is invalid."""
        from teamwright.strategies.expressions.parser import free_names, parse_expression

        try:
            return free_names(parse_expression(self.text))
        except ExpressionFailed:
            return frozenset()

    def keys(self, names: Collection[str]) -> Iterator[tuple[str, str]]:
        """Return the literal keys that it looks up in these variables, as (name, key). It must be valid."""
        from teamwright.strategies.expressions.parser import literal_keys, parse_expression

        return literal_keys(parse_expression(self.text), names)

    def problem(self, known: Collection[str]) -> str | None:
        """Return what is wrong with it, given the known variables. Called before a run."""
        from teamwright.strategies.expressions.parser import parse_expression, unknown_name

        if not self.text.strip():
            return "the condition is empty"
        try:
            found = unknown_name(parse_expression(self.text), known)
        except ExpressionFailed as error:
            found = str(error)
        return None if found is None else f"the condition {cut(self.text, MOST_SHOWN)!r}: {found}"

    def holds(self, names: Mapping[str, JsonValue]) -> bool:
        """Return whether it is true for these values; raise `ExpressionFailed` if it cannot be evaluated."""
        from teamwright.strategies.expressions.evaluator import ExpressionEvaluation
        from teamwright.strategies.expressions.parser import parse_expression

        try:
            return ExpressionEvaluation(names).truth(parse_expression(self.text))
        except (ExpressionFailed, ArithmeticError, RecursionError) as error:
            raise ExpressionFailed(
                f"the condition {cut(self.text, MOST_SHOWN)!r} can't be evaluated: {error}"
            ) from error
