"""One rate limiter: bounds, rests, fairness, nothing left behind. In virtual time."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from hypothesis import given, strategies as st

from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.errors import RateLimited, Refused, ServiceError
from teamwright.runtime.budget.rate_limiter import LONGEST_COOLDOWN, RateLimiter, RateLimiters, Slot
from teamwright.values.events.budget import BudgetEased, BudgetThrottled
from teamwright.values.limits import Pace, PerMinute
from teamwright.values.usage_and_prices import NOTHING, Usage
from tests.runtime.virtual_time import SPENT, in_virtual_time, most_in_a_minute, now


def limiter(*, max_parallel: int | None = None, per_minute: PerMinute | None = None) -> RateLimiter:
    made = RateLimiter("m")
    made.declare(Pace(max_parallel=max_parallel, per_minute=per_minute or PerMinute()))
    return made


def test_no_more_are_out_than_may_be() -> None:
    async def main() -> None:
        made = limiter(max_parallel=2)
        first, second = made.try_acquire(), made.try_acquire()
        assert first is not None
        assert second is not None
        assert made.try_acquire() is None
        waiting = asyncio.create_task(made.acquire(("a",)))
        await asyncio.sleep(5)
        assert not waiting.done()
        first.returned(SPENT)
        slot = await waiting
        assert (made.in_flight, slot.waited) == (2, 5.0)
        for one in (slot, second):
            one.close()
            one.close()
        assert made.in_flight == 0

    in_virtual_time(main)


def test_thirty_two_may_be_out_where_nothing_is_declared() -> None:
    async def main() -> None:
        made = RateLimiter("m")
        assert len([slot for _ in range(1000) if (slot := made.try_acquire())]) == 32

    in_virtual_time(main)


def test_a_waiter_for_the_minute_to_pass_is_woken_by_the_clock() -> None:
    async def main() -> None:
        made = limiter(per_minute=PerMinute(calls=3))
        for _ in range(3):
            (await made.acquire(("a",))).returned(SPENT)
        assert (await made.acquire(("a",))).waited == 60.0
        assert now() == 60.0

    in_virtual_time(main)


def test_a_call_that_cost_less_than_expected_lets_the_next_one_go() -> None:
    async def main() -> None:
        made = limiter(per_minute=PerMinute(tokens=1000))
        first = await made.acquire(("a",), prompt_bytes=3000, cap=100)
        waiting = asyncio.create_task(made.acquire(("a",), prompt_bytes=2000, cap=100))
        await asyncio.sleep(1)
        assert not waiting.done()
        first.returned(SPENT)
        assert (await waiting).waited == 1.0

    in_virtual_time(main)


@pytest.mark.parametrize(("error", "free"), [(Refused("no"), True), (None, False)])
def test_a_failed_call_counts_no_tokens_but_one_of_unknown_cost_does(error: Refused | None, *, free: bool) -> None:
    async def main() -> None:
        made = limiter(per_minute=PerMinute(tokens=100))
        slot = await made.acquire((), prompt_bytes=400, cap=0)
        slot.failed(error, None) if error else slot.close()
        assert (made.try_acquire(prompt_bytes=400, cap=0) is not None) == free

    in_virtual_time(main)


def test_a_slot_that_is_given_back_was_never_taken() -> None:
    async def main() -> None:
        made = limiter(per_minute=PerMinute(calls=1), max_parallel=1)
        slot = made.try_acquire()
        assert slot is not None
        waiting = asyncio.create_task(made.acquire(("a",)))
        await asyncio.sleep(0)
        slot.cancel()
        assert (await waiting).waited == 0.0

    in_virtual_time(main)


def test_who_is_stopped_while_it_waits_leaves_nothing_behind() -> None:
    async def main() -> None:
        made = limiter(max_parallel=1)
        held = made.try_acquire()
        assert held is not None
        tasks = [asyncio.create_task(made.acquire((f"branch {number}",))) for number in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        # The slot is released before the cancelled waiter wakes: it goes to the next.
        held.returned(SPENT)
        await asyncio.sleep(0)
        assert (tasks[0].cancelled(), tasks[1].done(), tasks[2].done()) == (True, True, False)
        tasks[1].result().returned(SPENT)
        tasks[2].cancel()  # and here it has been granted already
        await asyncio.sleep(0)
        assert tasks[2].cancelled()
        assert (made.in_flight, bool(made._waiting)) == (0, False)
        paused = limiter(per_minute=PerMinute(calls=1))
        assert paused.try_acquire()
        with anyio.move_on_after(1):
            await paused.acquire(())
        assert paused._timer is None

    in_virtual_time(main)


def test_no_run_calls_a_provider_that_asked_to_wait() -> None:
    async def main() -> None:
        made = limiter(max_parallel=8)
        slots = [made.try_acquire() for _ in range(8)]
        told = [slot.failed(RateLimited("slow", retry_after=7), 7.0) for slot in slots if slot]
        assert told == [BudgetThrottled(model="m", before=8, after=4, seconds=7.0), *[None] * 7]
        assert made.try_acquire() is None
        waiting = [asyncio.create_task(made.acquire((f"branch {number}",))) for number in range(6)]
        await asyncio.sleep(6.9)
        assert not any(task.done() for task in waiting)
        await asyncio.sleep(0.2)
        assert [task.done() for task in waiting] == [True] * 4 + [False] * 2
        while waiting:
            (await waiting.pop(0)).close()

    in_virtual_time(main)


def test_it_grows_back_and_says_so_once() -> None:
    async def main() -> None:
        made = limiter(max_parallel=3)
        slots = [slot for _ in range(3) if (slot := made.try_acquire())]
        for slot in slots:
            slot.failed(RateLimited("slow"), 0.0)
        assert made.concurrency.current == 1
        told = [(await made.acquire(())).returned(SPENT) for _ in range(10)]
        assert [one for one in told if one] == [BudgetEased(model="m", concurrency=3)]
        assert made.concurrency.current == 3

    in_virtual_time(main)


def test_a_rest_is_capped_at_the_longest_cooldown() -> None:
    async def main() -> None:
        made = limiter(max_parallel=2)
        slot = made.try_acquire()
        assert slot is not None
        told = slot.failed(RateLimited("slow", retry_after=3600), 60.0)
        assert told == BudgetThrottled(model="m", before=2, after=2, seconds=LONGEST_COOLDOWN)
        assert (await made.acquire(())).waited == LONGEST_COOLDOWN

    in_virtual_time(main)


def test_a_model_rests_no_longer_than_the_policy_of_the_call_allows_and_the_call_knows_how_long() -> None:  # M-10
    async def main() -> None:
        made = limiter(max_parallel=4)
        first, second = made.try_acquire(), made.try_acquire()
        assert first is not None
        assert second is not None
        first.failed(RateLimited("slow", retry_after=3600), 0.1, 0.1)
        assert first.cooldown == pytest.approx(0.1)
        second.failed(RateLimited("slow", retry_after=3600), 20.0, 20.0)
        assert second.cooldown == 20.0
        assert (await made.acquire(())).waited == 20.0

    in_virtual_time(main)


def test_a_single_rate_limited_call_makes_all_wait_for_its_own_backoff() -> None:
    async def main() -> None:
        made = limiter(max_parallel=2)
        slot = made.try_acquire()
        assert slot is not None
        assert slot.failed(RateLimited("slow"), 4.0) == BudgetThrottled(model="m", before=2, after=2, seconds=4.0)
        assert (await made.acquire(())).waited == 4.0

    in_virtual_time(main)


def test_other_errors_do_not_slow_other_calls() -> None:
    async def main() -> None:
        made = limiter(max_parallel=2)
        first, second = made.try_acquire(), made.try_acquire()
        assert first is not None
        assert second is not None
        assert first.failed(ServiceError("broken", retry_after=9), 9.0) is None
        assert second.failed(Refused("no"), None) is None
        assert made.try_acquire()
        assert made.concurrency.current == 2

    in_virtual_time(main)


def test_the_tighter_of_two_declarations_holds_while_both_are_in_use() -> None:
    async def main() -> None:
        limiters = RateLimiters()

        def of(pace: Pace | None) -> RateLimiter:
            return limiters.for_effect(Effect("model", "m", "", _never, model="m", pace=pace))

        wide, tight = (
            Pace(max_parallel=4, per_minute=PerMinute(calls=10)),
            Pace(max_parallel=2, per_minute=PerMinute(tokens=99)),
        )
        slot = of(wide).try_acquire()
        assert slot is not None
        assert of(tight).pace == Pace(max_parallel=2, per_minute=PerMinute(calls=10, tokens=99))
        assert of(wide).concurrency.current == 2
        assert of(None).concurrency.current == 2
        slot.close()
        assert of(wide).pace is wide, "once it is quiet, whoever comes next says what holds"
        assert of(wide).concurrency.current == 4
        assert limiters.for_effect(Effect("model", "m", "", _never, model="other")).concurrency.current == 32

    in_virtual_time(main)


async def _never(attempt: Attempt) -> Returned:
    raise AssertionError


def test_usage_that_says_nothing_leaves_the_estimate() -> None:
    async def main() -> None:
        made = limiter(per_minute=PerMinute(tokens=100))
        (await made.acquire((), prompt_bytes=400, cap=0)).returned(NOTHING)
        assert made.try_acquire(prompt_bytes=400, cap=0) is None

    in_virtual_time(main)


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
    """Calls of 100 tokens that arrive, wait, return, fail and are cancelled at any time; failures cost nothing."""
    pace = Pace(max_parallel=concurrency, per_minute=PerMinute(calls=requests, tokens=tokens))
    began: list[float] = []
    cost: list[int] = []
    rests_until = [0.0]

    async def call(made: RateLimiter, number: int) -> None:
        comes, takes, branch, fate, _ = load[number]
        await asyncio.sleep(comes)
        slot = made.try_acquire(400, 0) or await made.acquire((branch,), 400, 0)
        try:
            assert made.in_flight <= concurrency
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
        made = RateLimiter("m")
        made.declare(pace)
        async with asyncio.timeout(100_000), asyncio.TaskGroup() as group:
            tasks = [group.create_task(call(made, number)) for number in range(len(load))]
            for task, (*_, stop) in zip(tasks, load, strict=True):
                if stop is not None:
                    group.create_task(_stop(task, stop))
        assert (made.in_flight, bool(made._waiting), made._timer) == (0, False, None)
        assert 1 <= made.concurrency.current <= concurrency

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

    async def call(made: RateLimiter, branch: int) -> None:
        slot = await made.acquire((branch,))
        served.append(branch)
        await asyncio.sleep(1)
        slot.returned(SPENT)

    async def main() -> None:
        made = limiter(max_parallel=concurrency)
        async with asyncio.TaskGroup() as group:
            for branch, load in enumerate(loads):
                for _ in range(load):
                    group.create_task(call(made, branch))

    in_virtual_time(main)
    # The first calls may find free slots; from then on branches take turns.
    rest = served[concurrency:]
    left = [load - served[:concurrency].count(branch) for branch, load in enumerate(loads)]
    while rest:
        waiting = [branch for branch, count in enumerate(left) if count]
        assert sorted(rest[: len(waiting)]) == waiting
        rest = rest[len(waiting) :]
        left = [max(0, count - 1) for count in left]
