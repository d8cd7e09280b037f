"""Budgets as page events: what each level has spent and reserved, after every call that was charged."""

from __future__ import annotations

from collections.abc import Iterator

from teamwright.history.budget_levels import BudgetLevels, Level
from teamwright.server.page.page_events import PageAmounts, PageBudget
from teamwright.server.page.projection.conversion import page_amounts
from teamwright.server.page.projection.draft import PageDraft
from teamwright.values.events.agent import AgentCallFailed, AgentReturned
from teamwright.values.events.budget import BudgetDegraded, BudgetOpened, BudgetRaised
from teamwright.values.events.event import Fact
from teamwright.values.key import key_and_parents
from teamwright.values.limits.usage import NOTHING, Usage

NONE_RESERVED = PageAmounts(tokens=0, usd=0.0, calls=0)


class BudgetView:
    """The budget of a run: its levels, and what the run has used where it has no limits itself."""

    def __init__(self) -> None:
        self._levels = BudgetLevels()
        self._used: Usage = NOTHING
        self._calls = 0

    def project(self, draft: PageDraft, fact: Fact) -> None:
        """Apply an event, and add the levels that it has changed, the innermost first."""
        event = draft.event
        self._levels.apply(event)
        match fact:
            case AgentReturned(usage=usage) if usage.total_tokens or usage.usd or usage.tool_calls:
                self._used, self._calls = self._used + usage, self._calls + 1
                self._add_around(draft, event.scope)
            case AgentCallFailed(charged=True, usage=usage):
                self._used, self._calls = self._used + usage, self._calls + 1
                self._add_around(draft, event.scope)
            case BudgetOpened() | BudgetRaised():
                self._add(draft, event.scope)
            case BudgetDegraded(rung=rung, undone=undone):
                draft.team.rungs.pop(rung, None)
                if not undone:
                    draft.team.rungs[rung] = None
                level = next(self._around(event.scope), None)
                self._add(draft, "" if level is None else level.scope, rung)
            case _:
                pass

    def _around(self, scope: str) -> Iterator[Level]:
        levels = self._levels.by_scope
        return (levels[one] for one in key_and_parents(scope) if one in levels)

    def _add_around(self, draft: PageDraft, scope: str) -> None:
        for level in self._around(scope):
            if level.scope:
                self._add(draft, level.scope)
        self._add(draft, "")

    def _add(self, draft: PageDraft, scope: str, rung: str = "") -> None:
        level = self._levels.by_scope.get(scope)
        seconds = round(self._levels.driver_seconds, 3)
        if level is None:
            used = self._used
            spent = PageAmounts(tokens=used.total_tokens, usd=used.usd, calls=self._calls, seconds=seconds)
            reserved, limits = NONE_RESERVED, None
        else:
            spent = page_amounts(level.used(self._levels.driver_seconds))
            reserved, limits = page_amounts(level.reserved()), page_amounts(level.limits)
        draft.add(
            PageBudget(
                **draft.head(key=scope),
                level=scope,
                spent=spent,
                reserved=reserved,
                limits=limits,
                rung=rung,
                rungs=tuple(draft.team.rungs),
            )
        )
