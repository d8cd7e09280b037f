"""Law 3: spent and reserved together stay within the limit, at every level, at any width, across crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hypothesis import given, strategies as st

from teamwright.agents.agent import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import ServiceError
from teamwright.history.member_board import BudgetLevels
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.agent import AgentAsked, AgentCalled, AgentCallFailed, AgentReturned
from teamwright.values.events.budget import BudgetExceeded, BudgetOpened
from teamwright.values.events.event import Event
from teamwright.values.limits import Bounds, Limits, MessageLimits
from teamwright.values.retries import RetryPolicy
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Turn
from teamwright.values.usage_and_prices import Rate, Usage, dollars, picodollars
from tests.kit.effects import wait_until, yield_to_loop
from tests.laws.program import program_team
from tests.laws.random_programs import RUN_ID, TASK, cut, has_begun, log_of
from tests.profiles import examples

PROMPT, FRAME = 20, 16
RATE = Rate(input=3, output=7)
"""Picodollars per token."""


@dataclass(frozen=True)
class Spender:
    """How a member spends: the output caps of its effects, the share of a reservation it uses, its outcomes."""

    caps: Sequence[int | None]
    share: float
    fails: bool
    limits: Limits | None

    def agent(self, name: str) -> FunctionAgent:
        async def respond(turn: Turn, ctx: Context) -> str:
            for number, cap in enumerate(self.caps):
                effect = Effect(
                    "model", "m", digest(name, str(number)), self._call, PROMPT, 1, cap,
                    retry=RetryPolicy(times=1, backoff=0), rate=lambda prompt: RATE,
                )  # fmt: skip
                await ctx.effect(f"e{number}", effect)
            return name

        return FunctionAgent(name, respond, limits=self.limits)

    def limited(self, name: str) -> Iterator[tuple[str, Limits]]:
        """Who has limits of its own, by name."""
        if self.limits is not None:
            yield name, self.limits

    async def _call(self, attempt: Attempt) -> Returned:
        await yield_to_loop(int(self.share * 7))
        if self.fails and attempt.number == 1:
            raise ServiceError("try again")
        assert attempt.max_output is not None
        read, written = int(self.share * (PROMPT + FRAME)), int(self.share * attempt.max_output)
        cost = dollars(RATE.cost(read, written))
        return Returned("x", Usage(requests=1, input_tokens=read, output_tokens=written, usd=cost))


@dataclass(frozen=True)
class Group:
    """A team of concurrent members, some of them teams; the first two are in a separate scope."""

    parts: Sequence[Spender | Group]
    width: int
    limits: Limits | None
    within: Limits

    def agent(self, name: str) -> Team:
        members = [part.agent(f"{name}-{index}") for index, part in enumerate(self.parts)]
        asks: list[Any] = [["ask", one.name] for one in members]
        scoped = ["within", self.within.model_dump(exclude_none=True), ["all", 2, *asks[:2]]]
        return program_team(name, ["all", self.width, scoped, *asks[2:]], members, limits=self.limits)

    def limited(self, name: str) -> Iterator[tuple[str, Limits]]:
        """Who has limits of its own, by name."""
        if self.limits is not None:
            yield name, self.limits
        for index, part in enumerate(self.parts):
            yield from part.limited(f"{name}-{index}")


def maybe(most: int) -> st.SearchStrategy[int | None]:
    return st.one_of(st.none(), st.integers(0, most))


money = maybe(6000).map(lambda amount: None if amount is None else dollars(amount))
messages = st.one_of(st.none(), st.builds(MessageLimits, tokens=st.integers(1, 400)))
limits_of_any_kind = st.builds(Limits, tokens=maybe(1500), usd=money, calls=maybe(12), message=messages).filter(
    lambda limits: limits.bounds_spend
)
bounds = st.one_of(st.none(), limits_of_any_kind)
spenders = st.builds(
    Spender,
    caps=st.lists(st.one_of(st.none(), st.integers(1, 500)), min_size=1, max_size=3),
    share=st.floats(0, 1, width=16),
    fails=st.booleans(),
    limits=bounds,
)


def group(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Group]:
    return st.builds(
        Group,
        parts=st.lists(parts, min_size=1, max_size=4),
        width=st.integers(1, 5),
        limits=bounds,
        within=limits_of_any_kind,
    )


trees = group(st.recursive(spenders, group, max_leaves=8))
cuts = st.lists(st.floats(0, 1, exclude_max=True, width=16), min_size=1, max_size=2)


@examples(15)
@given(made=trees, limits=bounds, cut_at=cuts)
async def test_no_level_ever_spends_or_holds_more_than_its_limit(
    made: Group, limits: Limits | None, cut_at: list[float]
) -> None:  # Z-10
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(made.agent("t"), TASK, run_id=RUN_ID, limits=limits)
    check(made, limits, log_of(journal))
    for share in cut_at:
        journal = cut(journal, 1 + int(share * (len(log_of(journal)) - 1)))
        async with Engine(journal) as engine:
            await engine.resume(RUN_ID, team=made.agent("t"))
        check(made, limits, log_of(journal))


def check(made: Group, limits: Limits | None, events: list[Event]) -> None:
    own = dict(made.limited("t"))
    levels = {"": limits} if limits is not None else {}
    levels |= {e.key: own[e.fact.member] for e in events if isinstance(e.fact, AgentAsked) and e.fact.member in own}
    opened = {
        event.scope: Limits.from_bounds(event.fact.limits) for event in events if isinstance(event.fact, BudgetOpened)
    }
    assert opened.items() >= levels.items(), "each level that has limits says so"
    for path, limit in opened.items():
        check_level(path, limit, events)
    assert not [event for event in events if isinstance(event.fact, BudgetExceeded)]
    assert_told_alike(events)


def check_level(path: str, limit: Limits, events: list[Event]) -> None:
    """Check the record as a ledger: an attempt counts with its reservation until it settles, or forever."""
    attempts: dict[tuple[str, int], tuple[int, int]] = {}
    for event in events:
        if path and not f"{event.scope}/".startswith(f"{path}/"):
            continue
        match event.fact:
            case AgentCalled() as fact:
                attempts[event.key, fact.attempt] = (fact.reserved, picodollars(fact.reserved_usd))
                assert limit.message is None or fact.reserved <= (limit.message.tokens or 0)
            case AgentReturned() as fact:
                reserved = attempts[event.key, fact.attempt]
                spent = (fact.usage.total_tokens, picodollars(fact.usage.usd))
                assert spent[0] <= reserved[0]
                assert limit.usd is None or spent[1] <= reserved[1]
                attempts[event.key, fact.attempt] = spent
            case AgentCallFailed() as fact if not fact.charged:
                attempts[event.key, fact.attempt] = (0, 0)
            case _:
                continue
        tokens, money = (sum(amounts) for amounts in zip(*attempts.values(), strict=True))
        assert limit.tokens is None or tokens <= limit.tokens, f"{path} at event {event.number}"
        assert limit.usd is None or money <= picodollars(limit.usd), f"{path} at event {event.number}"
        assert limit.calls is None or len(attempts) <= limit.calls, f"{path} at event {event.number}"


def assert_told_alike(events: list[Event]) -> None:
    """Check that the budget levels that readers see stay within their limits too."""
    levels = BudgetLevels()
    for event in events:
        levels.apply(event)
        for level in levels:
            for limit, spent, held in zip(amounts_of(level.limits), level.spent, level.held, strict=True):
                assert held >= 0
                assert limit is None or spent + held <= limit, f"{level.scope} at event {event.number}"
    assert all(level.held == [0, 0, 0] for level in levels)


def amounts_of(limits: Bounds) -> tuple[int | None, ...]:
    return limits.tokens, None if limits.usd is None else picodollars(limits.usd), limits.calls


async def test_what_was_in_doubt_stays_charged_in_full() -> None:
    """A hundred tokens: one call in doubt reserves eighty-six of them, so the second attempt does not fit."""
    spender = Spender(caps=[50], share=0.1, fails=False, limits=None)
    limits = Limits(tokens=PROMPT + FRAME + 50 + 85)
    team = partial(Team, "t", members=[spender.agent("a")], limits=limits)
    whole = MemoryJournal()
    async with Engine(whole) as engine:
        assert (await engine.run(team(), TASK, run_id=RUN_ID)).status == "completed"
    at = next(event.number for event in log_of(whole) if event.kind == "agent.called")
    async with Engine(cut(whole, at)) as engine:
        result = await engine.resume(RUN_ID, team=team())
    assert (result.status, result.stop_reason) == ("degraded", "budget")
    async with Engine(cut(whole, at - 1)) as engine:
        assert (await engine.resume(RUN_ID, team=team())).status == "completed"


async def test_a_reservation_that_fits_later_waits_and_one_that_never_can_is_refused() -> None:
    spender = Spender(caps=[64], share=0.2, fails=False, limits=None)
    program = ["all", 8, *(["ask", f"m{number}"] for number in range(8))]
    members = [spender.agent(f"m{number}") for number in range(8)]
    limits = Limits(tokens=2 * (PROMPT + FRAME + 64))
    whole = MemoryJournal()
    async with Engine(whole) as engine:
        result = await engine.run(program_team("t", program, members, limits=limits), TASK, run_id=RUN_ID)
    answered = [message for message in result.messages if message.content == message.name]
    assert len(answered) >= 6
    assert result.usage.total_tokens <= limits.tokens  # pyright: ignore[reportOperatorIssue]


async def test_a_refusal_is_recorded_and_falls_the_same_way_on_resume() -> None:
    spender = Spender(caps=[64], share=1.0, fails=False, limits=None)
    team = partial(Team, "t", members=[spender.agent("a"), spender.agent("b")], limits=Limits(tokens=150))
    whole = MemoryJournal()
    async with Engine(whole) as engine:
        expected = await engine.run(team(), TASK, run_id=RUN_ID)
    assert expected.stop_reason == "budget"
    assert [message.content for message in expected.messages] == ["a"]
    events = log_of(whole)
    refused = next(event.number for event in events if event.kind == "budget.refused")
    generous = partial(Team, "t", members=[spender.agent("a"), spender.agent("b")], limits=Limits(tokens=10_000))
    for at in range(refused, len(events)):
        async with Engine(cut(whole, at)) as engine:
            assert (await engine.resume(RUN_ID, team=generous())).stop_reason == "budget"


async def test_time_is_bounded_by_a_deadline_that_counts_only_time_with_a_driver() -> None:
    async def hang(turn: Turn) -> str:
        await asyncio.get_running_loop().create_future()
        return ""

    def team(seconds: float) -> Team:
        quick = FunctionAgent("quick", _quick)
        return Team("t", members=[quick, FunctionAgent("hang", hang)], limits=Limits(seconds=seconds))

    whole, now = MemoryJournal(), [1000.0]
    async with Engine(whole, wall=lambda: now[0]) as engine:
        handle = await engine.start(team(50.0), TASK, run_id=RUN_ID)
        await wait_until(partial(has_begun, engine, "step-2"))
    assert handle.run_id == RUN_ID
    # A day without a driver does not count; the time of the next driver does.
    now[0] += 86400.0
    async with Engine(whole, wall=lambda: now[0]) as engine:
        again = await engine.start_resume(RUN_ID, team=team(0.02))
        result = await again.result()
    assert (result.status, result.stop_reason) == ("timeout", "deadline")
    assert [message.content for message in result.messages] == ["quick"]


async def _quick(turn: Turn) -> str:
    return "quick"
