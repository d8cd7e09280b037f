"""Refusals of the budget: which rungs are tried before one stands, and that nothing stays counted of a stopped ask."""

from __future__ import annotations

from functools import partial

import anyio
import pytest
from pydantic import JsonValue

from teamwright import Context, Engine, FunctionAgent, Limits, Reply, Team, Turn
from teamwright.agents.agent import Agent, Policy
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.budget.degradation import CUT
from teamwright.strategies import ClosingAsk, Members, Outcome, Settings, Task
from teamwright.strategies.protocol import Strategy
from teamwright.values.events.budget import BudgetRefused
from teamwright.values.events.run import PersonAsked
from teamwright.values.limits import Degradation
from teamwright.values.people import Answer, Confirm
from teamwright.values.specs.members import Share
from teamwright.values.usage_and_prices import Rate, Usage, dollars
from tests.kit.records import cut, wait_for_question
from tests.kit.strategies import FunctionStrategy, outcome
from tests.runtime.budget.test_degradation import played, rungs, spender


class Dear(Agent):
    """A member whose request costs 300 nanodollars, or 60 with its economy model."""

    kind = "model"

    def __init__(self, name: str, tiers: list[str], policy: Policy | None = None, thinks: float = 0.0) -> None:
        self.name, self.tiers, self.thinks = name, tiers, thinks
        self.policy = (policy or Policy()).changed(economy="local:small")
        self.tasks: list[str] = []

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        self.tiers.append(turn.tier)
        self.tasks.append(turn.task)
        price = 1000 if turn.tier == "economy" else 5000
        if self.thinks:
            await anyio.sleep(self.thinks)

        async def call(attempt: Attempt) -> Returned:
            return Returned("x", Usage(requests=1, input_tokens=50, output_tokens=10, usd=dollars(60 * price)))

        rate = Rate(price, price)
        effect = Effect("model", "m", f"request {turn.tier}", call, 50, 0, 10, rate=lambda prompt: rate)
        await ctx.effect("request", effect)
        return Reply.of(self.name, f"{self.name} is done")


def dear_team(policy: Degradation, tiers: list[str], limit: int = 1100) -> Team:
    """Two rounds of two members that need 1200 nanodollars; after three turns there is no room for a fourth."""
    members = [Dear(name, tiers) for name in "ab"]
    options: dict[str, JsonValue] = {"steps": [{"id": f"s{n}", "agent": "ab"[n % 2]} for n in range(4)]}
    return Team(
        "t", members=members, strategy="dag", options=options, limits=Limits(usd=limit * 1e-9), degradation=policy
    )


async def test_a_refusal_tries_the_remaining_rungs_before_it_stands() -> None:  # Z-11
    tiers: list[str] = []
    result, taken = await played(dear_team("auto", tiers))
    assert result.status == "completed"
    assert "economy" in tiers
    assert any("economy" in one.rung and "left" in one.reason for one in taken)
    stands, untouched = await played(dear_team("none", []))
    assert (stands.stop_reason, untouched) == ("budget", [])


async def test_a_run_killed_around_a_refusal_ends_as_if_it_had_not_been() -> None:  # Z-11
    whole = MemoryJournal()
    async with Engine(whole) as engine:
        expected = await engine.run(dear_team("auto", []), "go", run_id="r")
        events = await engine.journal.read("r")
    refused = next(event.number for event in events if isinstance(event.fact, BudgetRefused))
    for number in range(refused - 1, len(events)):
        async with Engine(await cut(whole, number)) as engine:
            result = await engine.resume("r", team=dear_team("auto", []))
            assert rungs(await engine.journal.read("r")) == rungs(events)
        assert (result.status, result.output) == (expected.status, expected.output)
        assert (result.usage.usd or 0) <= 1100e-9


async def test_a_rung_is_not_undone_for_what_it_saves() -> None:  # Z-11
    tiers: list[str] = []
    members = [Dear(f"m{number}", tiers) for number in range(10)]
    team = Team("t", members=members, share="output", limits=Limits(usd=2100e-9), degradation="auto")
    result, taken = await played(team)
    assert result.status == "completed"
    assert [(one.rung, one.undone) for one in taken] == [("economy", False), ("economy", True)]
    assert tiers == ["primary"] + ["economy"] * 5 + ["primary"] * 4, "undone once the rest can be paid in full"


async def test_with_ask_a_refusal_stands_where_no_person_consented() -> None:  # Z-11
    result, taken = await played(dear_team("ask", tiers := [], limit=250))
    assert (result.stop_reason, taken, set(tiers)) == ("budget", [], {"primary"})


async def test_with_ask_a_refused_ask_is_made_again_with_what_a_person_consented_to() -> None:  # Z-11
    """While the person is asked about `b`, `c` is at work with its primary model, which nothing can pay later."""
    tiers: list[str] = []
    members = [Dear("a", tiers), Dear("b", tiers), Dear("c", tiers, thinks=0.3)]
    steps: list[JsonValue] = [{"id": "a", "agent": "a"}, *({"id": one, "agent": one, "needs": ["a"]} for one in "bc")]
    team = Team(
        "t",
        members=members,
        strategy="dag",
        options={"steps": steps},
        share="output",
        limits=Limits(usd=620e-9),
        degradation="ask",
    )
    async with Engine("memory") as engine:
        handle = await engine.start(team, "go", run_id="r")
        handle.set_interactive(True)
        await engine.runs.answer("r", await wait_for_question(engine), Answer(text=CUT))
        result = await handle.result()
    assert (result.status, sorted(tiers)) == ("completed", ["economy", "economy", "primary", "primary"])


def concurrent_team(tiers: list[str], share: Share = "output") -> Team:
    """Two members at once, neither of which can be paid with its primary model, and both with the economy model."""
    options: dict[str, JsonValue] = {"steps": [{"id": name, "agent": name} for name in "ab"]}
    return Team(
        "t",
        members=[Dear(name, tiers, thinks=0.01) for name in "ab"],
        strategy="dag",
        options=options,
        share=share,
        limits=Limits(usd=250e-9),
        degradation="auto",
    )


@pytest.mark.parametrize("share", ["output", "transcript"])
async def test_a_refused_ask_is_made_again_with_what_another_has_cut_back_already(share: Share) -> None:  # Z-11
    tiers: list[str] = []
    result, taken = await played(concurrent_team(tiers, share))
    assert result.status == "completed"
    assert sorted(tiers) == ["economy"] * 2 + ["primary"] * 2
    assert {one.rung for one in taken} == {"workers", "economy"}, "a further rung would be cut back for nothing"


async def test_concurrent_refusals_that_are_killed_end_as_if_they_had_not_been() -> None:  # Z-11
    whole = MemoryJournal()
    async with Engine(whole) as engine:
        expected = await engine.run(concurrent_team([]), "go", run_id="r")
        events = await engine.journal.read("r")
    for number in range(2, len(events)):
        async with Engine(await cut(whole, number)) as engine:
            result = await engine.resume("r", team=concurrent_team([]))
        assert (result.status, result.output) == (expected.status, expected.output), number


class Interrupted(Strategy):
    """Asks `a`, then lets `c` overtake `b`, which is about to close, and asks `d`."""

    name, version = "interrupted", 1

    def closing(self, settings: Settings, members: Members) -> list[ClosingAsk]:
        return [ClosingAsk("b")]

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        async def ask(name: str, inner: Context) -> None:
            await inner.ask(members.named(name), Turn(name, closing=name == "b"), key=name)

        await ask("a", ctx)
        async with ctx.branches(2) as branches:
            for name in "bc":
                branches.start(name, partial(ask, name))
            async for _ in branches.finished():
                branches.cancel()
        await ask("d", ctx)
        return outcome("over")


async def test_an_ask_that_is_stopped_while_a_person_is_asked_leaves_nothing_counted() -> None:  # Z-10
    members = [spender(name, 100 if name == "a" else 10) for name in "abcd"]
    team = Team("t", members=members, strategy=Interrupted(), limits=Limits(tokens=190), degradation="ask")
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        events = await engine.journal.read("r")
    asked = [(event.scope, event.fact.question.text) for event in events if isinstance(event.fact, PersonAsked)]
    assert [scope for scope, _ in asked] == ["t/b", "t"], "before `b` and before `d`"
    assert "about 265 of 190 tokens" in asked[1][1], "110 are spent, `d` costs about 55, and 100 are kept for `b`"


async def test_a_task_that_a_person_edited_stays_edited_when_the_ask_is_made_again_with_less() -> None:  # Z-11
    member = Dear("a", tiers := [], Policy(confirm=Confirm(before=True)))
    team = Team(
        "t",
        members=[member],
        strategy="dag",
        options={"steps": [{"id": "s", "agent": "a"}]},
        limits=Limits(usd=250e-9),
        degradation="auto",
    )
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        (key,) = (await engine.runs.history("r")).questions()
        await engine.runs.answer("r", key, Answer.edit("go slowly"))
        result = await engine.resume("r", team=team)
    assert (result.status, tiers, member.tasks) == ("completed", ["primary", "economy"], ["go slowly"] * 2)


async def test_a_fallback_that_is_refused_is_asked_again_with_less() -> None:  # Z-11
    async def fail(turn: Turn) -> str:
        raise RuntimeError("down")

    tiers: list[str] = []
    standby = Dear("b", tiers)
    broken = FunctionAgent("a", fail, fallback=standby)
    team = Team(
        "t",
        members=[broken, standby],
        strategy=FunctionStrategy(ask_first),
        limits=Limits(usd=250e-9),
        degradation="auto",
    )
    result, taken = await played(team)
    assert (result.output, tiers) == ("b is done", ["primary", "economy"])
    assert [one.rung for one in taken] == ["economy"]


async def ask_first(task: Task, members: Members, ctx: Context) -> Outcome:
    ending = await ctx.ask(members[0], Turn(task.text), key="only")
    assert isinstance(ending, Reply), ending
    return Outcome(messages=ending.messages)


async def test_a_team_that_is_stopped_keeps_nothing_back_from_the_team_around_it() -> None:  # Z-10
    left: dict[str, int | None] = {}

    def cost(turn: Turn) -> int:
        left[turn.task] = turn.left and turn.left.tokens
        return 10

    async def wait(turn: Turn) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    inner = Team("inner", members=[spender("x", 10), FunctionAgent("y", wait), spender("z", 10)])

    async def overtake(task: Task, members: Members, ctx: Context) -> Outcome:
        async def ask(name: str, inner: Context) -> None:
            await inner.ask(members.named(name), Turn(name), key=name)

        async with ctx.branches(2) as branches:
            branches.start("inner", partial(ask, "inner"))
            branches.start("sleep", lambda inner: inner.clock.sleep(0.05))
            async for _ in branches.finished():
                branches.cancel()
        await ask("d", ctx)
        return outcome("over")

    members = [inner, spender("d", cost)]
    team = Team("t", members=members, strategy=FunctionStrategy(overtake), limits=Limits(tokens=100))
    result, _ = await played(team)
    assert (result.output, left) == ("over", {"d": 90})


class Brief(Agent):
    """A member whose request sets no cap and costs about thirty tokens, and a little more with each turn."""

    kind, policy = "model", Policy()

    def __init__(self, name: str) -> None:
        self.name = name

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        prompt = 20 + 10 * len(turn.history)

        async def call(attempt: Attempt) -> Returned:
            return Returned("x", Usage(requests=1, input_tokens=prompt, output_tokens=10))

        await ctx.effect("request", Effect("model", "m", "request", call, prompt_tokens=prompt))
        return Reply.of(self.name, f"{self.name} is done")


@pytest.mark.parametrize("strategy", ["sequential", "fan_out"])
async def test_a_budget_of_a_few_hundred_tokens_pays_for_work_that_it_covers(strategy: str) -> None:  # Z-10
    chunks: list[JsonValue] = ["one", "two", "three", "four"]
    options: dict[str, JsonValue] = {"chunks": chunks, "answer": "a"} if strategy == "fan_out" else {}

    def team(limit: int | None) -> Team:
        limits = Limits(tokens=limit) if limit else None
        return Team("t", members=[Brief(name) for name in "abcd"], strategy=strategy, options=options, limits=limits)

    need = (await played(team(None)))[0].usage.total_tokens
    assert need < 500
    result, _ = await played(team(round(1.5 * need)))
    assert (result.stop_reason, result.usage.total_tokens) == ("done", need)
