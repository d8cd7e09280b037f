"""The budgets of tenants that runs name: what a run reserves when it begins, and what it has spent when it has ended.

A run that has ended is settled from its record, so any process can do it: its driver, or the next one that starts a run
with a budget.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec import structs

from teamwright.errors import BudgetUnavailable, JournalError, NotResumable, UsageError
from teamwright.history.run_record import RunRecord
from teamwright.journal.protocol import Batch, InboxItem, Journal
from teamwright.journal.tenant_budgets import BudgetClaim, Budgets, unbounded_run, unknown_budget
from teamwright.values.events.run import RunStarted
from teamwright.values.limits import Limits, tighter
from teamwright.values.names import check_name
from teamwright.values.people import RaiseBudget
from teamwright.values.usage_and_prices import Cost, picodollars


class TenantBudgets:
    """What the runs of an engine reserve, raise and settle in the budgets of its journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def _budgets(self) -> Budgets | None:
        return self._journal.budgets

    async def claim(self, name: str, *limits: Limits | None) -> BudgetClaim:
        """Return what a run with these limits has to reserve; raises `UsageError` if it can't name this budget."""
        if (budgets := self._budgets) is None:
            raise UsageError(
                f"The run names the budget {name!r}, and only a journal in Postgres keeps budgets of tenants: set"
                " TEAMWRIGHT_JOURNAL to the URL of one, or leave the budget out."
            )
        await self.settle_ended()
        found = await budgets.find(check_name("budget", name))
        if found is None:
            raise unknown_budget(name)
        claim = claim_of(name, *limits)
        if found.usd is not None and claim.usd is None:
            raise unbounded_run(name, "usd")
        if found.tokens is not None and claim.tokens is None:
            raise unbounded_run(name, "tokens")
        return claim

    async def with_claim(self, batch: Batch, team_limits: Limits | None) -> Batch:
        """Return the first events of a fork, which draws on the budget of its source if this journal keeps budgets."""
        first = batch.events[0]
        if not isinstance(started := first.fact, RunStarted) or not started.budget:
            return batch
        if self._budgets is None:
            free = structs.replace(first, fact=started.changed(budget=""))
            return structs.replace(batch, events=[free, *batch.events[1:]])
        record = RunRecord.from_events(batch.events)
        claim = _raised(await self.claim(started.budget, record.limits(), team_limits), record)
        return structs.replace(batch, claim=claim)

    async def require(self, run_id: str, record: RunRecord, team_limits: Limits | None) -> None:
        """Make sure that a run which is resumed holds its reservation, as one that was copied here does not."""
        name = record.start.budget
        if not name:
            return
        if (budgets := self._budgets) is None:
            raise NotResumable(
                f"Run {run_id!r} names the budget {name!r}, which is kept in Postgres: resume it on that journal, or"
                f" fork it with  teamwright runs fork {run_id}"
            )
        await budgets.reserve(run_id, _raised(claim_of(name, record.limits(), team_limits), record))

    async def refusal_of(self, run_id: str, name: str, item: InboxItem) -> str | None:
        """Reserve what a raised limit needs; returns why the budget has no room for it."""
        raised = item.intervention
        if not name or not isinstance(raised, RaiseBudget) or (budgets := self._budgets) is None:
            return None
        usd = None if raised.usd is None else picodollars(raised.usd)
        try:
            await budgets.reserve(run_id, BudgetClaim(name, usd, raised.tokens))
        except BudgetUnavailable as error:
            return str(error).rstrip(".")
        return None

    async def settle(self, run_id: str) -> None:
        """Settle a run that has ended, from its record. If that fails now, the next run does it."""
        if (budgets := self._budgets) is not None:
            with suppress(JournalError):
                await budgets.settle(run_id, await self._spent(run_id))

    async def settle_ended(self) -> None:
        """Settle all runs that have ended without being settled; a run that was deleted counts in full.

        A run whose record can't be read keeps its reservation, and holds up no other run.
        """
        if (budgets := self._budgets) is not None:
            for run_id, exists in await budgets.unsettled():
                if exists:
                    await self.settle(run_id)
                else:
                    await budgets.settle(run_id, None)

    async def _spent(self, run_id: str) -> BudgetClaim:
        """What a run has spent by itself: a fork has not paid for what it inherited."""
        events = await self._journal.read(run_id)
        whole = RunRecord.from_events(events)
        inherited = RunRecord.from_events([one for one in events if one.number <= whole.inherited])
        cost, before = _cost(whole), _cost(inherited)
        return BudgetClaim("", max(0, cost.usd - before.usd), max(0, cost.tokens - before.tokens))


def claim_of(name: str, *limits: Limits | None) -> BudgetClaim:
    """The most that a run may spend within all of these limits."""
    usd, tokens = None, None
    for one in limits:
        if one is not None:
            usd, tokens = tighter(usd, one.usd), tighter(tokens, one.tokens)
    return BudgetClaim(name, None if usd is None else picodollars(usd), tokens)


def _raised(claim: BudgetClaim, record: RunRecord) -> BudgetClaim:
    """The claim of a run whose limits people have raised."""
    usd, tokens = claim.usd, claim.tokens
    for one in record.interventions.accepted.values():
        if isinstance(one, RaiseBudget):
            usd = usd if usd is None or one.usd is None else max(usd, picodollars(one.usd))
            tokens = tokens if tokens is None or one.tokens is None else max(tokens, one.tokens)
    return BudgetClaim(claim.budget, usd, tokens)


def _cost(record: RunRecord) -> Cost:
    record.charge_open_turns()
    return record.charges.by_scope[""].cost
