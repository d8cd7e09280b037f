"""What a call needs before it may be sent: a reservation in the budget, and a slot at its model.

No call ever waits for one of the two while it holds the other. A call that holds either is in flight or about to be,
and ends by itself, so no cycle of waiting calls can form: a call that waits for a model (which may cool down for a
minute) holds no budget back, and one that waits for budget holds no slot that other runs need.
"""

from __future__ import annotations

from typing import NamedTuple

from teamwright.agents.contract.effect import Effect
from teamwright.budget.ledger import NO_COST, Account, Cost, Refusal, Reservation, ReservationRequest, prompt_tokens
from teamwright.budget.money import Rate
from teamwright.runtime.admission.rate_limiter import RateLimiter, Slot
from teamwright.runtime.scope import Scope
from teamwright.values.events.budget import BudgetRefused, BudgetUnpriced


class Permit(NamedTuple):
    """What lets one attempt be sent: its reservation where a budget applies, and its slot where it names a model."""

    reservation: Reservation | None
    slot: Slot | None

    @property
    def cost(self) -> Cost:
        """What is reserved."""
        return self.reservation.cost if self.reservation else NO_COST

    def cancel(self) -> None:
        """Return both: the call was never sent."""
        if self.reservation is not None:
            self.reservation.cancel()
        if self.slot is not None:
            self.slot.cancel()


UNBOUNDED = Permit(None, None)
"""The permit of a call that no budget and no rate limit applies to."""


class Admission:
    """Admits one attempt of an effect."""

    __slots__ = ("_account", "_effect", "_place", "_request", "_scope")

    def __init__(self, scope: Scope, place: str, effect: Effect) -> None:
        self._scope, self._place, self._effect = scope, place, effect
        self._account, self._request = scope.account, ReservationRequest()
        if self._account is not None and effect.kind == "model":
            self._account = self._account.for_message()
            prompt = prompt_tokens(effect.prompt_bytes, effect.messages)
            rate = self._rate(prompt) if self._account.priced else None
            self._request = ReservationRequest(prompt, effect.max_output, model=True, rate=rate, note=effect.note)

    async def acquire(self) -> Permit:
        """Wait for budget and slot in turn, until both are there at once.

        When it has to start over, another call in flight held what was missing, so the run always makes progress.
        """
        effect, run = self._effect, self._scope.run
        limiter = run.limiters.for_effect(effect) if effect.model else None
        while True:
            if run.pausing or self._scope.is_closed:
                await run.park_until_cancelled()
            reservation = await self._reserve(self._account) if self._account else None
            if limiter is None:
                return Permit(reservation, None)
            if slot := limiter.try_acquire(effect.prompt_bytes, effect.max_output):
                return Permit(reservation, slot)
            if reservation is not None:
                reservation.cancel()
            if (permit := await self._acquire_in_turn(limiter)) is not None:
                return permit

    async def _acquire_in_turn(self, limiter: RateLimiter) -> Permit | None:
        """Wait for the model; `None` if the budget has no room once it is this call's turn, or the run is stopping."""
        scope, effect, run = self._scope, self._effect, self._scope.run
        if self._account is not None:
            self._account.add_waiting(1)
        try:
            slot = await limiter.acquire(scope.lanes, effect.prompt_bytes, effect.max_output)
        finally:
            if self._account is not None:
                self._account.add_waiting(-1)
        permit: Permit | None = None
        try:
            if not run.pausing and not scope.is_closed:
                permit = self._permit_with(slot)
        finally:
            if permit is None:
                slot.cancel()
        return permit

    def _permit_with(self, slot: Slot) -> Permit | None:
        """Return the slot together with a reservation; `None` if the reservation would have to wait."""
        if self._account is None:
            return Permit(None, slot)
        try:
            reservation = self._account.reserve_now(self._request)
        except Refusal as refusal:
            self._record_refusal(refusal)
            raise
        return reservation and Permit(reservation, slot)

    async def _reserve(self, account: Account) -> Reservation:
        try:
            return await account.reserve(self._request)
        except Refusal as refusal:
            self._record_refusal(refusal)
            raise

    def _rate(self, prompt: int) -> Rate | None:
        """Return the highest price of the request. If none is known, record that once and reserve tokens only."""
        effect, run = self._effect, self._scope.run
        rate = effect.rate(prompt) if effect.rate is not None else None
        model = effect.model or effect.name
        if rate is None and model not in run.unpriced:
            fact = BudgetUnpriced(model=model)
            run.unpriced[model] = fact
            run.recorder.add("", "", fact)
        return rate

    def _record_refusal(self, refusal: Refusal) -> None:
        self._scope.run.recorder.add(
            self._scope.path,
            self._place,
            BudgetRefused(
                level=refusal.level, what=refusal.what, needed=refusal.needed, left=refusal.left, limit=refusal.limit
            ),
        )
