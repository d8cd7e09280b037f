"""All branches, nested teams and runs of an engine share the limits of a model. In virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from teamwright import Context, Engine, FunctionAgent, ScriptedAgent, Team, Turn
from teamwright.agents.effect import Effect
from teamwright.agents.scripted import Rule
from teamwright.errors import RateLimited, ServiceError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.teams.team_loader import load_team
from teamwright.values.events.agent import AgentCalled
from teamwright.values.events.budget import BudgetEased, BudgetThrottled
from teamwright.values.events.event import Event
from teamwright.values.limits import Pace, PerMinute
from teamwright.values.people import Question
from teamwright.values.retries import RetryPolicy, RetryWaits
from tests.kit.records import cut
from tests.runtime.virtual_time import Caller, Provider, in_virtual_time, most_in_a_minute, now, run, side_by_side

AT_ONCE = RetryPolicy(times=9, backoff=0.0)


def test_all_branches_of_a_run_share_the_limits_of_a_model() -> None:
    async def main() -> None:
        provider = Provider()
        pace = Pace(max_parallel=3, per_minute=PerMinute(calls=10))
        result, events = await run(side_by_side("t", [Caller(f"c{n}", provider, pace) for n in range(25)]))
        assert result.status == "completed"
        assert (provider.peak, len(provider.began)) == (3, 25)
        assert most_in_a_minute(provider.began) == 10
        waits = [event.fact.waited for event in events if isinstance(event.fact, AgentCalled)]
        assert waits[:3] == [0.0, 0.0, 0.0]
        assert min(waits[3:]) >= 1.0

    in_virtual_time(main)


def test_nested_teams_share_them_too() -> None:  # P-13
    async def main() -> None:
        provider, pace = Provider(), Pace(max_parallel=2)

        def team(name: str) -> Team:
            return side_by_side(name, [Caller(f"{name}-{n}", provider, pace) for n in range(4)])

        outer = side_by_side("outer", [team("one"), team("two"), *[Caller(f"c{n}", provider, pace) for n in range(4)]])
        result, _ = await run(outer)
        assert result.status == "completed"
        assert (provider.peak, len(provider.began)) == (2, 12)
        assert now() == pytest.approx(6, abs=0.2)

    in_virtual_time(main)


def test_all_runs_of_an_engine_share_them_and_take_turns() -> None:  # P-13
    async def main() -> None:
        provider, pace = Provider(), Pace(max_parallel=2)
        async with Engine("memory", wall=now) as engine:
            many = await engine.start(side_by_side("t", [Caller(f"c{n}", provider, pace) for n in range(60)]), "go")
            await asyncio.sleep(0.5)
            few = await engine.start(Team("t", members=[Caller("few", provider, pace, times=5)]), "go", run_id="few")
            await few.result()
            done = len(provider.began)
            await many.result()
        assert (provider.peak, len(provider.began)) == (2, 65)
        # The run of five calls was always next, so it waited only for the two calls in flight.
        assert done <= 2 + 5 * (2 + 2)

    in_virtual_time(main)


def test_another_engine_and_another_model_have_limits_of_their_own() -> None:
    async def main() -> None:
        provider, pace = Provider(), Pace(max_parallel=1)
        first = Caller("a", provider, pace, model="one")
        second = Caller("b", provider, pace, model="two")
        await run(side_by_side("t", [first, second]))
        assert provider.peak == 2

    in_virtual_time(main)


def test_no_slot_is_held_in_a_backoff() -> None:
    async def main() -> None:
        provider = Provider(lambda number: ServiceError("broken") if number == 1 else 1.0)
        pace, retry = Pace(max_parallel=1), RetryPolicy(backoff=50)
        members = [Caller("a", provider, pace, retry=retry), Caller("b", provider, pace)]
        await run(side_by_side("t", members))
        *first, again = provider.began
        assert first == pytest.approx([0.0, 0.0], abs=0.1)
        assert 50.0 <= again <= 55.1  # with its jitter

    in_virtual_time(main)


def test_no_slot_is_held_while_waiting_for_a_person_or_a_member() -> None:
    async def main() -> None:
        provider, pace = Provider(), Pace(max_parallel=1)
        inner = Caller("inner", provider, pace)

        async def lead(turn: Turn, ctx: Context) -> str:
            effect = Effect("model", "m", "request", provider.call, model="m", pace=pace)
            await ctx.effect("first", effect)
            await ctx.ask(inner, Turn("you"), key="ask")
            answer = await ctx.ask_person(Question(text="Well?"), key="person")
            await ctx.effect("last", effect)
            return answer.text

        async with Engine("memory", wall=now) as engine:
            members = [FunctionAgent("lead", lead), Caller("other", provider, pace, times=9)]
            handle = await engine.start(side_by_side("t", members), "go", run_id="r")
            await asyncio.sleep(30)
            assert len(provider.began) == 11
            key = next(iter((await engine.runs.history("r")).questions()))
            await engine.runs.answer("r", key, "yes")
            result = await handle.result()
            if result.status == "paused":
                result = await engine.resume("r", team=side_by_side("t", members))
        assert result.status == "completed"
        assert (provider.peak, len(provider.began)) == (1, 12)

    in_virtual_time(main)


def test_a_replay_takes_no_slot() -> None:
    async def main() -> None:
        provider, journal = Provider(), MemoryJournal()
        pace = Pace(per_minute=PerMinute(calls=1))
        team = Team("t", members=[Caller(name, provider, pace) for name in "abc"])
        _, events = await run(team, journal)
        before = next(event.number for event in events if event.kind == "team.ended") - 1
        copy, time = await cut(journal, before), now()
        async with Engine(copy, wall=now) as engine:
            assert (await engine.resume("r", team=team)).status == "completed"
        assert now() == time
        assert len(provider.began) == 3

    in_virtual_time(main)


def test_a_function_has_no_limits_unless_it_names_a_model() -> None:
    async def main() -> None:
        provider = Provider()

        async def answer(turn: Turn) -> str:
            provider.out += 1
            provider.peak = max(provider.peak, provider.out)
            await asyncio.sleep(1)
            provider.out -= 1
            return "fine"

        result, _ = await run(side_by_side("t", [FunctionAgent(f"f{n}", answer) for n in range(100)]))
        assert result.status == "completed"
        assert provider.peak == 100

    in_virtual_time(main)


def test_a_thousand_members_do_not_open_a_thousand_connections() -> None:
    async def main() -> None:
        provider = Provider()
        await run(side_by_side("t", [Caller(f"c{n}", provider) for n in range(200)]))
        assert (provider.peak, len(provider.began)) == (32, 200)

    in_virtual_time(main)


def test_cancelling_a_run_takes_its_calls_out_of_the_queue() -> None:
    async def main() -> None:
        provider, pace = Provider(lambda number: 10.0), Pace(max_parallel=1)
        async with Engine("memory", wall=now) as engine:
            first = await engine.start(side_by_side("t", [Caller(f"c{n}", provider, pace) for n in range(9)]), "go")
            await asyncio.sleep(1)
            second = await engine.start(Team("t", members=[Caller("x", provider, pace)]), "go")
            await asyncio.sleep(1)
            assert (await engine.runs.cancel(first.run_id)).status == "cancelled"
            assert (await second.result()).status == "completed"
        # The call in flight is cancelled, and the call of the other run is dispatched at once.
        assert len(provider.began) == 2
        assert provider.began[1] < 3

    in_virtual_time(main)


def test_pausing_a_run_dispatches_no_waiting_call() -> None:
    async def main() -> None:
        provider, pace, journal = Provider(lambda number: 10.0), Pace(max_parallel=2), MemoryJournal()
        team = side_by_side("t", [Caller(f"c{n}", provider, pace) for n in range(5)])
        async with Engine(journal, wall=now) as engine:
            handle = await engine.start(team, "go", run_id="r")
            await asyncio.sleep(1)
            await engine.runs.pause("r")
            assert (await handle.result()).status == "paused"
            assert len(provider.began) == 2
            assert (await engine.resume("r", team=team)).status == "completed"
        assert (provider.peak, len(provider.began)) == (2, 5)

    in_virtual_time(main)


def facts(events: Sequence[Event]) -> list[BudgetThrottled | BudgetEased]:
    return [event.fact for event in events if isinstance(event.fact, BudgetThrottled | BudgetEased)]


def test_one_that_asks_to_wait_is_left_alone_and_the_record_says_so() -> None:  # P-13
    async def main() -> None:
        provider = Provider(lambda number: RateLimited("slow", retry_after=20) if number == 6 else 1.0)
        members = [Caller(f"c{n}", provider, Pace(max_parallel=4), retry=AT_ONCE) for n in range(20)]
        result, events = await run(side_by_side("t", members))
        assert result.status == "completed"
        told = facts(events)
        assert told[0] == BudgetThrottled(model="m", before=4, after=2, seconds=20.0)
        assert told[1:] == [BudgetEased(model="m", concurrency=4)]
        pause = [time for time in provider.began if 1.0 < time < 21.0]
        assert pause == []

    in_virtual_time(main)


def test_a_storm_of_refusals_narrows_it_to_what_the_provider_takes() -> None:  # P-13
    """A provider that accepts three at once and reports nothing else: few calls are refused, and all succeed."""

    async def main() -> None:
        provider = Provider()
        provider.answer = lambda number: RateLimited("slow") if provider.out > 3 else 1.0
        retry = RetryPolicy(times=20, backoff=RetryWaits(min=1.0, max=5.0))
        members = [Caller(f"c{n}", provider, retry=retry) for n in range(300)]
        result, events = await run(side_by_side("t", members))
        assert result.output == " ".join(["Reply"] * 300)
        refused = len(provider.began) - 300
        assert refused < 100
        # Five steps down, then up and down every few seconds, which is recorded once a minute.
        assert len(facts(events)) <= 5 + now() / 60

    in_virtual_time(main)


def test_a_provider_that_only_ever_refuses_is_not_hammered() -> None:
    async def main() -> None:
        provider = Provider(lambda number: RateLimited("slow"))
        members = [Caller(f"c{n}", provider, retry=RetryPolicy(times=3)) for n in range(40)]
        result, _ = await run(side_by_side("t", members))
        assert result.output == " ".join(["Failure"] * 40)
        assert len(provider.began) == 160
        # Once the width is one, each refusal makes all calls wait.
        assert most_in_a_minute(provider.began[80:]) <= 40

    in_virtual_time(main)


def test_scripted_models_have_limits_as_well() -> None:
    async def main() -> None:
        rules = [Rule(reply="fine", delay=1.0)]
        members = [ScriptedAgent(f"s{n}", rules, pace=Pace(max_parallel=2)) for n in range(6)]
        await run(side_by_side("t", members))
        assert now() == pytest.approx(3.0, abs=0.2)

    in_virtual_time(main)


MANIFEST = """
agents:
  one: {model: quick}
  two: {model: quick}
  three: {model: {model: "scripted:replies.yaml", max_parallel: 1}}
  four: {model: scripted:replies.yaml}
teams:
  t: {strategy: fan_out, members: [one], fan_out: {chunks: [a, b, c, d, e, f]}}
models:
  quick: {model: "scripted:replies.yaml", per_minute: {calls: 2}}
"""


def test_a_manifest_says_how_fast_a_model_may_be_called(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(MANIFEST)
    (tmp_path / "replies.yaml").write_text("rules: [{reply: fine}]")

    async def main() -> None:
        result, _ = await run(load_team(tmp_path / "team.yaml"))
        assert result.status == "completed"
        assert now() == pytest.approx(120.0, abs=0.2)

    in_virtual_time(main)


def test_the_settings_of_a_model_are_in_the_declaration_of_its_agent(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("rules: [{reply: fine}]")
    (tmp_path / "team.yaml").write_text(MANIFEST)
    made = {agent.name: agent for agent in load_team(tmp_path / "team.yaml", team="three").everyone()}
    spec: Any = made["three"].spec
    assert spec.model.model == f"scripted:{tmp_path / 'replies.yaml'}"
    assert spec.model.max_parallel == 1
