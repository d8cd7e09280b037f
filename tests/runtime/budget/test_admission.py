"""A call is dispatched with its budget and its slot, and waits for neither while it holds the other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import anyio
import pytest
from hypothesis import example, given, strategies as st

from teamwright import Engine, Limits, Team
from teamwright.errors import RateLimited, ServiceError
from teamwright.history.event_wording import note_text
from teamwright.runtime.budget.ledger import Account
from teamwright.runtime.run_state import RunState
from teamwright.values.events.agent import AgentCalled
from teamwright.values.events.budget import BudgetAwaited, BudgetRefused
from teamwright.values.limits import Pace, PerMinute
from teamwright.values.retries import RetryPolicy
from tests.runtime.virtual_time import Caller, Provider, in_virtual_time, now, run, side_by_side

ONE = Pace(max_parallel=1)
RESERVED = 200
"""The reservation of a caller: 84 bytes, a message and 100 tokens of output."""


def bounded(team: Team, tokens: int) -> Team:
    team.policy = team.policy.changed(limits=Limits(tokens=tokens))
    return team


def test_a_waiter_for_a_model_keeps_no_budget_from_others() -> None:
    """Model a rests for a minute. The one reservation that fits goes to b meanwhile, again and again."""

    async def main() -> None:
        resting = Provider(lambda number: RateLimited("slow", retry_after=60) if number == 1 else 1.0)
        other = Provider()
        again = RetryPolicy(times=1, backoff=0)
        members = [
            Caller("told", resting, ONE, "a", retry=again),
            Caller("waits", resting, ONE, "a"),
            Caller("goes", other, ONE, "b", times=5),
        ]
        result, _ = await run(bounded(side_by_side("t", members), tokens=RESERVED + 7 * 20))
        assert result.output == "Reply Reply Reply"
        assert max(other.began) < 20
        assert sorted(resting.began)[1] >= 60

    in_virtual_time(main)


def test_a_waiter_for_its_budget_keeps_no_slot_from_other_runs() -> None:
    """The budget of the first run allows one call at a time, and one is in flight at a slow model."""

    async def main() -> None:
        slow, quick = Provider(lambda number: 100.0), Provider()
        members = [Caller("slow", slow, ONE, "s"), *[Caller(f"q{number}", quick, ONE, "q") for number in range(3)]]
        async with Engine("memory", wall=now) as engine:
            team = bounded(side_by_side("t", members), tokens=RESERVED + 4 * 20)
            tight = await engine.start(team, "go")
            await asyncio.sleep(1)
            free = await engine.run(Team("t", members=[Caller("x", quick, ONE, "q", times=9)]), "go")
            assert (free.status, len(quick.began)) == ("completed", 9)
            assert now() < 20
            assert (await tight.result()).output == " ".join(["Reply"] * 4)

    in_virtual_time(main)


def test_what_can_never_fit_is_refused_at_once_though_the_model_rests() -> None:
    async def main() -> None:
        provider = Provider(lambda number: RateLimited("slow", retry_after=60))
        members = [Caller("told", provider, ONE), Caller("greedy", provider, ONE, cap=5000)]
        members[0].retry = RetryPolicy(times=0)
        result, events = await run(bounded(side_by_side("t", members), tokens=300))
        assert result.output == "Failure Failure"
        assert [event.fact.needed for event in events if isinstance(event.fact, BudgetRefused)] == [356]
        assert now() < 1

    in_virtual_time(main)


def test_a_budget_that_is_used_up_while_a_call_waits_for_its_model_refuses_it_then() -> None:
    async def main() -> None:
        provider = Provider()
        members = [Caller(f"c{number}", provider, ONE) for number in range(4)]
        result, events = await run(bounded(side_by_side("t", members), tokens=RESERVED + 25))
        assert result.output is not None
        assert sorted(result.output.split()) == ["Failure", "Failure", "Reply", "Reply"]
        assert [event.fact.left for event in events if isinstance(event.fact, BudgetRefused)] == [185, 185]
        assert len(provider.began) == 2

    in_virtual_time(main)


def test_waiters_for_a_model_count_when_the_remaining_budget_is_shared() -> None:
    async def main() -> None:
        provider = Provider()
        members = [Caller(f"c{number}", provider, Pace(max_parallel=2), cap=None) for number in range(10)]
        _, events = await run(bounded(side_by_side("t", members), tokens=20_000))
        caps = [event.fact.max_output or 0 for event in events if isinstance(event.fact, AgentCalled)]
        assert all(cap < 20_000 / 9 for cap in caps[:2]), "ten branches are about to ask, and two of them may"
        assert caps[2] < 20_000 / 8
        assert len(caps) == 10

    in_virtual_time(main)


def test_a_call_that_waits_for_its_reservation_says_for_whom() -> None:  # Z-10
    async def main() -> None:
        slow = Provider(lambda number: 30.0)
        members = [Caller("first", slow, None), Caller("second", slow, None)]
        result, events = await run(bounded(side_by_side("t", members), tokens=RESERVED + 20))
        assert result.output == "Reply Reply"
        (waited,) = [event for event in events if isinstance(event.fact, BudgetAwaited)]
        assert waited.fact == BudgetAwaited(
            member="second", level="t", what="tokens", needed=200, held=200, holders=("first",)
        )
        assert note_text(waited) == "second waits for 200 tokens of 't': first reserved 200 tokens"
        assert waited.time - events[0].time == pytest.approx(2.0, abs=0.1)

    in_virtual_time(main)


def test_a_call_that_waits_for_a_moment_says_nothing() -> None:
    async def main() -> None:
        quick = Provider(lambda number: 1.0)
        members = [Caller(f"c{number}", quick, None) for number in range(2)]
        _, events = await run(bounded(side_by_side("t", members), tokens=RESERVED + 20))
        assert not [event for event in events if isinstance(event.fact, BudgetAwaited)]

    in_virtual_time(main)


@pytest.mark.parametrize("how", ["cancel", "leave"])
def test_stopping_a_run_frees_budget_and_slots(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account("t", Limits(tokens=5 * RESERVED), None)
    monkeypatch.setattr(RunState, "open_account", lambda *about: account)

    async def main() -> None:
        provider = Provider(lambda number: 50.0)
        async with Engine("memory", wall=now) as engine:
            members = [Caller(f"c{number}", provider, Pace(max_parallel=3)) for number in range(20)]
            handle = await engine.start(bounded(side_by_side("t", members), tokens=5 * RESERVED), "go", run_id="r")
            await asyncio.sleep(1)
            limiter = engine.driver.limiters._limiters["m"]
            assert limiter.in_flight == 3
            if how == "cancel":
                assert (await engine.runs.cancel("r")).status == "cancelled"
            else:
                handle.interrupt()
                await handle.result()
            assert (limiter.in_flight, bool(limiter._waiting), limiter._timer) == (0, False, None)
            assert (account.holders, account.waiting) == (0, 0)
            assert provider.out == 0

    in_virtual_time(main)


@dataclass(frozen=True)
class Load:
    """One member: its model, number of requests, cap, latency and failures."""

    model: int
    times: int
    cap: int | None
    takes: float
    fails: bool


loads = st.builds(
    Load,
    model=st.integers(0, 2),
    times=st.integers(1, 3),
    cap=st.one_of(st.none(), st.integers(1, 150)),
    takes=st.floats(0, 5, width=16),
    fails=st.booleans(),
)


@given(
    members=st.lists(loads, min_size=1, max_size=14),
    widths=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    rates=st.tuples(*[st.one_of(st.none(), st.integers(1, 4))] * 3),
    tokens=st.tuples(*[st.one_of(st.none(), st.integers(100, 2000))] * 3),
    runs=st.integers(1, 2),
)
@example(  # two calls that took from each other, for ever, what both needed
    members=[
        Load(2, 1, 84, 0, fails=True),
        Load(2, 1, None, 0, fails=False),
        Load(2, 1, None, 0, fails=True),
        Load(2, 1, None, 0, fails=False),
        Load(1, 1, 23, 1.4, fails=True),
    ],
    widths=(3, 3, 3),
    rates=(None, 1, 2),
    tokens=(621, None, None),
    runs=1,
)
def test_budgets_and_slots_never_lock_each_other(
    members: list[Load],
    widths: tuple[int, int, int],
    rates: tuple[int | None, ...],
    tokens: tuple[int | None, ...],
    runs: int,
) -> None:
    """Runs of a team within a team, with budgets at both levels and members' own, over three models with few slots."""
    paces = [
        Pace(max_parallel=wide, per_minute=PerMinute(calls=rate)) for wide, rate in zip(widths, rates, strict=True)
    ]
    providers = [Provider() for _ in paces]

    def caller(number: int, load: Load) -> Caller:
        return Caller(
            f"c{number}",
            providers[load.model],
            paces[load.model],
            f"m{load.model}",
            load.times,
            load.cap,
            retry=RetryPolicy(times=1, backoff=1),
            own_limits=Limits(tokens=tokens[2]),
            own=lambda attempt: ServiceError("once") if load.fails and attempt == 1 else load.takes,
        )

    def team() -> Team:
        made = [caller(number, load) for number, load in enumerate(members)]
        inner = side_by_side("inner", made[1::2] or [caller(99, members[0])])
        inner.policy = inner.policy.changed(limits=Limits(tokens=tokens[1]))
        outer = side_by_side("outer", [inner, *made[0::2]])
        outer.policy = outer.policy.changed(limits=Limits(tokens=tokens[0]))
        return outer

    async def main() -> None:
        async with Engine("memory", wall=now) as engine:
            with anyio.fail_after(100_000):
                handles = [await engine.start(team(), "go") for _ in range(runs)]
                results = [await handle.result() for handle in handles]
            assert {result.status for result in results} <= {"completed", "degraded", "failed"}
            for limiter in engine.driver.limiters._limiters.values():
                assert (limiter.in_flight, bool(limiter._waiting), limiter._timer) == (0, False, None)

    in_virtual_time(main)
    for provider, pace in zip(providers, paces, strict=True):
        assert provider.out == 0
        assert provider.peak <= (pace.max_parallel or 0)
