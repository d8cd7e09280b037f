"""A run that was stopped around a refusal or a rung, under any strategy and policy, resumes and stays in its limit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from bench.budget_teams import OPTIONS, Member, Replies, team_of
from teamwright import Context, Engine, Reply, RunResult, Team, Turn
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.budget.degradation import CUT, GO_ON
from teamwright.values.events.budget import BudgetDegraded, BudgetExceeded, BudgetRefused
from teamwright.values.events.event import Event
from teamwright.values.limits import Degradation
from teamwright.values.people import Answer
from tests.kit.records import cut
from tests.profiles import sampled

RUN_ID, TASK = "r", "Do the work."
SHARE = 0.7
"""The limit of each run, as a share of what it needs."""


@pytest.fixture(autouse=True)
def members_overtake_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, random = Member.respond, Random(7)

    async def respond(self: Member, turn: Turn, ctx: Context) -> Reply:
        for _ in range(random.randrange(5)):
            await asyncio.sleep(0)
        return await answer(self, turn, ctx)

    monkeypatch.setattr(Member, "respond", respond)


async def ended(engine: Engine, team: Team, result: RunResult) -> RunResult:
    """Answer all questions of a run, every other one with a consent, until it ends."""
    while result.status == "paused":
        for number, key in enumerate((await engine.runs.history(RUN_ID)).questions()):
            await engine.runs.answer(RUN_ID, key, Answer(text=GO_ON if number % 2 else CUT))
        result = await engine.resume(RUN_ID, team=team)
    return result


def points(events: list[Event]) -> Iterator[int]:
    """Just before and just after each decision about the budget, and the answers of people."""
    for event in events[:-1]:
        if isinstance(event.fact, BudgetRefused | BudgetDegraded) or event.kind == "person.answered":
            yield from (event.number - 1, event.number)


@pytest.mark.parametrize("policy", ["auto", "ask"])
@pytest.mark.parametrize("strategy", OPTIONS)
async def test_a_run_that_is_stopped_around_a_refusal_or_a_rung_ends_inside_its_limit(
    strategy: str, policy: Degradation
) -> None:  # Z-11
    async with Engine("memory") as engine:
        need = (await engine.run(team_of(strategy, 1, Replies(), None, "none"), TASK)).usage.usd or 0.0
    limit, journal = round(SHARE * need, 6), MemoryJournal()
    async with Engine(journal) as engine:
        team = team_of(strategy, 1, Replies(), limit, policy)
        await ended(engine, team, await engine.run(team, TASK, run_id=RUN_ID))
        events = await journal.read(RUN_ID)
    found = sorted(set(points(events)))
    assert found, "the limit is tight"
    for at in found[:12][:: sampled(3, 1)]:
        async with Engine(await cut(journal, at)) as engine:
            team = team_of(strategy, 1, Replies(), limit, policy)
            result = await ended(engine, team, await engine.resume(RUN_ID, team=team))
            again = await engine.journal.read(RUN_ID)
        assert (result.usage.usd or 0.0) <= limit, at
        assert not [event for event in again if isinstance(event.fact, BudgetExceeded)]
        assert [event.fact for event in again[:at]] == [event.fact for event in events[:at]]
