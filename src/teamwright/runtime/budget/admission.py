"""What a call needs before it may be sent: a reservation in the budget, and a slot at its model.

A call gets both at one instant or neither, so a call that holds either is in flight and ends by itself. Hence no cycle
of waiting calls can form, and no two calls can take from each other what both need: a call that waits for a model
(which may cool down for a minute) holds no budget back, and one that waits for budget holds no slot that others need.
A team that holds back or cuts back counts its asks as well (`BudgetedAsk`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import anyio

from teamwright.agents.effect import Effect
from teamwright.runtime.budget.closing_reserve import Holdback
from teamwright.runtime.budget.ledger import Account, Refusal, Reservation, Unavailable
from teamwright.runtime.budget.prompt_meter import PromptBound, byte_bound
from teamwright.runtime.budget.rate_limiter import RateLimiter, Slot
from teamwright.runtime.budget.reservation_size import ReservationRequest
from teamwright.runtime.ordered_delivery import waiting_for_provider
from teamwright.runtime.people.questions import ask_person_at
from teamwright.runtime.scope import Scope
from teamwright.values.events.budget import BudgetAwaited, BudgetRefused, BudgetUnpriced
from teamwright.values.limits import CHARACTERS_PER_TOKEN
from teamwright.values.run_keys import in_scope, join_key
from teamwright.values.turns.turn import Failure, Reply, Turn
from teamwright.values.usage_and_prices import NO_COST, Cost, Rate

NOTICE_AFTER = 2.0
"""Seconds that a call waits for its reservation before that is recorded."""
LONGEST_NOTE = 40
"""The tokens of the line that states a small output cap, for any tokenizer; bytes are counted under `strict`."""
MOST_NAMED = 5
"""The number of members that are named as holding what a call waits for."""


class Permit(NamedTuple):
    """What lets one attempt be sent: its reservation where a budget applies, and its slot where it names a model."""

    reservation: Reservation | None
    slot: Slot | None

    @property
    def cost(self) -> Cost:
        return self.reservation.cost if self.reservation else NO_COST

    def cancel(self) -> None:
        """Return both: the call was never sent."""
        if self.reservation is not None:
            self.reservation.cancel()
        if self.slot is not None:
            self.slot.cancel()


UNBOUNDED = Permit(None, None)
"""The permit of a call that no budget and no rate limit applies to."""
INSTANT = 1e-5
"""Seconds that an event loop may not tell apart: it would wait for them without its clock advancing."""


class Admission:
    """Admits one attempt of an effect."""

    __slots__ = ("_account", "_effect", "_model", "_place", "_request", "_scope", "prompt")

    def __init__(self, scope: Scope, place: str, effect: Effect, model: str, held: Cost | None = None) -> None:
        """`model` may be closed for calls, and `held` is what a run that the call has started holds already."""
        self._scope, self._place, self._effect, self._model = scope, place, effect, model
        self._account = scope.account
        self._request = ReservationRequest(ceiling=effect.ceiling)
        if effect.cancel_run is not None:
            prompt = byte_bound(effect.prompt_bytes, effect.messages)
            rate = effect.rate(prompt) if effect.rate is not None and scope.account and scope.account.priced else None
            self._request = ReservationRequest(prompt, rate=rate, starts_run=True, held=held)
        self.prompt: PromptBound | None = None
        """The bound of the prompt, once it is known; `None` for a call that reserves no tokens."""

    async def acquire(self) -> Permit:
        """Wait for budget and slot in turn, until both are there at once.

        When it has to start over, a call in flight held what was missing, so the run always makes progress.
        """
        effect, run = self._effect, self._scope.run
        if self._account is not None and effect.kind == "model":
            self._account = self._account.for_message()
            await self._size_request(self._account)
        limiter = run.limiters.for_effect(effect) if effect.model else None
        permit: Permit | None = None
        while permit is None:
            while self._opens_in():
                await self._wait_until_open()
            if run.pausing or self._scope.is_closed:
                await run.park_until_cancelled()
            try:
                permit = await self._wait_for_budget(limiter)
                if permit is None and limiter is not None:
                    with waiting_for_provider(self._scope.lane):
                        permit = await self._wait_for_model(limiter)
            except Refusal as refusal:
                refusal.why = self._why(refusal)
                self._record_refusal(refusal)
                raise
            if permit is not None and (run.pausing or self._scope.is_closed or self._opens_in()):
                permit.cancel()
                permit = None
        if permit.reservation is not None and self._request.model and self._scope.holdback is not None:
            self._scope.holdback.call_reserved(self._request)
        return permit

    def _opens_in(self) -> float:
        """Return the seconds until the provider takes calls of the model again."""
        run = self._scope.run
        until = run.record.closed_models.get(self._model, 0.0)
        left = until - run.wall() if until else 0.0
        return left if left > INSTANT else 0.0

    async def _wait_until_open(self) -> None:
        """Wait until the provider takes calls again, with no slot and no reservation; the run may pause meanwhile."""
        run, until = self._scope.run, self._scope.run.record.closed_models[self._model]
        run.provider_waits[until] += 1
        try:
            with self._scope.waiting():
                await anyio.sleep(self._opens_in())
        finally:
            run.provider_waits[until] -= 1
            if not run.provider_waits[until]:
                del run.provider_waits[until]

    async def _size_request(self, account: Account) -> None:
        """Bound what the model request may cost. Texts are counted only if a limit on tokens or money applies."""
        effect = self._effect
        strict = account.strict or not account.limits_tokens
        self.prompt = await self._scope.run.prompt_meter.bound(effect, strict=strict)
        rate = self._rate(self.prompt.tokens) if account.priced else None
        note = effect.note if strict else min(effect.note, LONGEST_NOTE)
        self._request = ReservationRequest(self.prompt.tokens, effect.max_output, model=True, rate=rate, note=note)
        if self._scope.wants_whole and not self._scope.charges.calls:
            self._request = self._request._replace(least="whole")
        elif self._scope.holdback is None:  # the last reply is the answer
            self._request = self._request._replace(least="usual")
        if self._scope.holdback is not None:
            self._scope.holdback.call_sized(self._request, self._scope.tier)

    async def _wait_for_budget(self, limiter: RateLimiter | None) -> Permit | None:
        """Wait for the budget, if there is one; `None` if no slot is free at the instant when it is granted."""
        slot: Slot | None = None

        def take_slot() -> None:
            nonlocal slot
            if limiter is not None:
                slot = limiter.try_acquire(self._effect.pace_bytes, self._effect.max_output)
                if slot is None:
                    raise Unavailable

        try:
            if self._account is not None:
                return Permit(await self._reserve(self._account, take_slot), slot)
            take_slot()
            return Permit(None, slot)
        except Unavailable:
            return None
        except BaseException:
            if slot is not None:
                slot.cancel()
            raise

    async def _reserve(self, account: Account, take_slot: Callable[[], None]) -> Reservation:
        """Reserve what the call may cost; say so if it has to wait for longer than a moment."""
        if (granted := account.reserve_now(self._request, take_slot)) is not None:
            return granted
        notice = asyncio.get_running_loop().call_later(NOTICE_AFTER, self._record_wait, account)
        try:
            return await account.reserve(self._request, take_slot)
        finally:
            notice.cancel()

    def _record_wait(self, account: Account) -> None:
        run, obstacle = self._scope.run, account.obstacle(self._request)
        if obstacle is None or run.pausing or self._scope.is_closed:
            return
        level, what, needed, held = obstacle
        calls = [call for key, call in run.open_calls.items() if in_scope(key, level.name)]
        holders = tuple(dict.fromkeys(call.holder for call in calls if call.holder))
        fact = BudgetAwaited(
            member=self._scope.member,
            level=level.name,
            what=what,
            needed=needed,
            held=held,
            holders=holders[:MOST_NAMED],
        )
        run.recorder.add(self._scope.path, self._place, fact)

    async def _wait_for_model(self, limiter: RateLimiter) -> Permit | None:
        """Wait for a slot; `None` if the budget has no room at the instant when it is granted."""
        effect, account = self._effect, self._account
        if account is None:
            return Permit(None, await limiter.acquire(self._scope.lanes, effect.pace_bytes, effect.max_output))
        reservation: Reservation | None = None

        def take_budget() -> None:
            nonlocal reservation
            account.add_waiting(-1)  # `reserve_now` counts it too
            try:
                reservation = account.reserve_now(self._request)
            finally:
                account.add_waiting(1)
            if reservation is None:
                raise Unavailable

        account.add_waiting(1)
        try:
            slot = await limiter.acquire(self._scope.lanes, effect.pace_bytes, effect.max_output, take_budget)
        except Unavailable:
            return None
        except BaseException:
            if reservation is not None:
                reservation.cancel()
            raise
        finally:
            account.add_waiting(-1)
        return Permit(reservation, slot)

    def _rate(self, prompt: int) -> Rate | None:
        """Return the highest price of the request. If none is known, record that once and reserve tokens only."""
        effect, run = self._effect, self._scope.run
        rate = effect.rate(prompt) if effect.rate is not None else None
        model = effect.model or effect.name
        if rate is None and model not in run.record.budgets.unpriced:
            fact = BudgetUnpriced(model=model)
            run.record.budgets.unpriced[model] = fact
            run.recorder.add("", "", fact)
        return rate

    def _why(self, refusal: Refusal) -> str:
        """Say why so many tokens are counted, and what helps, if the prompt is counted by its bytes."""
        if self.prompt is None or refusal.what == "calls":
            return ""
        tokens = f"its prompt counts as {self.prompt.tokens} tokens, one for each byte"
        if self._scope.account is not None and self._scope.account.strict:
            return f"{tokens}, because the limit is strict"
        if self.prompt.by != "bytes":
            return ""
        model = self._effect.model or self._effect.name
        unknown = f"no tokenizer of {model!r} is known, and too few of its requests have reported their usage"
        return f"{tokens}, because {unknown}: set  tokenizer  of the model"

    def _record_refusal(self, refusal: Refusal) -> None:
        self._scope.charges.refused = refusal.what
        self._scope.run.recorder.add(
            self._scope.path,
            self._place,
            BudgetRefused(
                level=refusal.level,
                what=refusal.what,
                needed=refusal.needed,
                left=refusal.left,
                limit=refusal.limit,
                kept=refusal.kept,
                why=refusal.why,
            ),
        )


ENVELOPE_CHARACTERS = 512
"""The size of an envelope besides its summary, about."""


class BudgetedAsk:
    """One ask in a team with a holdback or a ladder. An ask that was stopped has no `ending`."""

    __slots__ = ("_charged", "_holdback", "_is_counted", "_ladder", "_place", "_scope", "_turn", "ending")

    def __init__(self, scope: Scope, turn: Turn, place: str) -> None:
        self._scope, self._turn, self._place = scope, turn, place
        self._holdback = None if scope.in_agent else scope.holdback
        self._ladder = scope.degradation if scope.decides_degradation else None
        self._charged = scope.charged
        self._is_counted = False
        self.ending: Reply | Failure | None = None
        if self._holdback is not None:
            self._holdback.ask_begins(closing=turn.closing)

    async def begin(self) -> None:
        """Let the team cut back before the ask if its budget is tight, and count the ask from now on."""
        scope, ladder = self._scope, self._ladder
        if ladder is not None:
            ask_person = partial(ask_person_at, scope)
            await ladder.consider(scope, self._place, ask_person, closing=self._turn.closing)
            ladder.ask_begins()
            self._is_counted = True

    def end(self) -> None:
        """Count the ask as done."""
        scope, (tokens, usd) = self._scope, self._charged
        key, charged = join_key(scope.path, self._place), (scope.charged[0] - tokens, scope.charged[1] - usd)
        if self._ladder is not None:
            if self._is_counted:
                self._ladder.ask_ended(key, charged)
        elif self._holdback is not None:
            self._holdback.ask_charged(key, charged)
        if self._holdback is not None:
            _report_ending(self._holdback, self.ending, self._turn)


def _report_ending(holdback: Holdback, ending: Reply | Failure | None, turn: Turn) -> None:
    """Tell the holdback of the team what the turn used, and how much of the reply others read."""
    usage = ending.usage if isinstance(ending, Reply) else None
    read = None
    if turn.envelope_limits is not None:  # others read an envelope
        read = (turn.envelope_limits.max_summary_chars + ENVELOPE_CHARACTERS) // CHARACTERS_PER_TOKEN
    holdback.ask_ended(usage, closing=turn.closing, read=read)
