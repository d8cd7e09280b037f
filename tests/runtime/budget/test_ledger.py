"""The ledger: reserved before, settled after, first come first served, and never over a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from teamwright.runtime.budget.ledger import Account, Refusal, Reservation
from teamwright.runtime.budget.prompt_meter import byte_bound
from teamwright.runtime.budget.reservation_size import ReservationRequest
from teamwright.values.limits import MODEST_OUTPUT, Amounts, Limits, MessageLimits, Spend, refusal_text
from teamwright.values.usage_and_prices import CALLS, NOTHING, TOKENS, USD, Cost, Rate, Usage, charge_for, picodollars
from tests.kit.reservations import CHEAP, money, queue, quiet, reserve


def test_a_prompt_counts_its_bytes_and_sixteen_per_message() -> None:
    assert byte_bound(100, 3) == 148


async def test_a_call_is_weighed_against_what_is_kept_as_the_latest_calls_were_charged() -> None:  # Z-10
    account = Account("run", Limits(tokens=10_000), None)
    for prompt, cap in ((100, 4000),) * 2 + ((500, 200),) * 4:
        (await reserve(account, prompt, cap)).settle(Cost(prompt + 20))
    account.keep_back(Cost(0, 0, 0), Cost(10_000 - account.spent[TOKENS] - 400, 0, 0))
    with pytest.raises(Refusal, match="for its answer"):
        await reserve(account, 600, 200)


async def test_a_call_that_is_known_to_cost_nothing_is_not_refused_for_what_is_overspent_or_kept_back() -> None:
    account = Account("run", Limits(tokens=100, usd=1, calls=2), None, Cost(120, 0, 0))
    account.keep_back(Cost(0, 0, 0), Cost(50, 10**11, 0))
    free = ReservationRequest(ceiling=Spend(tokens=0, usd=0))
    for _ in range(2):
        (await account.reserve(free)).settle(Cost())
    with pytest.raises(Refusal, match="calls"):
        await account.reserve(free)
    with pytest.raises(Refusal, match="tokens"):
        await account.reserve(ReservationRequest())


async def test_a_request_that_does_not_fit_waits_first_come_first_served() -> None:
    account = Account("run", Limits(tokens=100), None)
    first = await reserve(account, 50, 20)
    big, small = queue(account, 70, 20), queue(account, 5, 5)
    await quiet()
    assert not big.done()
    assert not small.done(), "a small request must not overtake a big one that waits before it"
    first.settle(Cost(5))
    await quiet()
    assert big.done()
    assert not small.done()
    (await big).settle(Cost(20))
    (await small).settle(Cost(1))
    assert account.spent[TOKENS] == 26


async def test_a_waiter_at_one_level_does_not_hold_up_others_elsewhere() -> None:
    run = Account("run", None, None)
    left, right = Account("left", Limits(tokens=10), run), Account("right", Limits(tokens=10), run)
    await reserve(left, 5, 5)
    waiting, free = queue(left, 5, 5), queue(right, 5, 5)
    await quiet()
    assert free.done()
    assert not waiting.done()
    waiting.cancel()


async def test_a_refusal_says_where_how_much_and_what_is_needed() -> None:
    run = Account("", Limits(tokens=1000), None)
    team = Account("team", Limits(tokens=100), run, Cost(40))
    with pytest.raises(Refusal, match="team has 60 of 100 tokens left, and the next call may need 70") as refused:
        await reserve(team, 50, 20)
    assert (refused.value.level, refused.value.what, refused.value.needed) == ("team", "tokens", 70)
    with pytest.raises(Refusal, match="the run has 0 of 0 calls left"):
        await reserve(Account("", Limits(calls=0), None), 1, 1)


async def test_what_can_never_fit_is_refused_though_others_hold() -> None:
    account = Account("run", Limits(tokens=100), None)
    await reserve(account, 50, 20)
    with pytest.raises(Refusal):
        await reserve(account, 90, 20)


async def test_a_waiter_is_refused_once_it_is_clear_that_it_cannot_fit() -> None:
    account = Account("run", Limits(tokens=100), None)
    first = await reserve(account, 50, 20)
    waiting = queue(account, 50, 20)
    await quiet()
    assert not waiting.done()
    first.settle(Cost(70))
    with pytest.raises(Refusal):
        await waiting


async def test_every_level_around_is_charged() -> None:
    run = Account("", Limits(tokens=1000), None)
    team = Account("team", Limits(tokens=500), run)
    member = Account("team/a", Limits(calls=3), team)
    (await reserve(member, 10, 10)).settle(Cost(15))
    assert [account.spent[TOKENS] for account in (run, team, member)] == [15, 15, 15]
    assert [account.spent[CALLS] for account in (run, team, member)] == [1, 1, 1]


async def test_more_than_was_reserved_is_reported_and_blocks_the_next() -> None:
    account = Account("run", Limits(tokens=100), None)
    held = await reserve(account, 10, 10)
    assert held.settle(Cost(95)) == Cost(75, 0, 0)
    with pytest.raises(Refusal, match="has 5 of 100 tokens left"):
        await reserve(account, 10, 10)


async def test_a_failed_call_gives_its_tokens_back_and_one_in_doubt_does_not() -> None:
    account = Account("run", Limits(tokens=100), None)
    (await reserve(account, 10, 10)).release_tokens()
    assert (account.spent[TOKENS], account.spent[CALLS]) == (0, 1)
    (await reserve(account, 10, 10)).forfeit()
    assert (account.spent[TOKENS], account.spent[CALLS], account.held[TOKENS]) == (20, 2, 0)


async def test_a_call_that_never_left_costs_nothing() -> None:
    account = Account("run", Limits(tokens=100, calls=1), None)
    (await reserve(account, 10, 10)).cancel()
    assert (account.spent[TOKENS], account.spent[CALLS], account.held[TOKENS], account.held[CALLS]) == (0, 0, 0, 0)


async def test_a_waiter_that_stops_waiting_lets_the_next_continue() -> None:
    account = Account("run", Limits(tokens=100), None)
    await reserve(account, 40, 10)
    big, small = queue(account, 80, 10), queue(account, 5, 5)
    await quiet()
    big.cancel()
    await quiet()
    assert (await small).cost.tokens == 10


async def test_a_waiter_that_is_stopped_just_as_it_is_granted_gives_back() -> None:
    account = Account("run", Limits(tokens=100, calls=5), None)
    first = await reserve(account, 50, 50)
    waiting = queue(account, 50, 50)
    await quiet()
    first.settle(Cost(0))
    waiting.cancel()
    await quiet()
    assert waiting.cancelled()
    assert (account.held[TOKENS], account.held[CALLS], account.spent[CALLS]) == (0, 0, 1)


async def test_money_is_reserved_at_its_rate_and_settled_by_what_was_used() -> None:  # Z-10
    account = Account("run", Limits(usd=money(1000)), None)
    held = await reserve(account, 100, 50, CHEAP)
    assert held.cost == Cost(150, 200)
    assert (account.held[USD], held.settle(Cost(110, 120))) == (200, Cost(0, 0, 0))
    assert (account.spent[USD], account.held[USD]) == (120, 0)
    assert (await reserve(account, 100, 50, CHEAP)).settle(Cost(150, 260)) == Cost(0, 60, 0)


async def test_a_limit_on_money_refuses_in_dollars() -> None:
    account = Account("team", Limits(usd=0.05), None, Cost(0, picodollars(0.04)))
    with pytest.raises(Refusal, match=r"team has \$0.01 of \$0.05 left, and the next call may need \$0.02") as refused:
        await reserve(account, 0, 100, Rate(0, picodollars(0.0002)))
    assert (refused.value.what, refused.value.needed, refused.value.left) == ("usd", 0.02, 0.01)


async def test_money_without_a_rate_is_not_held_but_tokens_are() -> None:
    account = Account("run", Limits(usd=0, tokens=100), None)
    assert (await reserve(account, 10, 10)).cost == Cost(20, 0)


async def test_each_message_has_its_own_account_where_messages_are_bounded() -> None:
    run = Account("", Limits(message=MessageLimits(tokens=500, usd=money(600), seconds=9)), None)
    team = Account("team", Limits(tokens=10_000, message=MessageLimits(tokens=400)), run)
    assert team.message == MessageLimits(tokens=400, usd=money(600), seconds=9)
    one, other = team.for_message(), team.for_message()
    assert (await reserve(one, 100, None, CHEAP)).max_output == 250
    assert (await reserve(other, 100, 150, CHEAP)).max_output == 150
    with pytest.raises(Refusal, match="a message of team has 400 of 400 tokens left, and the next call may need 401"):
        await reserve(team.for_message(), 400, None, CHEAP)
    plain = Account("", Limits(tokens=5), None)
    assert plain.for_message() is plain


async def test_the_remaining_budget_is_that_of_the_tightest_level() -> None:
    run = Account("", Limits(tokens=1000, usd=0.5), None)
    team = Account("team", Limits(tokens=5000, calls=3), run, Cost(10, 0, 1))
    assert team.remaining() == Amounts(tokens=1000, usd=0.5, calls=2)
    held = await reserve(team, 100, 100, Rate(0, picodollars(0.001)))
    assert team.remaining() == Amounts(tokens=800, usd=0.4, calls=1)
    held.settle(Cost(3000, picodollars(0.7)))
    assert team.remaining() == Amounts(tokens=0, usd=0.0, calls=1)


def test_a_call_that_says_nothing_of_its_cost_is_charged_what_was_reserved() -> None:
    reserved = Cost(100, 40)
    assert charge_for(NOTHING, reserved) == reserved
    assert charge_for(Usage(requests=1), reserved) == reserved
    assert charge_for(Usage(requests=1, input_tokens=7), reserved) == Cost(7, 40)
    assert charge_for(Usage(requests=1, input_tokens=7, usd=money(9)), reserved) == Cost(7, 9)


async def test_a_thousand_waiters_are_not_scanned_repeatedly(monkeypatch: pytest.MonkeyPatch) -> None:  # Z-10
    tries = 0
    grant = Account._grant

    def counted(
        self: Account, request: ReservationRequest, take_other: Callable[[], None] | None
    ) -> Reservation | None:
        nonlocal tries
        tries += 1
        return grant(self, request, take_other)

    monkeypatch.setattr(Account, "_grant", counted)
    run = Account("", Limits(tokens=10_090), None)
    members = [Account(f"m{number}", Limits(calls=1), run) for number in range(1000)]

    async def spend(member: Account) -> None:
        held = await reserve(member, 50, 50)
        await asyncio.sleep(0)
        held.settle(Cost(10))

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for member in members:
            group.create_task(spend(member))
    assert run.spent == [10_000, 0, 1000]
    assert tries <= 3 * len(members)


requests = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 60), st.one_of(st.none(), st.integers(1, 900)), st.floats(0, 1)),
    max_size=15,
)
bounds = st.one_of(
    st.none(),
    st.builds(
        Limits,
        tokens=st.one_of(st.none(), st.integers(0, 1500)),
        usd=st.one_of(st.none(), st.integers(0, 2500).map(money)),
        calls=st.one_of(st.none(), st.integers(0, 9)),
        message=st.one_of(st.none(), st.builds(MessageLimits, tokens=st.integers(1, 400))),
    ),
)


@given(st.tuples(bounds, bounds, bounds, bounds), requests)
def test_spent_and_held_never_pass_a_limit(
    limits: tuple[Limits | None, ...], requests: list[tuple[int, int, int | None, float]]
) -> None:  # Z-10
    async def main() -> None:
        run = Account("", limits[0], None)
        left = Account("left", limits[1], run)
        accounts = [run, left, Account("right", limits[2], run), Account("left/inner", limits[3], left)]

        def check() -> None:
            for account in accounts:
                for index, limit in account.bounds:
                    assert account.spent[index] + account.held[index] <= limit

        async def call(place: int, prompt: int, cap: int | None, share: float) -> None:
            account, bound = accounts[place].for_message(), accounts[place].message
            try:
                held = await reserve(account, prompt, cap, CHEAP)
            except Refusal:
                return
            check()
            output = MODEST_OUTPUT if held.max_output is None else held.max_output
            assert 1 <= output <= (output if cap is None else cap)
            assert bound is None or held.cost.tokens <= (bound.tokens or 0)
            for _ in range(int(share * 5)):
                await asyncio.sleep(0)
            used = int(share * prompt), int(share * output)
            held.settle(Cost(sum(used), CHEAP.cost(*used)))
            check()

        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            for place, prompt, cap, share in requests:
                group.create_task(call(place, prompt, cap, share))
        for account in accounts:
            assert (account.held, account.holders, account.waiting) == ([0, 0, 0], 0, 0)
            assert not account.queue

    asyncio.run(main())


def test_a_refusal_names_small_amounts_of_money_without_an_exponent() -> None:
    text = "the run has $0.0000001 of $0.5 left, and the next call may need $0.000323"
    assert refusal_text("", "usd", 0.000323, 1e-7, 0.5) == text
