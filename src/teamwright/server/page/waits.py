"""What experts wait for, and what the levels of a budget have spent and reserved, as page events."""

from __future__ import annotations

from collections.abc import Iterator

from teamwright.history.budget_levels import BudgetLevels, Level
from teamwright.server.page.builder import PageDraft, page_amounts
from teamwright.server.page.page_events import PageAmounts, PageBudget, PageWait, WaitKind
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentReplied,
    AgentReturned,
)
from teamwright.values.events.budget import BudgetAwaited, BudgetDegraded, BudgetOpened, BudgetRaised, BudgetRefused
from teamwright.values.events.event import Fact
from teamwright.values.events.person import PersonAnswered, PersonAsked
from teamwright.values.events.run import RunEnded
from teamwright.values.events.step import StepHeldUp, StepSkipped
from teamwright.values.key import in_scope, join_key, key_and_parents
from teamwright.values.limits.usage import NOTHING, Usage
from teamwright.values.secrets.patterns import mask_text

NONE_RESERVED = PageAmounts(tokens=0, usd=0.0, calls=0)


class Waits:
    """The open waits of a run, by key. The page event of a wait is kept, so that its end repeats it."""

    def __init__(self) -> None:
        self._open: dict[str, PageWait] = {}

    def project(self, draft: PageDraft, fact: Fact) -> None:
        """Add the waits that an event begins or ends."""
        match fact:
            case PersonAsked(question=question):
                whom = (mask_text(question.to),) if question.to else ()
                self._begin(draft, draft.key, "person", whom, mask_text(question.text))
            case PersonAnswered():
                self._end(draft, draft.key)
            case AgentCallFailed(retry_in=float() | int() as seconds, message=message):
                self._begin(draft, draft.key, "retry", (), mask_text(message), seconds=float(seconds))
            case BudgetAwaited(level=level, holders=holders):
                self._begin(draft, draft.key, "budget", holders, level)
            case StepHeldUp(keys=keys, by=by, step=step):
                key = join_key(draft.team.scope, step) if step else draft.event.scope
                self._begin(draft, key, "keys", by, ", ".join(keys), step=step)
                draft.set_step(step, "waiting")
            case AgentAsked():
                self._asked(draft)
            case AgentCalled() | BudgetRefused() | StepSkipped() if self._open:
                self._end(draft, draft.key)
                self._end(draft, draft.event.scope)
            case AgentReplied() | AgentFailed() if self._open:
                self._end_inside(draft, draft.key)
            case RunEnded():
                self._end_inside(draft, "")
            case _:
                pass

    def _asked(self, draft: PageDraft) -> None:
        """Let a member that asks another one as a tool wait for it, and end the wait of the step that starts."""
        ask = draft.stage.asks[draft.key]
        if self._open and ask.step:
            self._end(draft, join_key(ask.team.scope, ask.step))
        if ask.asker is not None:
            wait = PageWait(**draft.head(ask.asker.expert), what="member", whom=(ask.expert.id,))
            self._open[draft.key] = wait
            draft.add(wait)

    def _begin(
        self,
        draft: PageDraft,
        key: str,
        what: WaitKind,
        whom: tuple[str, ...],
        text: str,
        *,
        step: str = "",
        seconds: float | None = None,
    ) -> None:
        ask = draft.stage.ask_around(draft.key)
        expert = None if ask is None or ask.is_team else ask.expert
        wait = PageWait(**draft.head(expert, key), what=what, whom=whom, text=text, step=step, seconds=seconds)
        self._open[key] = wait
        draft.add(wait)

    def _end(self, draft: PageDraft, key: str) -> None:
        wait = self._open.pop(key, None)
        if wait is not None:
            seconds = round(max(0.0, draft.event.time - wait.time), 3)
            head = draft.head(wait.expert, key)
            draft.add(wait.changed(**{**head, "scope": wait.scope}, seconds=seconds, ended=True))

    def _end_inside(self, draft: PageDraft, key: str) -> None:
        for one in [one for one in self._open if in_scope(one, key)]:
            self._end(draft, one)


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
