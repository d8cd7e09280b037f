"""Budget levels as text: the limit, what is spent, and what is reserved for calls in flight."""

from __future__ import annotations

from collections.abc import Iterator

from teamwright.cli.terminal.output import clean
from teamwright.history.budget_levels import BudgetLevels, Level
from teamwright.values.limits.usage import Amounts
from teamwright.values.text.display import number_text, price_text, seconds_text

MOST_LISTED = 20


def budget_lines(levels: BudgetLevels) -> list[str]:
    """The budget section of an explanation, after an empty line; empty if no level has a limit."""
    listed = [f"  {_name(level)}: {level_text(level, levels.driver_seconds)}" for level in levels]
    if not listed:
        return []
    lines = ["", "Budget", *listed[:MOST_LISTED]]
    if len(listed) > MOST_LISTED:
        lines.append(f"  … and {len(listed) - MOST_LISTED} more levels; --json has them all")
    return lines


def open_lines(levels: BudgetLevels, most: int) -> list[str]:
    """A line for each level in use, outermost first, at most `most` of them."""
    in_use = [level for level in levels if level.ended is None]
    shown = [f"{_name(level)}: {level_text(level, levels.driver_seconds)}" for level in in_use[:most]]
    return [*shown, f"and {len(in_use) - most} more budgets"] if len(in_use) > most else shown


def level_text(level: Level, now: float) -> str:
    """What one level has spent of its limits, with what is reserved for calls in flight."""
    parts = list(_bounds(level.limits, level.used(now), level.reserved()))
    if message := level.limits.message:
        parts.append(f"each request at most {', '.join(_plain(message))}")
    return " · ".join(parts)


def _bounds(limits: Amounts, spent: Amounts, held: Amounts) -> Iterator[str]:
    if limits.tokens is not None:
        more = f" (+ {number_text(held.tokens)} reserved)" if held.tokens else ""
        yield f"{number_text(spent.tokens or 0)}{more} of {number_text(limits.tokens)} tokens"
    if limits.usd is not None:
        more = f" (+ {price_text(held.usd)} reserved)" if held.usd else ""
        yield f"{price_text(spent.usd or 0.0)}{more} of {price_text(limits.usd)}"
    if limits.calls is not None:
        more = f" (+ {held.calls} reserved)" if held.calls else ""
        yield f"{number_text(spent.calls or 0)}{more} of {number_text(limits.calls)} calls"
    if limits.seconds is not None:
        yield f"{seconds_text(spent.seconds or 0.0)} of {limits.seconds:g} s"


def _plain(amounts: Amounts) -> Iterator[str]:
    if amounts.tokens is not None:
        yield f"{number_text(amounts.tokens)} tokens"
    if amounts.usd is not None:
        yield price_text(amounts.usd)
    if amounts.seconds is not None:
        yield f"{amounts.seconds:g} s"


def _name(level: Level) -> str:
    return clean(level.scope) or "the run"
