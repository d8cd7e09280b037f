"""The ledger: reserved before, settled after, first come first served, and never over a limit."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.budget.ledger import DEFAULT_OUTPUT, Account, Ledger, Refusal, Reservation, Wanted, prompt_tokens
from teamwright.values.limits import Limits


async def reserve(ledger: Ledger, account: Account, prompt: int, cap: int | None = None) -> Reservation:
    return await ledger.reserve(Wanted(account, prompt, cap, model=True))


def queue(ledger: Ledger, account: Account, prompt: int, cap: int | None = None) -> asyncio.Task[Reservation]:
    return asyncio.get_running_loop().create_task(reserve(ledger, account, prompt, cap))


async def quiet() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_prompt_counts_its_bytes_and_sixteen_per_message() -> None:
    assert prompt_tokens(100, 3) == 148


async def test_a_reservation_holds_the_prompt_and_the_cap() -> None:
    ledger, account = Ledger(), Account("run", Limits(tokens=100), None)
    held = await reserve(ledger, account, 30, 20)
    assert (held.tokens, held.max_output, account.held_tokens, account.spent("tokens")) == (50, 20, 50, 0)
    assert held.settle(12) == 0
    assert (account.held_tokens, account.spent("tokens"), account.spent("calls")) == (0, 12, 1)


async def test_without_a_cap_of_its_own_a_request_gets_4096_or_what_is_left() -> None:
    ledger = Ledger()
    rich, poor = Account("rich", Limits(tokens=100_000), None), Account("poor", Limits(tokens=1000), None)
    assert (await reserve(ledger, rich, 10)).max_output == DEFAULT_OUTPUT
    assert (await reserve(ledger, poor, 10)).max_output == 990
    assert (await reserve(ledger, Account("free", None, None), 10)).max_output == DEFAULT_OUTPUT


async def test_calls_that_are_no_model_requests_have_no_cap() -> None:
    ledger, account = Ledger(), Account("run", Limits(tokens=0, calls=1), None)
    held = await ledger.reserve(Wanted(account))
    assert (held.tokens, held.max_output) == (0, None)


async def test_those_who_wait_share_what_is_left_fairly() -> None:
    ledger, account = Ledger(), Account("run", Limits(tokens=6000), None)
    caps: list[int] = []

    async def call() -> None:
        held = await reserve(ledger, account, 10)
        caps.append(held.max_output or 0)
        assert account.held_tokens + account.spent("tokens") <= 6000
        await quiet()
        held.settle(100)

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(call())
    assert caps[0] == DEFAULT_OUTPUT
    assert min(caps) > 1000


async def test_a_request_that_comes_late_never_gets_by_on_a_crumb() -> None:
    ledger, account = Ledger(), Account("run", Limits(tokens=5000), None)
    first = await reserve(ledger, account, 10)
    late = queue(ledger, account, 10)
    await quiet()
    first.settle(20)
    assert ((await late).max_output or 0) > 4000


async def test_what_does_not_fit_waits_for_others_first_come_first_served() -> None:
    ledger, account = Ledger(), Account("run", Limits(tokens=100), None)
    first = await reserve(ledger, account, 50, 20)
    big, small = queue(ledger, account, 70, 20), queue(ledger, account, 5, 5)
    await quiet()
    assert not big.done()
    assert not small.done(), "a small request must not overtake a big one that waits before it"
    first.settle(5)
    await quiet()
    assert big.done()
    assert not small.done()
    (await big).settle(20)
    (await small).settle(1)
    assert account.spent("tokens") == 26


async def test_who_waits_at_one_level_does_not_hold_up_others_elsewhere() -> None:
    ledger, run = Ledger(), Account("run", None, None)
    left, right = Account("left", Limits(tokens=10), run), Account("right", Limits(tokens=10), run)
    await reserve(ledger, left, 5, 5)
    waiting, free = queue(ledger, left, 5, 5), queue(ledger, right, 5, 5)
    await quiet()
    assert free.done()
    assert not waiting.done()
    waiting.cancel()


async def test_a_refusal_says_where_how_much_and_what_is_needed() -> None:
    ledger = Ledger()
    run = Account("", Limits(tokens=1000), None)
    team = Account("team", Limits(tokens=100), run, tokens=40)
    with pytest.raises(Refusal, match="team has 60 of 100 tokens left, and the next call may need 70") as refused:
        await reserve(ledger, team, 50, 20)
    assert (refused.value.level, refused.value.what, refused.value.needed) == ("team", "tokens", 70)
    with pytest.raises(Refusal, match="the run has 0 of 0 calls left"):
        await reserve(ledger, Account("", Limits(calls=0), None), 1, 1)


async def test_what_can_never_fit_is_refused_though_others_hold() -> None:
    ledger, account = Ledger(), Account("run", Limits(tokens=100), None)
    await reserve(ledger, account, 50, 20)
    with pytest.raises(Refusal):
        await reserve(ledger, account, 90, 20)


async def test_one_who_waits_is_refused_once_it_is_clear_that_it_can_not_fit() -> None:
    ledger, account = Ledger(), Account("run", Limits(tokens=100), None)
    first = await reserve(ledger, account, 50, 20)
    waiting = queue(ledger, account, 50, 20)
    await quiet()
    assert not waiting.done()
    first.settle(70)
    with pytest.raises(Refusal):
        await waiting


async def test_every_level_around_is_charged() -> None:
    ledger = Ledger()
    run = Account("", Limits(tokens=1000), None)
    team = Account("team", Limits(tokens=500), run)
    member = Account("team/a", Limits(calls=3), team)
    (await reserve(ledger, member, 10, 10)).settle(15)
    assert [account.spent("tokens") for account in (run, team, member)] == [15, 15, 15]
    assert [account.spent("calls") for account in (run, team, member)] == [1, 1, 1]


async def test_more_than_was_reserved_is_told_and_blocks_the_next() -> None:
    ledger, account = Ledger(), Account("run", Limits(tokens=100), None)
    held = await reserve(ledger, account, 10, 10)
    assert held.settle(95) == 75
    with pytest.raises(Refusal, match="has 5 of 100 tokens left"):
        await reserve(ledger, account, 10, 10)


async def test_a_failed_call_gives_its_tokens_back_and_one_in_doubt_does_not() -> None:
    ledger, account = Ledger(), Account("run", Limits(tokens=100), None)
    (await reserve(ledger, account, 10, 10)).release()
    assert (account.spent("tokens"), account.spent("calls")) == (0, 1)
    (await reserve(ledger, account, 10, 10)).forfeit()
    assert (account.spent("tokens"), account.spent("calls"), account.held_tokens) == (20, 2, 0)


async def test_a_call_that_never_left_costs_nothing() -> None:
    ledger, account = Ledger(), Account("run", Limits(tokens=100, calls=1), None)
    (await reserve(ledger, account, 10, 10)).give_back()
    assert (account.spent("tokens"), account.spent("calls"), account.held_tokens, account.held_calls) == (0, 0, 0, 0)


async def test_one_who_stops_waiting_lets_the_next_go_on() -> None:
    ledger, account = Ledger(), Account("run", Limits(tokens=100), None)
    await reserve(ledger, account, 40, 10)
    big, small = queue(ledger, account, 80, 10), queue(ledger, account, 5, 5)
    await quiet()
    big.cancel()
    await quiet()
    assert (await small).tokens == 10


async def test_one_who_is_stopped_just_as_it_is_granted_gives_back() -> None:
    ledger, account = Ledger(), Account("run", Limits(tokens=100, calls=5), None)
    first = await reserve(ledger, account, 50, 50)
    waiting = queue(ledger, account, 50, 50)
    await quiet()
    first.settle(0)
    waiting.cancel()
    await quiet()
    assert waiting.cancelled()
    assert (account.held_tokens, account.held_calls, account.spent("calls")) == (0, 0, 1)


requests = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 60), st.one_of(st.none(), st.integers(1, 60)), st.floats(0, 1)),
    max_size=15,
)
bounds = st.one_of(
    st.none(), st.builds(Limits, tokens=st.one_of(st.none(), st.integers(0, 300)), calls=st.integers(0, 9))
)


@given(st.tuples(bounds, bounds, bounds), requests)
def test_spent_and_held_never_pass_a_limit(limits: tuple[Limits | None, ...], wanted: list[tuple[int, ...]]) -> None:
    async def main() -> None:
        ledger, run = Ledger(), Account("", limits[0], None)
        accounts = [run, Account("left", limits[1], run), Account("right", limits[2], run)]

        def check() -> None:
            for account, bound in zip(accounts, limits, strict=True):
                if bound and bound.tokens is not None:
                    assert account.spent("tokens") + account.held_tokens <= bound.tokens
                if bound and bound.calls is not None:
                    assert account.spent("calls") + account.held_calls <= bound.calls

        async def call(place: int, prompt: int, cap: int | None, share: float) -> None:
            try:
                held = await reserve(ledger, accounts[place], prompt, cap)
            except Refusal:
                return
            check()
            for _ in range(int(share * 5)):
                await asyncio.sleep(0)
            held.settle(int(held.tokens * share))
            check()

        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            for place, prompt, cap, share in wanted:
                group.create_task(call(place, prompt, cap, share))
        assert [account.held_tokens for account in accounts] == [0, 0, 0]
        assert [account.holders for account in accounts] == [0, 0, 0]

    asyncio.run(main())
