"""Conditions: questions over JSON values, written as Jinja expressions, whose answer is true or false.

They only read. What can't be answered is an error that says why, never quietly true or false.
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
    """A condition as it was written, for example  data.score >= 8 and 'LGTM' in text."""

    text: str

    @property
    def uses(self) -> frozenset[str]:
        """The names it asks about; none when it can't be read."""
        from teamwright.strategies.expressions.parser import names_in, read_expression

        try:
            return names_in(read_expression(self.text))
        except ExpressionFailed:
            return frozenset()

    def keys(self, names: Collection[str]) -> Iterator[tuple[str, str]]:
        """The literal keys by which it looks into these names, as (name, key); it must be readable."""
        from teamwright.strategies.expressions.parser import keys_in, read_expression

        return keys_in(read_expression(self.text), names)

    def problem(self, known: Collection[str]) -> str | None:
        """What is wrong with it where only these names are known; asked before anything runs."""
        from teamwright.strategies.expressions.parser import read_expression, unknown_name

        if not self.text.strip():
            return "the condition is empty"
        try:
            found = unknown_name(read_expression(self.text), known)
        except ExpressionFailed as error:
            found = str(error)
        return None if found is None else f"the condition {cut(self.text, MOST_SHOWN)!r}: {found}"

    def holds(self, names: Mapping[str, JsonValue]) -> bool:
        """Whether it is true for these values; raises `ExpressionFailed` where that can't be said."""
        from teamwright.strategies.expressions.evaluator import ExpressionEvaluation
        from teamwright.strategies.expressions.parser import read_expression

        try:
            return ExpressionEvaluation(names).truth(read_expression(self.text))
        except (ExpressionFailed, ArithmeticError, RecursionError) as error:
            raise ExpressionFailed(
                f"the condition {cut(self.text, MOST_SHOWN)!r} can't be answered: {error}"
            ) from error
