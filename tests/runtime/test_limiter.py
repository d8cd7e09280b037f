"""One limiter per model and engine: bounds, rests, fair turns, nothing left behind. Minutes pass in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright import Context, Engine, FunctionAgent, Outcome, RetryPolicy, RunResult, ScriptedAgent, Task, Team, Turn
from teamwright.agents.protocol import Agent, Attempt, Effect, Returned
from teamwright.agents.scripted import Rule
from teamwright.errors import RateLimited, Refused, ServiceError
from teamwright.journal.memory import MemoryJournal
from teamwright.runtime.limiter import LONGEST_PAUSE, Limiter, Limiters, Slot
from teamwright.strategies.protocol import Members
from teamwright.teams.load import load_team
from teamwright.values.events import AgentCalled, BudgetEased, BudgetThrottled, Event
from teamwright.values.limits import Pace
from teamwright.values.people import Question
from teamwright.values.usage import NOTHING, Usage
from tests.runtime.teams import Written, cut, says
from tests.runtime.virtual_time import SPENT, Caller, Provider, in_virtual_time, most_in_a_minute, now

AT_ONCE = RetryPolicy(attempts=9, backoff=0.0)


def limiter(**bounds: int) -> Limiter:
    made = Limiter("m")
    made.declare(Pace(**bounds))
    return made


def side_by_side(name: str, members: Sequence[Agent], width: int = 1000) -> Team:
    """Everybody at once; who failed says so."""

    async def run(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(width) as branches:
            for member in members:
                branches.start(member.name, lambda inner, member=member: inner.ask(member, Turn(task.text), key="ask"))
            endings = [branch.result() async for branch in branches.finished()]
        return says(" ".join(type(ending).__name__ for ending in endings))

    return Team(name, members=members, strategy=Written(run))


async def run(team: Team, journal: MemoryJournal | None = None, run_id: str = "r") -> tuple[RunResult, list[Event]]:
    journal = journal or MemoryJournal()
    async with Engine(journal, wall=now) as engine:
        with anyio.fail_after(100_000):
            result = await engine.run(team, "go", run_id=run_id)
    return result, await journal.read(run_id)


# The limiter by itself


def test_no_more_are_out_than_may_be() -> None:
    async def main() -> None:
        made = limiter(concurrency=2)
        first, second = made.take(), made.take()
        assert first is not None
        assert second is not None
        assert made.take() is None
        waiting = asyncio.create_task(made.wait(("a",)))
        await asyncio.sleep(5)
        assert not waiting.done()
        first.returned(SPENT)
        slot = await waiting
        assert (made.out, slot.waited) == (2, 5.0)
        for one in (slot, second):
            one.close()
            one.close()
        assert made.out == 0

    in_virtual_time(main)


def test_thirty_two_may_be_out_where_nothing_is_declared() -> None:
    async def main() -> None:
        made = Limiter("m")
        assert len([slot for _ in range(1000) if (slot := made.take())]) == 32

    in_virtual_time(main)


def test_who_waits_for_the_minute_to_pass_is_woken_by_the_clock() -> None:
    async def main() -> None:
        made = limiter(requests_per_minute=3)
        for _ in range(3):
            (await made.wait(("a",))).returned(SPENT)
        assert (await made.wait(("a",))).waited == 60.0
        assert now() == 60.0

    in_virtual_time(main)


def test_a_call_that_cost_less_than_expected_lets_the_next_one_go() -> None:
    async def main() -> None:
        made = limiter(tokens_per_minute=1000)
        first = await made.wait(("a",), prompt_bytes=3000, cap=100)
        waiting = asyncio.create_task(made.wait(("a",), prompt_bytes=2000, cap=100))
        await asyncio.sleep(1)
        assert not waiting.done()
        first.returned(SPENT)
        assert (await waiting).waited == 1.0

    in_virtual_time(main)


@pytest.mark.parametrize(("error", "free"), [(Refused("no"), True), (None, False)])
def test_a_failed_call_counts_no_tokens_but_one_of_unknown_cost_does(error: Refused | None, *, free: bool) -> None:
    async def main() -> None:
        made = limiter(tokens_per_minute=100)
        slot = await made.wait((), prompt_bytes=400, cap=0)
        slot.failed(error, None) if error else slot.close()
        assert (made.take(prompt_bytes=400, cap=0) is not None) == free

    in_virtual_time(main)


def test_a_slot_that_is_given_back_was_never_taken() -> None:
    async def main() -> None:
        made = limiter(requests_per_minute=1, concurrency=1)
        slot = made.take()
        assert slot is not None
        waiting = asyncio.create_task(made.wait(("a",)))
        await asyncio.sleep(0)
        slot.give_back()
        assert (await waiting).waited == 0.0

    in_virtual_time(main)


def test_who_is_stopped_while_it_waits_leaves_nothing_behind() -> None:
    async def main() -> None:
        made = limiter(concurrency=1)
        held = made.take()
        assert held is not None
        tasks = [asyncio.create_task(made.wait((f"branch {number}",))) for number in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        # The slot comes back before the one that is stopped has noticed: it goes to the next.
        held.returned(SPENT)
        await asyncio.sleep(0)
        assert (tasks[0].cancelled(), tasks[1].done(), tasks[2].done()) == (True, True, False)
        tasks[1].result().returned(SPENT)
        tasks[2].cancel()  # and here it has been given already
        await asyncio.sleep(0)
        assert tasks[2].cancelled()
        assert (made.out, bool(made._waiting)) == (0, False)
        paused = limiter(requests_per_minute=1)
        assert paused.take()
        with anyio.move_on_after(1):
            await paused.wait(())
        assert paused._timer is None

    in_virtual_time(main)


def test_a_provider_that_asks_to_wait_is_left_alone_by_everybody() -> None:
    async def main() -> None:
        made = limiter(concurrency=8)
        slots = [made.take() for _ in range(8)]
        told = [slot.failed(RateLimited("slow", retry_after=7), 7.0) for slot in slots if slot]
        assert told == [BudgetThrottled(model="m", before=8, after=4, seconds=7.0), *[None] * 7]
        assert made.take() is None
        waiting = [asyncio.create_task(made.wait((f"branch {number}",))) for number in range(6)]
        await asyncio.sleep(6.9)
        assert not any(task.done() for task in waiting)
        await asyncio.sleep(0.2)
        assert [task.done() for task in waiting] == [True] * 4 + [False] * 2
        while waiting:
            (await waiting.pop(0)).close()

    in_virtual_time(main)


def test_it_grows_back_and_says_so_once() -> None:
    async def main() -> None:
        made = limiter(concurrency=3)
        slots = [slot for _ in range(3) if (slot := made.take())]
        for slot in slots:
            slot.failed(RateLimited("slow"), 0.0)
        assert made.width.now == 1
        told = [(await made.wait(())).returned(SPENT) for _ in range(10)]
        assert [one for one in told if one] == [BudgetEased(model="m", concurrency=3)]
        assert made.width.now == 3

    in_virtual_time(main)


def test_nobody_is_kept_away_for_an_hour() -> None:
    async def main() -> None:
        made = limiter(concurrency=2)
        slot = made.take()
        assert slot is not None
        told = slot.failed(RateLimited("slow", retry_after=3600), 60.0)
        assert told == BudgetThrottled(model="m", before=2, after=2, seconds=LONGEST_PAUSE)
        assert (await made.wait(())).waited == LONGEST_PAUSE

    in_virtual_time(main)


def test_a_call_that_was_out_alone_and_was_told_nothing_more_has_all_wait_as_long_as_itself() -> None:
    async def main() -> None:
        made = limiter(concurrency=2)
        slot = made.take()
        assert slot is not None
        assert slot.failed(RateLimited("slow"), 4.0) == BudgetThrottled(model="m", before=2, after=2, seconds=4.0)
        assert (await made.wait(())).waited == 4.0

    in_virtual_time(main)


def test_other_errors_slow_nobody_down() -> None:
    async def main() -> None:
        made = limiter(concurrency=2)
        first, second = made.take(), made.take()
        assert first is not None
        assert second is not None
        assert first.failed(ServiceError("broken", retry_after=9), 9.0) is None
        assert second.failed(Refused("no"), None) is None
        assert made.take()
        assert made.width.now == 2

    in_virtual_time(main)


def test_the_tighter_of_two_declarations_holds_while_both_are_in_use() -> None:
    async def main() -> None:
        limiters = Limiters()

        def of(pace: Pace | None) -> Limiter:
            return limiters.of(Effect("model", "m", "", _never, model="m", pace=pace))

        wide, tight = Pace(concurrency=4, requests_per_minute=10), Pace(concurrency=2, tokens_per_minute=99)
        slot = of(wide).take()
        assert slot is not None
        assert of(tight).pace == Pace(concurrency=2, requests_per_minute=10, tokens_per_minute=99)
        assert of(wide).width.now == 2
        assert of(None).width.now == 2
        slot.close()
        assert of(wide).pace is wide, "once it is quiet, whoever comes next says what holds"
        assert of(wide).width.now == 4
        assert limiters.of(Effect("model", "m", "", _never, model="other")).width.now == 32

    in_virtual_time(main)


async def _never(attempt: Attempt) -> Returned:
    raise AssertionError


# What holds always

arrivals = st.lists(
    st.tuples(
        st.floats(0, 20, width=16),  # when it comes
        st.floats(0, 30, width=16),  # how long it takes
        st.integers(0, 3),  # its branch
        st.sampled_from(["fine", "fine", "fine", "slow down", "wait", "fail"]),
        st.one_of(st.none(), st.floats(0, 40, width=16)),  # when it is stopped
    ),
    max_size=25,
)


@given(
    load=arrivals,
    concurrency=st.integers(1, 5),
    requests=st.one_of(st.none(), st.integers(1, 6)),
    tokens=st.one_of(st.none(), st.integers(100, 900)),
)
def test_the_bounds_hold_whatever_happens(
    load: list[tuple[float, float, int, str, float | None]], concurrency: int, requests: int | None, tokens: int | None
) -> None:
    """Calls of 100 tokens that come, wait, answer, fail and are stopped at any time; what fails costs nothing."""
    pace = Pace(concurrency=concurrency, requests_per_minute=requests, tokens_per_minute=tokens)
    began: list[float] = []
    cost: list[int] = []
    rests_until = [0.0]

    async def call(made: Limiter, number: int) -> None:
        comes, takes, branch, fate, _ = load[number]
        await asyncio.sleep(comes)
        slot = made.take(400, 0) or await made.wait((branch,), 400, 0)
        try:
            assert made.out <= concurrency
            assert now() >= rests_until[0]
            place = len(began)
            began.append(now())
            cost.append(100)
            await asyncio.sleep(takes)
            cost[place] = 100 if fate == "fine" else 0
            end(slot, fate)
        finally:
            slot.close()

    def end(slot: Slot, fate: str) -> None:
        match fate:
            case "wait":
                slot.failed(RateLimited("slow", retry_after=11), 11.0)
                rests_until[0] = max(rests_until[0], now() + 11)
            case "slow down":
                slot.failed(RateLimited("slow"), 0.0)
            case "fail":
                slot.failed(ServiceError("broken"), 0.0)
            case _:
                slot.returned(Usage(requests=1, input_tokens=100))

    async def main() -> None:
        made = Limiter("m")
        made.declare(pace)
        async with asyncio.timeout(100_000), asyncio.TaskGroup() as group:
            tasks = [group.create_task(call(made, number)) for number in range(len(load))]
            for task, (*_, stop) in zip(tasks, load, strict=True):
                if stop is not None:
                    group.create_task(_stop(task, stop))
        assert (made.out, bool(made._waiting), made._timer) == (0, False, None)
        assert 1 <= made.width.now <= concurrency

    in_virtual_time(main)
    if requests is not None:
        assert most_in_a_minute(began) <= requests
    if tokens is not None:
        assert most_in_a_minute(began, cost) <= tokens


async def _stop(task: asyncio.Task[None], when: float) -> None:
    await asyncio.sleep(when)
    task.cancel()


@given(st.lists(st.integers(1, 12), min_size=2, max_size=6), st.integers(1, 4))
def test_no_branch_is_served_twice_while_another_waits_for_its_first(loads: list[int], concurrency: int) -> None:
    served: list[int] = []

    async def call(made: Limiter, branch: int) -> None:
        slot = await made.wait((branch,))
        served.append(branch)
        await asyncio.sleep(1)
        slot.returned(SPENT)

    async def main() -> None:
        made = limiter(concurrency=concurrency)
        async with asyncio.TaskGroup() as group:
            for branch, load in enumerate(loads):
                for _ in range(load):
                    group.create_task(call(made, branch))

    in_virtual_time(main)
    # Whoever came first may find free slots; from then on it goes in rounds.
    rest = served[concurrency:]
    left = [load - served[:concurrency].count(branch) for branch, load in enumerate(loads)]
    while rest:
        waiting = [branch for branch, count in enumerate(left) if count]
        assert sorted(rest[: len(waiting)]) == waiting
        rest = rest[len(waiting) :]
        left = [max(0, count - 1) for count in left]


# Within an engine


def test_all_branches_of_a_run_share_the_limits_of_a_model() -> None:
    async def main() -> None:
        provider = Provider()
        pace = Pace(concurrency=3, requests_per_minute=10)
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
        provider, pace = Provider(), Pace(concurrency=2)

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
        provider, pace = Provider(), Pace(concurrency=2)
        async with Engine("memory", wall=now) as engine:
            many = await engine.start(side_by_side("t", [Caller(f"c{n}", provider, pace) for n in range(60)]), "go")
            await asyncio.sleep(0.5)
            few = await engine.start(Team("t", members=[Caller("few", provider, pace, times=5)]), "go", run_id="few")
            await few.result()
            done = len(provider.began)
            await many.result()
        assert (provider.peak, len(provider.began)) == (2, 65)
        # The run of five calls was the next whenever it came, so it waited for the two that were out and no others.
        assert done <= 2 + 5 * (2 + 2)

    in_virtual_time(main)


def test_another_engine_and_another_model_have_limits_of_their_own() -> None:
    async def main() -> None:
        provider, pace = Provider(), Pace(concurrency=1)
        first = Caller("a", provider, pace, model="one")
        second = Caller("b", provider, pace, model="two")
        await run(side_by_side("t", [first, second]))
        assert provider.peak == 2

    in_virtual_time(main)


def test_no_slot_is_held_in_a_backoff() -> None:
    async def main() -> None:
        provider = Provider(lambda number: ServiceError("broken") if number == 1 else 1.0)
        pace, retry = Pace(concurrency=1), RetryPolicy(backoff=50, jitter=0)
        members = [Caller("a", provider, pace, retry=retry), Caller("b", provider, pace)]
        await run(side_by_side("t", members))
        assert provider.began == pytest.approx([0.0, 0.0, 50.0], abs=0.1)

    in_virtual_time(main)


def test_no_slot_is_held_by_who_waits_for_a_person_or_asks_a_member() -> None:
    async def main() -> None:
        provider, pace = Provider(), Pace(concurrency=1)
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
            key = next(iter((await engine.history("r")).questions()))
            await engine.answer("r", key, "yes")
            result = await handle.result()
            if result.status == "paused":
                result = await engine.resume("r", team=side_by_side("t", members))
        assert result.status == "completed"
        assert (provider.peak, len(provider.began)) == (1, 12)

    in_virtual_time(main)


def test_a_replay_takes_no_slot() -> None:
    async def main() -> None:
        provider, journal = Provider(), MemoryJournal()
        pace = Pace(requests_per_minute=1)
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
        provider, pace = Provider(lambda number: 10.0), Pace(concurrency=1)
        async with Engine("memory", wall=now) as engine:
            first = await engine.start(side_by_side("t", [Caller(f"c{n}", provider, pace) for n in range(9)]), "go")
            await asyncio.sleep(1)
            second = await engine.start(Team("t", members=[Caller("x", provider, pace)]), "go")
            await asyncio.sleep(1)
            assert (await engine.cancel(first.run_id)).status == "cancelled"
            assert (await second.result()).status == "completed"
        # The call that was out is stopped, and the other run's goes at once.
        assert len(provider.began) == 2
        assert provider.began[1] < 3

    in_virtual_time(main)


def test_pausing_a_run_lets_nobody_leave_who_waits() -> None:
    async def main() -> None:
        provider, pace, journal = Provider(lambda number: 10.0), Pace(concurrency=2), MemoryJournal()
        team = side_by_side("t", [Caller(f"c{n}", provider, pace) for n in range(5)])
        async with Engine(journal, wall=now) as engine:
            handle = await engine.start(team, "go", run_id="r")
            await asyncio.sleep(1)
            await engine.pause("r")
            assert (await handle.result()).status == "paused"
            assert len(provider.began) == 2
            assert (await engine.resume("r", team=team)).status == "completed"
        assert (provider.peak, len(provider.began)) == (2, 5)

    in_virtual_time(main)


# What providers do


def facts(events: Sequence[Event]) -> list[BudgetThrottled | BudgetEased]:
    return [event.fact for event in events if isinstance(event.fact, BudgetThrottled | BudgetEased)]


def test_one_that_asks_to_wait_is_left_alone_and_the_record_says_so() -> None:  # P-13
    async def main() -> None:
        provider = Provider(lambda number: RateLimited("slow", retry_after=20) if number == 6 else 1.0)
        members = [Caller(f"c{n}", provider, Pace(concurrency=4), retry=AT_ONCE) for n in range(20)]
        result, events = await run(side_by_side("t", members))
        assert result.status == "completed"
        told = facts(events)
        assert told[0] == BudgetThrottled(model="m", before=4, after=2, seconds=20.0)
        assert told[1:] == [BudgetEased(model="m", concurrency=4)]
        pause = [time for time in provider.began if 1.0 < time < 21.0]
        assert pause == []

    in_virtual_time(main)


def test_a_storm_of_refusals_narrows_it_to_what_the_provider_takes() -> None:  # P-13
    """A provider that takes three at once and says no more than that: few calls are refused, and all get through."""

    async def main() -> None:
        provider = Provider()
        provider.answer = lambda number: RateLimited("slow") if provider.out > 3 else 1.0
        retry = RetryPolicy(attempts=20, backoff=1.0, longest=5.0)
        members = [Caller(f"c{n}", provider, retry=retry) for n in range(300)]
        result, events = await run(side_by_side("t", members))
        assert result.output == " ".join(["Reply"] * 300)
        refused = len(provider.began) - 300
        assert refused < 100
        # Five steps down, then up and down every few seconds, which is told once in a minute.
        assert len(facts(events)) <= 5 + now() / 60

    in_virtual_time(main)


def test_a_provider_that_only_ever_refuses_is_not_hammered() -> None:
    async def main() -> None:
        provider = Provider(lambda number: RateLimited("slow"))
        members = [Caller(f"c{n}", provider, retry=RetryPolicy(attempts=3)) for n in range(40)]
        result, _ = await run(side_by_side("t", members))
        assert result.output == " ".join(["Failure"] * 40)
        assert len(provider.began) == 160
        # Once it is down to one at a time, each refusal makes all wait.
        assert most_in_a_minute(provider.began[80:]) <= 40

    in_virtual_time(main)


# Where it is declared


def test_scripted_models_have_limits_as_well() -> None:
    async def main() -> None:
        rules = [Rule(reply="fine", delay=1.0)]
        members = [ScriptedAgent(f"s{n}", rules, pace=Pace(concurrency=2)) for n in range(6)]
        await run(side_by_side("t", members))
        assert now() == pytest.approx(3.0, abs=0.2)

    in_virtual_time(main)


MANIFEST = """
agents:
  one: {model: quick}
  two: {model: quick}
  three: {model: {model: "scripted:replies.yaml", concurrency: 1}}
  four: {scripted: replies.yaml}
teams:
  t: {strategy: fan_out, members: [one], fan_out: {chunks: [a, b, c, d, e, f]}}
models:
  quick: {model: "scripted:replies.yaml", requests_per_minute: 2}
"""


def test_a_manifest_says_how_fast_a_model_may_be_called(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(MANIFEST)
    (tmp_path / "replies.yaml").write_text("rules: [{reply: fine}]")

    async def main() -> None:
        result, _ = await run(load_team(tmp_path / "team.yaml"))
        assert result.status == "completed"
        assert now() == pytest.approx(120.0, abs=0.2)

    in_virtual_time(main)


def test_what_an_agent_was_told_about_its_model_is_in_its_declaration(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("rules: [{reply: fine}]")
    (tmp_path / "team.yaml").write_text(MANIFEST)
    made = {agent.name: agent for agent in load_team(tmp_path / "team.yaml", team="three").everyone()}
    spec = made["three"].spec  # pyright: ignore[reportAttributeAccessIssue]
    assert spec.model.model == f"scripted:{tmp_path / 'replies.yaml'}"
    assert (spec.model.concurrency, spec.scripted) == (1, None)


def test_usage_that_says_nothing_leaves_the_estimate() -> None:
    async def main() -> None:
        made = limiter(tokens_per_minute=100)
        (await made.wait((), prompt_bytes=400, cap=0)).returned(NOTHING)
        assert made.take(prompt_bytes=400, cap=0) is None

    in_virtual_time(main)
