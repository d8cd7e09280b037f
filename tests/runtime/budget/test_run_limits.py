"""Limits of a whole run: recorded with it, kept by a resume, changed by a fork; and what a member learns of them."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from teamwright import Context, Engine, FunctionAgent, Limits, Reply, Team, Turn
from teamwright.agents.agent import Agent, Policy
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.errors import AgentError, AgentTimeout, InvalidOutput, ServiceError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.agent import AgentAsked
from teamwright.values.events.budget import BudgetExceeded, BudgetOpened, BudgetRefused, BudgetUnpriced
from teamwright.values.events.event import Event
from teamwright.values.limits import Amounts, MessageLimits
from teamwright.values.turns.results import RunResult
from teamwright.values.usage_and_prices import Price, Rate, Usage, picodollars
from tests.kit.records import cut
from tests.kit.strategies import InOrder

CENT = Rate(picodollars(0.0001), picodollars(0.0001))


class Spender(Agent):
    """A member with one request that reserves 200 tokens, or two cents, and uses half of either."""

    kind = "model"

    def __init__(self, name: str, rate: Rate | None = None, cap: int | None = 100, usage: Usage | None = None) -> None:
        self.name, self.rate, self.cap = name, rate, cap
        self.usage = usage or Usage(requests=1, input_tokens=50, output_tokens=50, usd=0.01 if rate else None)

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        effect = Effect("model", "m", "request", self.call, 84, 1, self.cap, rate=lambda prompt: self.rate, model="m")
        await ctx.effect("request", effect)
        return Reply.of(self.name, "done")

    async def call(self, attempt: Attempt) -> Returned:
        return Returned("x", self.usage)


def team(count: int = 5, rate: Rate | None = None, limits: Limits | None = None) -> Team:
    members = [Spender(f"m{number}", rate) for number in range(count)]
    return Team("t", members=members, strategy=InOrder(), limits=limits)


async def run(made: Team, limits: Limits | None = None) -> tuple[RunResult, list[Event], MemoryJournal]:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(made, "go", run_id="r", limits=limits)
    return result, await journal.read("r"), journal


async def test_limits_of_a_run_hold_beside_those_of_its_team() -> None:  # Z-10
    result, events, _ = await run(team(limits=Limits(tokens=1000)), Limits(tokens=350))
    assert (result.status, result.stop_reason, len(result.messages)) == ("degraded", "budget", 2)
    opened = {event.scope: event.fact.limits.tokens for event in events if isinstance(event.fact, BudgetOpened)}
    assert opened == {"": 350, "t": 1000}
    refused = next(event.fact for event in events if isinstance(event.fact, BudgetRefused))
    assert (refused.level, refused.left, refused.needed) == ("", 150, 200)


async def test_a_resume_keeps_the_limits_of_the_run() -> None:
    _, events, journal = await run(team(), Limits(tokens=350))
    for at in range(2, len(events)):
        async with Engine(await cut(journal, at)) as engine:
            again = await engine.resume("r", team=team())
        assert again.stop_reason == "budget"
        assert again.usage.total_tokens <= 200


async def test_a_limit_on_the_time_of_a_run_ends_it() -> None:
    async def hang(turn: Turn) -> str:
        await asyncio.get_running_loop().create_future()
        return ""

    result, _, _ = await run(Team("t", members=[FunctionAgent("hang", hang)]), Limits(seconds=0.02))
    assert (result.status, result.stop_reason) == ("timeout", "deadline")


@pytest.mark.parametrize(("usd", "answered"), [(0.02, 1), (0.029, 1), (0.03, 2), (0.06, 5)])
async def test_money_is_held_at_the_worst_case_and_settled_by_use(usd: float, answered: int) -> None:  # Z-10
    result, events, _ = await run(team(rate=CENT), Limits(usd=usd))
    assert len(result.messages) == answered
    assert result.usage.usd == pytest.approx(0.01 * answered)
    refused = [event.fact for event in events if isinstance(event.fact, BudgetRefused)]
    assert [(one.what, one.needed, one.limit) for one in refused] == ([("usd", 0.02, usd)] if answered < 5 else [])


async def test_an_unknown_price_is_reported_once_and_token_limits_still_hold() -> None:  # Z-10
    result, events, journal = await run(team(), Limits(usd=0.01, tokens=10_000))
    assert (result.status, result.stop_reason) == ("degraded", "done")
    (warning,) = result.warnings
    assert warning == "the limit on money is not held for 'm', whose price is not known: give the model a `price`"
    numbers = [event.number for event in events if isinstance(event.fact, BudgetUnpriced)]
    assert len(numbers) == 1
    copy = await cut(journal, len(events) - 5)
    async with Engine(copy) as engine:
        assert (await engine.resume("r", team=team())).warnings == (warning,)
    assert len([event for event in await copy.read("r") if isinstance(event.fact, BudgetUnpriced)]) == 1


async def test_an_unknown_price_matters_only_where_money_is_limited() -> None:
    result, events, _ = await run(team(), Limits(tokens=10_000))
    assert (result.status, result.usage.usd) == ("completed", None)
    assert not [event for event in events if isinstance(event.fact, BudgetUnpriced | BudgetExceeded)]


async def test_money_beyond_the_reservation_is_reported_and_blocks_the_next() -> None:
    greedy = Usage(requests=1, input_tokens=50, output_tokens=50, usd=0.05)
    made = Team("t", members=[Spender("a", CENT, usage=greedy), Spender("b", CENT)])
    result, events, _ = await run(made, Limits(usd=0.06))
    (exceeded,) = [event.fact for event in events if isinstance(event.fact, BudgetExceeded)]
    assert (exceeded.what, exceeded.reserved, exceeded.spent, exceeded.over) == ("usd", 0.02, 0.05, 0.03)
    assert result.stop_reason == "budget"


async def test_each_message_is_bounded_at_every_level() -> None:  # Z-10
    inner = Limits(message=MessageLimits(tokens=150))
    result, events, _ = await run(team(1, limits=inner), Limits(message=MessageLimits(tokens=1000)))
    (refused,) = [event.fact for event in events if isinstance(event.fact, BudgetRefused)]
    assert (refused.level, refused.needed, refused.limit) == ("a message of t", 200, 150)
    assert result.stop_reason == "budget"
    result, _, _ = await run(team(3, limits=Limits(message=MessageLimits(tokens=200))))
    assert result.status == "completed"


async def test_a_message_that_takes_too_long_is_stopped() -> None:
    class Slow(Spender):
        async def call(self, attempt: Attempt) -> Returned:
            await asyncio.get_running_loop().create_future()
            return Returned("never")

    made = Team("t", members=[Slow("a")], limits=Limits(message=MessageLimits(seconds=0.02)))
    result, _, _ = await run(made)
    assert (result.status, result.failure and result.failure.error) == ("failed", "timeout")


async def test_a_function_reads_what_is_left_as_its_turn_begins() -> None:  # Z-10
    heard: list[Amounts | None] = []

    def listen(turn: Turn) -> str:
        heard.append(turn.left)
        return "heard"

    members = [Spender("a", CENT), FunctionAgent("b", listen), FunctionAgent("c", listen, limits=Limits(calls=1))]
    made = partial(Team, "t", members=members, strategy=InOrder(), limits=Limits(tokens=1000, seconds=50))
    result, events, journal = await run(made(), Limits(usd=1, calls=9))
    assert result.status == "completed"
    assert [one and one.changed(seconds=None) for one in heard] == [
        Amounts(tokens=900, usd=0.99, calls=8),
        Amounts(tokens=900, usd=0.99, calls=1),
    ]
    assert all(one is not None and one.seconds is not None and 0 < one.seconds <= 50 for one in heard)
    asked = {event.fact.member: event.fact.left for event in events if isinstance(event.fact, AgentAsked)}
    assert [asked["b"], asked["c"]] == heard
    at = next(event.number for event in events if isinstance(event.fact, AgentAsked) and event.fact.member == "c")
    async with Engine(await cut(journal, at)) as engine:
        await engine.resume("r", team=made())
    assert heard[2] == asked["c"], "a resume tells what was recorded"


async def test_nothing_is_said_of_budgets_where_there_are_none() -> None:
    _, events, _ = await run(team(1))
    assert not [event for event in events if event.domain == "budget"]
    assert [event.fact.left for event in events if isinstance(event.fact, AgentAsked)] == [None, None]


async def test_a_fork_keeps_the_limits_of_its_run_but_for_those_that_are_given() -> None:
    _, _, journal = await run(team(), Limits(tokens=350, calls=50))
    async with Engine(journal) as engine:
        assert (await engine.fork("r", team=team(), new_id="same")).stop_reason == "budget"
        more = await engine.fork("r", team=team(), new_id="more", limits=Limits(tokens=900))
        started = (await engine.runs.history("more")).started
    assert (more.status, len(more.messages)) == ("completed", 5)
    assert started.limits is not None
    assert (started.limits.tokens, started.limits.calls) == (900, 50)


async def test_a_fork_that_asks_something_else_is_not_charged_for_what_was_asked_before() -> None:
    _, _, journal = await run(team(2), Limits(tokens=400))
    async with Engine(journal) as engine:
        other = await engine.fork("r", team=team(2), at=12, task="something else", new_id="other")
    assert (other.status, len(other.messages)) == ("completed", 2)


async def test_a_scripted_model_with_a_price_is_paid_for() -> None:
    agent = ScriptedAgent("a", [Rule(reply="word" * 10)], price=Price(input=0, output=1000), max_tokens=10)
    result, _, _ = await run(Team("t", members=[agent, ScriptedAgent("b", [Rule(reply="free")])]), Limits(usd=0.01))
    assert (result.status, result.usage.usd) == ("completed", 0.01)


async def test_a_server_that_withholds_usage_is_charged_what_was_reserved() -> None:
    silent = [Spender(f"m{number}", usage=Usage(requests=1)) for number in range(3)]
    result, events, journal = await run(Team("t", members=silent, strategy=InOrder()), Limits(tokens=500))
    assert (result.stop_reason, len(result.messages), result.usage.requests) == ("budget", 2, 2)
    refused = next(event.fact for event in events if isinstance(event.fact, BudgetRefused))
    assert refused.left == 100
    at = next(event.number for event in events if isinstance(event.fact, BudgetRefused)) - 1
    async with Engine(await cut(journal, at)) as engine:
        again = await engine.resume("r", team=Team("t", members=silent, strategy=InOrder()))
        assert again.stop_reason == "budget"


class Failing(Spender):
    """A spender whose request fails."""

    def __init__(self, name: str, error: AgentError) -> None:
        super().__init__(name)
        self.error, self.policy = error, Policy(optional=True)

    async def call(self, attempt: Attempt) -> Returned:
        raise self.error


@pytest.mark.parametrize(
    ("error", "spent"), [(ServiceError("down"), 0), (AgentTimeout("late"), 200), (InvalidOutput("empty"), 200)]
)
async def test_a_failed_request_is_charged_where_the_provider_may_have_worked_on_it(
    error: AgentError, spent: int
) -> None:  # Z-10
    _, events, _ = await run(Team("t", members=[Failing("a", error), Spender("b")]), Limits(tokens=500))
    left = [event.fact.left for event in events if isinstance(event.fact, AgentAsked) and event.fact.member == "b"]
    assert [one.tokens for one in left if one is not None] == [500 - spent]
