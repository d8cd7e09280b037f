"""A member gets one line when its budget runs short, and when its output cap is smaller."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.prompt_notices import CUT_NOTICE_TOKENS, low_budget_notice, output_cut_notice
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.testing.model_server import ChatRequest, ModelServer, Say, tokens
from teamwright.values.events.agent import AgentAsked, AgentCalled
from teamwright.values.limits import Amounts, Limits
from teamwright.values.specs.models import NamedModel, ServerModel
from teamwright.values.turns.turn import Turn
from teamwright.values.usage_and_prices import Price

PRICED = NamedModel(model="openai:gpt-5-mini", price=Price(input=1, output=1))


def line(left: Amounts, cap: int | None = 100) -> str:
    turn = Turn("Tell me more.", left=left)
    return low_budget_notice(turn, PRICED, "Be kind.", cap)


@pytest.mark.parametrize(
    "left",
    [
        Amounts(tokens=340),
        Amounts(calls=1),
        Amounts(seconds=12.0),
        Amounts(usd=0.0003),
        Amounts(tokens=10**6, calls=0),
    ],
)
def test_a_budget_that_runs_short_is_reported(left: Amounts) -> None:  # Z-10
    assert line(left, cap=170).startswith("Little is left of the budget: ")


@pytest.mark.parametrize(
    "left", [Amounts(tokens=10_000), Amounts(calls=2), Amounts(seconds=60.0), Amounts(usd=1.0), Amounts()]
)
def test_an_ample_budget_is_not_reported(left: Amounts) -> None:
    assert line(left) == ""


@pytest.mark.parametrize("left", [Amounts(tokens=400), Amounts(usd=0.0004), Amounts(tokens=120)])
def test_a_small_budget_of_which_a_request_needs_little_is_not_reported(left: Amounts) -> None:
    """A request without a cap is taken to need what it would be refused for, which a small limit scales down."""
    assert line(left, cap=None) == ""


def test_a_small_budget_of_which_a_request_needs_much_is_reported() -> None:
    long = Turn("word " * 160, left=Amounts(tokens=400))
    assert low_budget_notice(long, PRICED, "Be kind.", None).startswith("Little is left of the budget: 400 tokens.")


@pytest.mark.parametrize("limit", [100, 200, 300, 400, 500, 600, 1000, 3000])
async def test_a_limit_far_above_the_need_costs_no_token(limit: int) -> None:
    members = [ScriptedAgent(name, [Rule(reply="There are three offers.")]) for name in ("a", "b")]
    async with Engine("memory") as engine:
        free = await engine.run(Team("t", members=members), "Which one?")
        limited = await engine.run(Team("t", members=members), "Which one?", limits=Limits(tokens=limit))
    assert (limited.status, limited.usage.total_tokens) == ("completed", free.usage.total_tokens)


def test_all_limits_are_reported_in_one_line() -> None:
    assert line(Amounts(tokens=312, usd=0.00123, calls=1, seconds=7.6)) == (
        "Little is left of the budget: 312 tokens, $0.00123, 1 call, 8 seconds."
        " Answer briefly and begin nothing that needs more."
    )


def test_telling_never_costs_the_answer() -> None:
    """The turn and its frame take 53 tokens and the cap 100, so that 160 pay for an answer and not for the line too."""
    assert line(Amounts(tokens=160)) == ""
    assert "\n" not in line(Amounts(tokens=300))


def test_nothing_is_reported_where_nothing_is_limited() -> None:
    assert low_budget_notice(Turn("Go"), PRICED, "", 100) == ""


def test_the_note_on_a_cut_cap_fits_what_is_reserved_for_it() -> None:
    assert len(output_cut_notice(4096).encode()) + 16 <= CUT_NOTICE_TOKENS


async def test_a_model_receives_the_remaining_budget_and_a_smaller_cap() -> None:  # Z-10
    with ModelServer(lambda request: Say(text="word " * 5000)) as server:
        model = ServerModel(url=server.url, name="tiny")
        agent = ModelAgent("a", model=model, instructions="Write.", max_tokens=1000)
        options: dict[str, JsonValue] = {"chunks": [1, 2, 3, 4], "task": "Go", "max_parallel": 1}
        async with Engine("memory") as engine:
            team = Team("t", members=[agent], strategy="fan_out", options=options, limits=Limits(tokens=2700))
            result = await engine.run(team, "Go", run_id="r")
            events = await engine.journal.read("r")
    first, second, third = server.requests
    left = [e.fact.left for e in events if isinstance(e.fact, AgentAsked) and e.fact.member == "a"]
    assert left[:2] == [Amounts(tokens=2700), Amounts(tokens=2700 - tokens_of(first) - 1000)]
    assert left[2] is not None
    assert system(first) == "Write."
    assert "Little is left of the budget: 16" in system(second)
    assert f"Write.\n\nLittle is left of the budget: {left[2].tokens} tokens." in system(third)
    called = [event.fact.max_output for event in events if isinstance(event.fact, AgentCalled)]
    assert [first.max_tokens, second.max_tokens, third.max_tokens] == called
    assert called[:2] == [1000, 1000]
    assert called[2] is not None
    assert 256 <= called[2] < 1000
    assert third.messages[-1].content.endswith(output_cut_notice(called[2]))
    assert (result.status, result.stop_reason, len(called)) == ("degraded", "budget", 3)
    assert result.usage.total_tokens <= 2700


def tokens_of(request: ChatRequest) -> int:
    return sum(tokens(message.content) for message in request.messages)


def system(request: ChatRequest) -> str:
    return next(message.content for message in request.messages if message.role in {"system", "developer"})


async def test_a_script_receives_the_notice_of_a_model() -> None:
    rules = [Rule(match="Little is left", reply="In short: no."), Rule(reply="It is a long story.")]
    agent = ScriptedAgent("a", rules, limits=Limits(calls=1))
    async with Engine("memory") as engine:
        assert (await engine.run(agent, "Tell me.")).output == "In short: no."
