"""`teamwright cluster budget`: shows the budgets of tenants across runs, sets and removes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_journal
from teamwright.cli.terminal.output import Json, Out, check_out, write_json, write_result

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal
    from teamwright.journal.tenant_budgets import Budgets, Period, TenantBudget


def budget(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A budget; without it, all are shown.")] = None,
    usd: Annotated[
        float | None,
        typer.Option("--max-usd", metavar="USD", help="The most that runs may spend in a period, in dollars."),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", metavar="N", min=0, help="The most tokens that runs may use in a period."),
    ] = None,
    per: Annotated[
        str | None, typer.Option("--per", metavar="PERIOD", help="The period: day, week, month or ever. In UTC.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the budget; open runs keep their limits.")] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Show what is spent, reserved and left of the budgets of tenants, or set one.

    A run names a budget with --budget, and reserves the most that its own limits let it spend. A bound that is not
    given does not exist.

    Example:
      teamwright cluster budget bakery --max-usd 50 --per day
    """
    check_out(out)
    period = _check(name, usd, tokens, per, remove)

    async def work(journal: Journal) -> int:
        from teamwright.runtime.budget.tenant_budgets import TenantBudgets

        budgets = _budgets_of(journal)
        if name is not None and remove:
            await _remove(budgets, name)
            return 0
        if name is not None and period is not None:
            from teamwright.values.limits import picodollars

            await budgets.put(name, None if usd is None else picodollars(usd), tokens, period)
        await TenantBudgets(journal).settle_ended()
        _write([one for one in await budgets.all() if name in {None, one.name}], name, json, out)
        return 0

    return with_journal(work)


def _check(name: str | None, usd: float | None, tokens: int | None, per: str | None, remove: bool) -> Period | None:
    """Return the period of a budget that is set, or `None` if budgets are only shown; raises `UsageError`."""
    from math import isfinite

    from teamwright.errors import UnknownName, UsageError
    from teamwright.journal.tenant_budgets import PERIODS
    from teamwright.values.names import check_name

    if name is not None:
        check_name("budget", name)
    changes = usd is not None or tokens is not None
    if (changes or remove or per is not None) and name is None:
        raise UsageError("Which budget? Give its name first.")
    if remove and (changes or per is not None):
        raise UsageError("--remove removes the budget; use it without --max-usd, --max-tokens and --per.")
    if changes != (per is not None):
        raise UsageError("A budget needs a bound and a period, as in  --max-usd 50 --per day.")
    if usd is not None and not (isfinite(usd) and usd >= 0):
        raise UsageError(f"The budget can't be {usd} dollars.")
    if per is not None and per not in PERIODS:
        raise UnknownName("period", per, PERIODS)
    return per


def _budgets_of(journal: Journal) -> Budgets:
    from teamwright.errors import UsageError

    if (budgets := journal.budgets) is None:
        raise UsageError("Only a journal in Postgres keeps budgets of tenants: set TEAMWRIGHT_JOURNAL to its URL.")
    return budgets


async def _remove(budgets: Budgets, name: str) -> None:
    from teamwright.journal.tenant_budgets import unknown_budget

    if not await budgets.remove(name):
        raise unknown_budget(name)


def _write(shown: list[TenantBudget], name: str | None, json: bool, out: Out) -> None:
    from teamwright.journal.tenant_budgets import unknown_budget

    if not shown and name is not None:
        raise unknown_budget(name)
    if json:
        write_json([one.to_json() for one in shown], out)
    else:
        write_result("\n".join(map(_lines, shown)) or "There are no budgets yet.", out)


def _lines(one: TenantBudget) -> str:
    """A budget in words: a line for each bound."""
    from teamwright.journal.tenant_budgets import money_text, tokens_text

    when = "" if not one.until else f", until {one.until}"
    held = "" if not one.runs else f" by {one.runs} open {'run' if one.runs == 1 else 'runs'}"
    lines: list[str] = []
    for most, spent, reserved, left, text in (
        (one.usd, one.spent_usd, one.reserved_usd, one.left_usd, money_text),
        (one.tokens, one.spent_tokens, one.reserved_tokens, one.left_tokens, tokens_text),
    ):
        if most is not None and left is not None:
            period = "in all" if one.per == "ever" else f"per {one.per}"
            lines.append(
                f"{one.name}: {text(most)} {period}; {text(spent)} spent, {text(reserved)} reserved{held},"
                f" {text(max(0, left))} left{when}"
            )
    return "\n".join(lines)
