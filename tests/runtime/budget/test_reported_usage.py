"""What a provider does not report, or reports wrongly, is charged in full and warned of: never free, never silent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from teamwright.agents.agent import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.history.member_board import BudgetLevels
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.testing.model_server import ChatAnswer, ChatRequest, Drop, ModelServer, Say
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentReturned
from teamwright.values.events.budget import BudgetExceeded, BudgetMisreported
from teamwright.values.events.event import Event
from teamwright.values.limits import Limits, Spend
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.models import ServerModel
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Reply, Turn
from teamwright.values.usage_and_prices import Price, Rate, Usage, dollars
from tests.kit.records import cut
from tests.kit.wire_formats import WireReply
from tests.kit.wire_server import MODELS, WireServer

LONG = "word " * 400
RATE = Rate(input=1_250_000, output=10_000_000)
"""Picodollars per token: a dollar and a quarter for a million, and ten dollars."""


def served(url: str, tokens: int = 10_000, **settings: object) -> Team:
    model = ServerModel(url=url, name="tiny", price=Price(input=1, output=10))
    agent = ModelAgent("a", model=model, retry=RetryPolicy(times=3, backoff=0), **settings)  # pyright: ignore[reportArgumentType]
    return Team("t", members=[agent], limits=Limits(tokens=tokens, usd=1.0))


async def followed(team: Team) -> tuple[RunResult, Sequence[Event], MemoryJournal]:
    """Run a team while a follower watches, so that replies are streamed."""
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        handle = await engine.start(team, "Write.", run_id="r")
        async for _ in engine.runs.follow("r"):
            pass
        result = await handle.result()
    return result, await journal.read("r"), journal


def spent(events: Sequence[Event]) -> list[int]:
    """Tokens, picodollars and calls that are charged to the team."""
    return BudgetLevels.from_events(events).by_scope["t"].spent


async def test_a_reply_that_broke_off_stays_charged_in_full_and_usage_shows_what_arrived() -> None:  # Z-10
    answers: list[ChatAnswer] = [Drop(text=LONG), Say(text="Done.")]

    def answer(request: ChatRequest) -> ChatAnswer:
        return answers[min(request.number, 2) - 1]

    with ModelServer(answer) as server:
        result, events, journal = await followed(served(server.url))
        called = [event.fact for event in events if isinstance(event.fact, AgentCalled)]
        (failed,) = [event.fact for event in events if isinstance(event.fact, AgentCallFailed)]
        (returned,) = [event.fact for event in events if isinstance(event.fact, AgentReturned)]
        assert failed.charged
        assert 300 < failed.usage.output_tokens <= 500
        assert result.usage == failed.usage + returned.usage
        assert spent(events)[0] == called[0].reserved + returned.usage.total_tokens
        at = next(event.number for event in events if isinstance(event.fact, AgentCallFailed))
        for number in range(at, len(events)):
            async with Engine(await cut(journal, number)) as engine:
                again = await engine.resume("r", team=served(server.url))
                assert again.usage.output_tokens == result.usage.output_tokens
                if number > at + 1:  # else the second call is in doubt and is made once more
                    assert spent(await engine.journal.read("r")) == spent(events)


@pytest.mark.parametrize("api", ["chat", "messages"])
async def test_a_stream_that_is_not_read_to_its_end_stays_charged_in_full(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # Z-10
    with WireServer(lambda request: WireReply(text=LONG, input_tokens=20, output_tokens=400)) as server:
        server.point_to(monkeypatch)
        agent = ModelAgent("a", model=MODELS[api], max_bytes=1000)  # pyright: ignore[reportArgumentType]
        limits = Limits(tokens=10_000, usd=5.0)
        result, events, journal = await followed(Team("t", members=[agent], limits=limits))
    (called,) = [event.fact for event in events if isinstance(event.fact, AgentCalled)]
    (returned,) = [event.fact for event in events if isinstance(event.fact, AgentReturned)]
    assert returned.partial_usage == "cut"
    assert result.usage.output_tokens > 150, "what arrived"
    assert spent(events)[0] == called.reserved
    assert spent(events)[1] == pytest.approx(called.reserved_usd * 1e12)
    async with Engine(await cut(journal, len(events) - 3)) as engine:
        await engine.resume("r", team=Team("t", members=[agent], limits=limits))
        assert spent(await engine.journal.read("r")) == spent(events)


@pytest.mark.parametrize("limits", [Limits(tokens=10_000), Limits(usd=0.01)])
async def test_more_than_was_reserved_is_a_note_within_every_limit(limits: Limits) -> None:  # Z-10
    """A prompt of 283 tokens more than were reserved: the money for it was there."""

    async def call(attempt: Attempt) -> Returned:
        usage = Usage(requests=1, input_tokens=100 + 283, output_tokens=20)
        return Returned("x", usage.changed(usd=dollars(RATE.cost(383, 20))))

    async def respond(turn: Turn, ctx: Context) -> str:
        effect = Effect("model", "m", "r", call, 100, 0, 20, rate=lambda prompt: RATE)
        return str((await ctx.effect("request", effect)).value)

    async with Engine("memory") as engine:
        result = await engine.run(Team("t", members=[FunctionAgent("a", respond)], limits=limits), "Go.")
        events = await engine.journal.read(result.run_id)
    noted = {event.fact.what: event.fact for event in events if isinstance(event.fact, BudgetExceeded)}
    assert (result.status, result.warnings) == ("completed", ())
    assert noted["tokens"].over == 283
    assert limits.usd is None or noted["usd"].over == pytest.approx(283 * 1.25e-6)
    assert not any(fact.overspent for fact in noted.values())


async def test_a_provider_that_reports_more_than_its_cap_is_a_warning() -> None:  # Z-10
    with ModelServer(lambda _: Say(text=LONG * 10), honour_cap=False) as server:
        journal, team = MemoryJournal(), served(server.url, 3000)
        async with Engine(journal) as engine:
            result = await engine.run(team, "Write.", run_id="r")
            events = await journal.read("r")
        assert (result.status, result.stop_reason, result.exit_code) == ("degraded", "done", 3)
        over_cap, tokens = result.warnings[:2]
        assert "reports 5000 output tokens with a cap of" in over_cap
        assert "tokens more than was reserved at 't'" in tokens
        assert next(event.fact.overspent for event in events if isinstance(event.fact, BudgetExceeded))
        last = max(event.number for event in events if isinstance(event.fact, BudgetExceeded | BudgetMisreported))
        for number in range(last, len(events)):  # they are recorded with the result of the call, or not at all
            async with Engine(await cut(journal, number)) as engine:
                assert (await engine.resume("r", team=served(server.url, 3000))).warnings == result.warnings


async def test_a_reply_within_its_reservation_but_beyond_its_cap_is_a_warning() -> None:  # Z-10
    with ModelServer(lambda _: Say(text="word " * 20), honour_cap=False) as server:
        team = Team(
            "t",
            members=[ModelAgent("a", model=ServerModel(url=server.url, name="tiny"), max_tokens=5)],
            limits=Limits(tokens=1000),
        )
        async with Engine("memory") as engine:
            result = await engine.run(team, "Write. " * 30)
    assert (result.exit_code, len(result.warnings)) == (3, 1)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("output", "no output tokens beside its text"),
        ("input", "no input tokens for its prompts"),
    ],
)
async def test_a_usage_without_input_or_output_tokens_is_a_warning_and_charged_in_full(
    missing: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # Z-10
    reply = replace(WireReply(text="Yes.", input_tokens=20, output_tokens=5), **{f"{missing}_tokens": 0})
    with WireServer(lambda _: reply) as server:
        server.point_to(monkeypatch)
        members = [ModelAgent(name, model=MODELS["chat"]) for name in "ab"]
        journal = MemoryJournal()
        async with Engine(journal) as engine:
            result = await engine.run(Team("t", members=members, limits=Limits(tokens=50_000)), "Write.", run_id="r")
        events = await journal.read("r")
    assert (result.status, result.exit_code) == ("degraded", 3), result.failure
    assert result.warnings == (f"'openai-chat:gpt-5-mini' reports {said}, so its calls are charged in full",)
    assert len([event for event in events if isinstance(event.fact, BudgetMisreported)]) == 1
    assert spent(events)[0] == sum(event.fact.reserved for event in events if isinstance(event.fact, AgentCalled))


async def test_a_function_may_report_tokens_that_fit_its_limits() -> None:
    async def respond(turn: Turn) -> Reply:
        return Reply.of("f", "done", usage=Usage(requests=1, input_tokens=100))

    for limit, status in ((100, "completed"), (99, "degraded")):
        async with Engine("memory") as engine:
            team = Team("t", members=[FunctionAgent("f", respond)], limits=Limits(tokens=limit))
            result = await engine.run(team, "Go")
        assert result.status == status


@pytest.mark.parametrize(
    ("reported", "charged"), [(Usage(requests=3, input_tokens=40, output_tokens=2), 42), (None, 100)]
)
async def test_a_call_with_a_ceiling_is_charged_what_it_reports_or_else_all_of_it(
    reported: Usage | None, charged: int
) -> None:
    async def respond(turn: Turn, ctx: Context) -> str:
        async def call(_: Attempt) -> Returned:
            return Returned("done") if reported is None else Returned("done", reported)

        effect = Effect(kind="function", name="a", request="r", call=call, ceiling=Spend(tokens=100))
        return str((await ctx.effect("call", effect)).value)

    team = Team("t", members=[FunctionAgent("a", respond)], limits=Limits(tokens=150))
    _, events, _ = await followed(team)
    (called,) = [event.fact for event in events if isinstance(event.fact, AgentCalled)]
    assert called.reserved == 100
    assert spent(events)[0] == charged
