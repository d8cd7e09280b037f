"""What a call reserves: its prompt and an output cap, which is its own or a fair share of what is left."""

from __future__ import annotations

import asyncio

import pytest

from teamwright.runtime.budget.ledger import Account, Refusal
from teamwright.runtime.budget.reservation_size import MANY_REPLIES, ReservationRequest
from teamwright.values.limits import AMPLE_OUTPUT, MODEST_OUTPUT, USEFUL_OUTPUT, Limits, Spend
from teamwright.values.usage_and_prices import CALLS, TOKENS, Cost, picodollars
from tests.kit.reservations import CHEAP, money, queue, quiet, reserve


async def test_a_reservation_holds_the_prompt_and_the_cap() -> None:
    account = Account("run", Limits(tokens=100), None)
    held = await reserve(account, 30, 20)
    assert (held.cost.tokens, held.max_output, account.held[TOKENS], account.spent[TOKENS]) == (50, 20, 50, 0)
    assert held.settle(Cost(12)) == Cost(0, 0, 0)
    assert (account.held[TOKENS], account.spent[TOKENS], account.spent[CALLS]) == (0, 12, 1)


async def test_without_its_own_cap_a_request_gets_what_is_left_and_none_where_nothing_is_limited() -> None:
    rich, poor = Account("rich", Limits(tokens=100_000), None), Account("poor", Limits(tokens=1000), None)
    assert (await reserve(rich, 10)).max_output == 99_990 // 2
    assert (await reserve(poor, 10)).max_output == 990
    assert (await reserve(Account("free", None, None), 10)).max_output is None
    assert (await reserve(Account("counted", Limits(calls=3), None), 10)).max_output is None
    assert (await reserve(Account("unpriced", Limits(usd=1), None), 10)).max_output is None


async def test_calls_that_are_no_model_requests_have_no_cap() -> None:
    account = Account("run", Limits(tokens=0, calls=1), None)
    held = await account.reserve(ReservationRequest())
    assert (held.cost.tokens, held.max_output) == (0, None)


async def test_the_first_of_ten_branches_gets_a_tenth() -> None:  # Z-10
    team = Account("t", Limits(tokens=30_000), None)
    inner = Account("t/member", Limits(tokens=100_000), team)
    team.add_branches(10)
    first = await inner.reserve(ReservationRequest(1000, None, model=True))
    assert first.max_output == 29_000 // 10
    team.add_branches(-9)
    assert (await inner.reserve(ReservationRequest(1000, None, model=True))).max_output == 29_000 // 4


async def test_waiters_share_the_remaining_budget_fairly() -> None:
    account = Account("run", Limits(tokens=6000), None)
    caps: list[int] = []

    async def call() -> None:
        held = await reserve(account, 10)
        caps.append(held.max_output or 0)
        assert account.held[TOKENS] + account.spent[TOKENS] <= 6000
        await quiet()
        held.settle(Cost(100))

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(call())
    assert caps[0] == MODEST_OUTPUT
    assert min(caps) > 1000


async def test_a_request_that_comes_late_never_gets_by_on_a_crumb() -> None:
    account = Account("run", Limits(tokens=5000), None)
    first = await reserve(account, 10)
    late = queue(account, 10)
    await quiet()
    first.settle(Cost(20))
    assert ((await late).max_output or 0) > 4000


async def test_the_cap_follows_the_money_that_is_left() -> None:
    account = Account("run", Limits(usd=money(2000)), None)
    assert (await reserve(account, 100, None, CHEAP)).max_output == 950


async def test_a_cap_that_does_not_fit_is_cut_to_what_is_left_while_that_is_useful() -> None:
    account = Account("run", Limits(tokens=1000), None)
    held = await reserve(account, 100, 5000)
    assert (held.max_output, held.cut) == (900, True)
    held.settle(Cost(1000 - 100 - USEFUL_OUTPUT))
    assert (await reserve(account, 100, 5000)).max_output == USEFUL_OUTPUT
    with pytest.raises(Refusal, match="may need 357"):
        await reserve(account, 101, 5000)


async def test_a_small_cap_is_never_cut() -> None:
    account = Account("run", Limits(tokens=100), None)
    with pytest.raises(Refusal):
        await reserve(account, 50, 51)
    held = await reserve(account, 50, 50)
    assert (held.max_output, held.cut) == (50, False)


async def test_a_cap_is_not_cut_because_others_hold_what_it_needs() -> None:
    account = Account("run", Limits(tokens=1000), None)
    first = await reserve(account, 100, 500)
    second = queue(account, 100, 500)
    await quiet()
    assert not second.done()
    first.settle(Cost(150))
    assert (await second).max_output == 500


async def test_the_notice_of_a_smaller_cap_is_part_of_the_prompt() -> None:
    account = Account("run", Limits(tokens=1000), None)
    request = ReservationRequest(100, 5000, model=True, note=80)
    held = await account.reserve(request)
    assert (held.cost.tokens, held.max_output) == (1000, 820)
    held.cancel()
    assert (await account.reserve(request._replace(cap=300))).cost.tokens == 400


@pytest.mark.parametrize(("limit", "prompt", "ample"), [(2048, 700, AMPLE_OUTPUT), (512, 175, AMPLE_OUTPUT // 4)])
async def test_a_request_for_a_share_gets_room_for_a_whole_reply_or_waits(limit: int, prompt: int, ample: int) -> None:
    """An ample output shrinks with a small limit: else no call would fit into it."""
    account = Account("run", Limits(tokens=limit), None)
    account.add_waiting(63)
    held = await reserve(account, prompt)
    assert held.max_output == ample
    second = queue(account, prompt)
    await quiet()
    assert not second.done()
    held.settle(Cost(prompt // 4))
    assert (await second).max_output == ample


async def test_once_many_replies_are_known_a_share_has_room_for_a_little_more_than_the_longest() -> None:
    account = Account("run", Limits(tokens=2048), None)
    account.add_waiting(63)
    for _ in range(MANY_REPLIES):
        account.lengths.add(170)
    held = [await reserve(account, 700) for _ in range(2)]
    assert [one.max_output for one in held] == [255, 255]
    third = queue(account, 700)
    await quiet()
    assert not third.done()
    held[0].settle(Cost(350))
    held[1].settle(Cost(350))
    assert (await third).max_output == 255


async def test_only_waiters_at_a_level_share_its_remaining_budget() -> None:
    run = Account("", Limits(tokens=1_000_000), None)
    left, right = Account("left", Limits(tokens=8000), run), Account("right", Limits(tokens=40_000), run)
    right.add_waiting(9)
    assert (await reserve(left, 0)).max_output == MODEST_OUTPUT
    assert (await reserve(right, 0)).max_output == 4000


async def test_a_call_that_makes_requests_of_its_own_reserves_its_ceiling_whole_or_waits() -> None:
    account = Account("run", Limits(tokens=1000, usd=1), None)
    request = ReservationRequest(ceiling=Spend(tokens=600, usd=0.5))
    held = await account.reserve(request)
    assert held.cost == Cost(600, picodollars(0.5))
    assert account.reserve_now(request) is None
    held.settle(Cost(500, picodollars(0.1)))
    with pytest.raises(Refusal, match="may need 600"):
        account.reserve_now(request)


async def test_of_what_a_ceiling_does_not_name_a_call_reserves_half_of_a_share() -> None:
    account = Account("run", Limits(tokens=1000, usd=1, calls=9), None)
    assert (await account.reserve(ReservationRequest(ceiling=Spend(usd=0.5)))).cost == Cost(500, picodollars(0.5))
    other = Account("run", Limits(tokens=1000), None)
    other.add_branches(2)
    assert (await other.reserve(ReservationRequest(ceiling=Spend()))).cost == Cost(250)
    assert (await Account("free", None, None).reserve(ReservationRequest(ceiling=Spend(tokens=7)))).cost == Cost(7)
