"""What a call needs before it leaves: what it may cost set aside in the budget, and its turn at the model.

Nobody ever waits for one of the two while holding the other. So whoever holds either is about to leave or is out, and
comes back by itself: no circle of waiting calls can arise, a call that waits for a model (which may rest for a minute)
keeps no part of a budget from others, and one that waits for its budget keeps no slot from other runs.
"""

from __future__ import annotations

from typing import NamedTuple

from teamwright.agents.effect import Effect
from teamwright.budget.ledger import NO_COST, Account, Cost, Refusal, Reservation, Wanted, prompt_tokens
from teamwright.budget.money import Rate
from teamwright.runtime.admission.rate_limiter import Limiter, Slot
from teamwright.runtime.scope import Scope
from teamwright.values.events.budget import BudgetRefused, BudgetUnpriced


class Pass(NamedTuple):
    """What lets one attempt leave: its reservation where a budget holds, and its slot where it names a model."""

    reservation: Reservation | None
    slot: Slot | None

    @property
    def cost(self) -> Cost:
        """What is set aside."""
        return self.reservation.cost if self.reservation else NO_COST

    def give_back(self) -> None:
        """The call never left."""
        if self.reservation is not None:
            self.reservation.give_back()
        if self.slot is not None:
            self.slot.give_back()


FREE = Pass(None, None)
"""For a call that no budget and no model bounds."""


class Admission:
    """One attempt that is to leave."""

    __slots__ = ("_account", "_effect", "_place", "_scope", "_wanted")

    def __init__(self, scope: Scope, place: str, effect: Effect) -> None:
        self._scope, self._place, self._effect = scope, place, effect
        self._account, self._wanted = scope.account, Wanted()
        if self._account is not None and effect.kind == "model":
            self._account = self._account.for_message()
            prompt = prompt_tokens(effect.prompt_bytes, effect.messages)
            rate = self._rate(prompt) if self._account.priced else None
            self._wanted = Wanted(prompt, effect.max_output, model=True, rate=rate, note=effect.note)

    async def granted(self) -> Pass:
        """Wait for both, in turn, until both are there at once.

        When it has to begin anew, another call was out that had what was missing, so the run always goes on.
        """
        effect, run = self._effect, self._scope.run
        limiter = run.limiters.of(effect) if effect.model else None
        while True:
            if run.pausing or self._scope.closed:
                await run.park_until_cancelled()
            reservation = await self._reserve(self._account) if self._account else None
            if limiter is None:
                return Pass(reservation, None)
            if slot := limiter.take(effect.prompt_bytes, effect.max_output):
                return Pass(reservation, slot)
            if reservation is not None:
                reservation.give_back()
            if (passed := await self._in_turn(limiter)) is not None:
                return passed

    async def _in_turn(self, limiter: Limiter) -> Pass | None:
        """Wait for the model; nothing if the budget has no room when its turn has come, or the run is being left."""
        scope, effect, run = self._scope, self._effect, self._scope.run
        if self._account is not None:
            self._account.add_waiting(1)
        try:
            slot = await limiter.wait(scope.lanes, effect.prompt_bytes, effect.max_output)
        finally:
            if self._account is not None:
                self._account.add_waiting(-1)
        passed: Pass | None = None
        try:
            if not run.pausing and not scope.closed:
                passed = self._with(slot)
        finally:
            if passed is None:
                slot.give_back()
        return passed

    def _with(self, slot: Slot) -> Pass | None:
        """The slot and a reservation; nothing where that would have to wait."""
        if self._account is None:
            return Pass(None, slot)
        try:
            reservation = self._account.reserve_now(self._wanted)
        except Refusal as refusal:
            self._note(refusal)
            raise
        return reservation and Pass(reservation, slot)

    async def _reserve(self, account: Account) -> Reservation:
        try:
            return await account.reserve(self._wanted)
        except Refusal as refusal:
            self._note(refusal)
            raise

    def _rate(self, prompt: int) -> Rate | None:
        """What the request costs at most. Where nobody knows, tokens are held and money is not, which is said once."""
        effect, run = self._effect, self._scope.run
        rate = effect.rate(prompt) if effect.rate is not None else None
        model = effect.model or effect.name
        if rate is None and model not in run.unpriced:
            fact = BudgetUnpriced(model=model)
            run.unpriced[model] = fact
            run.recorder.add("", "", fact)
        return rate

    def _note(self, refusal: Refusal) -> None:
        self._scope.run.recorder.add(
            self._scope.path,
            self._place,
            BudgetRefused(
                level=refusal.level, what=refusal.what, needed=refusal.needed, left=refusal.left, limit=refusal.limit
            ),
        )
