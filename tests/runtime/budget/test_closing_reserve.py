"""What a team keeps back for its closing asks: from its first call on, as much as they will need."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from teamwright.runtime.budget.closing_reserve import EXCERPT_TOKENS, FRAMES, Holdback
from teamwright.runtime.budget.ledger import Account, Refusal
from teamwright.runtime.budget.reservation_size import LEAST_REPLIES, ReservationRequest
from teamwright.values.limits import ClosingAsk, Limits
from teamwright.values.turns.turn import Tier
from teamwright.values.usage_and_prices import Cost, Rate, Usage


def account(**limits: float) -> Account:
    return Account("team", Limits(**limits), None)  # pyright: ignore[reportArgumentType]


def used(output: int, prompt: int = 1000) -> Usage:
    return Usage(requests=1, input_tokens=prompt, output_tokens=output)


def ask(holdback: Holdback, usage: Usage, reserved: int = 1000) -> None:
    """An ask with one request whose prompt was reserved at so many tokens, with a cap of 200."""
    holdback.ask_begins(closing=False)
    holdback.call_reserved(ReservationRequest(reserved, 200, model=True))
    holdback.ask_ended(usage, closing=False)


@dataclass
class CutbackOf:
    """What is cut back of the closing asks, as a test says."""

    tiers: dict[str, Tier] = field(default_factory=dict[str, Tier])
    recent: int | None = None
    least_recent: int | None = None

    def tier_of(self, member: str) -> Tier:
        return self.tiers.get(member, "primary")

    def closing_recent(self) -> int | None:
        return self.recent

    def least_closing_recent(self) -> int | None:
        return self.least_recent


@dataclass
class ForecastOf:
    """A forecast of the asks to come but the closing ones, as a test says."""

    tokens: float

    def ask_ended(self, key: str, charged: tuple[int, int]) -> None:
        pass

    def remaining(self, closing: int, begun: int) -> tuple[float, float]:
        return self.tokens, 0.0


def test_nothing_is_kept_before_there_is_something_to_close() -> None:  # Z-10
    team = account(tokens=10_000)
    holdback = Holdback(team, [ClosingAsk("lead")])
    holdback.ask_begins(closing=False)
    holdback.call_reserved(ReservationRequest(1000, 200, model=True))
    assert team.kept == [0, 0, 0], "the first turn may use the whole budget"
    holdback.ask_begins(closing=False)
    assert team.kept == [1000 + 2 * 200 + 200, 0, 1]  # the prompt, two replies that it reads, and its own reply


def test_the_estimate_grows_with_the_replies_that_the_closing_ask_reads() -> None:  # Z-10
    team = account(tokens=10_000)
    kept: list[int] = []
    for reads in (None, 1):
        holdback = Holdback(team, [ClosingAsk("lead", reads)])
        for _ in range(4):
            ask(holdback, used(100))
        kept.append(team.kept[0])
        holdback.release()
    assert kept == [1000 + 4 * 100 + 200, 1000 + 100 + 200]
    assert team.kept == [0, 0, 0]


def test_other_texts_that_the_closing_ask_reads_count_too() -> None:
    team = account(tokens=10_000)
    ask(Holdback(team, [ClosingAsk("lead", 0, 4000)]), used(100))
    assert team.kept[0] == 1000 + 1000 + 200


def test_nested_teams_together_keep_at_most_nine_tenths_of_a_limit() -> None:
    outer = account(tokens=1000)
    inner = Account("inner", None, outer)
    for team in (outer, inner):
        ask(Holdback(team, [ClosingAsk("lead")]), used(100, 5000), reserved=5000)
    assert outer.kept == [900, 0, 2]


def test_of_a_reply_that_others_get_as_an_envelope_only_that_is_read() -> None:
    team = account(tokens=10_000)
    holdback = Holdback(team, [ClosingAsk("lead")])
    for _ in range(4):
        holdback.ask_begins(closing=False)
        holdback.call_reserved(ReservationRequest(1000, 200, model=True))
        holdback.ask_ended(used(100), closing=False, read=20)
    assert team.kept[0] == 1000 + 4 * 20 + 200


def test_replies_count_as_many_tokens_as_are_reserved_for_one_of_a_prompt() -> None:
    team = account(tokens=10_000)
    holdback = Holdback(team, [ClosingAsk("lead")])
    for _ in range(3):
        holdback.call_returned(1000 + FRAMES, 250)
        ask(holdback, used(100, prompt=250))
    assert team.kept[0] == 1000 + 4 * 3 * 100 + 200, "bytes are reserved, four for a token"


def test_money_is_kept_at_the_highest_price_of_a_call() -> None:
    team = account(usd=1)
    holdback = Holdback(team, [ClosingAsk("lead", 0)])
    for price in (2, 1):
        holdback.ask_begins(closing=False)
        request = ReservationRequest(1000, 200, model=True, rate=Rate(price, price))
        holdback.call_sized(request, "primary")
        holdback.call_reserved(request)
        holdback.ask_ended(used(100), closing=False)
    assert team.kept[1] == 1200 * 2


def test_a_closing_ask_has_the_price_of_the_model_that_its_member_answers_with() -> None:  # Z-11
    team, tiers = account(usd=1), dict[str, Tier]()
    holdback = Holdback(team, [ClosingAsk("lead", reads=0)], CutbackOf(tiers=tiers))
    dear, cheap = (ReservationRequest(1000, 200, model=True, rate=Rate(price, price)) for price in (5, 1))
    holdback.ask_begins(closing=False)
    holdback.call_sized(dear, "primary")
    holdback.call_reserved(dear)
    holdback.ask_ended(used(100), closing=False)
    assert team.kept[1] == 5 * 1200
    tiers["lead"] = "economy"
    holdback.ask_begins(closing=False)
    assert team.kept[1] == 5 * 1200, "no cheaper price is known yet"
    holdback.call_sized(cheap, "economy")
    assert team.kept[1] == 1200, "a call need not be granted to show its price"


def test_of_messages_that_a_closing_ask_gets_as_excerpts_only_those_are_kept_for() -> None:  # Z-11
    team, cutback = account(tokens=10_000), CutbackOf()
    holdback = Holdback(team, [ClosingAsk("lead")], cutback)
    for _ in range(4):
        ask(holdback, used(100))
    assert team.kept[0] == 1000 + 4 * 100 + 200
    cutback.recent = 1
    holdback.cutback_changed()
    assert team.kept[0] == 1000 + 100 + 3 * EXCERPT_TOKENS + 200


@pytest.mark.parametrize(
    ("limit", "remaining", "least_recent", "kept"),
    [
        (4_000, 2_000.0, 0, 1500 - 200),  # a twentieth of the limit less than is likely
        (10_000, 8_000.0, 0, 1000 + 4 * EXCERPT_TOKENS + 150),  # excerpts, and a reply half longer than those so far
        (10_000, 8_000.0, None, 1500),
        (10_000, 9_200.0, 0, 1000 + 4 * 100 + 150),  # it does not fit
    ],
)
def test_work_that_fits_within_the_error_of_the_forecast_is_not_refused_for_the_answer(  # Z-10
    limit: int, remaining: float, least_recent: int | None, kept: int
) -> None:
    """Only where a closing ask can be cut back, and never below what it costs then."""
    team = account(tokens=limit)
    for _ in range(4):
        team.outermost.lengths.add(100)
    holdback = Holdback(team, [ClosingAsk("lead")], CutbackOf(least_recent=least_recent), ForecastOf(remaining))
    for _ in range(4):
        ask(holdback, used(100))
    assert team.kept[0] == kept


def test_where_no_model_is_asked_as_much_as_the_dearest_ask_is_kept() -> None:
    team = account(tokens=1000)
    holdback = Holdback(team, [ClosingAsk("lead")])
    for tokens in (30, 70, 50):
        holdback.ask_begins(closing=False)
        holdback.ask_ended(used(0, tokens), closing=False)
    assert team.kept == [70, 0, 1]


def test_an_ask_that_fails_is_nothing_to_close_with() -> None:
    team = account(tokens=1000)
    holdback = Holdback(team, [ClosingAsk("lead")])
    holdback.ask_begins(closing=False)
    holdback.ask_ended(None, closing=False)
    assert team.kept == [0, 0, 0]


def test_a_small_budget_is_never_all_kept_back() -> None:
    team = account(tokens=1000, calls=1)
    ask(Holdback(team, [ClosingAsk("lead")]), used(100, 5000), reserved=5000)
    assert team.kept == [900, 0, 0]


@pytest.mark.parametrize(("limits", "kept"), [({"tokens": 512}, 10 + 64), ({"usd": 512e-12}, 10 + 64)])
def test_a_small_limit_keeps_little_for_a_reply_whose_length_is_a_guess(limits: dict[str, float], kept: int) -> None:
    """A quarter of the limit below which sizes shrink, so a quarter of a usual reply, in tokens or in money."""
    team = account(**limits)
    holdback = Holdback(team, [ClosingAsk("lead", reads=0)])
    holdback.ask_begins(closing=False)
    request = ReservationRequest(10, None, model=True, rate=Rate(1, 1))
    holdback.call_sized(request, "primary")
    holdback.call_reserved(request)
    holdback.ask_ended(used(5, 10), closing=False)
    assert max(team.kept[:2]) == kept


def test_before_the_first_reply_at_most_half_a_limit_is_kept() -> None:
    team = account(tokens=1000)
    holdback = Holdback(team, [ClosingAsk("lead")])
    for _ in range(2):
        holdback.ask_begins(closing=False)
        holdback.call_reserved(ReservationRequest(400, 800, model=True))
    assert team.kept == [500, 0, 1]


async def test_of_branches_one_or_two_replies_refuse_no_others_for_an_answer_whose_size_is_a_guess() -> None:  # Z-10
    """Ten that count four times as many tokens as they have: of guessed replies the answer would need a whole limit."""
    team = account(tokens=2600)
    holdback = Holdback(team, [ClosingAsk("editor")], forecast=ForecastOf(1000))
    team.add_branches(10)
    request = ReservationRequest(440, None, model=True)
    for _ in range(10):
        holdback.ask_begins(closing=False)
    for replies in range(1, 11):
        reservation = await team.reserve(request)  # nothing else is in flight, so it is granted or refused
        holdback.call_reserved(request)
        holdback.call_returned(440, 100)
        reservation.settle(Cost(110), 10)
        team.add_branches(-1)
        holdback.ask_ended(used(10, 100), closing=False)
        assert replies >= LEAST_REPLIES or team.kept[0] <= 1300
    assert team.spent[0] == 1100


def test_beside_others_most_of_a_limit_is_kept_once_some_replies_are_known() -> None:
    team = account(tokens=1000)
    holdback = Holdback(team, [ClosingAsk("lead")])
    kept: list[int] = []
    for _ in range(5):
        holdback.ask_begins(closing=False)
    for _ in range(LEAST_REPLIES):
        holdback.call_reserved(ReservationRequest(5000, 200, model=True))
        holdback.ask_ended(used(100, 5000), closing=False)
        kept.append(team.kept[0])
    assert kept == [500, 500, 900]


def test_while_a_closing_ask_runs_nothing_is_kept_back() -> None:  # Z-10
    team = account(tokens=10_000)
    holdback = Holdback(team, [ClosingAsk("lead")])
    ask(holdback, used(100))
    holdback.ask_begins(closing=True)
    assert team.kept == [0, 0, 0]
    holdback.ask_ended(used(100), closing=True)
    assert team.kept[0] > 0, "an orchestrator may decide again"


async def test_a_call_that_would_use_what_is_kept_back_is_refused_with_a_reason() -> None:  # Z-10
    team = account(tokens=1000)
    team.keep_back(Cost(0, 0, 0), Cost(600, 0, 1))
    text = "has 1000 of 1000 tokens left, keeps 600 for its answer, and the next call may need 460"
    with pytest.raises(Refusal, match=text):
        await team.reserve(ReservationRequest(450, 10, model=True))


async def test_what_is_kept_back_need_not_fit_beside_the_worst_case_of_a_call() -> None:  # Z-10
    team = account(tokens=1000)
    team.keep_back(Cost(0, 0, 0), Cost(600, 0, 1))
    request = ReservationRequest(100, 200, model=True)
    (await team.reserve(request)).settle(Cost(100))
    assert (await team.reserve(request)).cost.tokens == 300, "a call is charged about a third of what it reserves"


async def test_a_request_without_a_cap_gets_a_share_of_what_is_not_kept_back() -> None:  # Z-10
    team = account(tokens=2000)
    team.keep_back(Cost(0, 0, 0), Cost(900, 0, 1))
    assert (await team.reserve(ReservationRequest(100, None, model=True))).max_output == 1000


async def test_a_call_that_waits_is_served_when_less_is_kept_back() -> None:
    team = account(tokens=1000)
    held = await team.reserve(ReservationRequest(400, 100, model=True))
    team.keep_back(Cost(0, 0, 0), Cost(300, 0, 1))
    assert team.reserve_now(ReservationRequest(300, 10, model=True)) is None
    team.keep_back(Cost(300, 0, 1), Cost(0, 0, 0))
    assert team.reserve_now(ReservationRequest(300, 10, model=True)) is not None
    held.cancel()


def test_a_part_with_closing_asks_keeps_back_besides_the_team_to_which_it_is_one_ask() -> None:
    team = account(calls=10)
    outer = Holdback(team, [ClosingAsk("lead")])
    inner = Holdback(team, [ClosingAsk("lead", 2)], outer=outer, is_part=True)
    outer.part_begins(closing=False)
    for _ in range(2):
        inner.ask_begins(closing=False)
    assert team.kept == [0, 0, 2]
    for _ in range(2):
        inner.ask_ended(used(100), closing=False)
    inner.ask_begins(closing=True)
    assert team.kept[2] == 1  # what is kept for the answer of the team
    inner.ask_ended(used(10), closing=True)
    inner.release()
    outer.part_ended(inner, closing=False)
    assert team.kept[2] == 1
    outer.release()
    assert team.kept == [0, 0, 0]


def test_a_team_that_closes_with_a_part_keeps_nothing_else_while_it_runs() -> None:
    team = account(calls=10)
    outer = Holdback(team, [ClosingAsk("a")])
    ask(outer, used(100))
    inner = Holdback(team, [ClosingAsk("lead", 2)], outer=outer, is_part=True)
    outer.part_begins(closing=True)
    assert team.kept[2] == 0
    inner.ask_begins(closing=False)
    inner.ask_begins(closing=False)
    assert team.kept[2] == 1


def test_the_closing_asks_of_a_team_read_one_reply_of_a_part() -> None:
    def kept(replies: int) -> int:
        team = account(tokens=100_000)
        outer = Holdback(team, [ClosingAsk("lead")])
        inner = Holdback(team, [], outer=outer, is_part=True)
        outer.part_begins(closing=False)
        for _ in range(replies):
            ask(inner, used(100))
        outer.part_ended(inner, closing=False)
        return team.kept[0]

    assert kept(5) == kept(9)


def test_a_part_beside_others_keeps_back_before_its_first_reply_and_one_alone_does_not() -> None:
    team = account(calls=10)
    part = Holdback(team, [ClosingAsk("judge", 1)], is_part=True)
    part.ask_begins(closing=False)
    assert team.kept[2] == 0
    team.add_branches(2)
    part.ask_ended(None, closing=False)
    part.ask_begins(closing=False)
    assert team.kept[2] == 1
