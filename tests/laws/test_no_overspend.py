"""Law 3: spent and held together stay within the limit, at every level, at any width, across crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from teamwright.agents.function import FunctionAgent
from teamwright.agents.protocol import Attempt, Context, Effect, Returned
from teamwright.errors import ServiceError
from teamwright.journal.memory import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events import AgentAsked, AgentCalled, AgentCallFailed, AgentReturned, Event
from teamwright.values.limits import Limits, RetryPolicy
from teamwright.values.messages import digest
from teamwright.values.turns import Turn
from teamwright.values.usage import Usage
from tests.laws.orchestra import RUN_ID, TASK, cut, has_begun, hops, log_of, until
from tests.laws.program import program_team

PROMPT, FRAME = 20, 16


@dataclass(frozen=True)
class Spender:
    """How a member spends: its effects' output caps, the share of the reservation that it really uses, and its luck."""

    caps: Sequence[int | None]
    share: float
    fails: bool
    limits: Limits | None

    def agent(self, name: str) -> FunctionAgent:
        async def respond(turn: Turn, ctx: Context) -> str:
            for number, cap in enumerate(self.caps):
                effect = Effect(
                    "model", "m", digest(name, str(number)), self._call, PROMPT, 1, cap,
                    retry=RetryPolicy(attempts=1, backoff=0),
                )  # fmt: skip
                await ctx.effect(f"e{number}", effect)
            return name

        return FunctionAgent(name, respond, limits=self.limits)

    async def _call(self, attempt: Attempt) -> Returned:
        await hops(int(self.share * 7))
        if self.fails and attempt.number == 1:
            raise ServiceError("try again")
        assert attempt.max_output is not None
        output = int(self.share * attempt.max_output)
        return Returned("x", Usage(requests=1, input_tokens=int(self.share * (PROMPT + FRAME)), output_tokens=output))


bounds = st.one_of(
    st.none(),
    st.builds(Limits, tokens=st.integers(0, 600), calls=st.one_of(st.none(), st.integers(0, 8))),
    st.builds(Limits, calls=st.integers(0, 5)),
)
spenders = st.builds(
    Spender,
    caps=st.lists(st.one_of(st.none(), st.integers(1, 120)), min_size=1, max_size=3),
    share=st.floats(0, 1, width=16),
    fails=st.booleans(),
    limits=bounds,
)


@dataclass(frozen=True)
class Spenders:
    """Members side by side, some of them in a team within the team, with limits at every level."""

    members: Sequence[Spender]
    inner: Sequence[Spender]
    width: int
    outer_limits: Limits | None
    inner_limits: Limits | None
    scope_limits: Limits

    def team(self) -> Team:
        inner = [one.agent(f"i{index}") for index, one in enumerate(self.inner)]
        outer = [one.agent(f"o{index}") for index, one in enumerate(self.members)]
        asks: list[Any] = [["ask", one.name] for one in outer]
        scoped = ["within", self.scope_limits.model_dump(exclude_none=True), ["all", 3, *asks[:2], ["ask", "inner"]]]
        program = ["all", self.width, scoped, *asks[2:]]
        nested = ["all", self.width, *(["ask", one.name] for one in inner)]
        within = program_team("inner", nested, inner, limits=self.inner_limits)
        return program_team("outer", program, [*outer, within], limits=self.outer_limits)

    def levels(self) -> Iterator[tuple[str, Limits]]:
        """Each scope that has limits; its path is known from the program."""
        for path, limits in (("outer", self.outer_limits), ("outer/pb0/pw", self.scope_limits)):
            if limits is not None:
                yield path, limits
        if self.inner_limits is not None:
            yield "outer/pb0/pw/pb2/p", self.inner_limits

    def own(self) -> Iterator[tuple[str, Limits]]:
        """The limits that members have themselves, by name."""
        for letter, spenders in (("o", self.members), ("i", self.inner)):
            for index, one in enumerate(spenders):
                if one.limits is not None:
                    yield f"{letter}{index}", one.limits


teams = st.builds(
    Spenders,
    members=st.lists(spenders, min_size=2, max_size=4),
    inner=st.lists(spenders, min_size=1, max_size=3),
    width=st.integers(1, 5),
    outer_limits=bounds,
    inner_limits=bounds,
    scope_limits=st.builds(Limits, tokens=st.integers(0, 600)),
)


@given(made=teams, cut_at=st.floats(0, 1, exclude_max=True, width=16))
async def test_no_level_ever_spends_or_holds_more_than_its_limit(made: Spenders, cut_at: float) -> None:
    whole = MemoryJournal()
    async with Engine(whole) as engine:
        await engine.run(made.team(), TASK, run_id=RUN_ID)
    check(made, log_of(whole))
    resumed = cut(whole, 1 + int(cut_at * (len(log_of(whole)) - 1)))
    async with Engine(resumed) as engine:
        await engine.resume(RUN_ID, team=made.team())
    check(made, log_of(resumed))


def check(made: Spenders, events: list[Event]) -> None:
    limits, own = dict(made.levels()), dict(made.own())
    for event in events:
        if isinstance(event.fact, AgentAsked) and event.fact.member in own:
            limits[event.key] = own[event.fact.member]
    for path, limit in limits.items():
        check_level(path, limit, events)


def check_level(path: str, limit: Limits, events: list[Event]) -> None:
    """Read as a ledger: an attempt counts with its reservation until it settles, and for good if it never does."""
    attempts: dict[tuple[str, int], int] = {}
    for event in events:
        if not f"{event.scope}/".startswith(f"{path}/"):
            continue
        match event.fact:
            case AgentCalled() as fact:
                attempts[event.key, fact.attempt] = fact.reserved
            case AgentReturned() as fact:
                assert fact.usage.total_tokens <= attempts[event.key, fact.attempt]
                attempts[event.key, fact.attempt] = fact.usage.total_tokens
            case AgentCallFailed() as fact if not fact.charged:
                attempts[event.key, fact.attempt] = 0
            case _:
                continue
        assert limit.tokens is None or sum(attempts.values()) <= limit.tokens, f"{path} at event {event.number}"
        assert limit.calls is None or len(attempts) <= limit.calls, f"{path} at event {event.number}"


async def test_what_was_in_doubt_stays_charged_in_full() -> None:
    """A hundred tokens: one call in doubt holds eighty-six of them, so the second attempt does not fit."""
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
        await until(partial(has_begun, engine, "step-2"))
    assert handle.run_id == RUN_ID
    # A day without a driver costs nothing; what the next driver uses up, does.
    now[0] += 86400.0
    async with Engine(whole, wall=lambda: now[0]) as engine:
        again = await engine.start_resume(RUN_ID, team=team(0.02))
        result = await again.result()
    assert (result.status, result.stop_reason) == ("timeout", "deadline")
    assert [message.content for message in result.messages] == ["quick"]


async def _quick(turn: Turn) -> str:
    return "quick"
